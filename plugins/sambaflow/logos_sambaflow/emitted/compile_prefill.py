# mypy: ignore-errors
"""What compile.py has besides for LogosPrefill: a module of its own, in a PEF of its own, in a process of its own. The
states go from one to the other in a folder."""

from __future__ import annotations

import json
import os

import model
from compile_script import check_fed, dummy_arguments, run_values, step_values
from model import DTYPE, OUTPUT, OUTPUTS, PROGRAM, ArtifactError, check_returned, first_states

PREFILL = PROGRAM.prefill
# The file beside kept states that says how many steps they come after.
POSITION = "position.json"


def add_prefill_arguments(parser):
    what = "the module: LogosModule (step) or LogosPrefill; each has a PEF of its own [%(default)s]"
    parser.add_argument("--module", choices=["step", "prefill"], default="step", help=what)


def add_states_argument(parser):
    what = "where --module prefill leaves the states behind its chunks; --module step goes on from there"
    parser.add_argument("--states", metavar="DIR", help=what)


def module_class(args):
    return PREFILL.module if args.module == "prefill" else PROGRAM.module


def module_arguments(args):
    """As dummy_arguments, for the module that is asked for: LogosPrefill's inputs have a row for each step."""
    fed = PREFILL.fed if args.module == "prefill" else ()
    rows = {PROGRAM.python_name(name) for name in fed}
    return [
        (name, tensor.expand(PREFILL.steps, 1).contiguous() if name in rows else tensor)
        for name, tensor in dummy_arguments()
    ]


def prefill_asked(args):
    return args.module == "prefill" or (args.command == "run" and args.states is not None)


def with_prefill(args, module, device, settings, recorded):
    """The command run or test on LogosPrefill, or behind it."""
    if args.command == "test":
        return test_chunks(args, module, device, recorded)
    return (run_chunks if args.module == "prefill" else run_on)(args, module, device, settings)


def run_chunks(args, module, device, settings):
    """The whole chunks of the tokens; their states go to the folder of --states."""
    tokens, fed = run_values(args, settings)
    chunks = len(tokens) // PREFILL.steps
    if not chunks:
        raise ArtifactError("LogosPrefill takes chunks of %d tokens; %d are given" % (PREFILL.steps, len(tokens)))
    device.open(args, first_states(PROGRAM, settings, DTYPE))
    for chunk in range(chunks):
        results = device.step(model.prefill_inputs(PROGRAM, fed, tokens, chunk * PREFILL.steps, DTYPE))
        check_returned(PREFILL.checked, dict(zip(OUTPUTS, results)))
    taken = chunks * PREFILL.steps
    if args.states is not None:
        write_states(args.states, device.states(), taken)
    said = shown(results)
    said["steps"] = taken
    print(json.dumps(said))
    return 0


def run_on(args, module, device, settings):
    """The tokens behind those whose states the folder of --states holds, one by one."""
    position = read_states(args.states, settings)
    tokens, fed = run_values(args, settings)
    if len(tokens) <= position:
        raise ArtifactError(
            "%s holds the states behind %d tokens; give these and more, not %d" % (args.states, position, len(tokens))
        )
    device.open(args, first_states(PROGRAM, settings, DTYPE))
    for step in range(position, len(tokens)):
        results = device.step(step_values(module, device, fed, tokens, step))
        check_returned(PROGRAM.checked, dict(zip(OUTPUTS, results)))
    print(json.dumps(shown(results)))
    return 0


def test_chunks(args, module, device, recorded):
    """As test, by chunks: outputs at every step, states behind each chunk."""
    fed, tokens = recorded.inputs(), recorded.tokens()
    check_fed()
    model.recorded_chunk(PROGRAM, recorded.steps)
    device.open(args, recorded.first_states(DTYPE))
    states = PROGRAM.of_role("state")
    report = model.Report(recorded, args.bound, [*OUTPUTS, *states])
    for chunk in range(recorded.steps // PREFILL.steps):
        first = chunk * PREFILL.steps
        results = dict(zip(OUTPUTS, device.step(model.prefill_inputs(PROGRAM, fed, tokens, first, DTYPE))))
        for step in range(PREFILL.steps):
            found = {name: value if name in PREFILL.last else value[step : step + 1] for name, value in results.items()}
            if step == PREFILL.steps - 1:
                found.update(zip(states, device.states()))
            report.add(first + step, found)
    return report.tell()


def shown(results):
    name = OUTPUT if OUTPUT in OUTPUTS else OUTPUTS[0]
    return {"output": name, "shape": list(results[OUTPUTS.index(name)].shape)}


def write_states(folder, states, position):
    os.makedirs(folder, exist_ok=True)
    for name, state in zip(PROGRAM.of_role("state"), states):
        model.np.save(os.path.join(folder, name + ".npy"), model.numpy_values(state))
    with open(os.path.join(folder, POSITION), "w") as file:
        json.dump(position, file)


def read_states(folder, settings):
    """Adds the folder's states to the values that are given; how many steps they come after."""
    path = os.path.join(folder, POSITION)
    if not os.path.isfile(path):
        raise ArtifactError(path + " is not there; run --module prefill --states " + folder + " writes it")
    settings.update((name, model.npy_array(os.path.join(folder, name + ".npy"))) for name in PROGRAM.of_role("state"))
    with open(path) as file:
        return json.load(file)
