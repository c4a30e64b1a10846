"""Running a program by an installed target, as the reference machine runs it: the same inputs, the same record."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path

from logos.cache import cached
from logos.execution import Array, Watch, loose_values, run_artifact, write_artifact
from logos.hookspecs import GeneratingTarget, Inputs, Job, StandingTarget, Target
from logos.manager import Manager
from logos.near import suggestion
from logos.reference import Record, check_generates
from logos.refusal import Refused, refuse
from logos.source import Spot
from logos.stamps import stamp

REFERENCE = "reference"


def engine_target(manager: Manager, name: str) -> Target:
    """The target that an engine is. Refused: a name that neither the reference machine nor an installed target has
    (`unknown-engine`), a target of a plugin that was left out."""
    try:
        return manager.target(name)
    except Refused as refused:
        if refused.refusals[0].code != "unknown-target":
            raise
    known = (REFERENCE, *sorted(manager.targets))
    what = f"there is no engine {name}{suggestion(name, known)}"
    raise refuse("unknown-engine", what, Spot("--engine"), f"engines: {', '.join(known)}")


def run_engine(
    target: Target,
    job: Job,
    values: Mapping[str, Array],
    names: Sequence[str],
    tokens: Sequence[int],
    generate: int,
    given: Collection[str],
    folder: Path,
    watch: Watch,
    say: Callable[[str], None],
) -> Record:
    """Runs the target's artifact, written in `folder`; the record holds `names` at every step, the generated ids, and
    of the last step's values those that the program shows.

    Refused: variables that the target does not read out (`engine-lacks-variable`), a run of another number of steps
    than was asked for (`engine-steps`), and what the target refuses.
    """
    graph = job.graph
    if generate:
        check_generates(graph)
    shown = [tap for tap, value in graph.taps.items() if any(one.value == value for one in graph.shows)]
    taps = tuple(dict.fromkeys((*names, *shown, *((graph.output.name,) if generate else ()))))
    old = [tap for tap in taps if "@" in tap]
    if old and not getattr(target, "reads_versions", False):
        raise _lacking(target, old)
    write_artifact(target, job, loose_values(job.binding, values, given), folder, watch)
    dtype = _dtype(target, job)
    try:
        found = run_artifact(target, job, values, folder, tokens, taps, dtype, generate=generate, say=say)
    except KeyError as missing:
        if missing.args[0] not in taps:
            raise  # the target's own mistake
        raise _lacking(target, [str(missing.args[0])]) from None
    steps = len(tokens) + max(generate - 1, 0) if tokens else 1
    _check_steps(target, {name: len(array) for name, array in found.items()}, steps)
    generated = found[graph.output.name][len(tokens) - 1 :] if generate else ()
    return Record(
        {name: list(found[name]) for name in names},
        [int(array[0, 0]) for array in generated],
        {graph.taps[tap]: found[tap][-1] for tap in shown},
    )


def generating_target(manager: Manager, name: str) -> GeneratingTarget:
    """The target that generates as an engine. Refused: as by `engine_target`, and one whose artifacts do not go on from
    a prompt (`engine-lacks-generation`)."""
    target = engine_target(manager, name)
    if isinstance(target, GeneratingTarget):
        return target
    what = f"the target {target.name} does not generate"
    able = sorted(other.name for other in manager.targets.values() if isinstance(other, GeneratingTarget))
    raise refuse("engine-lacks-generation", what, Spot("--engine"), f"engines: {', '.join((REFERENCE, *able))}")


def standing_engine(manager: Manager) -> tuple[str, str]:
    """The engine that generates where none is named: the first target (by name) that stands for any host and lacks
    nothing on this one, else the reference machine, with what kept the targets from it."""
    reasons = []
    for name in sorted(manager.targets):
        target = manager.targets[name]
        if isinstance(target, StandingTarget):
            lacking = target.lacks()
            if not lacking:
                return name, ""
            reasons.append(lacking)
    return REFERENCE, "; ".join(reasons)


def generate_ids(
    target: GeneratingTarget,
    job: Job,
    tokens: Sequence[int],
    count: int,
    stop: Collection[int],
    watch: Watch,
    say: Callable[[str], None],
) -> Iterator[int]:
    """The ids that follow the tokens by the target's artifact, as they come: at most `count`, up to one of `stop`,
    which comes too. Every leaf has its value from the job's sources. The artifact stays in the cache (`kept_artifact`).
    """
    with kept_artifact(target, job, watch, say) as folder:
        inputs = Inputs(folder, folder, {}, tokens, (), _dtype(target, job), True, count, say)
        yield from target.generate(job, inputs, stop)


def kept_artifact(
    target: Target, job: Job, watch: Watch, say: Callable[[str], None]
) -> AbstractContextManager[Path]:
    """The folder of a target's artifact in the cache: written once for its texts, what is extracted and the stamps of
    the files that it is extracted from."""
    binding, artifacts = job.binding, target.emit(job)
    sources = {bound.file for bound in binding.leaves if bound.file is not None}
    sources.update(() if binding.checkpoint is None else binding.checkpoint.files)
    stamps = [(os.path.abspath(path), stamp(os.fspath(path))) for path in sorted(sources)]
    decided = (version("logos-build"), target.name, artifacts, target.steps(job).extractions, stamps)
    key = hashlib.sha256(repr(decided).encode()).hexdigest()[:32]
    return cached(
        "generate", key, lambda folder: write_artifact(target, job, {}, folder, watch),
        lambda: say("another run writes this artifact; waiting for it"),
    )  # fmt: skip


def _dtype(target: Target, job: Job) -> str:
    dtypes = target.dtypes(job)
    return "float32" if "float32" in dtypes else dtypes[0]


def _lacking(target: Target, names: Sequence[str]) -> Refused:
    what = f"the target {target.name} does not read out {', '.join(names)}"
    return refuse("engine-lacks-variable", what, Spot(f"--engine {target.name}"), "leave that out, or use reference")


def _check_steps(target: Target, made: Mapping[str, int], due: int) -> None:
    for name, steps in made.items():
        if steps != due:
            what = f"the target {target.name} gave {name} over {steps} steps; {due} were asked for"
            next_ = "leave --generate out, or use an engine that generates, such as reference"
            raise refuse("engine-steps", what, Spot(f"--engine {target.name}"), next_)
