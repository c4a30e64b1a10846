"""Weights in Q8_0 and quantized activations at their edges, and what their kernels become in PTX."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import narrow_cases
import numpy as np
import pytest
from kernel_bench import KERNELS, Array, Bench, Case, differences
from kernel_cases import case
from narrow_cases import dp4a, exact, quantized

from logos.weights.q8 import split
from logos_cuda.stages import Buffer, Kernel
from logos_cuda.storage import Storage

pytestmark = pytest.mark.slow  # compiling the kernels of every storage takes half a minute
K, N = 64, 9
STORAGES = (exact("b"), dp4a("b"))


class Stored(Case):
    """A product whose weight is given as blocks, such as no quantizer makes."""

    blocks_: Array

    def stored(self) -> dict[Buffer, Array]:
        found = super().stored()
        (weight,) = [buffer for buffer in found if buffer.scales is not None]
        assert weight.scales is not None
        found[weight], scales = split(self.blocks_)
        found[weight.scales] = scales.astype(np.float16)
        return found


def product(a: Array, storage: Storage, blocks: Array | None = None) -> Case:
    """a times b, whose blocks are given or made of noise."""
    b = np.random.default_rng(7).standard_normal((K, N)).astype(np.float32)
    made = case({"a": a, "b": b}, "Let y be a matmul b.")
    if blocks is None:
        return replace(made, storage=storage)
    stored = Stored(made.text, made.values, storage=storage)
    stored.blocks_ = blocks
    return stored


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    kernels = [kernel for rows in (1, 3) for storage in STORAGES
               for kernel in product(np.zeros((rows, K), np.float32), storage).graph.kernels]  # fmt: skip
    return Bench(tmp_path_factory.mktemp("narrow"), kernels)


def y_of(bench: Bench, made: Case) -> Array:
    result = bench.run([made])[0]
    assert result.fault is None
    return result.arrays["y"]


def test_blocks_that_no_quantizer_makes(bench: Bench) -> None:
    """Scales of zero, denormal, the largest and negative; quants from -128 to 127."""
    random = np.random.default_rng(3)
    blocks = np.zeros((N, K // 32), dtype=[("d", "<f2"), ("q", "i1", (32,))])
    blocks["q"] = random.integers(-128, 128, (N, K // 32, 32))
    blocks["q"][0, 0, :2] = -128, 127
    blocks["d"] = random.choice(np.array([0, 6e-8, -6e-8, 6.1e-5, 65504, -1], np.float16), (N, K // 32))
    raw = blocks.view(np.uint8).reshape(N, -1)
    for rows in (1, 3):
        a = np.full((rows, K), -6e4, np.float32) + random.integers(0, 2, (rows, K)).astype(np.float32) * 12e4
        for storage in STORAGES:
            made = product(a, storage, raw)
            rounded = {"a": quantized(a)} if storage.multiply.value == "dp4a" else {}
            made.bound, made.rounded = 5e-7, rounded
            assert differences(made, bench.run([made])[0]) == []


@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-39, 3e-37, 1.4e-36, 1e-30, 6e4, 1e34])
def test_activations_of_any_size_give_numbers(bench: Bench, size: float) -> None:
    a = np.random.default_rng(1).uniform(-1, 1, (3, K)).astype(np.float32) * np.float32(size)
    a[1, :32] = 0
    for storage in STORAGES:
        made = product(a, storage)
        found = y_of(bench, made)
        assert np.isfinite(found).all()
        due = made.expected()["y"]
        # Below the least normal float a step counts as 0.
        assert np.abs(found - due).max() <= 2e-2 * np.abs(due).max() + 1e-35


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("storage", STORAGES, ids=["exact", "dp4a"])
def test_what_is_no_number_stays_none(bench: Bench, odd: float, storage: Storage) -> None:
    """Of several rows only the one that it stands in is without a value."""
    a = np.ones((3, K), np.float32)
    a[1, 40] = odd
    found = y_of(bench, product(a, storage))
    assert np.isfinite(found[[0, 2]]).all()
    assert not np.isfinite(found[1]).any()


def kernels(*names: str) -> tuple[Kernel, ...]:
    specs = [spec for spec in narrow_cases.SPECS if spec.name.startswith(names)]
    found = dict.fromkeys(k for spec in specs for one in spec.cases(range(3, 5)) for k in one.graph.kernels)
    return tuple(kernel for kernel in found if re.search("q8|half", kernel.name))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc on PATH")
def test_weights_are_loaded_by_16_bytes_and_multiplied_by_dp4a(tmp_path: Path) -> None:
    """In PTX, of which ptxas makes the machine's 128-bit loads and IDP."""
    chosen = kernels("matvec_q8", "moe_q8", "attention_up_to_128_half")
    source = tmp_path / "k.cu"
    lines = [f'#include "{header}"' for header in sorted({kernel.header for kernel in chosen})]
    source.write_text("\n".join([*lines, *(kernel.text for kernel in chosen)]) + "\n", encoding="utf-8")
    command = ["nvcc", "-std=c++17", "-arch=sm_90", "-ptx", f"-I{KERNELS}", "-o", str(tmp_path / "k.ptx"), str(source)]
    subprocess.run(command, check=True)
    parts = re.split(r"\.entry (\w+)\(", (tmp_path / "k.ptx").read_text("utf-8"))
    bodies = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert set(bodies) == {kernel.name for kernel in chosen}
    for name, body in bodies.items():
        if name.startswith(("matvec_q8", "experts_")):
            # Sixteen products for each 16 bytes of a weight, and a load of 16 bytes of x for each.
            assert len(re.findall("dp4a.s32.s32", body)) >= 16, name
            assert len(re.findall(r"ld.global.nc.v4.[bsu]32", body)) >= 8, name
            assert not re.findall(r"ld.global(?:.nc)?.[bus]8", body), name
        if name.startswith("attention"):
            assert len(re.findall(r"ld.global.nc.v4.[bsu]32", body)) >= 4, name
