"""The emitted module, read back: its operations are the graph's, no more and no fewer."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

from logos_sambaflow.parts import VENDOR_PYTHON
from logos_sambaflow.spelling import HELPER_OPS, ROW_OPS


class EmissionDiffers(Exception):
    """A fault of LOGOS: the emitted module has other operations than the program. Shows both tables."""


_OPS = {**HELPER_OPS, **ROW_OPS}
_APART = re.compile(r"\n\n\n(?=\S)")
"""What stands between a file's classes and functions."""
_SHORT = 4096
"""Characters up to which a part of a file is remembered: helpers are, and what grows with the program is not."""


def operations(model: str, name: str = "LogosModule") -> Counter[str]:
    """How often each op stands in the forward of an emitted module, by its class; the file must parse as the vendor's
    Python."""
    module = next(node for node in _body(model, name) if isinstance(node, ast.ClassDef) and node.name == name)
    forward = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "forward")
    found: Counter[str] = Counter()
    for statement in forward.body[:-1]:
        call = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            found[ast.unparse(statement)] += 1
        else:
            found[_OPS.get(call.func.id, call.func.id)] += 1
    return found


def _body(model: str, name: str) -> list[ast.stmt]:
    """The statements of a file or, where each of its parts parses by itself, and so all of them do, those of the part
    that holds a class. Most parts stand in every module: a build of many parses each once."""
    parts = _APART.split(model)
    own = [part for part in parts if part.startswith(f"class {name}(")]
    others = (part for part in parts if part not in own)
    if len(own) == 1 and all((_known_to_parse if len(part) <= _SHORT else _parses)(part) for part in others):
        with suppress(SyntaxError):
            return _tree(own[0]).body
    return _tree(model).body


def _tree(text: str) -> ast.Module:
    return ast.parse(text, feature_version=VENDOR_PYTHON)


def _parses(part: str) -> bool:
    try:
        _tree(part)
    except SyntaxError:
        return False
    return True


_known_to_parse = lru_cache(maxsize=512)(_parses)


def check_module(model: str, expected: Mapping[str, int], name: str = "LogosModule") -> None:
    """Raises EmissionDiffers where the module's operations are not the program's."""
    found = operations(model, name)
    if found != Counter(expected):
        rows = [f"  {'operation':<24}{'program':>8}{'module':>8}"]
        for name in sorted({*found, *expected}):
            rows.append(f"  {name:<24}{expected.get(name, 0):>8}{found[name]:>8}")
        raise EmissionDiffers("the emitted module is not the program:\n" + "\n".join(rows))
