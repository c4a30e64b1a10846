"""The file that stands for a PEF: what was compiled, for the run to be held to."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sambaflow.double import ContractError

FORMAT = "sambaflow double"
# parse_app_args knows where a PEF goes; session.compile is not told.
arguments: dict[str, Any] = {}


def exact() -> bool:
    """Whether the precision preset turns bfloat16 off."""
    return arguments.get("graphamp_preset") == "mp0"


def write_pef(options: Mapping[str, Any], graphs: Sequence[dict[str, Any]]) -> str:
    """Writes the file and gives its path."""
    known = {**arguments, **options}
    name = known.get("pef_name") or "unnamed"
    folder = os.path.join(known.get("output_folder") or "out", name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name + ".pef")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, "graphs": list(graphs)}, file, indent=1)
    print(f"[Info][SAMBA] PEF file {path} created", file=sys.stderr)
    return path


def read_pef(path: str | None) -> dict[str, dict[str, Any]]:
    """The graphs of a file, by name."""
    if not path:
        raise ContractError("a run takes --pef with the file that compile wrote")
    with open(path, encoding="utf-8") as file:
        record = json.load(file)
    if record.get("format") != FORMAT:
        raise ContractError(f"{path}: no PEF of this double")
    return {graph["name"]: graph for graph in record["graphs"]}


def check_same(graph: Mapping[str, Any], operators: Sequence[str], path: str) -> None:
    """ContractError: the PEF was compiled from another module."""
    if graph["operators"] != list(operators):
        raise ContractError(f"{path} was compiled from another graph: its operators differ")
