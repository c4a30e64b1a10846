"""`logos` in a process of its own, with the toy plugin installed: for tests of what a process meets."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

PLUGIN = Path(__file__).parents[1] / "toy_plugin"
NOBODY = 65534
"""The uid and gid of nobody in particular."""

PROGRAM = """\
Let x be a 1 by 64 tensor of Real.
Let W be a 64 by 64 tensor of Real.
Set item 1 of W to {item}.
Let y be x matmul W.
"""


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment with the toy plugin on the path; None takes a variable away."""
    path = os.pathsep.join([os.fspath(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])])
    whole: dict[str, str | None] = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **changes}
    return {name: value for name, value in whole.items() if value is not None}


def logos(
    folder: Path,
    *arguments: str,
    changes: Mapping[str, str | None] | None = None,
    before: Callable[[], None] | None = None,
    prefix: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end. `before` is called in the new process, `prefix` stands before the command."""
    return subprocess.run(
        [*prefix, sys.executable, "-m", "logos", *arguments],
        cwd=folder,
        env=environment(**(changes or {})),
        capture_output=True,
        text=True,
        encoding="utf-8",
        preexec_fn=before,
    )


def reachable() -> bool:
    """Whether another uid may run this interpreter: not where it lies in root's own folder."""
    python = Path(sys.executable).resolve()
    return all(parent.stat().st_mode & 0o001 for parent in (python, *python.parents))


RIGHTS = f"uid {NOBODY}" if reachable() else "root without its rights over files"
"""What tests of permissions run as where the tests run as root."""


def unprivileged() -> None:
    """Gives up root's rights over files, where the process has them: called in a process that is to run a command."""
    if os.geteuid() != 0:
        return
    if reachable():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        return
    system = ctypes.CDLL(None, use_errno=True)
    for right in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
        if system.prctl(_CAPBSET_DROP, right, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "root's rights over files cannot be given up")


_CAPBSET_DROP, _DAC_OVERRIDE, _DAC_READ_SEARCH = 24, 1, 2


def kill_session(leader: int) -> None:
    """Kills every process of a session (Linux): ninja gives each of its tools a process group of its own."""
    for entry in os.listdir("/proc"):
        with suppress(OSError):
            if entry.isdigit() and os.getsid(int(entry)) == leader:
                os.kill(int(entry), signal.SIGKILL)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path, without the builds' own."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".logos" not in path.relative_to(folder).parts
    }


def workspace(folder: Path, item: float = 1.0) -> Path:
    """Two members: `a` for the toy, with its family and its tool; `b` for rdu-sambaflow."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "logos.toml").write_text('[workspace]\nmembers = ["a", "b"]\n')
    tables = {"a": 'family = "toy"\n[target.toy]\nweights = "raw"\ntool = "copy"\n', "b": "[target.rdu-sambaflow]\n"}
    for name, table in tables.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "p.lg").write_text(PROGRAM.format(item=item))
        text = f'[project]\nname = "{name}"\nprogram = "p.lg"\n{table}'
        (folder / name / "logos.toml").write_text(text)
    return folder
