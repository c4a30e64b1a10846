"""Builds that are killed at any moment lose nothing and leave nothing: the next one ends as if none had been.

LOGOS_KILLS says how many are killed (`make soak`: 500).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, os.fspath(Path(__file__).parents[1] / "unit"))

from process import environment, kill_session, logos, tree, workspace

KILLS = int(os.environ.get("LOGOS_KILLS", "30"))
SEED = int(os.environ.get("LOGOS_SEED", "1"))


def killed(folder: Path, after: float, whole: bool) -> bool:
    """Kills a build after some seconds, with all that it started or alone; False where it had ended by then."""
    command = [sys.executable, "-m", "logos", "build", "-q"]
    silent = subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=folder, env=environment(), start_new_session=True, stdout=silent, stderr=silent
    )
    time.sleep(after)
    ended = process.poll() is not None
    if whole and not ended:
        kill_session(process.pid)
    elif not ended:
        process.kill()
    process.wait()
    return not ended


def half_files(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.endswith((".part", ".work", ".new"))]


@pytest.mark.slow
def test_builds_killed_at_random_moments_are_completed_to_the_same_bytes(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    expected = {}
    began = time.monotonic()
    for item in (1.0, 2.0):
        undisturbed = workspace(tmp_path / f"undisturbed {item}", item)
        ran = logos(undisturbed, "build")
        assert (ran.returncode, ran.stderr) == (0, "")
        expected[item] = tree(undisturbed / "build")
    longest = (time.monotonic() - began) / 2
    assert expected[1.0] != expected[2.0]
    place, kills, rounds = tmp_path / "killed", 0, 0
    while kills < KILLS:
        # Every round has something to do: the programs' weights change, and now and then an output was removed.
        item = (1.0, 2.0)[rounds % 2]
        rounds += 1
        workspace(place, item)
        made = [place / "build" / path for path in tree(place / "build")] if (place / "build").exists() else []
        if made and chance.random() < 0.3:
            chance.choice(made).unlink()
        for _ in range(chance.choice((1, 2, 4, 6))):
            caught = killed(place, chance.uniform(0.02, longest), whole=chance.random() < 0.7)
            kills += caught
            # The machine may be faster or slower than it was: most builds are to be killed, some to end first.
            longest *= 1.02 if caught else 0.9
        ran = logos(place, "build", "-q")
        assert (ran.returncode, ran.stdout) == (0, ""), f"seed {SEED}, kill {kills}: {ran.stderr}"
        assert tree(place / "build") == expected[item], f"seed {SEED}, kill {kills}"
        assert half_files(place) == [], f"seed {SEED}, kill {kills}"
        print(f"{kills} builds killed in {rounds} rounds, completed to an undisturbed one's bytes", flush=True)
