"""model.py takes and refuses the same arguments as `logos run`, and reads the same values out of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos import Refused, Source, make_manager
from logos.check import read_program
from logos.cli.arrays import given_arrays
from logos.cli.common import names, token_ids
from logos_sambaflow.emitted.loader import ArtifactError, Leaf, given_values
from logos_sambaflow.emitted.program import Program, listed_names, parsed_setting, parsed_tokens

SHAPES = {"x": (1, 3), "y": (2, 2), "s": (1, 1)}
TEXT = "".join(
    f"Let {name}{kind[0]} be a {rows} by {columns} tensor of {kind}.\n"
    for name, (rows, columns) in SHAPES.items()
    for kind in ("Real", "Int")
)
GRAPH = read_program(Source("p.lg", f"{TEXT}Let z be xR plus xR.\n"), make_manager().grammar)
LEAVES = {
    name + kind[0]: Leaf(shape, "input", "real" if kind == "Real" else "int64")
    for name, shape in SHAPES.items()
    for kind in ("Real", "Int")
}
LEAVES["tok"] = Leaf((1, 1), "input", "int32")
PROGRAM = Program(None, LEAVES, {}, {}, (), (), "z", ("z",), "float32", "model.py")

VALUES = [
    "1", "-1", "1.5", "1.0", "1e3", "1e308", "1e400", "NaN", "-Infinity", "[1,NaN,-Infinity]", "[1,-1e309,0]",
    "true", "null", '"1"', "{}", "[]", "[[]]", "", "x",
    "[1,2,3]", "[1,2]", "[[1,2,3]]", "[[1],[2],[3]]", "[[[1,2,3]]]", "[1,2.5,3]", "[1,true,3]", "[1,null,3]",
    "[[1,2],[3,4]]", "[1,2,3,4]", "[[1,2],[3]]", "[[1,2],3]", "[[1,2],[3,{}]]", "[1]", "[[1]]", "[[[1]]]",
    str(2**53 + 1), str(2**63 - 1), str(2**63), str(-(2**63)), str(-(2**63) - 1), "1" * 400, f"[[0,0],[{2**64},1]]",
    " 1 ", "[1, 2, 3] ", "0x10", "1_000", "+1", "01", ".5", "1,2,3",
]  # fmt: skip


def by_logos(name: str, text: str) -> Any:
    try:
        return given_arrays(GRAPH, {name: text})[name]
    except Refused:
        return None


def by_model(name: str, text: str) -> Any:
    try:
        found, value = parsed_setting(PROGRAM, f"{name}={text}")
        return given_values(found, LEAVES[found], value).numpy()
    except ArtifactError:
        return None


def same(name: str, text: str) -> None:
    want, found = by_logos(name, text), by_model(name, text)
    assert (found is None) == (want is None)
    if want is not None:
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", sorted(set(LEAVES) - {"tok"}))
@pytest.mark.parametrize("text", VALUES)
def test_a_value_means_the_same_to_both(name: str, text: str) -> None:
    same(name, text)


NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none())
NESTED = st.recursive(NUMBERS, lambda inner: st.lists(inner, max_size=3), max_leaves=6)


@given(st.sampled_from(sorted(set(LEAVES) - {"tok"})), NESTED)
def test_any_json_means_the_same_to_both(name: str, value: Any) -> None:
    same(name, json.dumps(value))


ARRAYS = [
    np.arange(3), np.arange(3.0)[None], np.arange(3, dtype=np.float32), np.arange(4, dtype=np.uint8).reshape(2, 2),
    np.array([[1, 2], [3, 2**64 - 1]], np.uint64), np.array(7, ">i4"), np.array(0.1, ">f8"), np.array([True]),
    np.array(["1"]), np.array([1j]), np.array([[1, 2, 3]], np.float16).T,
    np.asfortranarray(np.arange(4.0).reshape(2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(LEAVES) - {"tok"}))
@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_a_file_means_the_same_to_both(name: str, number: int, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ARRAYS[number])
    same(name, f"@{tmp_path}/a.npy")


@given(st.text(alphabet="0123456789, +-_.x٣²\t", max_size=24))
def test_tokens_mean_the_same_to_both(text: str) -> None:
    try:
        want = list(token_ids(text))
    except click.BadParameter:
        with pytest.raises(ArtifactError):
            parsed_tokens(PROGRAM, text, ())
    else:
        assert parsed_tokens(PROGRAM, text, ()) == want


@given(st.text(alphabet="ab, \t", max_size=12))
def test_names_mean_the_same_to_both(text: str) -> None:
    assert tuple(listed_names(text)) == names(text)


def test_the_table_of_values_holds_both_kinds() -> None:
    taken = [by_logos(name, text) for name in sorted(set(LEAVES) - {"tok"}) for text in VALUES]
    assert 0 < sum(value is None for value in taken) < len(taken)
    assert any(value is not None and not math.isfinite(value.flat[0]) for value in taken)
