"""The emitted module, read back: its operations are the graph's, no more and no fewer."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping

from logos_sambaflow.parts import VENDOR_PYTHON
from logos_sambaflow.spelling import HELPER_OPS, ROW_OPS


class EmissionDiffers(Exception):
    """A fault of LOGOS: the emitted module has other operations than the program. Shows both tables."""


_OPS = {**HELPER_OPS, **ROW_OPS}


def operations(model: str, name: str = "LogosModule") -> Counter[str]:
    """How often each op stands in the forward of an emitted module, by its class; the file must parse as the vendor's
    Python."""
    tree = ast.parse(model, feature_version=VENDOR_PYTHON)
    module = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    forward = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "forward")
    found: Counter[str] = Counter()
    for statement in forward.body[:-1]:
        call = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            found[ast.unparse(statement)] += 1
        else:
            found[_OPS.get(call.func.id, call.func.id)] += 1
    return found


def check_module(model: str, expected: Mapping[str, int], name: str = "LogosModule") -> None:
    """Raises EmissionDiffers where the module's operations are not the program's."""
    found = operations(model, name)
    if found != Counter(expected):
        rows = [f"  {'operation':<24}{'program':>8}{'module':>8}"]
        for name in sorted({*found, *expected}):
            rows.append(f"  {name:<24}{expected.get(name, 0):>8}{found[name]:>8}")
        raise EmissionDiffers("the emitted module is not the program:\n" + "\n".join(rows))
