"""Real toolkits: what nvcc makes is the same in every folder and by every toolkit of a version, PyPI's too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from logos import Refused
from logos_cuda.toolkit import PACKAGES, Toolkit, find_toolkit

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/llama/llama.lg"
ODD = "out folder $HOME $$ a:b"
MADE = ("forward.cu", "forward.o", "forward")

pytestmark = pytest.mark.slow


@pytest.fixture
def toolkit() -> Toolkit:
    """The toolkit that is installed."""
    try:
        return find_toolkit()
    except Refused as refused:
        pytest.skip(f"no CUDA toolkit: {refused.refusals[0].next}")


def build(python: str | Path, out: Path, environment: dict[str, str] | None = None) -> str:
    command = [os.fspath(python), "-m", "logos", "build", os.fspath(EXAMPLE), "--target", "cuda", "--out", out.name]
    out.parent.mkdir(parents=True, exist_ok=True)
    ran = subprocess.run(command, cwd=out.parent, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_two_folders_give_the_same_bytes_and_then_there_is_nothing_to_do(toolkit: Toolkit, tmp_path: Path) -> None:
    one, other = tmp_path / "one/out", tmp_path / f"other {ODD}" / ODD
    said = build(sys.executable, one)
    assert f"  with {toolkit.label}\n" in said
    build(sys.executable, other)
    assert sorted(contents(one)) == sorted(MADE)
    assert contents(one) == contents(other)
    assert os.fsencode(tmp_path) not in b"".join(contents(one).values())
    assert "nothing to do: 1 artifact up to date" in build(sys.executable, other)
    program = (one / "forward").read_bytes()
    assert [arch for arch in (b"-arch sm_80 ", b"-arch sm_90 ") if arch not in program] == []


def test_what_nvcc_read_is_known_to_ninja(toolkit: Toolkit, tmp_path: Path) -> None:
    build(sys.executable, tmp_path / ODD)
    ninja = shutil.which("ninja", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert ninja is not None
    command = [ninja, "-C", os.fspath(tmp_path / ODD / ".logos"), "-t", "deps"]
    known = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "/cuda_runtime.h\n" in known
    assert "forward.cu" not in known


def test_pypi_s_packages_alone_build_the_same(toolkit: Toolkit, tmp_path: Path) -> None:
    python = tmp_path / "environment/bin/python"
    venv.create(tmp_path / "environment", with_pip=True, symlinks=True)
    wanted = [f"{name}=={'.'.join(toolkit.version.split('.')[:2])}.*" for name in PACKAGES]
    pip = [os.fspath(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *wanted, "ninja>=1.13"], check=True)
    # LOGOS and what it needs come from here: they hold no compiler.
    places = [sysconfig.get_path("purelib"), *(ROOT / folder for folder in ("core", "plugins/cuda", "plugins/gguf"))]
    (site,) = (tmp_path / "environment/lib").glob("python3*/site-packages")
    (site / "here.pth").write_text("\n".join(map(os.fspath, places)) + "\n")
    assert not any(Path(folder, "nvcc").exists() for folder in ("/usr/bin", "/bin"))
    environment = {"PATH": "/usr/bin:/bin"}
    out = tmp_path / ODD
    assert "from PyPI's packages)\n" in build(python, out, environment)
    assert "nothing to do: 1 artifact up to date" in build(python, out, environment)
    build(sys.executable, tmp_path / "here")
    if find_toolkit().version == toolkit.version:
        assert contents(out) == contents(tmp_path / "here")
