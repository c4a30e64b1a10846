"""Numbers on the host as on the device: half and bfloat16 rounded once, bits, byte products, atomics."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_host import ORDERS, build, run

Array = np.ndarray[Any, Any]
FORMATS = {"half_sums": (11, -14, 15), "bfloat16_sums": (8, -126, 127)}
"""Bits of precision, least and greatest exponent."""

SPECIAL = [0, -0.0, 1, -1, 65504, 65519.99, 65520, 65536, 2**-14, 2**-24, 2**-25, 2**-25 * 1.0001, 3 * 2**-25, 2**-26,
           2**-133, 2**-134, 3 * 2**-134, 1e-45, 3.4e38, 3.3961e38, 3.3895e38, np.inf, -np.inf, np.nan, 1 + 2**-11,
           1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, 2**-14 * (1 - 2**-11), 2**-126 * (1 - 2**-8)]  # fmt: skip


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["plain", "sanitized"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("numbers", tmp_path_factory.mktemp("cuda"), sanitize=request.param)


def words(program: Path, case: str, inputs: Array, order: str = "forward") -> Array:
    """The rows of 16 words that a case makes of rows of 3 words."""
    ran = run(program, case, data=np.ascontiguousarray(inputs, dtype=np.uint32).tobytes(), order=order)
    assert (ran.returncode, ran.stderr) == (0, b"")
    return np.frombuffer(ran.stdout, np.uint32).reshape(-1, 16)


def random_words(count: int, columns: int = 3) -> Array:
    return np.random.default_rng(7).integers(0, 2**32, (count, columns), dtype=np.uint32)


def rows(column: Array) -> Array:
    return np.stack([column, np.zeros_like(column), np.zeros_like(column)], axis=1)


def rounded(x: Fraction, bits: int, least: int, most: int) -> float:
    """A number's nearest of a format, ties to even, by exact arithmetic."""
    if x == 0:
        return 0.0
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
    exponent -= abs(x) < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, least) - bits + 1)
    value = round(x / unit) * unit
    return float(value) if abs(value) < Fraction(2) ** (most + 1) else float("inf") * (1 if x > 0 else -1)


def value(bits: int, case: str) -> float:
    if case == "half_sums":
        return float(np.uint16(bits).view(np.float16))
    return float(np.uint32(bits << 16).view(np.float32))


def as_bits(x: float, case: str) -> int:
    """The bits of a number of the format."""
    if np.isnan(x):
        return 0x7FFF
    if case == "half_sums":
        return int(np.float16(x).view(np.uint16))
    return int(np.float32(x).view(np.uint32)) >> 16


def test_floats_narrow_to_the_nearest_even(program: Path) -> None:
    middle = np.array([[sign << 31 | e << 23 | m << 12 | low for sign in (0, 1) for e in range(100, 145)
                        for m in (0, 1, 2, 0x7FE, 0x7FF) for low in (0, 1, 0xFFF)]], dtype=np.uint32)  # fmt: skip
    floats = np.array(SPECIAL, dtype=np.float32).view(np.uint32)
    inputs = np.concatenate([floats, middle.ravel(), random_words(3000, 1).ravel()])
    got = words(program, "narrow", rows(inputs))
    for given, out in zip(inputs.tolist(), got.tolist(), strict=True):
        x = float(np.uint32(given).view(np.float32))
        for place, case in ((0, "half_sums"), (1, "bfloat16_sums"), (2, "half_sums")):
            exact = rounded(Fraction(x), *FORMATS[case]) if np.isfinite(x) else x
            sign = given >> 31 << 15 if exact == 0 else 0
            assert out[place] == as_bits(exact, case) | sign, (hex(given), case)
        near = x * (1 + 1e-12)
        if np.isfinite(near) and near != 0:
            assert out[3] & 0x7FFF == as_bits(abs(rounded(Fraction(near), *FORMATS["half_sums"])), "half_sums")


def test_all_halves_and_bfloat16s_widen_exactly(program: Path) -> None:
    bits = np.arange(65536, dtype=np.uint32)
    got = words(program, "widen", rows(bits)).view(np.float32)
    for column, exact in ((0, bits.astype(np.uint16).view(np.float16)), (1, (bits << 16).view(np.float32))):
        np.testing.assert_array_equal(got[:, column], exact.astype(np.float32))
        assert (np.signbit(got[:, column]) == np.signbit(exact))[~np.isnan(exact)].all()
    np.testing.assert_array_equal(got[:, 0], got[:, 2])
    np.testing.assert_array_equal(got[:, 0], got[:, 3])


@pytest.mark.parametrize("case", FORMATS)
def test_arithmetic_rounds_once(program: Path, case: str) -> None:
    bits = random_words(4000) & 0xFFFF
    bits[:1500, 2] = (bits[:1500, 2] & 0x83FF) | 0x0400  # a small addend: where rounding twice would show
    got = words(program, case, bits)
    compared = 0
    for given, out in zip(bits.tolist(), got.tolist(), strict=True):
        x, y, z = (value(part, case) for part in given)
        if not np.isfinite([x, y, z]).all():
            continue
        a, b, c = Fraction(x), Fraction(y), Fraction(z)
        exact = [a + b, a - b, a * b, a / b if b else None, a * b + c]
        for place, wanted in enumerate(exact):
            if wanted is None or wanted == 0:
                continue
            nearest = rounded(wanted, *FORMATS[case])
            assert out[place] & 0x7FFF == as_bits(abs(nearest), case), (x, y, z, place)
            assert out[place] >> 15 == (wanted < 0)
            compared += 1
        assert out[5:7] == [x < y, x == y]
        if case == "half_sums":
            for place, wanted in ((7, a * b + c), (8, b * c + a)):
                assert value(out[place], case) == rounded(wanted, *FORMATS[case])
    assert compared > 15000


def signed(x: Any) -> int:
    return (int(x) + 2**31) % 2**32 - 2**31


def products(a: int, b: int, kind: type[np.generic]) -> int:
    left, right = (np.frombuffer(np.uint32(x).tobytes(), kind).astype(np.int64) for x in (a, b))
    return int(left @ right)


def permuted(a: int, b: int, selector: int) -> int:
    source = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    chosen = [selector >> 4 * i & 15 for i in range(4)]
    return int.from_bytes(
        bytes((255 if source[n & 7] >> 7 else 0) if n & 8 else source[n & 7] for n in chosen), "little"
    )


def test_bits_and_byte_products(program: Path) -> None:
    edges = [[x, y, z] for x in (0, 1, 0x80808080, 0x7FFFFFFF, 0xFFFFFFFF) for y in (0, 0x80808080, 0x7F7F7F7F)
             for z in (0, 0x7FFFFFFF, 0x80000000)]  # fmt: skip
    inputs = np.concatenate([np.array(edges, dtype=np.uint32), random_words(500)])
    got = words(program, "integers", inputs)
    for (a, b, c), out in zip(inputs.tolist(), got.tolist(), strict=True):
        x, y, wide = signed(a), signed(b), a << 32 | b
        whole = wide - (wide >> 63 << 64)
        other = whole ^ signed(c)
        high = (whole * other >> 64) % 2**64
        assert out == [
            (c + products(a, b, np.int8)) % 2**32,
            (c + products(a, b, np.uint8)) % 2**32,
            a.bit_count(),
            (a & -a).bit_length(),
            32 - a.bit_length(),
            int(f"{a:032b}"[::-1], 2),
            permuted(a, b, c),
            (x * y >> 32) % 2**32,
            a * b >> 32,
            wide.bit_count(),
            (wide & -wide).bit_length(),
            64 - wide.bit_length(),
            min(x, y) % 2**32,
            max(a, b),
            high % 2**32,
            high >> 32,
        ]


def test_floats_become_integers_and_round_as_named(program: Path) -> None:
    values = [0.5, 1.5, 2.5, -0.5, -1.5, 1e9 + 0.5, 2147483520, 2147483648, -2147483648, -3e9, 1e19, -1e19, 9.2e18,
              np.inf, -np.inf, 3.7, -3.7]  # fmt: skip
    floats = np.array([[x, 3.1, 2.2] for x in values], dtype=np.float32)
    got = words(program, "roundings", floats.view(np.uint32))
    for (x, y, z), out in zip(floats.tolist(), got, strict=True):
        near = [np.rint(x), np.trunc(x), np.floor(x), np.ceil(x)]
        clamped = [int(np.clip(v, -(2**31), 2**31 - 1)) % 2**32 for v in near]
        assert out[:4].tolist() == clamped
        whole = 2**63 - 1 if np.rint(x) >= 2**63 else int(max(np.rint(x), -(2**63)))
        assert (int(out[5]) << 32 | int(out[4])) == whole % 2**64
        if x > 0:
            assert out[6:7].view(np.float32)[0] == np.sqrt(np.float32(x))
        assert out[7:8].view(np.float32)[0] == np.float32(1) / np.float32(x)
        if np.isfinite(x):
            exact = rounded(Fraction(x) * Fraction(y) + Fraction(z), 24, -126, 127)
            assert out[8:9].view(np.float32)[0] == exact
        assert out[9:11].view(np.float32).tolist() == [min(x, y), max(x, y)]
    nan = words(program, "roundings", np.array([[np.nan, 1, 1]], dtype=np.float32).view(np.uint32))
    assert nan[0, :6].tolist() == [0, 0, 0, 0, 0, 0x80000000]


def test_atomics_of_many_blocks(program: Path) -> None:
    inputs = random_words(3 * 256)
    column = inputs[:, 0].tolist()
    whole = [signed(x) for x in column]
    for order in ORDERS:
        out = words(program, "atomics", inputs, order)[0]
        assert out[:8].tolist() == [
            sum(whole) % 2**32,
            sum(column) % 2**32,
            max(0, *whole),
            min(0, *whole) % 2**32,
            max(column),
            0,
            int(np.bitwise_or.reduce(inputs[:, 0])),
            int(np.bitwise_xor.reduce(inputs[:, 0])),
        ]
        assert int(out[9]) << 32 | int(out[8]) == sum(x << 8 for x in column) % 2**64
        assert int(out[11]) << 32 | int(out[10]) == max(0, *whole) << 20
        assert out[12] == 3 * 768
        assert out[13:14].view(np.float32)[0] == 0.25 * 768
        assert out[14:].tolist() == [768, 77]
