"""How long `logos build` takes when nothing is to do, beside what it cannot do without.

    python benchmarks/noop.py [--runs 20] [--most 1.5]

Builds a small workspace once in a temporary folder, then runs in turn, each time all three: `logos build`,
`python -c "import click, pluggy"`, and ninja on the same graph. Prints the medians and their quotient; exits with 1
where it is above --most, or where the build with nothing to do imports what it has no need of.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ninja import BIN_DIR

PROGRAM = """\
Let x be a 1 by 4 tensor of Real.
Let W be a 4 by 4 tensor of Real.
Set item 1 of W to 2.
Let y be x matmul W.
"""
# Python's bytecode is kept, as it is where LOGOS is installed.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
HEAVY = ("numpy", "torch", "rich", "click", "pluggy", "logos_cuda", "logos_gguf", "logos_sambaflow")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--most", type=float, default=1.5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return compare(Path(folder), arguments.runs, arguments.most)


def compare(folder: Path, runs: int, most: float) -> int:
    for name in ("one", "two", "three"):
        (folder / name).mkdir()
        (folder / name / "p.lg").write_text(PROGRAM)
        table = '[target.rdu-sambaflow]\ndtype = "float32"\n'
        (folder / name / "logos.toml").write_text(f'[project]\nname = "{name}"\nprogram = "p.lg"\n{table}')
    (folder / "logos.toml").write_text('[workspace]\nmembers = ["*"]\n')
    logos = Path(sys.executable).with_name("logos")
    build = [os.fspath(logos), "build"]
    imports = [sys.executable, "-c", "import click, pluggy"]
    ninja = [os.path.join(BIN_DIR, "ninja"), "-C", "build/.logos"]
    for _ in range(2):
        # The second may find a file of the first too new to tell changes by its time.
        time.sleep(0.2)
        subprocess.run(build, cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
    said = subprocess.run(build, cwd=folder, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout
    assert "nothing to do: 3 artifacts up to date" in said, said
    times: dict[str, list[float]] = {"logos build": [], "import click, pluggy": [], "ninja": []}
    for _ in range(runs):
        for name, command in zip(times, (build, imports, ninja), strict=True):
            times[name].append(timed(command, folder))
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, median in medians.items():
        print(f"{name:20} {median * 1000:7.1f} ms, median of {runs}")
    quotient = medians["logos build"] / (medians["import click, pluggy"] + medians["ninja"])
    loaded = imported(folder)
    print(f"quotient {quotient:.2f}, at most {most}; imported of {', '.join(HEAVY)}: {', '.join(loaded) or 'none'}")
    return 1 if quotient > most or loaded else 0


def timed(command: Sequence[str], folder: Path) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def imported(folder: Path) -> list[str]:
    """What of the heavy modules the command imports, by Python's own account."""
    command = [os.fspath(Path(sys.executable).with_name("logos")), "build"]
    environment = {**ENVIRONMENT, "PYTHONPROFILEIMPORTTIME": "1"}
    ran = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    lines = ran.stderr.splitlines()
    assert any(line.endswith(" logos.entry") for line in lines), ran.stderr
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    return [name for name in HEAVY if name in modules]


if __name__ == "__main__":
    sys.exit(main())
