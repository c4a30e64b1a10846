"""Recognizing a block of loops: the op that it is, and the sizes of the two ops that targets treat by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from logos.grammar import make_grammar
from logos.loops.check import Tensor, check_loop
from logos.loops.recognize import recognize_loop
from logos.loops.uses import outputs
from logos.op import Op
from logos.parse import Parsed, parse
from logos.refusal import Refusal, Refused
from logos.sentences import Declaration, Loop, Use
from logos.source import Source, Span
from logos.weights.references import MoeSpec


@dataclass(frozen=True, slots=True)
class AttentionBlock:
    """An attention that a block of loops is: its variables by name; H query heads, KV groups, hd elements a head, L
    rows of the tables; `bound` the variable of the last row that is read, None where every row is."""

    q: str
    k: str
    v: str
    out: str
    H: int
    KV: int
    hd: int
    L: int
    bound: str | None


def recognize(block: str, ops: Iterable[Op] | None = None) -> Use | None:
    """The op that a block is, with what stands at its holes: variables by name, counts and literals as numbers, None
    for an absent part. None where it is no op's, or not one loop.

    `block` is text: the declarations of its tensors, then the loop. `ops` are the core's unless others are given.
    Raises `Refused` with everything that is wrong in it.
    """
    found = _read(block, ops)
    return None if found is None else found[0]


def recognize_attention(block: str) -> AttentionBlock | None:
    """The attention that a block is, as `recognize` reads it; None where it is none."""
    found = _read(block, None)
    if found is None or found[0].name != "attention":
        return None
    use, tensors, out = found
    q, k, v, bound = (use.operands[hole] for hole in ("Q", "K", "V", "P"))
    heads, groups = use.operands["H"], use.operands["KV"]
    assert isinstance(heads, int)
    assert isinstance(groups, int)
    width = tensors[str(q)].columns // heads
    rows = tensors[str(k)].rows
    last = None if bound is None else str(bound)
    return AttentionBlock(str(q), str(k), str(v), str(out), heads, groups, width, rows, last)


def recognize_moe(block: str) -> MoeSpec | None:
    """The sizes of the moe that a block is, as `recognize` reads it; None where it is none."""
    found = _read(block, None)
    if found is None or found[0].name != "moe":
        return None
    use, tensors, _ = found
    experts, top = use.operands["EXPERTS"], use.operands["TOP"]
    assert isinstance(experts, int)
    assert isinstance(top, int)
    return MoeSpec(tensors[str(use.operands["X"])].columns, tensors[str(use.operands["WD"])].columns, experts, top)


def _read(block: str, ops: Iterable[Op] | None) -> tuple[Use, dict[str, Tensor], str | None] | None:
    """The op that a block is, its tensors, and the one that it makes."""
    from logos.ops import OPS

    known = tuple(OPS if ops is None else ops)
    parsed = parse(Source("block", block), make_grammar(known))
    refusals = list(parsed.refusals)
    tensors = {one.variable: Tensor(one.rows, one.columns, one.real) for one in _declarations(parsed)}
    loops = [one for one in parsed.sentences if not isinstance(one, Declaration)]
    if len(loops) != 1 or not isinstance((loop := loops[0]), Loop):
        if refusals:
            raise Refused(refusals)
        return None

    def refuse(code: str, what: str, where: Span, next: str) -> None:
        refusals.append(Refusal(code, what, where, next))

    for name, place in loop.spans.items():
        if name not in tensors:
            due = f"declare it above: `Let {name} be a R by C tensor of Real.`"
            refuse("undeclared-name", f"{name} is not declared", place, due)
    check_loop(loop.loop, tensors, refuse)
    if refusals:
        raise Refused(refusals)
    made = outputs(loop.loop, {name: (tensor.rows, tensor.columns) for name, tensor in tensors.items()})
    out = made[0] if len(made) == 1 else None
    used = {name: tensors[name] for name in loop.spans}
    found = recognize_loop(loop.loop, used, out, known)
    return None if found is None else (Use(found[0], found[1]), tensors, out)


def _declarations(parsed: Parsed) -> list[Declaration]:
    return [one for one in parsed.sentences if isinstance(one, Declaration)]
