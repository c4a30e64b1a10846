"""Running the command line in this process with the toy plugin installed, here and in the steps that ninja starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from logos.entry import main

PROGRAM = """\
Let x be a 1 by 2 tensor of Real.
Let W be a 2 by 3 tensor of Real.
Set item 1 of W to 2.5.
Let y be x matmul W.
"""


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str


@dataclass
class Toy:
    """A folder to work in, and `logos` run there."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def logos(self, *arguments: str) -> Ran:
        self.capture.readouterr()
        with pytest.raises(SystemExit) as exit:
            main([*arguments])
        captured = self.capture.readouterr()
        assert isinstance(exit.value.code, int)
        return Ran(exit.value.code, captured.out, captured.err)

    def build(self, *arguments: str) -> Ran:
        return self.logos("build", *arguments)

    def tree(self, folder: str = "build") -> list[str]:
        """The files below a folder, without ninja's own."""
        root = self.folder / folder
        files = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
        return sorted(file for file in files if not file.startswith(".logos/"))


def stamps(folder: Path) -> dict[str, int]:
    """When each file of an artifact was written, by name."""
    return {
        path.name: path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and ".logos" not in path.parts
    }
