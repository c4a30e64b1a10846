"""A model as a wheel: the real `python -m build`, over the example that is shipped."""

from __future__ import annotations

import importlib.util
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from foreign import ROOT, built, replace, run

EXAMPLE = ROOT / "integrations/hatch/example"
INSIDE = "first_model/first/rdu-sambaflow/"

THERE = all(map(importlib.util.find_spec, ("build", "hatchling")))

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not THERE, reason="needs build: pip install build hatchling")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "a model"))


def build(project: Path, installation: Path, *flags: str, code: int = 0) -> str:
    """Runs `python -m build` without a network's need: with what is installed."""
    return run(project, installation / "bin/python", "-m", "build", "--no-isolation", *flags, code=code)


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def test_a_wheel_holds_the_artifact_that_logos_builds(project: Path, installation: Path) -> None:
    expected = {INSIDE + file: data for file, data in built(project, "first.lg", "--target", "rdu-sambaflow").items()}
    build(project, installation)  # the source distribution, and the wheel from that
    wheel = project / "dist/first_model-1.0-py3-none-any.whl"
    assert contents(wheel) == expected

    first = wheel.read_bytes()
    build(project, installation, "--wheel")
    made = {path: path.stat().st_mtime_ns for path in (project / "build").rglob("*") if path.is_file()}
    assert wheel.read_bytes() == first
    build(project, installation, "--wheel")
    artifact = {path: time for path, time in made.items() if ".logos" not in path.parts}
    assert {path: path.stat().st_mtime_ns for path in artifact} == artifact
    assert wheel.read_bytes() == first

    replace(project / "first.lg", "item 6 of W to 3", "item 6 of W to 4")
    build(project, installation, "--wheel")
    changed = contents(wheel)
    assert changed[INSIDE + "weights.safetensors"] != expected[INSIDE + "weights.safetensors"]


def test_a_wheel_with_a_program_of_this_machine_s_is_of_this_platform(
    project: Path, installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = tmp_path / "cuda/bin"
    toolkit.mkdir(parents=True)
    nvcc = toolkit / "nvcc"
    nvcc.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && { echo 'release 13.0, V13.0.88'; exit; }\n"
        '[ "$1" = -dryrun ] && exit\n'
        'while [ $# -gt 0 ]; do case "$1" in -o) o=$2;; -MF) : > "$2";; esac; shift; done\n'
        'echo made > "$o"; chmod +x "$o"\n'
    )
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", os.fspath(tmp_path / "cuda"))
    replace(project / "logos.toml", "rdu-sambaflow", "cuda")
    replace(project / "pyproject.toml", "hooks.logos]", 'hooks.logos]\ninto = "models"\nmembers = ["first"]')
    build(project, installation, "--wheel")
    (wheel,) = (project / "dist").iterdir()
    assert wheel.name.startswith("first_model-1.0-py3-none-linux_")
    assert {"models/first/cuda/forward", "models/first/cuda/forward.cu"} <= set(contents(wheel))


def test_a_program_that_is_refused_makes_no_wheel(project: Path, installation: Path) -> None:
    replace(project / "first.lg", "x matmul W", "x matmul V")
    said = build(project, installation, "--wheel", code=1)
    assert "first.lg:5:19: V is not declared [undeclared-name]" in said
    assert "logos build made nothing for the wheel" in said
    assert not list((project / "dist").glob("*.whl"))
