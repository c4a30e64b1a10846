"""Finding a CUDA toolkit: where it is looked for, what it must be, and what is said where it is not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_nvcc import make_compiler, make_toolkit, without_nvcc

import logos_cuda.compiling
import logos_cuda.toolkit
from logos import Refused
from logos_cuda.compiling import arch_flags, architectures
from logos_cuda.gpu import Gpu, find_gpu
from logos_cuda.toolkit import PACKAGES, find_toolkit, host_compiler_refusals

INSTALL = (
    "pip install 'logos-build[cuda]' (some 370 MB), or install NVIDIA's toolkit and set CUDA_HOME; "
    "-D compile=off writes the source without it"
)


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No toolkit but those of a test."""
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    monkeypatch.setenv("PATH", without_nvcc(os.environ["PATH"]))
    _packages(monkeypatch, {})


def _packages(monkeypatch: pytest.MonkeyPatch, versions: Mapping[str, str], folder: Path = Path()) -> None:
    """PyPI's packages of these versions, with their files in a folder."""

    def distribution(name: str) -> SimpleNamespace:
        if name not in versions:
            raise PackageNotFoundError(name)
        files = [Path("nvidia/cu13/include/a.h"), Path("nvidia/cu13/bin/nvcc")]
        return SimpleNamespace(version=versions[name], files=files, locate_file=lambda file: folder / file)

    monkeypatch.setattr(logos_cuda.toolkit, "distribution", distribution)


def refusal(error: pytest.ExceptionInfo[Refused]) -> tuple[str, str, str]:
    (one,) = error.value.refusals
    return one.code, one.what, one.next


def test_the_home_comes_before_the_path_and_the_path_before_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, path = make_toolkit(tmp_path / "home", "12.9.1"), make_toolkit(tmp_path / "path", "13.1.2")
    packaged = make_toolkit(tmp_path / "site/nvidia/cu13", "13.0.3")
    _packages(monkeypatch, dict.fromkeys(PACKAGES, "13.0.3"), tmp_path / "site")
    found = find_toolkit()
    assert found.label == f"nvcc 13.0.3 ({packaged.nvcc}, from PyPI's packages)"
    assert found.library_flags == (f"-L{tmp_path}/site/nvidia/cu13/lib",)
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin{os.pathsep}{os.environ['PATH']}")
    assert find_toolkit().label == f"nvcc 13.1.2 ({path.nvcc}, from PATH)"
    monkeypatch.setenv("CUDA_HOME", os.fspath(tmp_path / "home"))
    (tmp_path / "home/targets").mkdir()
    assert find_toolkit().label == f"nvcc 12.9.1 ({home.nvcc}, from CUDA_HOME)"
    assert find_toolkit().library_flags == ()


def test_no_toolkit_at_all_says_what_to_install() -> None:
    with pytest.raises(Refused) as error:
        find_toolkit()
    what = "there is no CUDA toolkit: neither CUDA_HOME, PATH nor PyPI's packages have an nvcc"
    assert refusal(error) == ("no-cuda-toolkit", what, INSTALL)


def test_a_home_without_an_nvcc_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", os.fspath(tmp_path))
    with pytest.raises(Refused) as error:
        find_toolkit()
    what = f"CUDA_HOME is {tmp_path}, and there is no {tmp_path}/bin/nvcc"
    assert refusal(error) == ("no-cuda-toolkit", what, f"set CUDA_HOME to a toolkit, or unset it; {INSTALL}")


def test_an_old_toolkit_and_one_that_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit = make_toolkit(tmp_path / "home", "11.8.89")
    monkeypatch.setenv("CUDA_HOME", os.fspath(toolkit.home))
    with pytest.raises(Refused) as error:
        find_toolkit()
    label = f"nvcc 11.8.89 ({toolkit.nvcc}, from CUDA_HOME)"
    assert refusal(error) == ("cuda-toolkit-old", f"{label} is older than 12.0, which the emitted text needs", INSTALL)
    toolkit.says("\nnvcc: cannot load libfoo.so\n")
    with pytest.raises(Refused) as error:
        find_toolkit()
    what = f"{toolkit.nvcc}, found in CUDA_HOME, does not say its version: nvcc: cannot load libfoo.so"
    assert refusal(error) == ("cuda-toolkit-broken", what, "install the toolkit again, or set CUDA_HOME")


def test_packages_of_two_releases_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_toolkit(tmp_path / "nvidia/cu13")
    versions = {**dict.fromkeys(PACKAGES[:4], "13.0.88"), "nvidia-cuda-cccl": "13.0.85", "nvidia-nvvm": "13.5.37"}
    _packages(monkeypatch, versions, tmp_path)
    with pytest.raises(Refused) as error:
        find_toolkit()
    listed = (
        "nvidia-cuda-nvcc 13.0.88, nvidia-cuda-runtime 13.0.88, nvidia-cuda-crt 13.0.88, nvidia-cuda-cccl 13.0.85, "
        "nvidia-nvvm 13.5.37"
    )
    what = f"PyPI's packages are not of one release: {listed}"
    assert refusal(error) == ("cuda-toolkit-mixed", what, "pip install --upgrade 'logos-build[cuda]'")
    _packages(monkeypatch, {**versions, "nvidia-nvvm": "13.0.2"}, tmp_path)
    assert find_toolkit().version == "13.0.88"


def test_architectures_are_those_that_the_toolkit_builds_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", os.fspath(make_toolkit(tmp_path / "home").home))
    toolkit = find_toolkit()
    assert architectures(("sm_120", "sm_90a", "sm_80", "sm_90a"), toolkit) == ("sm_80", "sm_90a", "sm_120")
    monkeypatch.setattr(logos_cuda.compiling, "find_gpu", lambda: None)
    with pytest.raises(Refused) as error:
        architectures(("sm_70", "native"), toolkit)
    assert [(one.code, one.what) for one in error.value.refusals] == [
        ("unknown-arch", "nvcc 13.0.88 does not build for sm_70"),
        ("no-gpu", "arch native asks this machine's GPU, and it has none"),
    ]
    assert error.value.refusals[0].next == "it builds for sm_80, sm_86, sm_90, sm_120"
    monkeypatch.setattr(logos_cuda.compiling, "find_gpu", lambda: Gpu("a GPU", "sm_86"))
    assert architectures(("native", "sm_80"), toolkit) == ("sm_80", "sm_86")


def test_machine_code_for_each_architecture_and_ptx_of_the_newest_that_has_a_future() -> None:
    assert arch_flags(("sm_80", "sm_90a")) == (
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_80,code=compute_80",
    )
    assert arch_flags(("sm_90a",)) == ("-gencode=arch=compute_90a,code=sm_90a",)


def test_a_host_compiler_that_the_toolkit_does_not_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", os.fspath(make_toolkit(tmp_path / "home", gnu=15).home))
    toolkit, command = find_toolkit(), tmp_path / "cxx"
    said = []
    for macro in ("__GNUC__ 16", "__GNUC__ 15", "__clang_major__ 21", "__clang_major__ 15", "__clang_major__ 16"):
        make_compiler(command, macro)
        said.append([one.what for one in host_compiler_refusals(toolkit, os.fspath(command))])
    assert said == [
        [f"the host compiler {command} is gcc 16; nvcc 13.0.88 takes gcc up to 15"],
        [],
        [f"the host compiler {command} is clang 21; nvcc 13.0.88 takes clang 16 to 20"],
        [f"the host compiler {command} is clang 15; nvcc 13.0.88 takes clang 16 to 20"],
        [],
    ]
    make_compiler(command, "__GNUC__ 16")
    monkeypatch.setenv("NVCC_CCBIN", os.fspath(command))
    (one,) = host_compiler_refusals(toolkit, "")
    assert (one.code, one.next) == ("host-compiler-version", "install one of those and name it with -D ccbin=PATH")
    (one,) = host_compiler_refusals(toolkit, "g++-that-is-not")
    assert (one.code, one.what) == (
        "no-host-compiler",
        "nvcc needs a host compiler, and there is no g++-that-is-not",
    )


DRIVER = """\
#include <stdlib.h>
#include <string.h>
extern "C" int cuInit(unsigned) { return getenv("NO_DEVICE") ? 100 : 0; }
extern "C" int cuDeviceGetCount(int *count) { return *count = getenv("NONE") ? 0 : 2, 0; }
extern "C" int cuDeviceGet(int *device, int ordinal) { return *device = ordinal + 7, 0; }
extern "C" int cuDeviceGetName(char *name, int, int device) { return memcpy(name, "Test \\xff", 7), device - 7; }
extern "C" int cuDeviceGetAttribute(int *value, int what, int) { return *value = what == 75 ? 12 : 1, what / 77; }
"""


def test_the_first_gpu_of_the_driver_s_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "driver.cc").write_text(DRIVER)
    command = ["g++", "-shared", "-fPIC", os.fspath(tmp_path / "driver.cc"), "-o", os.fspath(tmp_path / "driver.so")]
    subprocess.run(command, check=True)
    monkeypatch.setattr(logos_cuda.gpu, "_LIBRARY", os.fspath(tmp_path / "driver.so"))
    assert find_gpu() == Gpu("Test \ufffd", "sm_121")
    for variable in ("NO_DEVICE", "NONE"):
        monkeypatch.setenv(variable, "1")
        assert find_gpu() is None
        monkeypatch.delenv(variable)


def test_a_machine_without_the_driver_s_library_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logos_cuda.gpu, "_LIBRARY", "libcuda-that-is-not.so.1")
    assert find_gpu() is None
