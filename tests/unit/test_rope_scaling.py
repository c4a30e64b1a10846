"""Rope tables of a file, at a far position, against the formulas in 40 digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from gguf_writer import gguf, tensor
from logos import AuthorOptions, Refused, Source, Table, make_manager, read_program
from logos.job import open_checkpoint

MANAGER = make_manager()
CONTEXT, POSITION = 8192, 8191
WIDTH, HEADS, HEAD, HIDDEN, VOCABULARY = 256, 2, 128, 32, 8
ORIGINAL = 4096


def write(folder: Path, **scaling: Any) -> Path:
    """A one-layer llama checkpoint of zeros with these `rope.` keys."""
    keys = {
        "block_count": 1, "context_length": 32768, "embedding_length": WIDTH, "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS, "attention.layer_norm_rms_epsilon": 1e-5,
        **{f"rope.{key}": value for key, value in scaling.items()},
    }  # fmt: skip
    block = {
        "attn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH),
        "attn_output": (WIDTH, WIDTH), "ffn_norm": (WIDTH,), "ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH),
        "ffn_down": (WIDTH, HIDDEN),
    }  # fmt: skip
    shapes = {f"blk.0.{name}.weight": shape for name, shape in block.items()}
    shapes |= {"token_embd.weight": (VOCABULARY, WIDTH), "output_norm.weight": (WIDTH,)}
    metadata = {"general.architecture": "llama", **{f"llama.{key}": value for key, value in keys.items()}}
    path = folder / "made.gguf"
    path.write_bytes(gguf(metadata, {name: tensor(np.zeros(shape, np.float32)) for name, shape in shapes.items()}))
    return path


def far_rows(path: Path) -> list[np.ndarray]:
    """Row 8,191 of the cosines and of the sines that the file's program takes."""
    checkpoint = open_checkpoint(MANAGER, path)
    family = MANAGER.family("llama")
    graph = read_program(Source("m.lg", family.author(checkpoint, AuthorOptions(CONTEXT))), MANAGER.grammar)
    rows = []
    for name in ("RopeCos", "RopeSin"):
        (leaf,) = [leaf for leaf in graph.leaves if leaf.name == name]
        view = family.view(name, graph, checkpoint)
        assert isinstance(view, Table)
        assert view.compute is not None
        rows.append(view.compute(*leaf.value.shape)[POSITION])
    return rows


def single(value: float) -> mpf:
    """A number as the file holds it."""
    return mpf(float(np.float32(value)))


def frequencies(base: float) -> list[mpf]:
    return [single(base) ** (mpf(-2 * i) / HEAD) for i in range(HEAD // 2)]


def yarn(base: float, factor: float, original: int, fast: float = 32.0, slow: float = 1.0) -> list[mpf]:
    def dimension(turns: float) -> mpf:
        return HEAD * mp.log(mpf(original) / (2 * mp.pi * single(turns))) / (2 * mp.log(single(base)))

    low, high = max(mp.floor(dimension(fast)), 0), min(mp.ceil(dimension(slow)), HEAD - 1)
    found = []
    for i, f in enumerate(frequencies(base)):
        ramp = min(max((i - low) / max(high - low, mpf("0.001")), mpf(0)), mpf(1))
        found.append(f / single(factor) * ramp + f * (1 - ramp))
    return found


def assert_far(path: Path, expected: list[mpf], scale: mpf) -> None:
    cosines, sines = far_rows(path)
    for i, f in enumerate(expected):
        assert abs(mpf(float(cosines[i])) - mp.cos(POSITION * f) * scale) < 2e-12, i
        assert abs(mpf(float(sines[i])) - mp.sin(POSITION * f) * scale) < 2e-12, i


@pytest.fixture(autouse=True)
def digits() -> Any:
    with mp.workdps(40):
        yield


KEYS = {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": ORIGINAL}


@pytest.mark.parametrize("base", [10000.0, 500000.0, 1000000.0])
def test_yarn_with_its_attention_factor(tmp_path: Path, base: float) -> None:
    path = write(tmp_path, freq_base=base, **KEYS)
    assert_far(path, yarn(base, 4.0, ORIGINAL), mpf("0.1") * mp.log(4) + 1)


def test_yarn_with_the_files_own_betas_and_factors(tmp_path: Path) -> None:
    more = {"scaling.yarn_beta_fast": 20.0, "scaling.yarn_beta_slow": 2.5, "scaling.yarn_attn_factor": 1.25,
            "scaling.attn_factor": 0.75}  # fmt: skip
    path = write(tmp_path, **KEYS, **more)
    assert_far(path, yarn(10000.0, 4.0, ORIGINAL, 20.0, 2.5), mpf("0.9375"))


@pytest.mark.parametrize(("original", "betas"), [(6, (32.0, 1.0)), (ORIGINAL, (6.0, 6.2))])
def test_yarn_where_both_bounds_are_equal(tmp_path: Path, original: int, betas: tuple[float, float]) -> None:
    fast, slow = betas
    scaling = {**KEYS, "scaling.original_context_length": original, "scaling.yarn_beta_fast": fast,
               "scaling.yarn_beta_slow": slow}  # fmt: skip
    path = write(tmp_path, **scaling)
    expected = yarn(10000.0, 4.0, original, fast, slow)
    shares = [float(one / plain) for one, plain in zip(expected, frequencies(10000.0), strict=True)]
    assert set(np.round(shares, 12)) == {1.0, 0.25}, "the bounds of this case are not equal"
    assert_far(path, expected, mpf("0.1") * mp.log(4) + 1)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_yarn_with_a_factor_of_at_most_1_scales_no_attention(tmp_path: Path, factor: float) -> None:
    path = write(tmp_path, **{**KEYS, "scaling.factor": factor})
    assert_far(path, yarn(10000.0, factor, ORIGINAL), mpf(1))


@pytest.mark.parametrize("keys", [{"scaling.type": "linear", "scaling.factor": 4.0}, {"scale_linear": 4.0}])
def test_linear(tmp_path: Path, keys: dict[str, Any]) -> None:
    path = write(tmp_path, freq_base=1000000.0, **keys)
    assert_far(path, [f / 4 for f in frequencies(1000000.0)], mpf(1))


def test_no_scaling(tmp_path: Path) -> None:
    assert_far(write(tmp_path), frequencies(10000.0), mpf(1))


def test_an_unknown_type_is_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, **{"scaling.type": "longrope", "scaling.factor": 4.0})
    with pytest.raises(Refused) as caught:
        far_rows(path)
    assert caught.value.refusals[0].text().splitlines()[0] == (
        f"{path}, metadata key llama.rope.scaling.type: is longrope; LOGOS knows none, linear and yarn "
        "[checkpoint-metadata]"
    )
