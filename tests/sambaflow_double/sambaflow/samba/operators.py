"""Which operators the double takes: those the vendor documents or uses, and two on trust."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch

from sambaflow.double import ContractError, modes

DOCUMENTED = (
    "abs add addmm argmax bitwise_not bmm cat cross_entropy_loss cumsum div dropout expand flatten gelu index_select"
    " linear logical_or masked_fill matmul"
)
USED = (
    "contiguous embedding max minimum mul neg permute pow reciprocal reshape rsqrt silu softmax split split_with_sizes"
    " squeeze sub sum transpose unsqueeze view to int float bfloat16 long _to_copy"
)
# No listed operator makes them, and the module marks them as unknown.
ON_TRUST = "exp softplus"
# They are no work of a device's: an element of a tuple, and torch.export's own checks.
BOOKKEEPING = ("getitem", "_assert_tensor_metadata")
_LISTED = frozenset(f"{DOCUMENTED} {USED} {ON_TRUST}".split())
_INDEXED = ("aten.index_put_", "aten.select", "aten.slice")


def operator(node: Any) -> str | None:
    """The operator that a node of a traced graph calls (`aten.softmax.int`), None for bookkeeping."""
    name = str(node.target)
    if node.op != "call_function" or any(word in name for word in BOOKKEEPING):
        return None
    return name


def check_operators(graph: Any) -> list[str]:
    """The operators of a traced graph, in order. ContractError: one that writes in place, reads a tensor's value on the
    host, or is not listed."""
    found = []
    for node, name in _calls(graph):
        if _mutates(node.target):
            raise ContractError(_write(node, name))
    for node, name in _calls(graph):
        if not _has_tensors(node):
            raise ContractError(f"{name}: a tensor's value is read while tracing; what depends on it cannot be traced")
        if name.split(".")[1] not in _LISTED and name not in _taken():
            raise ContractError(f"{name}: neither documented nor used by the vendor in a traced graph")
        found.append(name)
    return found


def check_support(graph: Any) -> None:
    """What the modes say of a graph's operators at compile."""
    known = modes()
    for name in dict.fromkeys(name for _, name in _calls(graph)):
        if name in known["fail"]:
            raise RuntimeError(f"compilation failed: operator {name} is not supported")
        if name in known["fallback"]:
            print(f"[Warning][SAMBA] operator {name} has no RDU implementation, falling back to CPU", file=sys.stderr)


def _calls(graph: Any) -> Iterator[tuple[Any, str]]:
    for node in graph.nodes:
        name = operator(node)
        if name is not None:
            yield node, name


def _taken() -> list[str]:
    known = modes()
    return [*known["known"], *known["fallback"], *known["wrong"], *known["fail"]]


def _mutates(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _write(node: Any, name: str) -> str:
    source = node.args[0]
    while getattr(source, "op", None) == "call_function" and "view" in str(source.target):
        source = source.args[0]
    if name.startswith(_INDEXED[0]) or str(getattr(source, "target", "")).startswith(_INDEXED):
        return f"{name}: an index assignment; a traced tensor takes none (write the new tensor out of place)"
    return f"{name}: a write in place; a traced tensor takes none (return the new tensor as an output)"


def _has_tensors(node: Any) -> bool:
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else [value]
    return all(isinstance(one, torch.Tensor) for one in values)
