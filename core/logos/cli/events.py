"""Events: what `--json` prints of builds and refusals, one object a line."""

from __future__ import annotations

import json

EVENTS = 1
"""The version of the events that builds and refusals print with `--json`; schemas/events.json describes them."""


def event_line(event: str, **fields: object) -> str:
    """One event of `--json`, as a line of JSON."""
    return json.dumps({"event": event, "schema": EVENTS, **fields}, ensure_ascii=False)
