"""How each op is said in ONNX: a function of the op's holes, as its reference semantics is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from logos import Node, Value


def value_name(value: Value) -> str:
    """A variable's name in the model. It begins with `v` and a number, so it is no word of ONNX's and no other's."""
    return f"v{value.version}_{value.name}"


class Body:
    """The lines of a model's graph, in ONNX's own text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.made = 0

    def __call__(self, operator: str, *operands: str, **attributes: object) -> str:
        """Adds a node; the name of what it makes. `t` and a number is no variable's name."""
        self.made += 1
        said = ", ".join(f"{key} = {value}" for key, value in attributes.items())
        self.lines.append(f"t{self.made} = {operator} {f'<{said}> ' if said else ''}({', '.join(operands)})")
        return f"t{self.made}"

    def sentence(self, node: Node) -> None:
        """Adds what a sentence says. The last line makes its result."""
        (result,) = node.results
        self.lines.append(f"# line {node.line}: {node.op.name}")
        made = SPELLINGS[node.op.name](self, **node.operands)
        self.lines[-1] = self.lines[-1].replace(f"{made} =", f"{value_name(result)} =", 1)

    def ints(self, *numbers: int) -> str:
        return self("Constant", **{"value_ints: ints": list(numbers)})

    def number(self, value: float) -> str:
        return self("Constant", **{"value_float: float": float(value)})

    def real(self, value: Value) -> str:
        """The value as reals: a tensor of Int counts as Real beside one."""
        return value_name(value) if value.real else self("Cast", value_name(value), to=1)

    def alike(self, one: Value, other: Value) -> tuple[str, str]:
        """Both as they are where both are Int, else both as reals."""
        if one.real or other.real:
            return self.real(one), self.real(other)
        return value_name(one), value_name(other)

    def row(self, row: Value | int) -> str:
        """A row's number, 1 by 1: a variable, or a literal."""
        return value_name(row) if isinstance(row, Value) else self.shaped(self.ints(row), (1, 1))

    def shaped(self, name: str, shape: Sequence[int]) -> str:
        return self("Reshape", name, self.ints(*shape))

    def part(self, name: str, start: int, stop: int) -> str:
        """Columns start … stop−1."""
        return self("Slice", name, self.ints(start), self.ints(stop), self.ints(1))


def matmul(body: Body, A: Value, B: Value) -> str:
    return body("MatMul", *body.alike(A, B))


def plus(body: Body, A: Value, B: Value) -> str:
    return body("Add", *body.alike(A, B))


def squared_relu(body: Body, X: Value) -> str:
    positive = body("Relu", body.real(X))
    return body("Mul", positive, positive)


def swiglu(body: Body, GATE: Value, UP: Value) -> str:
    gate = body.real(GATE)
    return body("Mul", body("Mul", gate, body("Sigmoid", gate)), body.real(UP))


def rmsnorm(body: Body, X: Value, RES: Value | None, W: Value | None, EPS: float, H: int | None) -> str:
    x = body.real(X) if RES is None else body("Add", body.real(X), body.real(RES))
    runs = x if H is None else body.shaped(x, (H, X.columns // H))
    mean = body("ReduceMean", body("Mul", runs, runs), body.ints(1), keepdims=1)
    normed = body("Div", runs, body("Sqrt", body("Add", mean, body.number(EPS))))
    weighted = normed if W is None else body("Mul", normed, body.real(W))
    return weighted if H is None else body.shaped(weighted, X.shape)


def rope(body: Body, Q: Value, RC: Value, RS: Value, H: int | None) -> str:
    half = RC.columns
    heads = H or Q.columns // (2 * half)
    width = Q.columns // heads
    x, c, s = body.shaped(body.real(Q), (heads, width)), body.real(RC), body.real(RS)
    a, b = body.part(x, 0, half), body.part(x, half, 2 * half)
    parts = [body("Sub", body("Mul", a, c), body("Mul", b, s)), body("Add", body("Mul", a, s), body("Mul", b, c))]
    if 2 * half < width:
        parts.append(body.part(x, 2 * half, width))
    return body.shaped(body("Concat", *parts, axis=1), Q.shape)


def attention(body: Body, Q: Value, K: Value, V: Value, H: int, KV: int, P: Value | int | None) -> str:
    width = Q.columns // H
    keys, values = body.real(K), body.real(V)
    if P is not None:
        stop = body("Add", body.shaped(body.row(P), (1,)), body.ints(1))
        keys, values = (body("Slice", table, body.ints(0), stop, body.ints(0)) for table in (keys, values))
    q = body.shaped(body.real(Q), (KV, H // KV, width))
    k = body("Transpose", body.shaped(keys, (-1, KV, width)), perm=[1, 2, 0])
    v = body("Transpose", body.shaped(values, (-1, KV, width)), perm=[1, 0, 2])
    scores = body("Div", body("MatMul", q, k), body.number(math.sqrt(width)))
    return body.shaped(body("MatMul", body("Softmax", scores), v), Q.shape)


def embedding(body: Body, TOK: Value | int, TABLE: Value) -> str:
    return body("GatherND", value_name(TABLE), body.row(TOK))


def set_row(body: Body, P: Value | int, T: Value, R: Value) -> str:
    row = body.real(R) if T.real else value_name(R)
    return body("ScatterND", value_name(T), body.row(P), row)


def argmax(body: Body, X: Value) -> str:
    """−1 where the operand holds a NaN, which has no largest element: no silent choice."""
    x = body.shaped(value_name(X), (1, X.size))
    if not X.real:
        x = body("Cast", body("Equal", x, body("ReduceMax", x, body.ints(1), keepdims=1)), to=1)
    broken = body("Cast", body("IsNaN", x), to=7)
    nan = body("Cast", body("ReduceMax", broken, body.ints(1), keepdims=1), to=9)
    return body("Where", nan, body.ints(-1), body("ArgMax", x, axis=1, keepdims=1))


SPELLINGS: Mapping[str, Callable[..., str]] = {
    "matmul": matmul,
    "plus": plus,
    "rmsnorm": rmsnorm,
    "rope": rope,
    "attention": attention,
    "swiglu": swiglu,
    "embedding": embedding,
    "set row": set_row,
    "argmax": argmax,
    "squared relu": squared_relu,
}
