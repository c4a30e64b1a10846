"""What a build is asked to make: from arguments and project files to one order for each program and target."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from logos.author import Author
from logos.job import Request
from logos.near import suggestion
from logos.project import FILE_NAME, Project, Workspace
from logos.project_file import read_workspace
from logos.refusal import Refusal, Refused, refuse
from logos.source import Place, Spot, printable

DEFAULT_OUT = "build"


@dataclass(frozen=True)
class Flags:
    """The command line's share: each flag given stands before logos.toml. `defines` are `-D`, as text."""

    targets: tuple[str, ...] = ()
    checkpoint: Path | None = None
    weights: Path | None = None
    family: str | None = None
    out: Path | None = None
    defines: Mapping[str, str] = field(default_factory=dict)
    hold: tuple[str, ...] = ()


@dataclass(frozen=True)
class Order:
    """One program for one target, and the artifact's folder. `author` says how to write the program first; the places
    say where logos.toml names the target and the family, if it does; `file` is that logos.toml, there or not."""

    name: str
    target: str
    target_place: Place | None
    request: Request
    folder: Path
    author: Author | None = None
    family_place: Place | None = None
    file: Path | None = None

    @property
    def title(self) -> str:
        return f"{self.name} for {self.target}"


@dataclass(frozen=True)
class Selection:
    """Every order of a build. `<out>/.logos/` takes ninja's files.

    `files` are the project files that decided it, there or not, and `listed` the folders whose names did. `refusals`
    are the workspaces' own, for whoever makes the plan to tell with what else is wrong. `common` are those files on
    which every order depends: the workspaces' own, and those that say which versions are installed.
    """

    out: Path
    orders: tuple[Order, ...]
    files: tuple[Path, ...] = ()
    listed: tuple[Path, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    common: tuple[Path, ...] = ()


def select(names: Sequence[str], flags: Flags, here: Path = Path()) -> Selection:
    """The orders for programs, members' folders and projects' names; without any, for the whole of `here`'s logos.toml.

    Refused, all at once: no logos.toml where one is needed (`no-project-file`), a name of nothing (`unknown-member`),
    no target (`no-target`), files that are not there (`missing-file`), paths that no tool could print (`bad-path`),
    two projects of one name (`same-name`), and what logos.toml itself refuses.
    """
    projects, base, workspaces = _projects(names, here)
    refusals = [fault for project in projects for fault in _faults(project, flags)]
    pairs = [(project, target) for project in projects for target in flags.targets or project.targets]
    if flags.out is not None:
        base = flags.out
    alone = flags.out is not None and len(pairs) == 1
    orders = [_order(project, target, flags, base, alone) for project, target in pairs]
    refusals += _same_name(projects)
    refusals += [fault for order in orders for fault in _bad_texts(order)]
    refusals += _bad_paths([base, *(path for order in orders for path in _paths(order))])
    entries = tuple(dict.fromkeys(refusal for one in workspaces for refusal in one.refusals))
    if refusals:
        raise Refused([*entries, *refusals])
    folders = {project.out for project in projects}
    if flags.out is None and len(folders) == 1:
        base = folders.pop() or base
    common = [file for one in workspaces for file in (one.file, *one.versions)]
    files = dict.fromkeys([here / FILE_NAME, *common, *(file for one in workspaces for file in one.files)])
    listed = dict.fromkeys(folder for one in workspaces for folder in one.listed)
    return Selection(base, tuple(orders), tuple(files), tuple(listed), entries, tuple(dict.fromkeys(common)))


def default_out(here: Path = Path()) -> Path:
    """The out folder of a build of the whole of `here`'s logos.toml, or of a program there."""
    file = here / FILE_NAME
    folders = {project.out for project in read_workspace(file).projects} if file.is_file() else set()
    return (folders.pop() if len(folders) == 1 else None) or here / DEFAULT_OUT


def _projects(names: Sequence[str], here: Path) -> tuple[list[Project], Path, list[Workspace]]:
    """The projects named, each once, the folder that takes what does not say where it goes, and what was read."""
    file = here / FILE_NAME
    workspace = read_workspace(file) if file.is_file() else None
    if not names:
        if workspace is None:
            raise refuse(
                "no-project-file",
                f"there is no {FILE_NAME} here and no program is named",
                Spot(os.fspath(file)),
                f"name a program and a target: logos build PROGRAM.lg --target NAME; or write a {FILE_NAME}",
            )
        return list(workspace.projects), here / DEFAULT_OUT, [workspace]
    read = [workspace] if workspace else []
    found: dict[Path | str, Project] = {}
    bases: set[Path] = set()
    refusals: list[Refusal] = []
    for name in names:
        try:
            projects, base = _named(name, workspace, here, read)
            bases.add(base)
            for project in projects:
                found.setdefault(f"{project.file}: {project.program}", project)
        except Refused as refused:
            refusals += refused.refusals
    if refusals:
        raise Refused(refusals)
    return list(found.values()), bases.pop() if len(bases) == 1 else here / DEFAULT_OUT, read


def _named(
    name: str, workspace: Workspace | None, here: Path, read: list[Workspace]
) -> tuple[Sequence[Project], Path]:
    """What one argument names: a project of the workspace (by name, folder or program), a folder, a program; and the
    folder that takes what it makes. A workspace that is read for it is added to `read`."""
    known = workspace.projects if workspace else ()
    path = here / name
    for project in known:
        if name == project.name or _same(path, project.file.parent) or _same(path, project.program):
            return [project], here / DEFAULT_OUT
    if (path / FILE_NAME).is_file():
        read.append(read_workspace(path / FILE_NAME))
        return read[-1].projects, path / DEFAULT_OUT
    if path.is_file():
        return [Project(file=here / FILE_NAME, name=path.stem, program=path)], here / DEFAULT_OUT
    names = [project.name for project in known]
    raise refuse(
        "unknown-member",
        f"no program, no folder with a {FILE_NAME} and no project has this name{suggestion(name, names)}",
        Spot(name),
        f"name a .lg file or a member's folder{', or one of: ' if names else ''}{', '.join(names)}",
    )


def _same(one: Path, other: Path | None) -> bool:
    return other is not None and one.exists() and other.exists() and os.path.samefile(one, other)


def _faults(project: Project, flags: Flags) -> Iterator[Refusal]:
    if not flags.targets and not project.targets:
        add = f", or add [target.NAME] to {project.file}" if project.places else ""
        yield Refusal(
            "no-target",
            f"no target is named for {project.name}",
            project.place("project") if project.places else Spot(os.fspath(project.program or project.file)),
            f"give --target NAME{add}; `logos targets` lists those installed",
        )
    yield from replace(project, checkpoint=None if flags.checkpoint else project.checkpoint).missing_files()
    if flags.checkpoint is not None and not flags.checkpoint.exists():
        what = "there is no such checkpoint file"
        yield Refusal("missing-file", what, Spot(os.fspath(flags.checkpoint)), "correct the path after --checkpoint")


def _order(project: Project, target: str, flags: Flags, base: Path, alone: bool) -> Order:
    options: dict[str, object] = {**project.targets.get(target, {}), **flags.defines}

    def option_place(key: str) -> Place:
        return Spot(f"-D {key}") if key in flags.defines else project.place("target", target, key)

    author = project.author
    request = Request(
        program=project.program or Path(f"{project.name}.lg"),
        checkpoint=flags.checkpoint or project.checkpoint or (author.checkpoint if author else None),
        weights=flags.weights,
        family=flags.family or project.family,
        overrides=project.weights,
        options=options,
        option_place=option_place,
        option_folder=lambda key: Path() if key in flags.defines else project.file.parent,
        override_place=lambda name: project.place("weights", name),
        hold=flags.hold,
    )
    out = base if flags.out is not None else project.out or base
    folder = out if alone else out / project.name / target
    place = project.place("target", target) if target in project.targets else None
    family_place = project.place("project", "family") if project.family and not flags.family else None
    return Order(project.name, target, place, request, folder, author, family_place, project.file)


def _same_name(projects: Iterable[Project]) -> Iterator[Refusal]:
    taken: dict[str, Project] = {}
    for project in projects:
        other = taken.setdefault(project.name, project)
        if other is not project:
            yield Refusal(
                "same-name",
                f"{other.program or other.file} and {project.program or project.file} are both built as {project.name}",
                project.place("project", "name"),
                "give the projects different names: a name is the artifact's folder",
            )


def _paths(order: Order) -> Iterator[Path]:
    request = order.request
    given = (request.program, request.checkpoint, request.weights, order.folder)
    yield from (path for path in given if path is not None)


def _bad_texts(order: Order) -> Iterator[Refusal]:
    """What a step is told on its command line is one line of ninja's, whatever a string of logos.toml may hold."""
    request = order.request
    for key, given in request.options.items():
        if not all(str(part).isprintable() for part in (key, *_parts(given))):
            what = f"option {printable(key)} of target {order.target} holds a character that cannot be printed"
            yield Refusal("bad-value", what, request.option_place(key), "write it in one line of printable characters")
    for variable, tensor in request.overrides.items():
        if not f"{variable}{tensor}".isprintable():
            what = f"the tensor of {printable(variable)} holds a character that cannot be printed"
            yield Refusal("bad-value", what, request.override_place(variable), "name a tensor of the checkpoint")


def _parts(value: object) -> Iterable[object]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _bad_paths(paths: Iterable[Path]) -> Iterator[Refusal]:
    """Neither ninja nor a depfile can say a line break; a character that cannot be printed hides in every message."""
    for path in dict.fromkeys(paths):
        whole = os.path.abspath(path)
        if not whole.isprintable():
            shown = "".join(character if character.isprintable() else "?" for character in whole)
            yield Refusal(
                "bad-path",
                "the path holds a character that cannot be printed",
                Spot(shown),
                "rename the file or folder",
            )
