"""`--since`: of a selection, the orders whose inputs changed since a git revision."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from logos.changes import Changes
from logos.inputs import code_digest
from logos.job import open_checkpoint, with_files
from logos.journal import Journal
from logos.manager import Manager
from logos.plan import PRIVATE, code_files
from logos.refusal import Refused
from logos.selection import Order, Selection

_Opened = dict[Path, tuple[Path, ...] | None]
"""The files of checkpoints that were opened, by the paths that named them."""


def changed_since(
    manager: Manager, selection: Selection, revision: str, here: Path = Path()
) -> tuple[Selection, Mapping[str, str]]:
    """The selection's orders of which something changed since the revision, and by their titles what did.

    An order's inputs are its logos.toml, its program, the files of its checkpoint, its weight folder, the files that
    its options name; and, as every order's, the workspace's logos.toml, the files that it names in `versions`, and the
    code of LOGOS and of the plugins: where git tracks that, by git; where not, by the code that this out folder's last
    build of the artifact ran. Refused: as `Changes` says.
    """
    return _Since(manager, selection, Changes(revision, here)).narrowed()


def asked_of(manager: Manager, selection: Selection) -> tuple[Path, ...]:
    """The files and folders by which it is told whether anything of a selection changed, whatever the revision."""
    found = dict.fromkeys((*selection.files, *selection.listed))
    opened: _Opened = {}
    for order in selection.orders:
        found.update(dict.fromkeys(_files(manager, order, opened)))
        if order.request.weights is not None:
            found.update(dict.fromkeys(_below(order.request.weights)))
    return (*found, *code_files(manager))


class _Since:
    """One question of what changed; files that several orders read are looked at once."""

    def __init__(self, manager: Manager, selection: Selection, changes: Changes) -> None:
        self.manager, self.selection, self.changes = manager, selection, changes
        self.code = code_files(manager)
        self.digest = code_digest(self.code)
        self.made_by = Journal(selection.out / PRIVATE).code
        self.checkpoints: _Opened = {}

    def narrowed(self) -> tuple[Selection, Mapping[str, str]]:
        everywhere = self._everywhere()
        reasons = {order.title: everywhere or self._reason(order) for order in self.selection.orders}
        found = {title: reason for title, reason in reasons.items() if reason is not None}
        orders = tuple(order for order in self.selection.orders if order.title in found)
        return replace(self.selection, orders=orders), found

    def _everywhere(self) -> str | None:
        """What changed that every order depends on."""
        tracked = [path for path in self.code if self.changes.tracks(path)]
        return self._first(self.selection.common) or self._first(tracked)

    def _first(self, paths: Iterable[Path]) -> str | None:
        return next((os.path.relpath(path) for path in paths if self.changes.changed(path)), None)

    def _reason(self, order: Order) -> str | None:
        """What of an order's inputs changed first; None where nothing did."""
        if order.target not in self.manager.targets:
            return f"the target {order.target}, which is not installed"  # the plan refuses it
        made_by = self.made_by.get(os.path.abspath(order.folder))
        if made_by is not None and made_by != self.digest:
            return "LOGOS or a plugin"
        weights = order.request.weights
        if weights is not None and self.changes.changed_below(weights):
            return os.path.relpath(weights)
        return self._first(_files(self.manager, order, self.checkpoints))


def _files(manager: Manager, order: Order, opened: _Opened) -> Iterator[Path]:
    request = order.request
    if order.file is not None:
        yield order.file
    if order.author is None:
        yield request.program
    for checkpoint in (order.author.checkpoint if order.author else None, request.checkpoint):
        if checkpoint is not None:
            yield from _of_checkpoint(manager, checkpoint, opened)
    if order.target in manager.targets:
        options = with_files(manager.targets[order.target], request).options
        yield from (value for value in options.values() if isinstance(value, Path))


def _of_checkpoint(manager: Manager, path: Path, opened: _Opened) -> tuple[Path, ...]:
    """Every file of a checkpoint. One that cannot be read, which the plan refuses, counts by its path."""
    if path not in opened:
        opened[path] = None
        try:
            checkpoint = open_checkpoint(manager, path)
        except Refused:
            pass
        else:
            opened[path] = tuple(checkpoint.files)
            checkpoint.close()
    return opened[path] or (path,)


def _below(folder: Path) -> Iterator[Path]:
    for parent, _, files in os.walk(folder):
        yield Path(parent)
        yield from (Path(parent, file) for file in files)
