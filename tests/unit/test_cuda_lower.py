"""From a program to stages: buffers, which kernels, and everything that no kernel takes in one report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logos import OPS, Graph, Q8Reference, Source
from logos.check import read_program
from logos.grammar import make_grammar
from logos_cuda.fusing import FUSES
from logos_cuda.lower import collect_inits, forward_graph, forward_graph_holding
from logos_cuda.stages import Arrivals, Buffer, ForwardError, ForwardGraph, Record, StageRefusal

ROOT = Path(__file__).parents[2]
GRAMMAR = make_grammar(OPS)


def read(text: str) -> Graph:
    return read_program(Source("p.lg", text), GRAMMAR)


def lowered(text: str) -> ForwardGraph:
    return forward_graph(read(text))


def alone(text: str) -> ForwardGraph:
    return forward_graph_holding(read(text), held=FUSES)


def held(graph: ForwardGraph, name: str) -> list[Buffer]:
    """The buffers of a name's values, by version."""
    return [buffer for value, buffer in sorted(graph.held.items(), key=lambda item: item[0].version)
            if value.name == name]  # fmt: skip


def names(graph: ForwardGraph) -> list[list[str]]:
    return [[launch.kernel.name for launch in stage.launches] for stage in graph.stages]


WHOLE = sorted([*ROOT.glob("examples/*/*.lg"), *ROOT.glob("tests/golden/families/*.lg")])


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_whole_programs_become_stages(path: Path) -> None:
    graph = lowered(path.read_text("utf-8"))
    made = sorted((node for stage in graph.stages for node in stage.nodes), key=lambda node: node.index)
    assert made == list(graph.graph.nodes)
    assert all(len(stage.nodes) == 1 or stage.step for stage in graph.stages)
    assert all(stage.launches for stage in graph.stages)
    buffers = {*graph.held.values(), *graph.scratch}
    used = {a for stage in graph.stages for one in stage.launches for a in one.arguments if isinstance(a, Buffer)}
    assert used <= buffers
    assert all(re.fullmatch(r"b\d+_\w+", buffer.name) for buffer in buffers)
    assert len({buffer.name for buffer in buffers}) == len(buffers)
    assert len({kernel.name for kernel in graph.kernels}) == len(graph.kernels)
    for value in graph.held:
        assert (graph.held[value].elements, graph.held[value].real) == (value.size, value.real)


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_a_launch_gives_each_parameter_its_argument(path: Path) -> None:
    """Pointers to buffers of their type, Sizes to ints, floats to floats, and a fault its record and stage."""
    for launch in (launch for stage in lowered(path.read_text("utf-8")).stages for launch in stage.launches):
        given = []
        for argument in launch.arguments:
            if isinstance(argument, Buffer):
                given.append("Real *" if argument.real else "Int *")
            elif argument is Record.FAULT:
                given += ["Fault *", "int"]
            elif isinstance(argument, Arrivals):
                given.append("int *")
            else:
                given.append("float" if isinstance(argument, float) else "Size")
        declared = [re.sub(r"\w+$|const ", "", parameter).strip() for parameter in launch.kernel.parameters.split(", ")]
        assert given == declared, launch.kernel.name
        called = launch.kernel.body.partition("(")[2].rstrip(")").split(", ")
        parameters = [parameter.split()[-1].lstrip("*") for parameter in launch.kernel.parameters.split(", ")]
        assert [name for name in called if name != "nullptr"] == parameters


def test_layers_share_their_kernels_and_scratch() -> None:
    text = (ROOT / "tests/golden/families/llama.lg").read_text("utf-8")
    graph = lowered(text)
    stages = [stage for stage in graph.stages if stage.nodes[0].op.name == "attention"]
    first, second = (stage.launches[0] for stage in stages)
    assert first.kernel == second.kernel
    scratch = [[a for a in launch.arguments if a in graph.scratch] for launch in (first, second)]
    assert scratch[0] == scratch[1] != []
    assert len(set(scratch[0])) == 3


def test_a_state_is_one_buffer_and_a_name_produced_again_another() -> None:
    graph = lowered(
        "Let T be a 4 by 3 tensor of Real.\nLet x be a 1 by 3 tensor of Real.\nLet y be x plus x.\n"
        "Set row 0 of T to y.\nLet y be y plus y.\nSet row 1 of T to y.\nLet z be row 0 of T.\n"
    )
    assert len(held(graph, "T")) == 3
    assert len(set(held(graph, "T"))) == 1
    assert len(set(held(graph, "y"))) == 2


def test_an_op_that_reads_the_state_that_it_writes_sees_it_as_it_was() -> None:
    graph = lowered(
        "Let S be a 3 by 4 tensor of Real.\nLet x be a 1 by 4 tensor of Real.\n"
        "Let y be causal conv of x with weight S state S over 3 taps.\n"
    )
    copied, convolved = graph.stages[0].launches
    state, (scratch,) = held(graph, "S")[0], graph.scratch
    assert (copied.kernel.name, copied.arguments) == ("copy_kernel", (state, scratch, 12))
    assert convolved.arguments[1:3] == (scratch, state)


def test_a_weight_read_only_by_products_is_kept_transposed() -> None:
    graph = alone(
        "Let x be a 1 by 4 tensor of Real.\nLet W be a 4 by 8 tensor of Real.\nLet V be a 4 by 8 tensor of Real.\n"
        "Let N be a 4 by 8 tensor of Int.\nLet i be a 1 by 4 tensor of Int.\nLet y be x matmul W.\n"
        "Let z be x matmul V.\nLet v be transpose of V.\nLet j be i matmul N.\nLet u be x matmul N.\n"
    )
    assert {name: held(graph, name)[0].transposed for name in "xWVNi"} == dict.fromkeys("xVNi", False) | {"W": True}
    assert names(graph) == [
        ["matvec_by_warps_kernel"], ["matvec_columns_4_kernel"], ["transpose_kernel"], ["matmul_int_kernel"],
        ["convert_kernel", "matvec_columns_4_kernel"],
    ]  # fmt: skip


def test_a_fault_comes_from_the_stage_that_it_is_in() -> None:
    text = "Let p be a 1 by 1 tensor of Int.\nLet T be a 4 by 3 tensor of Real.\nLet x be row p of T.\n"
    launch = lowered(text).stages[0].launches[0]
    assert launch.kernel.parameters == (
        "const Int *number, const Real *table, Real *y, Fault *fault, int stage, Size rows, Size columns"
    )
    assert launch.arguments[3:] == (Record.FAULT, 4, 3)


UNREAD = "no kernel reads W in Q8_0: its rows hold 1200 values as stored, no multiple of 32"


def test_what_no_kernel_takes_is_refused_in_one_report() -> None:
    text = (
        "Let q be a 1 by 1200 tensor of Real.\nLet w be a 1 by 1200 tensor of Real.\n"
        "Let k be a 9 by 600 tensor of Int.\nLet v be a 9 by 600 tensor of Real.\n"
        "Let a be attention of q over k and v with 2 heads 1 groups.\n"
        "Let n be rmsnorm of a with weight w with eps 1e39.\n"
        "Let W be a 1200 by 32 tensor of Real.\nLet y be n matmul W.\n"
    )
    stored = Q8Reference(32, 1200, Path("W.q"), Path("W.s"))
    with pytest.raises(ForwardError) as raised:
        forward_graph(read(text), {"W": stored})
    assert raised.value.refusals == (
        StageRefusal(0, 5, "attention: k is a table of Int; the kernel reads tables of Real"),
        StageRefusal(0, 5, "attention: heads of 600 elements; the kernel takes up to 512"),
        StageRefusal(1, 6, "rmsnorm: eps 1e+39 is beyond a Real of 32 bits, 3.40282347e+38"),
        StageRefusal(2, 8, f"matmul: {UNREAD}"),
    )
    assert str(raised.value).splitlines()[3] == f"line 8: matmul: {UNREAD}"


def test_an_op_without_a_kernel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logos_cuda.lower.SPELLINGS", {})
    with pytest.raises(ForwardError) as raised:
        lowered("Let x be a 1 by 4 tensor of Real.\nLet y be silu of x.\nLet z be gelu of x.\n")
    assert [refusal.what for refusal in raised.value.refusals] == [
        "silu: no kernel computes it", "gelu: no kernel computes it"
    ]  # fmt: skip


def test_a_grid_has_a_limit() -> None:
    columns = 2**32
    with pytest.raises(ForwardError, match=r"line 4: attention: 4,294,967,296 blocks of threads; a launch takes up to"):
        lowered(
            f"Let q be a 1 by {columns} tensor of Real.\nLet k be a 1 by {columns} tensor of Real.\n"
            f"Let v be a 1 by {columns} tensor of Real.\n"
            f"Let a be attention of q over k and v with {columns} heads {columns} groups.\n"
        )


def test_grids_stay_within_what_hardware_takes() -> None:
    wide = 2**46
    for text in (
        f"Let x be a {wide} by 2 tensor of Real.\nLet y be silu of x.\n",
        f"Let x be a {wide} by 2 tensor of Real.\nLet y be softmax of x.\nLet z be rmsnorm of y.\n",
        f"Let x be a 1 by 2 tensor of Real.\nLet W be a 2 by {wide} tensor of Real.\nLet y be x matmul W.\n",
        f"Let x be a {wide} by 2 tensor of Real.\nLet W be a 2 by 2 tensor of Real.\nLet y be x matmul W.\n",
        f"Let x be a 2 by {wide} tensor of Real.\nLet y be transpose of x.\nLet z be argmax of y.\n",
    ):
        grids = [launch.grid for stage in lowered(text).stages for launch in stage.launches]
        assert all(0 < x < 2**31 and (y, z) == (1, 1) for x, y, z in grids)


def test_fills_are_collected_by_variable() -> None:
    text = (
        "Let x be a 2 by 2 tensor of Real.\nLet T be a 1 by 3 tensor of Int.\nLet u be a 2 by 2 tensor of Real.\n"
        "Set item 4 of x to 2.5.\nSet item 1 of x to -1.\nSet item 4 of x to 3.5.\nSet item 2 of T to 7.\n"
        "Let y be x plus u.\nLet z be T plus T.\n"
    )
    assert collect_inits(read(text)) == {"x": [(0, -1), (3, 3.5)], "T": [(1, 7)]}
