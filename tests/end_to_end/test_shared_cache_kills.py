"""Two builds at once over one cache, killed at random moments: what they leave there is right or is not there.

LOGOS_KILLS says how many are killed (`make soak`: 500).
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, os.fspath(Path(__file__).parents[1] / "unit"))

from process import environment, kill_session, logos, tree, workspace

KILLS = int(os.environ.get("LOGOS_KILLS", "20"))
SEED = int(os.environ.get("LOGOS_SEED", "1"))
ITEMS = (1.0, 2.0, 3.0)


def started(folder: Path, cache: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "logos", "build", "-q", "--cache", os.fspath(cache)]
    silent = subprocess.DEVNULL
    # A limit that has entries removed while others fetch them.
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(LOGOS_CACHE_GB="0.0001"),
        start_new_session=True,
        stdout=silent,
        stderr=silent,
    )


def check_cache(cache: Path, moment: str) -> None:
    """Every file under its final name holds what its name, or its first line, says."""
    for path in (cache / "build").rglob("*"):
        if path.is_file() and "files" in path.parts:
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name, moment
        elif path.is_file() and "steps" in path.parts:
            digest, text = path.read_text().splitlines()
            assert hashlib.sha256(text.encode()).hexdigest() == digest, moment


@pytest.mark.slow
def test_two_builds_at_once_over_one_cache_killed_at_random_leave_no_wrong_byte(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    expected, cache = {}, tmp_path / "cache"
    began = time.monotonic()
    for item in ITEMS:
        undisturbed = workspace(tmp_path / f"undisturbed {item}", item)
        assert logos(undisturbed, "build", "-q").returncode == 0
        expected[item] = tree(undisturbed / "build")
    longest = (time.monotonic() - began) / len(ITEMS)
    kills, rounds, fetched = 0, 0, 0
    while kills < KILLS:
        rounds += 1
        item = chance.choice(ITEMS)
        places = [workspace(tmp_path / name, item) for name in ("one", "two")]
        for place in places:
            if chance.random() < 0.5:
                shutil.rmtree(place / "build", ignore_errors=True)
        running = [started(place, cache) for place in places]
        for process in chance.sample(running, 2):
            time.sleep(chance.uniform(0.02, longest / 2))
            if process.poll() is None:
                kills += 1
                kill_session(process.pid) if chance.random() < 0.7 else process.kill()
        for process in running:
            process.wait()
        # The machine may be faster or slower than it was: most builds are to be killed, some to end first.
        longest *= 1.02 if all(process.returncode for process in running) else 0.9
        moment = f"seed {SEED}, kill {kills}"
        check_cache(cache, moment)
        if rounds % 3 == 0:
            for place in places:
                ran = logos(place, "build", "-v", "--cache", os.fspath(cache))
                assert ran.returncode == 0, f"{moment}: {ran.stderr}"
                assert "warning" not in ran.stderr, f"{moment}: {ran.stderr}"
                assert tree(place / "build") == expected[item], moment
                fetched += ran.stderr.count("[cache] ")
        print(f"{kills} builds killed in {rounds} rounds; {fetched} steps fetched by those between", flush=True)
    check_cache(cache, "the end")
    assert fetched > 0
