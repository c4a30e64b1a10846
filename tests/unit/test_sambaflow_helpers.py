"""The torch helpers against the language's formulas, traced and exported, and audited for operators."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sambaflow_formulas as formulas

from sambaflow_modules import exported_operators, quietly_traced

torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos_sambaflow import parts, spelling  # noqa: E402
from logos_sambaflow.emitted import plain_helpers, torch_helpers  # noqa: E402

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """A helper's call: arrays by operand, literals, and the operands that are rows with a second value to try."""

    helper: str
    arrays: dict[str, Array]
    literals: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)


def noise(name: str, *shape: int) -> Array:
    return np.random.default_rng(sum(map(ord, name)) + sum(shape)).uniform(-1, 1, shape)


def real(**shapes: tuple[int, int]) -> dict[str, Array]:
    return {name: noise(name, *shape) for name, shape in shapes.items()}


def row(value: int) -> Array:
    return np.array([[value]], dtype=np.int32)


EPS = 1e-06
GATED = real(Q=(1, 8), K=(1, 8), V=(1, 24), Z=(1, 24), B=(1, 6), A=(1, 6), S=(24, 4), GN=(1, 4))
ATTENDED = real(Q=(1, 24), K=(9, 12), V=(9, 12))
CASES = {
    "linear": Case("linear", real(A=(2, 5), B=(3, 5))),
    "matmul": Case("matmul", real(A=(2, 5), B=(5, 3))),
    "plus": Case("plus", real(A=(3, 4), B=(3, 4))),
    "plus, one row": Case("plus", real(A=(3, 4), B=(1, 4))),
    "plus, one element": Case("plus", real(A=(3, 4), B=(1, 1))),
    "hadamard": Case("hadamard", real(A=(3, 4), B=(3, 4))),
    "hadamard, one row": Case("hadamard", real(A=(3, 4), B=(1, 4))),
    "hadamard, one element": Case("hadamard", real(A=(3, 4), B=(1, 1))),
    "transpose": Case("transpose", real(X=(3, 4))),
    "rmsnorm": Case("rmsnorm", real(X=(3, 8)), {"EPS": EPS}),
    "rmsnorm, weight": Case("rmsnorm", real(X=(3, 8), W=(1, 8)), {"EPS": 1e-05}),
    "rmsnorm, residual": Case("rmsnorm", real(X=(3, 8), RES=(3, 8), W=(1, 8)), {"EPS": EPS}),
    "rmsnorm, heads": Case("rmsnorm", real(X=(1, 8), W=(1, 4)), {"EPS": EPS, "H": 2}),
    "rmsnorm, all": Case("rmsnorm", real(X=(1, 8), RES=(1, 8), W=(1, 4)), {"EPS": EPS, "H": 2}),
    "layernorm": Case("layernorm", real(X=(3, 8), W=(1, 8), B=(1, 8)), {"EPS": EPS}),
    "l2norm": Case("l2norm", real(X=(3, 8)), {"EPS": EPS}),
    "l2norm, heads": Case("l2norm", real(X=(1, 8)), {"EPS": EPS, "H": 4}),
    "rope": Case("rope", real(Q=(1, 24), RC=(1, 4), RS=(1, 4))),
    "rope, heads": Case("rope", real(Q=(1, 24), RC=(1, 4), RS=(1, 4)), {"H": 3}),
    "rope, partial": Case("rope", real(Q=(1, 24), RC=(1, 4), RS=(1, 4)), {"H": 2}),
    "attention": Case("attention", ATTENDED, {"H": 4, "KV": 2}),
    "attention_up_to": Case("attention_up_to", ATTENDED | {"P": row(0)}, {"H": 4, "KV": 2}, {"P": 6}),
    "attention_up_to, last": Case("attention_up_to", ATTENDED | {"P": row(8)}, {"H": 4, "KV": 2}, {"P": 1}),
    "full_attention": Case("full_attention", real(Q=(5, 12), K=(5, 12), V=(5, 12)), {"H": 3}),
    "softmax": Case("softmax", {"X": noise("X", 3, 8) * 50}),
    "sigmoid": Case("sigmoid", {"X": noise("X", 3, 8) * 40}),
    "silu": Case("silu", {"X": noise("X", 3, 8) * 40}),
    "gelu": Case("gelu", {"X": noise("X", 3, 8) * 5}),
    "swiglu": Case("swiglu", real(GATE=(2, 6), UP=(2, 6))),
    "argmax": Case("argmax", {"X": np.array([[1.0, 3.0, 2.0], [3.0, -4.0, 3.0]])}),
    "embedding": Case("embedding", real(TABLE=(7, 4)) | {"TOK": row(2)}, {}, {"TOK": 6}),
    "set_row": Case("set_row", real(T=(7, 4), R=(1, 4)) | {"P": row(0)}, {}, {"P": 5}),
    "causal_conv": Case("causal_conv", real(X=(1, 6), WC=(4, 6), CS=(4, 6)), {"TAPS": 4}),
    "causal_conv, one tap": Case("causal_conv", real(X=(1, 6), WC=(1, 6), CS=(1, 6)), {"TAPS": 1}),
    "decay": Case("decay", real(AR=(1, 6), DT=(1, 6)) | {"AL": -np.abs(noise("AL", 1, 6))}),
    "decay, beyond the threshold": Case(
        "decay",
        {"AR": np.array([[-50.0, 19.0, 25.0, 39.9, 60.0]]), "DT": np.zeros((1, 5)), "AL": -np.abs(noise("AL", 1, 5))},
    ),
    "gated_delta": Case("gated_delta", GATED, {"EPS": 1e-05, "HV": 6, "HK": 2}),
}
DIRECT = {
    "linear": lambda A, B: A @ B.T,
    "matmul": lambda A, B: A @ B,
    "plus": lambda A, B: A + B,
    "hadamard": lambda A, B: A * B,
    "transpose": lambda X: X.T,
    "attention_up_to": formulas.attention,
}


def expected(case: Case, arrays: dict[str, Array]) -> tuple[Array, ...]:
    formula = DIRECT.get(case.helper) or getattr(formulas, case.helper)
    result = formula(**arrays, **case.literals)
    return result if isinstance(result, tuple) else (result,)


def variant(name: str) -> ModuleType:
    if name == "listed":
        return torch_helpers
    module = ModuleType("plain")
    module.__dict__.update(vars(torch_helpers))
    exec(parts.text("plain_helpers.py"), module.__dict__)
    return module


class Alone(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """One helper as a module: operands in, results out; sizes and literals fixed, int32 constants as parameters."""

    def __init__(self, case: Case, module: ModuleType) -> None:
        super().__init__()
        self.helper = getattr(module, case.helper)
        self.operands = list(case.arrays)
        self.fixed: dict[str, Any] = dict(case.literals)
        for name in inspect.signature(self.helper).parameters:
            operand, _, what = name.rpartition("_")
            if what in {"rows", "columns", "size"}:
                rows, columns = case.arrays[operand].shape
                self.fixed[name] = {"rows": rows, "columns": columns, "size": rows * columns}[what]
            elif what == "numbers":
                column = torch.arange(case.arrays[operand].shape[0], dtype=torch.int32).reshape(-1, 1)
                self.register_parameter(name, torch.nn.Parameter(column, requires_grad=False))
            elif name in {"zero", "one"}:
                constant = torch.full((1, 1), int(name == "one"), dtype=torch.int32)
                self.register_parameter(name, torch.nn.Parameter(constant, requires_grad=False))

    def forward(self, *operands: Any) -> Any:
        given = dict(zip(self.operands, operands, strict=True))
        return self.helper(**given, **self.fixed, **dict(self.named_parameters()))


def tensors(arrays: dict[str, Array], dtype: Any) -> tuple[Any, ...]:
    return tuple(
        torch.tensor(a).to(torch.int32 if a.dtype.kind == "i" else dtype).contiguous() for a in arrays.values()
    )


def compare(got: Any, case: Case, arrays: dict[str, Array], bound: float) -> None:
    got = got if isinstance(got, tuple) else (got,)
    want = expected(case, arrays)
    assert len(got) == len(want)
    for tensor, array in zip(got, want, strict=True):
        assert tuple(tensor.shape) == array.shape
        if array.dtype.kind == "i":
            assert tensor.dtype == torch.int32
            assert tensor.tolist() == array.tolist()
        else:
            assert np.abs(tensor.to(torch.float64).numpy() - array).max() <= bound * np.abs(array).max()


def untraced(case: Case) -> dict[str, Array]:
    """The case's arrays at rows other than those that were traced, and at other values."""
    return {
        name: row(case.rows[name]) if name in case.rows else array[::-1].copy() for name, array in case.arrays.items()
    }


@pytest.mark.parametrize("operators", ["listed", "plain"])
@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 2e-6), (torch.bfloat16, 2e-2)], ids=str
)
@pytest.mark.parametrize("name", CASES)
def test_helper_gives_the_formula(name: str, dtype: Any, bound: float, operators: str) -> None:
    case = CASES[name]
    arrays = {
        operand: array if array.dtype.kind == "i" else torch.tensor(array).to(dtype).double().numpy()
        for operand, array in case.arrays.items()
    }
    compare(Alone(case, variant(operators))(*tensors(arrays, dtype)), case, arrays, bound)


@pytest.mark.parametrize("operators", ["listed", "plain"])
@pytest.mark.parametrize("name", CASES)
def test_exported_helper_is_right_at_rows_that_were_not_traced(name: str, operators: str) -> None:
    case = CASES[name]
    module = Alone(case, variant(operators))
    exported = torch.export.export(module, tensors(case.arrays, torch.float64)).module()
    arrays = untraced(case)
    compare(exported(*tensors(arrays, torch.float64)), case, arrays, 1e-12)


@pytest.mark.parametrize("operators", ["listed", "plain"])
@pytest.mark.parametrize("name", CASES)
def test_traced_helper_is_right_at_rows_that_were_not_traced(name: str, operators: str) -> None:
    case = CASES[name]
    module = Alone(case, variant(operators))
    traced = quietly_traced(module, tensors(case.arrays, torch.float64))
    arrays = untraced(case)
    compare(traced(*tensors(arrays, torch.float64)), case, arrays, 1e-12)


@pytest.mark.parametrize("operators", ["listed", "plain"])
@pytest.mark.parametrize("helper", sorted(spelling.FIRST_OPS))
def test_table_lists_the_operators_that_the_exported_helper_uses(helper: str, operators: str) -> None:
    used: set[str] = set()
    for case in CASES.values():
        if case.helper == helper:
            for dtype in (torch.float32, torch.bfloat16):
                exported = torch.export.export(Alone(case, variant(operators)), tensors(case.arrays, dtype))
                used |= exported_operators(exported)
    assert used == set(spelling.operators_of(helper, operators))


def test_listed_helpers_use_no_unknown_operator_but_exp_and_softplus() -> None:
    used = {name for helper in spelling.FIRST_OPS for name in spelling.operators_of(helper, "listed")}
    assert {name for name in used if spelling.support(name) == "unknown"} == {"exp", "softplus"}


@pytest.mark.parametrize("module", [torch_helpers, plain_helpers], ids=["listed", "plain"])
def test_helpers_parse_as_the_vendors_python_and_read_no_shape(module: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(module), feature_version=parts.VENDOR_PYTHON)
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not attributes & {"shape", "size", "item", "numel"}
    assert not [name for name in attributes if name.endswith("_") and not name.endswith("__")]


def test_listed_helpers_have_no_slice_and_no_item_assignment() -> None:
    tree = ast.parse(inspect.getsource(torch_helpers))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Slice)]
    stores = [n for n in ast.walk(tree) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    assert not stores


def test_set_row_is_exact_at_far_positions_in_bfloat16() -> None:
    rows = 8192
    case = Case("set_row", {"P": row(4097), "T": np.arange(rows)[:, None] % 200.0, "R": np.array([[-3.0]])})
    got = Alone(case, torch_helpers)(*tensors(case.arrays, torch.bfloat16))
    want = case.arrays["T"].copy()
    want[4097] = -3.0
    assert got.double().tolist() == want.tolist()


def test_rows_after_the_bound_weigh_exactly_nothing() -> None:
    arrays = {name: array.copy() for name, array in ATTENDED.items()} | {"P": row(3)}
    case = Case("attention_up_to", arrays, {"H": 4, "KV": 2})
    module = Alone(case, torch_helpers)
    before = module(*tensors(arrays, torch.float32))
    arrays["V"][4:] = 1e30
    assert torch.equal(module(*tensors(arrays, torch.float32)), before)


@pytest.mark.parametrize(
    ("helper", "arrays", "literals"),
    [
        ("matmul", {"A": (3, 4), "B": (4, 2)}, {}),
        ("plus", {"A": (3, 4), "B": (1, 4)}, {}),
        ("hadamard", {"A": (3, 4), "B": (1, 1)}, {}),
        ("transpose", {"X": (3, 4)}, {}),
        ("embedding", {"TABLE": (7, 4), "TOK": (1, 1)}, {}),
        ("set_row", {"T": (7, 4), "R": (1, 4), "P": (1, 1)}, {}),
    ],
)
@pytest.mark.parametrize("operators", ["listed", "plain"])
def test_integers_stay_exact_beyond_what_a_float_holds(
    helper: str, arrays: dict[str, tuple[int, int]], literals: dict[str, Any], operators: str
) -> None:
    generator = np.random.default_rng(7)
    values: dict[str, Array] = {}
    for name, shape in arrays.items():
        high = 2**30 if helper in {"matmul", "hadamard"} else 2**61
        values[name] = row(4) if name in {"TOK", "P"} else generator.integers(-high, high, shape)
    case = Case(helper, values, literals)
    given = [torch.tensor(array) for array in values.values()]
    got = Alone(case, variant(operators))(*given)
    (want,) = expected(case, values)
    assert got.dtype == torch.int64
    assert got.tolist() == want.tolist()
