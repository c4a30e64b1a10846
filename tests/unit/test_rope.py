"""Rope tables: float64, each scaling by its formula at far positions, and every other one refused by name."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest

from logos.refusal import Refused
from logos_gguf.keys import Keys
from logos_gguf.rope import Rope, read_rope, width
from logos_gguf.trigonometry import cosine, logarithm, power, sine

FAR = 100_001


def keys(**values: Any) -> Keys:
    named = {f"a.{key.replace('__', '.')}": value for key, value in values.items()}
    return Keys({"a.context_length": 4096} | named, "a")


def refusal(made: Keys, n: int = 64) -> str:
    with pytest.raises(Refused) as caught:
        read_rope(made, n)
    return caught.value.refusals[0].text().splitlines()[0]


def angles(rope: Rope, factors: Any = None) -> np.ndarray:
    """The angle of the last row, read back from cosines and sines."""
    cosines = rope.table("RopeCos", factors)(FAR, rope.half)
    sines = rope.table("RopeSin", factors)(FAR, rope.half)
    assert cosines.dtype == np.float64
    assert cosines.shape == (FAR, rope.half)
    np.testing.assert_allclose(np.hypot(cosines, sines), rope.scale, rtol=1e-12)
    return np.arctan2(sines[-1], cosines[-1])


def wrapped(frequencies: list[float]) -> list[float]:
    position = FAR - 1
    return [math.atan2(math.sin(position * f), math.cos(position * f)) for f in frequencies]


def test_the_exponent_divides_by_the_rotary_width() -> None:
    rope = read_rope(keys(rope__freq_base=500000.0), 16)
    np.testing.assert_allclose(angles(rope), wrapped([500000.0 ** (-2 * i / 16) for i in range(8)]), atol=1e-9)
    assert rope.scale == 1


def test_the_base_is_ten_thousand_by_default() -> None:
    assert read_rope(keys(), 64).frequencies[1] == 10000.0 ** (-2 / 64)


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope__scaling__type": "linear", "rope__scaling__factor": 4.0},
        {"rope__scaling__factor": 4.0},
        {"rope__scale_linear": 4.0},
    ],
)
def test_linear_scaling_divides_every_frequency(scaling: dict[str, Any]) -> None:
    np.testing.assert_array_equal(read_rope(keys(**scaling), 8).frequencies, read_rope(keys(), 8).frequencies / 4)


def test_a_type_of_none_ignores_the_factor() -> None:
    rope = read_rope(keys(rope__scaling__type="none", rope__scaling__factor=4.0), 8)
    np.testing.assert_array_equal(rope.frequencies, read_rope(keys(), 8).frequencies)


def test_factors_of_the_file_divide_the_frequencies() -> None:
    factors = np.array([1.0, 2.0, 8.0, 3.0])
    rope = read_rope(keys(), 8)
    np.testing.assert_allclose(
        angles(rope, factors), wrapped([10000.0 ** (-2 * i / 8) / factors[i] for i in range(4)]), atol=1e-9
    )


YARN: dict[str, Any] = {
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 4.0,
    "rope__scaling__original_context_length": 32768,
    "rope__freq_base": 1000000.0,
}


def yarn(n: int, base: float, factor: float, original: int, fast: float, slow: float) -> list[float]:
    """The formula, one dimension at a time."""

    def dimension(turns: float) -> float:
        return n * math.log(original / (2 * math.pi * turns)) / (2 * math.log(base))

    low, high = max(math.floor(dimension(fast)), 0), min(math.ceil(dimension(slow)), n - 1)
    found = []
    for i in range(n // 2):
        f = base ** (-2 * i / n)
        ramp = min(max((i - low) / max(high - low, 0.001), 0.0), 1.0)
        found.append(f / factor * ramp + f * (1 - ramp))
    return found


def test_yarn_blends_by_its_ramp_and_scales_by_the_factors_logarithm() -> None:
    rope = read_rope(keys(**YARN), 128)
    expected = yarn(128, 1000000.0, 4.0, 32768, 32.0, 1.0)
    np.testing.assert_allclose(rope.frequencies, expected, rtol=1e-14)
    plain = [1000000.0 ** (-2 * i / 128) for i in range(64)]
    np.testing.assert_allclose(rope.frequencies[:20], plain[:20], rtol=1e-14)
    np.testing.assert_allclose(rope.frequencies[-20:], np.array(plain[-20:]) / 4, rtol=1e-14)
    assert rope.scale == 0.1 * math.log(4.0) + 1.0


def test_yarn_takes_its_betas_and_factors_from_the_file() -> None:
    more = {
        "rope__scaling__yarn_beta_fast": 16.0,
        "rope__scaling__yarn_beta_slow": 2.0,
        "rope__scaling__yarn_attn_factor": 1.5,
        "rope__scaling__attn_factor": 0.5,
        "rope__scaling__yarn_ext_factor": -1.0,
    }
    rope = read_rope(keys(**YARN, **more), 128)
    np.testing.assert_allclose(rope.frequencies, yarn(128, 1000000.0, 4.0, 32768, 16.0, 2.0), rtol=1e-14)
    assert rope.scale == 0.75


def test_yarn_falls_back_to_the_models_context_and_to_no_scale() -> None:
    made = {**YARN, "rope__scaling__factor": 1.0}
    del made["rope__scaling__original_context_length"]
    rope = read_rope(keys(**made), 128)
    np.testing.assert_allclose(rope.frequencies, yarn(128, 1000000.0, 1.0, 4096, 32.0, 1.0), rtol=1e-14)
    assert rope.scale == 1.0


REFUSED: dict[str, dict[str, Any]] = {
    "rope.scaling.type: is longrope; LOGOS knows none, linear and yarn": {"rope__scaling__type": "longrope"},
    "rope.scaling.type: is 3; a text is due": {"rope__scaling__type": 3},
    "rope.scaling.factor: is 0.0; a number above 0 is due": {"rope__scaling__type": "linear"},
    "rope.scaling.yarn_ext_factor: is 0.5; LOGOS computes yarn with 1": YARN | {"rope__scaling__yarn_ext_factor": 0.5},
    "rope.scaling.yarn_log_multiplier: is 0.1; LOGOS computes yarn with 0": YARN
    | {"rope__scaling__yarn_log_multiplier": 0.1},
    "rope.scaling.yarn_beta_slow: is 0.0; a number above 0 is due": YARN | {"rope__scaling__yarn_beta_slow": 0.0},
    "rope.freq_base: is 1, with which yarn has no meaning": YARN | {"rope__freq_base": 1.0},
    "rope.freq_base: is -1.0; a number above 0 is due": {"rope__freq_base": -1.0},
    "rope.freq_base: is nan; a finite number is due": {"rope__freq_base": float("nan")},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_tables_cannot_say_is_refused_by_name(what: str) -> None:
    assert refusal(keys(**REFUSED[what])) == f"metadata key a.{what} [checkpoint-metadata]"


@pytest.mark.parametrize("n", [63, 66])
def test_a_rotary_width_that_is_odd_or_wider_than_a_head_is_refused(n: int) -> None:
    with pytest.raises(Refused) as caught:
        width(keys(rope__dimension_count=n), 64)
    assert f"is {n}; an even number up to the head width 64 is due" in str(caught.value)


def test_the_rotary_width_is_the_heads_by_default() -> None:
    assert width(keys(), 64) == 64
    assert width(keys(rope__dimension_count=16), 64) == 16


def test_cosine_and_sine_are_the_c_librarys_within_its_last_bit() -> None:
    random = np.random.default_rng(2)
    parts = (np.arange(3000.0), random.random(3000), random.random(9000) * 1e6, np.arange(99) * np.pi / 2)
    angles = np.concatenate(parts)
    for own, library in ((cosine, math.cos), (sine, math.sin)):
        expected = np.array([library(angle) for angle in angles])
        assert np.all(np.abs(own(angles) - expected) <= np.spacing(np.abs(expected)))


def test_tables_have_the_same_bits_everywhere() -> None:
    table = read_rope(keys(), 64).table("RopeCos", None)(2048, 32)
    assert hashlib.sha256(table.astype("<f8").tobytes()).hexdigest()[:16] == "796f1ee02640b6e5"


def test_power_and_logarithm_are_rounded_once() -> None:
    assert power(2.0, -6, 2) == 0.125
    assert power(10000.0, -2, 64) == 0.7498942093324559
    assert logarithm(math.e) == 1.0


@pytest.mark.parametrize(("made", "rows"), [(keys(), 2_000_000), (keys(rope__freq_base=1e-38), 100)])
def test_positions_whose_angles_would_not_be_right_are_refused(made: Keys, rows: int) -> None:
    with pytest.raises(Refused) as caught:
        read_rope(made, 64).table("RopeCos", None)(rows, 32)
    assert caught.value.refusals[0].code == "rope-table-too-long"
    assert f"{rows} positions reach an angle of " in caught.value.refusals[0].what


def test_a_table_of_another_width_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        read_rope(keys(), 16).table("RopeSin", None)(10, 32)
    assert caught.value.refusals[0].text() == (
        "the table RopeSin: RopeSin is declared with 32 columns; the model turns 16 elements of a head, two to a "
        "column [tensor-shape]\n  next: declare RopeSin as 10 by 8"
    )
