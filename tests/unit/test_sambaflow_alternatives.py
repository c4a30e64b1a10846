"""The alternative spellings against the language's formulas, and their table of operators against what they export."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from test_sambaflow_helpers import CASES, Alone, Case, compare, row, tensors  # noqa: E402

from logos_sambaflow import alternatives, parts, spelling  # noqa: E402
from logos_sambaflow.emitted import alternative_helpers, torch_helpers  # noqa: E402
from sambaflow_modules import exported_operators  # noqa: E402

PAIRS = [(helper, first) for first, helpers in alternatives.ALTERNATIVES.items() for helper in helpers]


class Alternative(Alone):
    """A case's call, made by another helper of the op."""

    def __init__(self, case: Case, helper: str) -> None:
        super().__init__(Case(helper, case.arrays, case.literals, case.rows), alternative_helpers)


def cases(first: str) -> list[tuple[str, Case]]:
    return [(name, case) for name, case in CASES.items() if case.helper == first]


def rounded(case: Case, dtype: Any) -> dict[str, Any]:
    return {
        name: array if array.dtype.kind == "i" else torch.tensor(array).to(dtype).double().numpy()
        for name, array in case.arrays.items()
    }


@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)], ids=str
)
@pytest.mark.parametrize(("helper", "first"), PAIRS)
def test_alternative_gives_the_formula(helper: str, first: str, dtype: Any, bound: float) -> None:
    for _, case in cases(first):
        arrays = rounded(case, dtype)
        compare(Alternative(case, helper)(*tensors(arrays, dtype)), case, arrays, bound)


@pytest.mark.parametrize(("helper", "first"), PAIRS)
def test_table_lists_the_operators_that_the_alternative_uses(helper: str, first: str) -> None:
    used: set[str] = set()
    for _, case in cases(first):
        for dtype in (torch.float32, torch.bfloat16):
            used |= exported_operators(torch.export.export(Alternative(case, helper), tensors(case.arrays, dtype)))
    assert used == set(spelling.operators_of(helper, "listed"))


def test_an_alternative_does_without_an_operator_of_the_first_spelling() -> None:
    for helper, first in PAIRS:
        assert set(spelling.operators_of(first, "listed")) - set(spelling.operators_of(helper, "listed")), helper


def test_few_alternatives_need_an_operator_to_be_verified_first() -> None:
    supported = {helper: {*map(spelling.support, names.split())} for helper, names in alternatives.OPERATORS.items()}
    unknown = {helper for helper, known in supported.items() if "unknown" in known}
    asking = ("_by_exp", "_by_sigmoid")
    assert {helper for helper in unknown if not helper.endswith(asking)} == {"sigmoid_by_torch", "set_row_by_where"}


def test_alternatives_parse_as_the_vendors_python_and_read_no_shape() -> None:
    tree = ast.parse(inspect.getsource(alternative_helpers), feature_version=parts.VENDOR_PYTHON)
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not attributes & {"shape", "size", "item", "numel"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Slice)]


def test_alternatives_take_their_ops_names_alone() -> None:
    """The emitter binds parameters by name: an alternative that asks for what its op has not cannot be emitted."""
    for helper, first in PAIRS:
        own = inspect.signature(getattr(alternative_helpers, helper)).parameters
        known = {name for name in inspect.signature(getattr(torch_helpers, first)).parameters if name.isupper()}
        assert {name for name in own if name.isupper()} == known


def test_set_row_by_abs_is_exact_at_far_positions_in_bfloat16() -> None:
    rows = 8192
    case = Case("set_row", {"P": row(4097), "T": np.arange(rows)[:, None] % 200.0, "R": np.array([[-3.0]])})
    got = Alternative(case, "set_row_by_abs")(*tensors(case.arrays, torch.bfloat16))
    want = case.arrays["T"].copy()
    want[4097] = -3.0
    assert got.double().tolist() == want.tolist()


def test_decay_by_pow_is_right_where_e_to_the_x_is_beyond_float32() -> None:
    x = torch.tensor([[-300.0, -90.0, 90.0, 200.0, 900.0]])
    zero, nothing = torch.zeros((1, 1), dtype=torch.int32), torch.zeros_like(x)
    made = alternative_helpers.decay_by_pow(x, nothing, nothing - 0.01, 1, 5, zero)
    assert made.tolist()[0] == pytest.approx([1.0, 1.0, np.exp(-0.9), np.exp(-2), np.exp(-9)], rel=1e-6)


def test_sigmoid_by_exp_stays_finite_where_exp_does_not() -> None:
    made = alternative_helpers.sigmoid_by_exp(torch.tensor([[-200.0, -1.0, 200.0]]))
    assert made.tolist() == [[0.0, pytest.approx(0.26894143), 1.0]]
