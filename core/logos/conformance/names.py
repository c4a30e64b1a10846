"""Whether names stay names: programs whose variables are called as the words of other languages are, in files whose
own names hold what ends a comment or a text there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from random import Random

from logos.conformance.cases import Case, forms, make_case
from logos.conformance.checks import Check, counted
from logos.conformance.prepare import Prepared, prepare
from logos.conformance.sizes import pinned_sizes
from logos.conformance.trials import Outcome, Trials
from logos.conformance.words import fault_of
from logos.manager import Manager
from logos.op import Op
from logos.source import printable

PROGRAM = "a b*/\"\"\"'\\n{x}%s$(x)#.lg"
"""A file name with what ends comments and texts, and with what formats and shells replace."""

_WORDS = """
    class def import lambda None True self print eval exec type id max min sum range len input file args kwargs
    __init__ __class__ __name__ _ __ e1 inf nan NaN I l O0 x X x_1 x__1 X_1 t1 t2 v0 v1_x out OUT W w result state
    int float double void char const static struct template typename operator new delete this return goto main NULL
    auto bool signed unsigned long short sizeof asm extern inline register volatile typeid and_eq xor compl
    threadIdx blockIdx blockDim gridDim warpSize __global__ __shared__ __device__ printf malloc exp sqrt fmaf expf
    torch nn np numpy math os sys forward Module Tensor device dtype shape view weights buffer
    tensor graph node name value values function fn let mut impl ref var end begin do then
    select from where table index row column data model
"""
HOSTILE = tuple(dict.fromkeys(_WORDS.split()))
"""Words that mean something in Python, C, CUDA, torch, numpy or ONNX, or that are easily taken for each other."""


@dataclass(frozen=True)
class Renamed(Case):
    """A case whose variables have hostile names, by hole."""

    names: Mapping[str, str]

    def name(self, hole: str) -> str:
        # Names decide the noise: a number other than 0 is another noise.
        return f"{self.names[hole]}_{self.number}" if self.number else self.names[hole]


def check_names(manager: Manager, target_name: str, options: Mapping[str, object], seed: int = 0) -> Check:
    """Every op that the target spells once, under hostile names, in a file with a hostile name, against the reference
    machine. Refused as by `Trials.run`."""
    target = manager.target(target_name)
    given = _names(Random(f"{seed} names"))
    prepared = [_case(op, target.spells, manager, given, seed) for op in manager.ops if op.name in target.spells]
    trials = Trials(manager, target_name, options, name=PROGRAM)
    outcomes = trials.run(prepared)
    names = {name for one in prepared for name in one.graph.newest()}
    words = f"{counted(len(prepared), 'op')} under {counted(len(names), 'hostile name')}"
    return Check("names", words, tuple(_fault(outcome) for outcome in outcomes if not outcome.holds))


def _names(random: Random) -> Iterator[str]:
    """Every hostile word once, then with an end that makes it another."""
    for end in chain(("", "_", "__1", "_0"), (f"_{number}" for number in count(2))):
        words = [f"{word}{end}" for word in HOSTILE]
        random.shuffle(words)
        yield from words


def _case(op: Op, spelled: frozenset[str], manager: Manager, given: Iterator[str], seed: int) -> Prepared:
    """The op's first form, its optional parts all there. Where its noise is unsteady other names are taken."""
    random = Random(f"{seed} {op.name} names")
    form = next(forms(op, spelled))
    drawn = make_case(form, 0, pinned_sizes(op, form.rule, {}, random), random)
    holes = (*drawn.operands, *form.rows, "OUT", "read")
    fresh = {hole: next(given) for hole in holes}
    case = Renamed(replace(form, stored=True), 0, drawn.sizes, drawn.rows, fresh)
    return prepare(case, manager.grammar, count(0))


def _fault(outcome: Outcome) -> str:
    case = outcome.case
    names = ", ".join((*map(case.name, case.operands), case.output))
    return printable(f"{case.op.name} of variables called {names}: {fault_of(outcome)}")
