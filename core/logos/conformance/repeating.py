"""Whether a target is deterministic: the same texts twice, and in other processes and folders; nothing beside them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from logos.artifacts import emit_artifacts
from logos.conformance.cases import Case, forms, make_case
from logos.conformance.checks import Check, counted, takes
from logos.conformance.elsewhere import Place, flags, is_installed, places
from logos.conformance.sizes import pinned_sizes
from logos.discovery import said
from logos.job import Request, make_job
from logos.manager import Manager
from logos.source import Source, printable

NAME = "p.lg"
Texts = Mapping[str, bytes]


def check_determinism(manager: Manager, target_name: str, options: Mapping[str, object], seed: int = 0) -> Check:
    """One program of the target's ops, emitted twice in this process and once in each of two others that differ in
    folder, hash seed, time zone, locale and home."""
    text, weights = _program(manager, target_name, options, seed)
    if not text:
        return Check("determinism", "nothing", notes=("the target refuses every program that was tried",))
    overrides = {name: name for name in weights}
    request = Request(Path(NAME), options=options, overrides=overrides, source=Source(NAME, text))
    emissions: dict[str, Texts] = {}
    faults: list[str] = []
    notes: list[str] = []
    for when in ("once", "again"):
        target, job = make_job(manager, request, target_name)
        try:
            emissions[when] = {one.path: one.text.encode() for one in emit_artifacts(target, job)}
        except Exception as error:
            return Check("determinism", "1 emission", (f"emit raised {said(error)}",))
    faults += _differences(emissions["once"], emissions["again"], "between two emissions of one job")
    with tempfile.TemporaryDirectory(prefix="logos-determinism-") as scratch:
        for place in places(Path(scratch)):
            (place.work / NAME).write_text(text, encoding="utf-8")
            ran = place.run("emit", NAME, "--out", "out", "-q", *flags(target_name, dict(options), weights))
            if not is_installed(target_name, ran):
                notes = [f"not tried in other processes, which do not know the target {target_name}"]
                break
            if ran.returncode:
                faults.append(printable(f"in another process `logos emit` says: {ran.stderr.strip()}"))
                continue
            emissions[place.seed] = _files(place)
            where = f"between processes (PYTHONHASHSEED={place.seed}, another folder)"
            faults += _differences(emissions["once"], emissions[place.seed], where)
            faults += [f"emit leaves {stray} behind" for stray in place.strays({NAME, "out"})]
    files = counted(len(emissions["once"]), "file")
    words = f"{counted(len(emissions), 'emission')} of {files}"
    return Check("determinism", words, tuple(dict.fromkeys(faults)), tuple(notes))


def _program(
    manager: Manager, target_name: str, options: Mapping[str, object], seed: int
) -> tuple[str, tuple[str, ...]]:
    """The first form of each op that the target takes, side by side (the first alone where it takes one at a time),
    with its weights."""
    target, random = manager.target(target_name), Random(f"{seed} determinism")
    drawn: list[Case] = []
    for op in manager.ops:
        if op.name in target.spells:
            form = next(forms(op, target.spells))
            case = make_case(form, 0, pinned_sizes(op, form.rule, {}, random), random)
            if takes(manager, target_name, _request([case], options)) is None:
                drawn.append(case)
    if drawn and takes(manager, target_name, _request(drawn, options)) is not None:
        drawn = drawn[:1]
    return "".join(case.text for case in drawn), tuple(name for case in drawn for name in case.weights)


def _request(cases: list[Case], options: Mapping[str, object]) -> Request:
    return Request(Path(NAME), options=options, source=Source(NAME, "".join(case.text for case in cases)))


def _files(place: Place) -> Texts:
    out = place.work / "out"
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def _differences(one: Texts, other: Texts, where: str) -> Iterator[str]:
    """A line for every file that is not the same in both, with its first line that differs."""
    for path in sorted({*one, *other}):
        if path not in one or path not in other:
            yield printable(f"{path} is there in one alone {where}")
        elif one[path] != other[path]:
            lines = one[path].decode("utf-8", "replace").split("\n"), other[path].decode("utf-8", "replace").split("\n")
            number = next((n for n, (a, b) in enumerate(zip(*lines, strict=False)) if a != b), min(map(len, lines)))
            shown = " and ".join(repr(text[number][:80]) if number < len(text) else "nothing" for text in lines)
            yield printable(f"{path} differs {where}: line {number + 1} is {shown}")
