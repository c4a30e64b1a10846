# mypy: ignore-errors
"""The compile and run script: SambaFlow's published calls in their published order, on the module beside it."""

from __future__ import annotations

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from model import (
    DTYPE,
    HELD,
    OUTPUT,
    OUTPUTS,
    PROGRAM,
    ArtifactError,
    LogosModule,
    check_returned,
    first_states,
    found_values,
    given_settings,
    initial,
    input_values,
    parsed_tokens,
    step_inputs,
)

# SambaFlow API unverified
import sambaflow.samba.utils

# SambaFlow API unverified
from sambaflow import samba

# SambaFlow API unverified
from sambaflow.samba.utils.argparser import parse_app_args


def main(argv):
    # SambaFlow API unverified
    args = parse_app_args(argv=argv, common_parser_fn=add_common_arguments, run_parser_fn=add_run_arguments)
    settings = given_settings(PROGRAM, getattr(args, "set", []))
    held = {name: value for name, value in settings.items() if PROGRAM.leaves[name].role in HELD}
    # Weights come first: what is loaded when the graph is traced is synced to the device.
    model = LogosModule().load_weights(args.weights, DTYPE, held)
    # SambaFlow API unverified
    samba.from_torch_model_(model)
    # SambaFlow API unverified
    inputs = tuple(samba.from_torch_tensor(tensor, name=name) for name, tensor in named(dummy_values()))
    if args.command == "compile":
        # SambaFlow API unverified
        samba.session.compile(model, inputs)
        pef = os.path.join("out", args.pef_name, args.pef_name + ".pef")
        print(json.dumps({"pef": pef, "output": OUTPUT}))
    elif args.command == "run":
        # SambaFlow API unverified
        traced = sambaflow.samba.utils.trace_graph(model, inputs, pef=args.pef)
        tokens, fed = run_values(args, settings)
        states = first_states(PROGRAM, settings, DTYPE)
        for step in range(max(len(tokens), 1)):
            values = [*step_inputs(PROGRAM, model, fed, states, tokens, step, DTYPE), *states]
            # SambaFlow API unverified
            given = tuple(samba.from_torch_tensor(tensor, name=name) for name, tensor in named(values))
            # SambaFlow API unverified
            results = samba.session.run(input_tensors=given, output_tensors=traced, section_types=["fwd"])
            # SambaFlow API unverified
            results = [samba.to_torch(result) for result in results]
            check_returned(PROGRAM.checked, dict(zip(OUTPUTS, results)))
            states = results[len(OUTPUTS) :]
        shown = OUTPUT if OUTPUT in OUTPUTS else OUTPUTS[0]
        print(json.dumps({"output": shown, "shape": list(results[OUTPUTS.index(shown)].shape)}))
    else:
        print("the commands of this script are compile and run, not " + args.command, file=sys.stderr)
        return 2
    return 0


def add_common_arguments(parser):
    parser.add_argument("--weights", default=HERE, help="folder of weight files")


def add_run_arguments(parser):
    parser.add_argument("--tokens", help="comma-separated; fed to tok, one step each, the step's number to pos")
    value = "a leaf's value: a number (every element), a nested list or @file.npy; a state's is its first"
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help=value)


def dummy_values():
    """A tensor for every argument of forward, in its order: inputs of zeros, states as they begin."""
    return [initial(name, PROGRAM.leaves[name], PROGRAM.fills.get(name, {}), DTYPE) for name in arguments()]


def arguments():
    return PROGRAM.of_role("input") + PROGRAM.of_role("state")


def named(values):
    """The arguments of forward with the names that are burned into the PEF."""
    return [(PROGRAM.python_name(name), value) for name, value in zip(arguments(), values)]


def run_values(args, settings):
    """The token ids and every input's value."""
    tokens = parsed_tokens(PROGRAM, args.tokens, settings)
    if tokens and PROGRAM.leaves["tok"].role != "input":
        raise ArtifactError("tok is a " + PROGRAM.leaves["tok"].role + " of the module, which is not fed on the device")
    return tokens, input_values(PROGRAM, found_values(PROGRAM, args.weights, settings, tokens), settings, tokens)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ArtifactError as error:
        sys.exit(str(error))
