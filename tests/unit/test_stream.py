"""Views stream in any order of rows, in bounded memory, and give what indexing the tensor gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from weight_fakes import MemoryCheckpoint

from logos.refusal import Refused
from logos.weights.stream import chunks, floats, stored_array, values
from logos.weights.views import TensorView

ROWS, COLUMNS = 96, 3


def checkpoint() -> MemoryCheckpoint:
    return MemoryCheckpoint({"t": np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)})


RANGES = st.lists(
    st.builds(
        range,
        st.integers(0, ROWS - 1),
        st.integers(0, ROWS),
        st.sampled_from([1, 1, 1, 2, 3, 40]),
    ),
    max_size=12,
).map(tuple)


@given(RANGES, st.integers(1, 5000), st.booleans())
def test_chunks_of_any_ranges_are_the_rows_in_order(
    ranges: tuple[range, ...], limit: int, transposed: bool
) -> None:
    source = checkpoint()
    view = TensorView("t", ranges, transposed)
    expected = source.arrays["t"][[row for part in ranges for row in part]].reshape(-1, COLUMNS)
    parts = list(chunks(source, view, limit))
    assert sum(len(part) for part in parts) == len(expected)
    if parts:
        np.testing.assert_array_equal(np.concatenate(parts), expected)
    assert all(part.nbytes <= max(limit, 4 * COLUMNS) for part in parts)
    assert source.most_rows * 4 * COLUMNS <= max(limit, 3 * 4 * COLUMNS) + 2 * 4 * COLUMNS
    np.testing.assert_array_equal(floats(source, view), expected)
    np.testing.assert_array_equal(values(source, view), expected.T if transposed else expected)


def test_all_rows_come_without_a_copy() -> None:
    source = checkpoint()
    (part,) = chunks(source, TensorView("t"))
    assert np.shares_memory(part, source.arrays["t"])


def test_neighbouring_ranges_are_read_as_one() -> None:
    source = checkpoint()
    (part,) = chunks(source, TensorView("t", tuple(range(row, row + 1) for row in range(10, 90))))
    assert np.shares_memory(part, source.arrays["t"])


@pytest.mark.parametrize("bad", [range(90, 97), range(-1, 3), range(96, 97), range(5, -3, -2)])
def test_rows_that_the_tensor_lacks_are_refused(bad: range) -> None:
    with pytest.raises(Refused) as caught:
        floats(checkpoint(), TensorView("t", (bad,)))
    assert caught.value.refusals[0].text() == (
        f"memory.ckpt, tensor t: rows {bad[0]} to {bad[-1]} are asked for; the tensor has 96 rows of 3 "
        "[rows-outside-tensor]\n"
        "  next: the metadata (head counts and widths) and the tensors disagree; convert the model again"
    )


def test_an_array_at_hand_streams_in_runs_of_rows() -> None:
    stored = stored_array(np.arange(12.0).reshape(6, 2), transposed=True)
    assert [len(part) for part in stored.chunks(32)] == [2, 2, 2]
    np.testing.assert_array_equal(stored.array(np.float64), np.arange(12.0).reshape(6, 2).T)


def test_a_signalling_nan_widens_to_nan_without_a_warning() -> None:
    bits = np.array([[0x7F800001, 0x3F800000]], np.uint32)
    found = stored_array(bits.view(np.float32)).array(np.float64)
    assert np.isnan(found[0, 0])
    assert found[0, 1] == 1
