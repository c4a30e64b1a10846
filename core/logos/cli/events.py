"""What `--json` prints: lines of JSON, among them the events of builds and refusals."""

from __future__ import annotations

import json
import math

EVENTS = 1
"""The version of the events that builds and refusals print with `--json`; schemas/events.json describes them."""


def event_line(event: str, **fields: object) -> str:
    """One event of `--json`, as a line of JSON."""
    return json_text({"event": event, "schema": EVENTS, **fields})


def json_text(value: object) -> str:
    """A value as one line of JSON, which has no infinities and no NaN: they are the strings "inf", "-inf" and "nan"."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_said(value), ensure_ascii=False, allow_nan=False)


def _said(value: object) -> object:
    if isinstance(value, dict):
        return {key: _said(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_said(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
