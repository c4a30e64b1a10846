# mypy: ignore-errors
"""The compile and run script on the module beside it; Device says by which calls of the SDK."""

from __future__ import annotations

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import model
from carried import Device
from compile_prefill import add_prefill_arguments, add_states_argument, module_arguments, module_class
from compile_prefill import prefill_asked, with_prefill
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
from sambaflow import samba

# SambaFlow API unverified
from sambaflow.samba.utils.argparser import parse_app_args

COMMANDS = ("compile", "run", "test")


def main(argv):
    # SambaFlow API unverified
    args = parse_app_args(argv=argv, common_parser_fn=add_common_arguments, run_parser_fn=add_run_arguments)
    if args.command not in COMMANDS:
        print("the commands of this script are " + ", ".join(COMMANDS) + ", not " + args.command, file=sys.stderr)
        return 2
    settings = given_settings(PROGRAM, getattr(args, "set", None) or [])
    recorded = recording(args.command)
    held = {name: value for name, value in settings.items() if PROGRAM.leaves[name].role in HELD}
    held.update(recorded.weights() if recorded else {})
    # Weights come first: what is loaded when the graph is traced is synced to the device.
    module = LogosModule().load_weights(args.weights, DTYPE, held)  # without prefill
    module = module_class(args)().load_weights(args.weights, DTYPE, held)  # with prefill
    # SambaFlow API unverified
    samba.from_torch_model_(module)
    device = Device(module, dummy_arguments())  # without prefill
    device = Device(module, module_arguments(args))  # with prefill
    if args.command == "compile":
        print(json.dumps({"pef": device.compile(args), "output": OUTPUT}))
        return 0
    if prefill_asked(args):  # with prefill
        return with_prefill(args, module, device, settings, recorded)  # with prefill
    return run(args, module, device, settings) if args.command == "run" else test(args, module, device, recorded)


def run(args, module, device, settings):
    tokens, fed = run_values(args, settings)
    device.open(args, first_states(PROGRAM, settings, DTYPE))
    for step in range(max(len(tokens), 1)):
        values = step_values(module, device, fed, tokens, step)
        results = device.step(values)
        check_returned(PROGRAM.checked, dict(zip(OUTPUTS, results)))
    shown = OUTPUT if OUTPUT in OUTPUTS else OUTPUTS[0]
    print(json.dumps({"output": shown, "shape": list(results[OUTPUTS.index(shown)].shape)}))
    return 0


def test(args, module, device, recorded):
    """Holds what the device returns at every recorded step to the reference machine's; 4 where a variable lies beyond
    its bound."""
    fed, tokens = recorded.inputs(), recorded.tokens()
    if tokens:
        check_fed()
    device.open(args, recorded.first_states(DTYPE))
    states = PROGRAM.of_role("state")
    report = model.Report(recorded, args.bound, [*OUTPUTS, *states])
    for step in range(recorded.steps):
        values = step_values(module, device, fed, tokens, step)
        found = dict(zip(OUTPUTS, device.step(values)))
        found.update(zip(states, device.states()))
        report.add(step, found)
    return report.tell()


def recording(command):
    """The recording, for the weights that it may hold: compile goes on without one, run takes none."""
    if not hasattr(model, "Recorded"):
        if command == "test":
            raise ArtifactError("this artifact has no recording to test against; build it with -D selftest=N")
        return None
    there = os.path.isfile(os.path.join(HERE, model.SELFTEST))
    return model.Recorded(PROGRAM) if command == "test" or (command == "compile" and there) else None


def add_common_arguments(parser):
    parser.add_argument("--weights", default=HERE, help="folder of weight files")
    dtype = str(DTYPE).split(".")[-1]
    bound = "test: the dtype whose bound holds; bfloat16 for a PEF whose precision preset computes in it [%(default)s]"
    parser.add_argument("--bound", choices=["float32", "bfloat16"], default=dtype, help=bound)
    add_prefill_arguments(parser)  # with prefill


def add_run_arguments(parser):
    parser.add_argument("--tokens", help="comma-separated; fed to tok, one step each, the step's number to pos")
    value = "a leaf's value: a number (every element), a nested list or @file.npy; a state's is its first"
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help=value)
    add_states_argument(parser)  # with prefill


def dummy_arguments():
    """A tensor for every argument of forward, in its order, with the name that is burned into the PEF: inputs of zeros,
    states as they begin."""
    names = PROGRAM.of_role("input") + PROGRAM.of_role("state")
    values = [initial(name, PROGRAM.leaves[name], PROGRAM.fills.get(name, {}), DTYPE) for name in names]
    return [(PROGRAM.python_name(name), value) for name, value in zip(names, values)]


def run_values(args, settings):
    """The token ids and every input's value."""
    tokens = parsed_tokens(PROGRAM, args.tokens, settings)
    if tokens:
        check_fed()
    return tokens, input_values(PROGRAM, found_values(PROGRAM, args.weights, settings, tokens), settings, tokens)


def check_fed():
    role = PROGRAM.leaves["tok"].role
    if role != "input":
        raise ArtifactError("tok is a " + role + " of the module, which is not fed on the device")


def step_values(module, device, fed, tokens, step):
    """The inputs of a step, its row numbers checked. States are asked for where one of them is a row number."""
    rows = [name for name, _, _ in PROGRAM.checks if PROGRAM.leaves[name].role == "state"]
    return step_inputs(PROGRAM, module, fed, device.states() if rows else (), tokens, step, DTYPE)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except (ArtifactError, OSError) as error:
        sys.exit(str(error))
