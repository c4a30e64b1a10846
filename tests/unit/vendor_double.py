"""The double of the vendor's package in this process, its modes set."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "sambaflow_double"


def install(monkeypatch: pytest.MonkeyPatch, **modes: object) -> Any:
    """`sambaflow.samba` of the double, as a process that has just begun sees it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "sambaflow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(os.fspath(FOLDER))
    monkeypatch.setenv("SAMBAFLOW_DOUBLE", json.dumps(modes))
    import sambaflow.samba.utils.argparser

    return sambaflow.samba


def last_results() -> list[Any]:
    """What the last step came to, in forward's order, as it lies on the double's device."""
    from sambaflow.samba import session

    (traced,) = session._traced.values()
    return list(traced.last)


def module(forward: Callable[..., Any], **held: Any) -> Any:
    """A module of one function: of the inputs x and T (rows), and of the module itself where it wants its weights."""
    import torch

    class Module(torch.nn.Module):
        def forward(self, x: Any, T: Any) -> Any:
            return forward(self, x, T)

    made = Module()
    for name, value in held.items():
        if isinstance(value, torch.nn.Parameter):
            setattr(made, name, value)
        else:
            made.register_buffer(name, value)
    return made
