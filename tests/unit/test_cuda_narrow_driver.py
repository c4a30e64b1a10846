"""The emitted program with weights in Q8_0 and tables of float16: their files, what starts without one, reading out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_driver import ramp, raw, run

from logos import Source
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS
from logos.weights.q8 import quantize, split
from logos_cuda.emit import emit_forward
from logos_cuda.host_build import compile_host
from logos_cuda.lower import stored_graph
from logos_cuda.storage import Multiply, Storage

PROGRAM = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 7 by 32 tensor of Real.
Let W be a 32 by 5 tensor of Real.
Set item 1 of W to 0.1.
Let K be a 4 by 32 tensor of Real.
Set item 2 of K to 0.1.
Let x be row tok of emb.
Set row pos of K to x.
Let a be attention of x over K and K with 1 heads 1 groups up to pos.
Let y be a matmul W.
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("narrow")
    graph = read_program(Source("p.lg", PROGRAM), make_grammar(OPS))
    storage = Storage(frozenset({"emb", "W"}), Multiply.EXACT, half=True)
    (folder / "forward.cu").write_text(emit_forward(stored_graph(graph, storage)), encoding="utf-8")
    compile_host(folder / "forward.cu", folder / "forward", sanitize=True, flags=["-O1"])
    return folder / "forward"


def kept(rows: np.ndarray) -> np.ndarray:
    """Rows as Q8_0 keeps them."""
    quants, scales = split(quantize(rows).view(np.uint8))
    return (quants * np.repeat(scales, 32, axis=1)).astype(np.float32)


def got(program: Path, folder: Path, name: str, *arguments: str) -> np.ndarray:
    run(program, *arguments, "--tokens", "3", "--get", name, "--dump", str(folder / "out"))
    return np.load(folder / "out" / f"{name}.npy")[-1]


def values() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {"emb": random.standard_normal((7, 32)).astype(np.float32),
            "W": random.standard_normal((32, 5)).astype(np.float32)}  # fmt: skip


def test_what_has_no_file_is_rounded_as_it_starts(program: Path, tmp_path: Path) -> None:
    assert np.array_equal(got(program, tmp_path, "emb"), kept(ramp(7, 32)))
    weight = np.zeros((32, 5), np.float32)
    weight[0, 0] = 0.1
    assert np.array_equal(got(program, tmp_path, "W"), kept(weight.T).T)
    table = got(program, tmp_path, "K@0")
    assert table[0, 1] == np.float16(0.1)
    assert np.count_nonzero(table) == 1


def test_files_of_floats_are_rounded_as_the_reference_quantizer_rounds(program: Path, tmp_path: Path) -> None:
    given = values()
    given["emb"][0] = np.arange(32) - 15.5  # ties, by a step of 1
    given["emb"][0, 0] = 127
    given["emb"][2] *= np.float32(1e-6)
    given["emb"][3, :5] = 0
    given["emb"][4] = 0
    given["emb"][5] *= np.float32(6e4)
    given["emb"][6] *= np.float32(1e-41)
    weights = ("--weights", str(raw(tmp_path / "w", emb=given["emb"], W=np.ascontiguousarray(given["W"].T))))
    assert np.array_equal(got(program, tmp_path, "emb", *weights), kept(given["emb"]))
    assert np.array_equal(got(program, tmp_path, "W", *weights), kept(np.ascontiguousarray(given["W"].T)).T)
    for beyond in (np.inf, -np.inf, np.nan, 8.4e6):  # the last makes a scale beyond float16
        given["emb"][1, 1] = beyond
        given["emb"].tofile(tmp_path / "e.raw")
        said = run(program, "--set", f"emb={tmp_path}/e.raw", code=1)[1]
        assert said == "emb holds a value that Q8_0 cannot\n"


def test_tables_are_rounded_to_the_nearest_float16(program: Path, tmp_path: Path) -> None:
    tables = (np.arange(128, dtype=np.uint16) * 248).view(np.float16).astype(np.float32)
    tables[::3] *= -1
    # Half a step off, and what lies beyond: ties go to the even one.
    steps = np.spacing(np.abs(tables.astype(np.float16))).astype(np.float32) / 2
    odd = np.where(np.arange(128) % 2, np.float32(np.nan), np.float32(-np.inf))
    for table in (odd, tables, tables + steps, tables * np.float32(1.0003), np.float32(-65519.99) + 0 * tables,
                  np.float32(65520) + 0 * tables):  # fmt: skip
        table.astype("<f4").tofile(tmp_path / "k.raw")
        found = got(program, tmp_path, "K@0", "--set", f"K={tmp_path}/k.raw")
        with np.errstate(over="ignore"):
            due = table.astype(np.float16).astype(np.float32)
        assert np.array_equal(found.reshape(-1), due, equal_nan=True)


def test_quants_and_scales_are_read_as_they_are(program: Path, tmp_path: Path) -> None:
    given, folder = values(), tmp_path / "w"
    folder.mkdir()
    rows = {"emb": given["emb"], "W": np.ascontiguousarray(given["W"].T)}
    for name, array in rows.items():
        quants, scales = split(quantize(array).view(np.uint8))
        quants[quants == 127] = 90  # no quantizer's choice
        quants.tofile(folder / f"{name}.q")
        scales.tofile(folder / f"{name}.s")
        rows[name] = quants * np.repeat(scales, 32, axis=1)
    assert np.array_equal(got(program, tmp_path, "emb", "--weights", str(folder)), rows["emb"])
    y = got(program, tmp_path, "y", "--weights", str(folder))
    x = rows["emb"][3].astype(np.float16).astype(np.float64)
    assert np.allclose(y[0], rows["W"].astype(np.float64) @ x, rtol=0, atol=1e-6)
    assert "W\t32\t5\tReal\tq s transposed\n" in run(program, "--list")[0]


def test_files_of_another_length_and_files_that_are_missing(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "emb.q").write_bytes(bytes(223))
    (folder / "W.q").write_bytes(bytes(160))
    said = run(program, "--weights", str(folder), code=1)[1]
    assert said == f"{folder}/emb.q holds 223 bytes; emb, 7 by 32 of Real, takes 224\n"
    (folder / "emb.q").write_bytes(bytes(224))
    assert run(program, "--weights", str(folder), code=1)[1] == (
        f"cannot read {folder}/emb.s: No such file or directory\n"
    )
    (folder / "emb.s").write_bytes(bytes(24))
    said = run(program, "--weights", str(folder), code=1)[1]
    assert said == f"{folder}/emb.s holds 24 bytes; emb, 7 by 32 of Real, takes 28\n"
