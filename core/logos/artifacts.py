"""An artifact's text files, and the files that they are made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path, PurePosixPath

from logos.atomic import write_if_changed
from logos.hookspecs import Artifact, Job, Steps, Target
from logos.refusal import Refused, refuse
from logos.source import Source, Spot, printable

_TELL = "this is a fault of the plugin that brings the target: tell its authors; `logos plugins` names it"


def emit_artifacts(target: Target, job: Job) -> tuple[Artifact, ...]:
    """What the target emits for a job. Refused: a path that leaves the artifact's folder (`bad-artifact-path`)."""
    artifacts = tuple(target.emit(job))
    check_paths(target, [artifact.path for artifact in artifacts])
    return artifacts


def check_paths(target: Target, paths: Sequence[str]) -> None:
    """Refuses paths that a target may not write: absolute, outside its folder, unprintable, or one twice."""
    for path in paths:
        parts = PurePosixPath(path).parts
        inside = bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path
        if not inside or not path.isprintable() or parts[0] == ".logos":
            raise _bad_path(target, path, "does not stay inside the artifact's folder")
        if paths.count(path) > 1:
            raise _bad_path(target, path, "is written twice")


def check_commands(target: Target, following: Steps) -> None:
    """Refuses commands and variables that are no line of ninja's (`bad-command`)."""
    texts = [rule.command for rule in following.rules]
    texts += [text for edge in following.edges for text in edge.variables.values()]
    for text in texts:
        if "\n" in text or "\r" in text or "\0" in text:
            what = f"target {target.name} wants to run a command with a line break in it: {printable(text)!r}"
            raise refuse("bad-command", what, Spot(f"target {target.name}"), _TELL)


def _bad_path(target: Target, path: str, fault: str) -> Refused:
    return refuse(
        "bad-artifact-path",
        f"target {target.name} wants to write {path!r}, which {fault}",
        Spot(f"target {target.name}"),
        _TELL,
    )


def write_artifacts(artifacts: Iterable[Artifact], folder: Path) -> Iterator[tuple[Path, bool]]:
    """Writes files that changed; yields each path and whether it was written."""
    for artifact in artifacts:
        path = folder / artifact.path
        yield path, write_if_changed(path, artifact.text)


def job_files(job: Job) -> Iterator[Path]:
    """The checkpoint's files, the weight folder's files and the files of options that the job reads."""
    if job.binding.checkpoint is not None:
        yield from job.binding.checkpoint.files
    yield from dict.fromkeys(bound.file for bound in job.binding.leaves if bound.file is not None)
    given = (getattr(job.options, field.name) for field in fields(job.options))
    yield from (Path(value.name) for value in given if isinstance(value, Source))
