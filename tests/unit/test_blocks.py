"""Block formats agree with gguf's dequantizers bit for bit, and plain types refuse what float32 cannot hold."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType, dequantize

from logos.weights.blocks import FORMATS, InexactValueError

BLOCKS = [name for name, form in FORMATS.items() if form.elements > 1]


@pytest.mark.parametrize("name", [*BLOCKS, "BF16", "F16", "F32"])
def test_random_blocks_equal_ggufs_dequantizer_to_the_bit(name: str) -> None:
    form = FORMATS[name]
    per_row = 4 if form.elements > 1 else 256
    raw = np.random.default_rng(7).integers(0, 256, (2500, per_row * form.nbytes), dtype=np.uint8)
    with np.errstate(all="ignore"):
        expected = dequantize(raw, GGMLQuantizationType[name]).astype(np.float32)
    found = form.floats(raw)
    assert found.dtype == np.float32
    assert found.shape == (2500, per_row * form.elements)
    same = (found.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(found) & np.isnan(expected))
    assert same.all()


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_has_the_bytes_that_gguf_gives_it(name: str) -> None:
    from gguf import GGML_QUANT_SIZES

    assert GGML_QUANT_SIZES[GGMLQuantizationType[name]] == (FORMATS[name].elements, FORMATS[name].nbytes)


def test_a_row_that_is_no_whole_number_of_blocks_has_no_byte_length() -> None:
    assert FORMATS["Q8_0"].row_bytes(48) is None
    assert FORMATS["Q8_0"].row_bytes(64) == 68
    assert FORMATS["F16"].row_bytes(48) == 96


@pytest.mark.parametrize(("name", "dtype", "values"), [
    ("F64", "<f8", [0.5, -3.0, np.inf, np.nan]),
    ("I64", "<i8", [0, -(2**63), 2**24, 2**60]),
    ("I32", "<i4", [5, -(2**31), 2**24, 3]),
    ("I16", "<i2", [5, -(2**15), 2**14, 3]),
    ("I8", "i1", [5, -128, 127, 3]),
])
def test_plain_numbers_that_float32_holds_come_through(name: str, dtype: str, values: list[float]) -> None:
    raw = np.array([values], dtype).view(np.uint8)
    np.testing.assert_array_equal(FORMATS[name].floats(raw), np.array([values], np.float32))


@pytest.mark.parametrize(("name", "dtype", "value"), [
    ("F64", "<f8", 0.1), ("F64", "<f8", 1e300), ("I32", "<i4", 2**24 + 1), ("I64", "<i8", 2**63 - 1),
])
def test_a_number_that_float32_cannot_hold_is_an_error(name: str, dtype: str, value: float) -> None:
    raw = np.array([[1, value]], dtype).view(np.uint8)
    with pytest.raises(InexactValueError, match="float32 cannot hold"):
        FORMATS[name].floats(raw)
