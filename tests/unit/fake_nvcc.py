"""A toolkit that is none: an nvcc that says its version, writes what it was called with, and fails as it is told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = """\
#!/bin/sh
here=$(dirname "$0")
case "$1" in --version|--list-gpu-code|-dryrun) echo "$1" >> "$here/asked";; esac
case "$1" in
--version) cat "$here/version"; exit;;
--list-gpu-code) printf 'sm_80\\nsm_86\\nsm_90\\nsm_120\\n'; exit;;
-dryrun) printf '#$ TOP=%s\\n' "$here/.."; exit;;
esac
. "$here/before"
all=$*
while [ $# -gt 0 ]; do
    case "$1" in
    -o) output=$2; shift;;
    -MF) header=$(echo "$here/../include/device.h" | sed 's/ /\\\\ /g')
        printf '%s : ../forward.cu \\\\\\n    %s\\n' "$output" "$header" > "$2"; shift;;
    ../*) input=$1;;
    esac
    shift
done
printf '%s\\n' "$all" >> "$here/calls"
{ echo "made by $all from"; cat "$input"; } > "$output"
"""


@dataclass(frozen=True)
class FakeToolkit:
    """The toolkit in a folder."""

    home: Path

    @property
    def nvcc(self) -> Path:
        return self.home / "bin" / "nvcc"

    def says(self, text: str) -> None:
        """What `nvcc --version` prints."""
        (self.home / "bin" / "version").write_text(text, "utf-8")

    def before(self, script: str) -> None:
        """What it does before it compiles or links; an `exit` there is its end."""
        (self.home / "bin" / "before").write_text(script, "utf-8")

    def calls(self) -> list[str]:
        """How it was called to compile or link, so far."""
        file = self.home / "bin" / "calls"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def asked(self) -> list[str]:
        """What it was asked of itself, so far."""
        return (self.home / "bin" / "asked").read_text("utf-8").splitlines()


def make_toolkit(home: Path, version: str = "13.0.88", gnu: int = 99) -> FakeToolkit:
    """A toolkit in `home` that takes gcc up to a version."""
    for folder in ("bin", "include/crt"):
        (home / folder).mkdir(parents=True)
    made = FakeToolkit(home)
    made.nvcc.write_text(_SCRIPT, "utf-8")
    made.nvcc.chmod(0o755)
    made.says(f"Cuda compilation tools, release 13.0, V{version}\n")
    made.before("")
    (home / "include/device.h").write_text("", "utf-8")
    clang = "#if ((__clang_major__ < 16) || (__clang_major__ > 20))"
    (home / "include/crt/host_config.h").write_text(f"#if __GNUC__ > {gnu}\n{clang}\n", "utf-8")
    return made


def make_compiler(path: Path, macro: str) -> Path:
    """A host compiler of a version, such as `__GNUC__ 16`."""
    path.write_text(f"#!/bin/sh\necho '#define {macro}'\n", "utf-8")
    path.chmod(0o755)
    return path


def without_nvcc(path: str) -> str:
    """A PATH without the folders that hold an nvcc."""
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if not (Path(folder) / "nvcc").exists())
