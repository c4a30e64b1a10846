"""How a workspace of many small programs builds: with nothing to do, after one change, cold on one core and on two.

    python benchmarks/workspace.py [--members 200] [--runs 15] [--cold 3] [--most 2.0] [--least 1.6]

Makes the workspace in a temporary folder. With nothing to do it runs in turn, each time all three: `logos build`,
`python -c pass`, and ninja on the same graph; the quotient of the medians is the first over the sum of the others.
`logos` is the script that pip wrote beside this Python, and as pip writes it from 25 on, which imports no `re`.
After a change of one program it says which artifacts were written. Cold builds, in fresh folders, run in turn bound to
one core (`taskset -c 0 logos build -j 1`) and to two (`taskset -c 0,1 logos build -j 2`), planning included; the
quotient is of the shortest times, since a machine that others use only ever adds to a time. Beside it stands how many
cores the shortest build ran on at once: others' work leaves the one core of the first to it and takes from the two of
the second. --cold 0 leaves them out. Python's bytecode is kept, as it is where LOGOS is installed. Exits with 1 where a
quotient is beyond --most or --least, or another member was rebuilt.
"""

from __future__ import annotations

import argparse
import os
import shutil
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
Set item 1 of W to {item}.
Let y be x matmul W.
"""
MEMBER = '[project]\nname = "{name}"\nprogram = "p.lg"\n\n[target.rdu-sambaflow]\n'
LOGOS = Path(sys.executable).with_name("logos")
SCRIPT = f"""\
#!{sys.executable}
import sys
from logos.entry import main
if __name__ == '__main__':
    if sys.argv[0].endswith('.exe'):
        sys.argv[0] = sys.argv[0][:-4]
    sys.exit(main())
"""
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--cold", type=int, default=3)
    parser.add_argument("--most", type=float, default=2.0)
    parser.add_argument("--least", type=float, default=1.6)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = workspace(Path(name) / "workspace", arguments.members)
        scripts = {"as installed": LOGOS, "as pip 25 writes it": script(Path(name))}
        found = [nothing_to_do(folder, *one, arguments.members, arguments.runs) for one in scripts.items()]
        sound = max(found) <= arguments.most
        sound &= one_change(folder, arguments.members)
        if arguments.cold and len(cores()) < 2:
            print("cold builds: left out, since this process may use one core alone")
        elif arguments.cold:
            sound &= cold_builds(folder, arguments.cold, arguments.least)
    return 0 if sound else 1


def workspace(folder: Path, members: int) -> Path:
    """So many members, each of a program that no other has."""
    for number in range(members):
        member = folder / "members" / f"m{number:03}"
        member.mkdir(parents=True)
        (member / "p.lg").write_text(PROGRAM.format(item=number))
        (member / "logos.toml").write_text(MEMBER.format(name=member.name))
    (folder / "logos.toml").write_text('[workspace]\nmembers = ["members/*"]\n')
    return folder


def script(folder: Path) -> Path:
    path = folder / "bin" / "logos"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    path.chmod(0o755)
    return path


def nothing_to_do(folder: Path, title: str, logos: Path, members: int, runs: int) -> float:
    """The larger of the quotients of wall time and of the time that processors spent."""
    for _ in range(3):
        # The second may find a file of the first too new to tell changes by its time.
        time.sleep(0.2)
        said = build(folder, logos)
    assert f"nothing to do: {members} artifacts up to date" in said, said[-300:]
    commands = {
        "logos build": [os.fspath(logos), "build"],
        "python -c pass": [sys.executable, "-c", "pass"],
        "ninja": [os.path.join(BIN_DIR, "ninja"), "-C", "build/.logos"],
    }
    walls: dict[str, list[float]] = {name: [] for name in commands}
    used: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            wall, processor = timed(command, folder)
            walls[name].append(wall)
            used[name].append(processor)
    print(f"nothing to do, {members} members, logos {title}:")
    quotients = []
    for kind, times in (("wall", walls), ("processor", used)):
        medians = {name: statistics.median(found) for name, found in times.items()}
        shown = ", ".join(f"{name} {median * 1000:.1f} ms" for name, median in medians.items())
        quotients.append(medians["logos build"] / (medians["python -c pass"] + medians["ninja"]))
        print(f"  {kind}: {shown}; quotient {quotients[-1]:.2f}")
    return max(quotients)


def one_change(folder: Path, members: int) -> bool:
    before = written(folder)
    (folder / "members/m001/p.lg").write_text(PROGRAM.format(item=0.5))
    said = build(folder)
    changed = sorted({path.parts[0] for path, time in written(folder).items() if before.get(path) != time})
    (steps,) = [line for line in said.splitlines() if line.startswith("built ")]
    print(f"one program changed: wrote into {', '.join(changed)} alone; {steps}")
    return changed == ["m001"]


def written(folder: Path) -> dict[Path, int]:
    """When each file of the artifacts was written."""
    found = (path for path in (folder / "build").rglob("*") if path.is_file() and ".logos" not in path.parts)
    return {path.relative_to(folder / "build"): path.stat().st_mtime_ns for path in found}


def cold_builds(folder: Path, runs: int, least: float) -> bool:
    bounds = {len(bound): bound for bound in (cores()[:1], cores()[:2])}
    found: dict[int, list[tuple[float, float]]] = {count: [] for count in bounds}
    for _ in range(runs):
        for count, bound in bounds.items():
            shutil.rmtree(folder / "build")
            found[count].append(timed([os.fspath(LOGOS), "build", "-q", "-j", str(count)], folder, bound))
    for count, bound in bounds.items():
        shown = ", ".join(f"{wall:.1f} s" for wall, _ in found[count])
        wall, processor = min(found[count])
        on = f"taskset -c {','.join(map(str, bound))}, -j {count}"
        print(f"cold, {on}: {shown}; the shortest used {processor:.1f} s of processors, {processor / wall:.2f} at once")
    quotient = min(found[1])[0] / min(found[2])[0]
    print(f"cold: two cores are {quotient:.2f} times as fast as one, at least {least}")
    return quotient >= least


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def build(folder: Path, logos: Path = LOGOS) -> str:
    return subprocess.run(
        [logos, "build"], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True, text=True
    ).stdout


def timed(command: Sequence[str], folder: Path, bound: Sequence[int] = ()) -> tuple[float, float]:
    """Seconds that a command took, and that processors spent on it and on what it started."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        preexec_fn=(lambda: os.sched_setaffinity(0, bound)) if bound else None,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
