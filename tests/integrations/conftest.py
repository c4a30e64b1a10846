"""LOGOS as users install it, for other people's tools."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from foreign import ROOT, run

from logos.ninja_run import find_ninja

DEBIAN = Path("/usr/bin/python3")


def _interpreter() -> Path:
    """The system's own Python where it takes this one's packages: everyone may enter where it lies."""
    question = "import sys; print(*sys.version_info[:2])"
    said = subprocess.run([DEBIAN, "-c", question], capture_output=True, text=True) if DEBIAN.exists() else None
    same = said is not None and said.stdout.split() == list(map(str, sys.version_info[:2]))
    return DEBIAN if same else Path(sys.executable)


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that the wheel of these sources is installed in; of other packages it sees those that the
    tests see."""
    folder = tmp_path_factory.mktemp("installation")
    here = importlib.util.find_spec("hatchling") is not None
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    run(ROOT, *pip, "wheel", "--no-deps", *(["--no-build-isolation"] if here else []), "-w", folder, ROOT)
    venv = folder / "venv"
    run(folder, _interpreter(), "-m", "venv", "--without-pip", venv)
    (packages,) = venv.glob("lib/python*/site-packages")
    seen = [path for path in sys.path if path.endswith("-packages")]
    (packages / "of_the_tests.pth").write_text("\n".join(map(os.path.abspath, seen)) + "\n")
    (venv / "bin/ninja").symlink_to(find_ninja())
    run(folder, *pip, "--python", venv / "bin/python", "install", "--no-deps", "--no-index", *folder.glob("*.whl"))
    return venv
