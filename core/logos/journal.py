"""What finished steps left behind: the only outputs that a later build takes for sound.

An output that is not exactly as its step left it (a user's edit, half a file of a tool that was killed) is removed
before ninja runs, which makes it again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logos.atomic import unwritable, write_if_changed
from logos.stamps import Stamp, output_stamp

if TYPE_CHECKING:
    from logos.steps import Step

WHOLE, LINES = "made.json", "made.log"


class Journal:
    """The stamps of what finished steps made, by path, and the files of each artifact, by folder, with the digest of
    the code, LOGOS's and the plugins', that made it last.

    Lines are added as steps finish, so that a kill costs no step that was finished; `close` gathers them into one file.
    """

    def __init__(self, private: Path) -> None:
        self.private = private
        self.stamps: dict[str, Stamp] = {}
        self.artifacts: dict[str, list[str]] = {}
        self.code: dict[str, str] = {}
        # A folder that was moved or copied says of other files what they were: it is not believed.
        self.place = os.path.abspath(private)
        with suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads((private / WHOLE).read_bytes())
            if record["private"] == self.place:
                self.stamps, self.artifacts = dict(record["stamps"]), dict(record["artifacts"])
                self.code = dict(record.get("code", {}))
        lines: list[bytes] = []
        with suppress(OSError):
            lines = (private / LINES).read_bytes().splitlines()
        for line in lines:
            with suppress(ValueError, TypeError, AttributeError):  # a line that a kill cut short
                place, stamps = json.loads(line)
                self._take(stamps if place == self.place else {})

    def sound(self, path: Path, digest: str | None) -> bool:
        """Whether a file is as its step left it or, where the digest of what is due is known, has those bytes."""
        now = output_stamp(os.fspath(path))
        if now is not None and now == self.stamps.get(os.fspath(path)):
            return True
        return digest is not None and file_digest(path) == digest

    def add(self, step: Step) -> None:
        """Notes what a step that has ended left, and what it did not leave."""
        stamps = {os.fspath(path): output_stamp(os.fspath(path)) for path in step.outputs}
        self._take(stamps)
        path = self.private / LINES
        try:
            with open(path, "ab") as lines:
                lines.write(b"\n" + json.dumps([self.place, stamps]).encode() + b"\n")
        except OSError as error:
            raise unwritable(path, error) from error

    def _take(self, stamps: Mapping[str, Stamp | None]) -> None:
        for path, found in stamps.items():
            if found is None:
                self.stamps.pop(path, None)
            else:
                self.stamps[path] = found

    def close(self) -> None:
        """Gathers everything into one file."""
        kept = {path: stamp for path, stamp in sorted(self.stamps.items()) if os.path.lexists(path)}
        record: dict[str, Any] = {
            "private": self.place,
            "stamps": kept,
            "artifacts": dict(sorted(self.artifacts.items())),
            "code": dict(sorted(self.code.items())),
        }
        write_if_changed(self.private / WHOLE, json.dumps(record, indent=1) + "\n")
        with suppress(OSError):
            (self.private / LINES).unlink()


def unsound(journal: Journal, steps: Iterable[Step]) -> list[Path]:
    """The outputs that are there and that no finished step left so."""
    return [
        path
        for step in steps
        for path in step.outputs
        if os.path.lexists(path) and not journal.sound(path, step.digests.get(path))
    ]


def file_digest(path: Path) -> str | None:
    """The SHA-256 of a file's bytes, None where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while data := file.read(1 << 20):
                digest.update(data)
    except (OSError, ValueError):
        return None
    return digest.hexdigest()
