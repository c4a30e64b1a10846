"""Named mistakes in the kernels: the bench that passes the kernels as they are must find each of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import fused_q8_cases
import narrow_cases
import numpy as np
import pytest
from kernel_bench import KERNELS, Bench, Case, differences
from kernel_cases import SPECS, case
from kernel_mutants import MUTANTS, Mutant
from narrow_mutants import FUSED, NARROW

ORDERS = ("forward", "reverse", "shuffle:7")


def mutated(folder: Path, header: str, after: str, old: str, new: str) -> Path:
    """A copy of the kernels in which the first `old` of a header after `after`, which stands there once, is `new`."""
    copy = shutil.copytree(KERNELS, folder / "kernels")
    text = (copy / header).read_text("utf-8")
    assert text.count(after) == 1, f"{header} has {text.count(after)} of: {after}"
    head, tail = text.split(after)
    assert old in tail, f"{header} has none of: {old}"
    (copy / header).write_text(head + after + tail.replace(old, new, 1), encoding="utf-8")
    return copy


def found(folder: Path, kernels: Path, cases: Sequence[Case]) -> str:
    """What the bench says of some cases with a folder of kernels, in the first order in which it says something."""
    bench = Bench(folder, [kernel for case in cases for kernel in case.graph.kernels], include=kernels, flags=("-O0",))
    for order in ORDERS:
        try:
            results = bench.run(cases, LOGOS_HOST_ORDER=order)
        except AssertionError as error:
            return str(error)
        wrong = [what for case, result in zip(cases, results, strict=True) for what in differences(case, result)]
        if wrong:
            return "\n".join(wrong)
    return ""


def chosen(mutant: Mutant) -> list[Case]:
    specs = (*SPECS, *narrow_cases.SPECS, *fused_q8_cases.SPECS)
    spec = next(spec for spec in specs if spec.name == mutant.spec)
    cases = []
    for number in mutant.shapes:
        cases += spec.cases(range(number, number + 1))
    return cases


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(m, marks=[] if m.quick else pytest.mark.slow, id=m.name)
        for m in (*MUTANTS, *NARROW, *FUSED)
    ],
)
def test_a_mutant_is_found(mutant: Mutant, tmp_path: Path) -> None:
    kernels = mutated(tmp_path, mutant.header, mutant.after, mutant.old, mutant.new)
    said = found(tmp_path, kernels, chosen(mutant))
    assert re.search(mutant.shows, said, re.DOTALL), f"{mutant.why}: {said or 'nothing was found'}"


FAR = 2**30 + 3
LAST = np.arange(4, dtype=np.float32).reshape(1, 4) + 5
TABLE = f"Let t be a {FAR} by 4 tensor of Real.\nLet r be a 1 by 4 tensor of Real.\n"


@pytest.mark.parametrize(
    ("copied", "sentence", "variable"),
    [
        ("copy_row(table", f"Let y be row {FAR - 1} of t.", "y"),
        pytest.param("copy_row(values, table", f"Set row {FAR - 1} of t to r.\nLet y be r plus r.", "t",
                     marks=pytest.mark.slow),
    ],
    ids=["read", "written"],
)  # fmt: skip
def test_an_offset_of_32_bits_is_found(copied: str, sentence: str, variable: str, tmp_path: Path) -> None:
    """Rows beyond 2^31 elements of a table of 16 GiB, of which only the last exists."""
    made = Case(f"{TABLE}{sentence}\n", {"r": LAST + 1}, sparse={"t": LAST})
    expected = {"y": LAST, "t": LAST + 1}[variable]

    kernels = mutated(tmp_path, "tables.cuh", copied, "row * columns", "static_cast<int>(row * columns)")
    bench = Bench(tmp_path, made.graph.kernels, include=kernels, flags=("-O0",))
    assert not np.array_equal(bench.run([made])[0].arrays[variable], expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("header", "after", "old", "new", "sentence", "kind"),
    [
        ("logos.cuh", "return value;", "if (", "if (false && ", "Let y be row p of x.", "row"),
        ("argmax.cuh", "const T value = x[i];", "if (nan)", "if (false)", "Let y be argmax of x.", "nan"),
        ("elementwise.cuh", "long long>(b));", "((a ^ sum)", "0 && ((a ^ sum)", "Let y be p plus p.", "overflow"),
        ("matmul_int.cuh", "fits() const {", "return high", "return true || high", "Let y be p matmul p.", "overflow"),
    ],
    ids=["row", "nan", "plus", "matmul"],
)
def test_a_fault_that_is_not_reported_is_found(
    header: str, after: str, old: str, new: str, sentence: str, kind: str, tmp_path: Path
) -> None:
    made = case({"p": np.array([[2**62]]), "x": np.full((3, 4), np.nan, dtype=np.float32)}, sentence)
    reported = Bench(tmp_path / "right", made.graph.kernels).run([made])[0].fault
    assert reported is not None
    assert reported[1] == kind
    kernels = mutated(tmp_path, header, after, old, new)
    assert Bench(tmp_path / "wrong", made.graph.kernels, include=kernels).run([made])[0].fault is None
