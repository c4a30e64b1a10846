"""Programmatic dependent launch: kernels that may begin early wait themselves; `-D pdl=off` launches none so."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from toy_build import Toy

from logos_cuda.host_build import compile_host

PROGRAM = """\
Let x be a 1 by 4 tensor of Real.
Set item 2 of x to 3.
Let y be silu of x.
Let z be softmax of y.
"""


def emitted(toy: Toy, *options: str) -> str:
    toy.write("p.lg", PROGRAM)
    given = [word for option in ("compile=off", *options) for word in ("-D", option)]
    assert toy.build("p.lg", "--target", "cuda", "--out", "made", *given).code == 0
    return (toy.folder / "made/forward.cu").read_text("utf-8")


def ran(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    source = folder / "forward.cu"
    source.write_text(text, encoding="utf-8")
    compile_host(source, folder / "forward", flags=["-O0"])
    return subprocess.run([folder / "forward"], capture_output=True, text=True, check=False)


def test_every_kernel_waits_before_it_does_anything(toy: Toy) -> None:
    kernels = re.findall(r'^extern "C" __global__ .*$', emitted(toy), re.MULTILINE)
    assert len(kernels) == 2
    for kernel in kernels:
        assert " { logos_begin(); " in kernel


def test_a_kernel_that_does_not_wait_is_found_unless_none_begins_early(toy: Toy, tmp_path: Path) -> None:
    text = emitted(toy)
    assert ran(text, tmp_path).returncode == 0
    hasty = text.replace("logos_begin(); softmax", "softmax")
    found = ran(hasty, tmp_path)
    assert found.returncode == 86
    assert found.stderr == (
        "host: kernel softmax_narrow_kernel may begin before the launch before it has ended, "
        "and 256 of its 256 threads did not wait\n"
        "  next: let every thread call logos_begin before it reads what another kernel wrote\n"
    )
    off = emitted(toy, "pdl=off")
    assert off == f"#define LOGOS_PDL 0  // -D pdl=off\n{text}"
    assert ran(off.replace("logos_begin(); softmax", "softmax"), tmp_path).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc on PATH")
@pytest.mark.parametrize(("arch", "waits"), [("sm_80", 0), ("sm_90", 1), ("sm_120", 1)])
def test_kernels_wait_before_they_load_from_sm_90_on(toy: Toy, arch: str, waits: int) -> None:
    emitted(toy)
    command = ["nvcc", "-std=c++17", f"-arch={arch}", "-ptx", "-o", "made/f.ptx", "made/forward.cu"]
    subprocess.run(command, cwd=toy.folder, check=True)
    bodies = re.split(r"\.entry \w+\(", (toy.folder / "made/f.ptx").read_text("utf-8"))[1:]
    assert len(bodies) == 2
    for body in bodies:
        assert body.count("griddepcontrol.wait") == body.count("griddepcontrol.launch_dependents") == waits
        if waits:
            assert not re.search(r"ld\.global|st\.global|ld\.shared", body.partition("griddepcontrol.wait")[0])
