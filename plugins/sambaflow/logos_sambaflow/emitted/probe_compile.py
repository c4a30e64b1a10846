# mypy: ignore-errors
"""Compiles or runs one probe: SambaFlow's published calls in their published order, on the module beside it."""

from __future__ import annotations

import json
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from module import Probe

# SambaFlow API unverified
import sambaflow.samba.utils

# SambaFlow API unverified
from sambaflow import samba

# SambaFlow API unverified
from sambaflow.samba.utils.argparser import parse_app_args

OUTPUTS = "outputs.json"


def main(argv):
    # SambaFlow API unverified
    args = parse_app_args(argv=argv, common_parser_fn=no_arguments, run_parser_fn=no_arguments)
    with open(os.path.join(HERE, "values.json"), encoding="utf-8") as file:
        values = json.load(file)
    model = Probe({entry["name"]: tensor(entry) for entry in values["parameters"]})
    # SambaFlow API unverified
    samba.from_torch_model_(model)
    given = [(entry["name"], tensor(entry)) for entry in values["inputs"]]
    # Traced with other values than it is run with: what was baked in as a constant shows as wrong.
    traced_with = [(name, torch.ones_like(value)) for name, value in given]
    # SambaFlow API unverified
    inputs = tuple(samba.from_torch_tensor(value, name=name) for name, value in traced_with)
    if args.command == "compile":
        # SambaFlow API unverified
        samba.session.compile(model, inputs)
    elif args.command == "run":
        # SambaFlow API unverified
        traced = sambaflow.samba.utils.trace_graph(model, inputs, pef=args.pef)
        # SambaFlow API unverified
        inputs = tuple(samba.from_torch_tensor(value, name=name) for name, value in given)
        # SambaFlow API unverified
        results = samba.session.run(input_tensors=inputs, output_tensors=traced, section_types=["fwd"])
        # SambaFlow API unverified
        results = [samba.to_torch(result) for result in results]
        write_outputs([numbers(result) for result in results])
    else:
        print("the commands of this script are compile and run, not " + args.command, file=sys.stderr)
        return 2
    return 0


def no_arguments(parser):
    """The script has no arguments of its own."""


def tensor(entry):
    return torch.tensor(entry["values"], dtype=getattr(torch, entry["dtype"]))


def numbers(result):
    """Nested lists: Int and bool as whole numbers, Real as float64."""
    result = result.detach().cpu()
    return (result.double() if result.dtype.is_floating_point else result.long()).tolist()


def write_outputs(outputs):
    """Whole or not at all: the process may be ended while it writes."""
    part = OUTPUTS + ".part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(outputs, file)
    os.replace(part, OUTPUTS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
