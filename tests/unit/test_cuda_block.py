"""Kind moe: a block over weight files in either set of kernels, captured as a graph; the library's own block."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_sets import block, weights_of
from test_driver import run

from logos import Refused, Request, make_job, make_manager
from logos.ops.experts import moe
from logos_cuda import MoeSpec, emit_moe_forward, moe_dp4a_kernels
from logos_cuda.host_build import compile_host

SPEC = MoeSpec(96, 64, 8, 3)
BOUNDS = {True: 2e-2, False: 1e-4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The block of a single pass, built with the sanitizers, and its weights."""
    folder = tmp_path_factory.mktemp("block")
    build_block(folder, True)
    return folder


def build_block(folder: Path, single_pass: bool) -> None:
    if not (folder / str(single_pass)).exists():
        text = emit_moe_forward(SPEC, weights_of(SPEC, folder), fills=((0, 1.5), (95, -2.0)), single_pass=single_pass)
        source = folder / f"{single_pass}.cu"
        source.write_text(text, encoding="utf-8")
        compile_host(source, folder / str(single_pass), sanitize=True, flags=["-O1"])


@pytest.mark.slow
@pytest.mark.parametrize("single_pass", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("graph", [True, False])
def test_a_block_gives_the_reference_s_moe(folder: Path, tmp_path: Path, single_pass: bool, graph: bool) -> None:
    x = np.random.default_rng(4).standard_normal((1, SPEC.d)).astype(np.float32)
    x.tofile(tmp_path / "x.raw")
    build_block(folder, single_pass)
    for value, given in ((x, ("--set", f"x={tmp_path}/x.raw")), (np.eye(1, 96) * 1.5 + np.eye(1, 96, 95) * -2, ())):
        more = () if graph else ("--no-graph",)
        out, err = run(folder / str(single_pass), "--weights", str(folder), *given, *more)
        assert err == ""
        due = moe(value.astype(np.float64), *block(SPEC), SPEC.K, SPEC.E)
        off = np.abs(np.array(out.split(), float) - due[0]).max() / np.abs(due).max()
        assert off <= BOUNDS[single_pass]
        assert off > 1e-8  # quantized it is


@pytest.mark.slow
def test_a_score_that_is_no_number_is_in_every_result(folder: Path, tmp_path: Path) -> None:
    router = block(SPEC)[0].astype("<f4")
    router[SPEC.E - 1, 5] = np.nan
    router.tofile(tmp_path / "r.raw")
    x = np.ones((1, SPEC.d), "<f4")
    x.tofile(tmp_path / "x.raw")
    given = ("--set", f"Wr={tmp_path}/r.raw", "--set", f"x={tmp_path}/x.raw")
    assert np.isnan(moe(x.astype(float), router.astype(float), *block(SPEC)[1:], SPEC.K, SPEC.E)).all()
    assert run(folder / "True", "--weights", str(folder), *given)[0].split() == ["NaN"] * SPEC.d


@pytest.mark.slow
def test_the_graph_is_launched_again_and_timed(folder: Path) -> None:
    once, _ = run(folder / "True", "--weights", str(folder))
    out, err = run(folder / "True", "--weights", str(folder), "--repeat", "3")
    assert out == once
    assert re.fullmatch(r"3 times, \d+\.\d{3} us each\n", err)
    out, _ = run(folder / "True", "--weights", str(folder), "--get", "y,x", "--repeat", "1")
    assert out.startswith("y = [[")
    assert "\nx = [[1.5, 0, " in out


@pytest.mark.slow
def test_a_graph_that_cannot_be_captured_is_not_used(folder: Path, tmp_path: Path) -> None:
    """An allocation within the capture: the kernels are launched one by one, and give the same."""
    text = (folder / "True.cu").read_text("utf-8")
    marked = "void stage_0() {\n"
    assert text.count(marked) == 1
    more = "    void *at; CHECK(cudaMalloc(&at, 16));\n"
    (tmp_path / "m.cu").write_text(text.replace(marked, marked + more), encoding="utf-8")
    compile_host(tmp_path / "m.cu", tmp_path / "m", flags=["-O1"])
    out, err = run(tmp_path / "m", "--weights", str(folder))
    assert err.startswith("no graph of the block (")
    assert err.endswith("): its kernels are launched one by one\n")
    assert out == run(folder / "True", "--weights", str(folder))[0]


def test_the_count_of_experts_changes_no_kernel() -> None:
    def kernels(spec: MoeSpec) -> list[str]:
        text = emit_moe_forward(spec, weights_of(spec, Path("w"), write=False))
        return re.findall(r'^extern "C" .*$', text, re.MULTILINE)

    first = kernels(SPEC)
    assert len(first) == 4
    for experts in (4, 16, 31, 64, 128):
        assert kernels(replace(SPEC, E=experts, K=min(8, experts))) == first


def test_the_sets_differ_and_hold_what_a_block_launches() -> None:
    single, double = moe_dp4a_kernels(), moe_dp4a_kernels(single_pass=False)
    assert set(re.findall(r"(\w+)_kernel\(", single)) == {
        "router_by_blocks", "quantize", "experts_hidden_quantized", "experts_down_q8"
    }  # fmt: skip
    assert set(re.findall(r"(\w+)_kernel\(", double)) == {
        "router_by_blocks", "quantize_twice", "experts_hidden_q8_two_pass", "experts_down_q8_two_pass"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spec": replace(SPEC, E=9)}, f"the weights are of {replace(SPEC, E=9)}, not {SPEC}"),
        ({"router": Path("r.bin")}, "r.bin is not named r.f32"),
        ({"gate": ("quants", Path("g.int8"))}, "g.int8 is not named g.q"),
        ({"up": ("scales", Path("u2.s"))}, "b.up.q and u2.s are not named alike"),
        ({"down": ("rows", 3)}, "Ed is 3 by 64, not 768 by 64"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_refused(change: dict[str, object], said: str) -> None:
    weights = weights_of(SPEC, Path("w"), write=False)
    made = {
        name: replace(getattr(weights, name), **{value[0]: value[1]}) if isinstance(value, tuple) else value
        for name, value in change.items()
    }
    with pytest.raises(ValueError, match=re.escape(said)):
        emit_moe_forward(SPEC, replace(weights, **made))  # type: ignore[arg-type]


MOE = "Let y be moe of x with router r gate g up u down w top 1 of 2 experts.\n"
HEAD = "".join(f"Let {name} be a {rows} by 4 tensor of Real.\n" for name, rows in (
    ("x", 1), ("r", 2), ("g", 8), ("u", 8), ("w", 8), ("S", 2)))  # fmt: skip


@pytest.mark.parametrize(
    ("text", "has"),
    [
        (HEAD + "Let y be x plus x.\n", "0 of them"),
        (HEAD + MOE + MOE.replace("Let y", "Let z"), "2 of them"),
        (HEAD + MOE + "Set row 0 of S to y.\nLet z be y plus y.\n", "the state S"),
    ],
)
def test_a_program_that_is_no_block(tmp_path: Path, text: str, has: str) -> None:
    (tmp_path / "p.lg").write_text(text, encoding="utf-8")
    with pytest.raises(Refused) as error:
        make_job(make_manager(), Request(tmp_path / "p.lg", options={"kind": "moe"}), "cuda")
    assert [one.text() for one in error.value.refusals] == [
        f"{tmp_path}/p.lg: kind moe takes a program with one moe and no state; this one has {has} [not-a-moe-block]\n"
        "  next: leave the option out, for kind forward"
    ]
