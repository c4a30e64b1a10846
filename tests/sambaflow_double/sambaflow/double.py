"""The double's own: its modes, its log, and the error of a broken contract. The vendor's package has no such module."""

from __future__ import annotations

import json
import os
from typing import Any


class ContractError(RuntimeError):
    """A script or module breaks what the vendor documents or publishes."""


def modes() -> dict[str, Any]:
    """What SAMBAFLOW_DOUBLE says, read anew at every use."""
    return {
        "fallback": [],
        "bfloat16": False,
        "wrong": {},
        "fail": [],
        "known": [],
        "log": None,
        **json.loads(os.environ.get("SAMBAFLOW_DOUBLE") or "{}"),
    }


def logged(call: str, *words: object) -> None:
    """Adds a call to the log that the modes name."""
    path = modes()["log"]
    if path:
        with open(path, "a", encoding="utf-8") as log:
            log.write(json.dumps([call, *words]) + "\n")
