"""Which groups of the core's table become one stage of the cuda target, and why others do not."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import pytest
from fusable_programs import random_program

from logos import OPS, Graph, Source
from logos.check import read_program
from logos.grammar import make_grammar
from logos_cuda.fusing import FUSES
from logos_cuda.lower import forward_graph, stored_graph
from logos_cuda.stages import Buffer, ForwardGraph, Kernel
from logos_cuda.storage import Multiply, Storage, keeps_q8

GRAMMAR = make_grammar(OPS)
HEADS = """\
Let q be a 1 by 8 tensor of Real.
Let k be a 1 by 8 tensor of Real.
Let v be a 1 by 8 tensor of Real.
Let c be a 1 by 2 tensor of Real.
Let n be a 1 by 4 tensor of Real.
Let p be a 1 by 1 tensor of Int.
Let K be a 5 by 8 tensor of Real.
Let V be a 5 by 8 tensor of Real.
"""
APPENDS = """\
Let b be rope of k with cos c and sin c across 2 heads.
Set row p of K to b.
Set row p of V to v.
Let y be attention of q over K and V with 2 heads 2 groups.
"""


def read(text: str) -> Graph:
    return read_program(Source("p.lg", text), GRAMMAR)


def joined(graph: ForwardGraph) -> list[tuple[str, int]]:
    """The steps that act, with how many operations each stage has."""
    return [(stage.step, len(stage.nodes)) for stage in graph.stages if stage.step]


def reasons(graph: ForwardGraph) -> set[str]:
    return {note for stage in graph.stages for note in stage.notes}


def test_rows_are_appended_with_what_comes_before_them() -> None:
    assert joined(forward_graph(read(HEADS + APPENDS))) == [("norm-rope-append", 3)]


TURNED = """\
Let a be rmsnorm of q with weight n across 2 heads.
Let a be rope of a with cos c and sin c across 1 heads.
"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            HEADS + "Let j be argmax of v.\n" + APPENDS.replace("row p", "row j"),
            "j is computed, and tells its own row outside K",
        ),
        (
            HEADS + APPENDS + "Let one be argmax of v.\nLet m be p plus one.\nSet row 0 of p to m.\n",
            "p is computed, and tells its own row outside K",
        ),
        (HEADS + TURNED + APPENDS.replace("of q over", "of a over"), "heads of 4 and of 8 elements"),
    ],
)
def test_rows_that_the_kernel_does_not_take_are_appended_alone(text: str, why: str) -> None:
    graph = forward_graph(read(text))
    assert joined(graph) == []
    assert reasons(graph) == {f"not in norm-rope-append: {why}"}


def test_norms_that_are_summed_otherwise_stand_alone() -> None:
    text = HEADS.replace("by 8", "by 300") + (
        "Let a be rmsnorm of q across 2 heads.\nLet b be rmsnorm of k across 1 heads.\nSet row p of K to b.\n"
        "Set row p of V to v.\nLet y be attention of a over K and V with 1 heads 1 groups.\n"
    )
    graph = forward_graph(read(text))
    assert reasons(graph) == {"not in norm-rope-append: rows of 150 and of 300 are not summed alike"}


def test_a_state_that_is_written_and_read_in_one_stage_is_not() -> None:
    """Each of the two convolutions would move the ring while the other's rows are made."""
    text = """\
Let x be a 1 by 8 tensor of Real.
Let w be a 1 by 8 tensor of Real.
Let C be a 1 by 8 tensor of Real.
Let z be a 1 by 2 tensor of Real.
Let S be a 8 by 4 tensor of Real.
Let g be a 1 by 4 tensor of Real.
Let q be causal conv of x with weight w state C over 1 taps.
Let q be silu of q.
Let b be sigmoid of z.
Let y be gated delta of q over q and x with gate x beta b decay z state S norm g with 2 heads 2 groups.
"""
    assert joined(forward_graph(read(text))) == [("delta-inputs", 3)]
    graph = forward_graph(read(text.replace("conv of x with", "conv of C with")))
    assert joined(graph) == []
    assert reasons(graph) == {"not in delta-inputs: C is written and read"}


def test_long_groups_are_cut() -> None:
    head = "Let x be a 1 by 4 tensor of Real.\nLet a be a 1 by 4 tensor of Real.\n"
    chain = forward_graph(read(head + "Let y be x plus a.\n" + 39 * "Let y be y plus a.\n"))
    assert joined(chain) == [("chain", 16), ("chain", 16), ("chain", 8)]
    inner = [len([value for value in stage.nodes if chain.held[value.results[0]].inner]) for stage in chain.stages]
    assert inner == [15, 15, 7]
    weights = "".join(f"Let W{i} be a 4 by 4 tensor of Real.\n" for i in range(19))
    products = "".join(f"Let y{i} be x matmul W{i}.\n" for i in range(19))
    assert joined(forward_graph(read(head + weights + products))) == [("qkv", 8), ("qkv", 8), ("qkv", 3)]


PRODUCTS = """\
Let x be a 1 by 32 tensor of Real.
Let W be a 32 by 32 tensor of Real.
Let V be a 32 by 32 tensor of Real.
Let U be a 32 by 32 tensor of Real.
Let g be x matmul W.
Let u be x matmul V.
Let h be swiglu of g and u.
Let d be h matmul U.
Let y be d plus x.
"""


def test_products_of_other_storage_stand_alone_with_the_reason() -> None:
    assert joined(forward_graph(read(PRODUCTS))) == [("gate-up", 3), ("residual", 2)]
    quantized = stored_graph(read(PRODUCTS), Storage(frozenset("WVU")))
    assert joined(quantized) == [("gate-up", 3), ("residual", 2)]
    exact = stored_graph(read(PRODUCTS), Storage(frozenset("WVU"), Multiply.EXACT))
    assert joined(exact) == []
    assert {note for note in reasons(exact) if note.startswith("not in")} == {
        "not in gate-up: W is in Q8_0, multiplied exact", "not in residual: U is in Q8_0, multiplied exact"
    }  # fmt: skip
    mixed = stored_graph(read(PRODUCTS), Storage(frozenset("WU")))
    assert joined(mixed) == [("residual", 2)]
    turned = forward_graph(read(PRODUCTS + "Let t be transpose of V.\nLet y be y plus x.\n"))
    why = "V is not stored as (out, in), since more than products read it"
    assert f"not in gate-up: {why}" in reasons(turned)


ROUTED = """\
Let x be a 1 by 32 tensor of Real.
Let w be a 1 by 32 tensor of Real.
Let R be a 2 by 32 tensor of Real.
Let G be a 64 by 32 tensor of Real.
Let D be a 64 by 32 tensor of Real.
Let U be a 32 by 32 tensor of Real.
Let h be rmsnorm of x with weight w.
Let m be moe of h with router R gate G up G down D top 1 of 2 experts.
Let y be h matmul U.
"""


def q8_graph(graph: Graph, held: Collection[str] = ()) -> ForwardGraph:
    """The stages with all in Q8_0 that can be."""
    q8 = frozenset(leaf.name for leaf in graph.leaves if keeps_q8(graph, leaf) is None)
    return stored_graph(graph, Storage(q8), held)


def test_what_makes_a_row_stores_it_in_q8_where_its_readers_take_that() -> None:
    made = q8_graph(read(ROUTED))
    assert [(stage.marks, [launch.kernel.name for launch in stage.launches]) for stage in made.stages] == [
        (("norm-quantize",), ["rmsnorm_weight_narrow_q8_kernel"]),
        (("router", "act-quantize"), [
            "router_by_warps_kernel", "experts_hidden_quantized_kernel", "experts_down_q8_kernel",
        ]),
        ((), ["matvec_q8_by_warps_kernel"]),
    ]  # fmt: skip
    # The router reads the row as it is.
    assert {value.name for value, buffer in made.held.items() if buffer.inner} == set()
    alone = q8_graph(read(ROUTED.replace("moe of h", "moe of x")))
    assert {value.name for value, buffer in alone.held.items() if buffer.inner} == {"h"}
    two = stored_graph(read(ROUTED), Storage(frozenset("GDU"), single_pass=False))
    assert [stage.marks for stage in two.stages] == [("norm-quantize",), ("router",), ()]


def test_a_product_of_int_is_stored_as_it_is_and_widened_and_quantized_once() -> None:
    declared = "".join(f"Let {name} be a 32 by 4 tensor of Real.\n" for name in ("V", "W"))
    text = f"Let i be a 1 by 32 tensor of Int.\n{declared}Let h be i hadamard i.\n"
    made = q8_graph(read(f"{text}Let a be h matmul V.\nLet c be h matmul W.\n"), held=("qkv",))
    assert [[launch.kernel.name for launch in stage.launches] for stage in made.stages] == [
        ["hadamard_same_int_kernel"],
        ["convert_kernel", "quantize_kernel", "matvec_q8_by_warps_kernel"],
        ["matvec_q8_by_warps_kernel"],
    ]  # fmt: skip


def test_rows_that_are_no_blocks_are_quantized_apart_with_the_reason() -> None:
    text = ROUTED.replace("of x with weight w", "of x across 2 heads").replace("moe of h", "moe of x")
    made = q8_graph(read(text))
    assert "not in norm-quantize: rows of 16 are no blocks of 32" in reasons(made)
    last = [launch.kernel.name for launch in made.stages[-1].launches]
    assert last == ["quantize_kernel", "matvec_q8_by_warps_kernel"]
    mixed = stored_graph(read(PRODUCTS), Storage(frozenset("U")))
    assert "not in act-quantize: its products are by weights of float32" in reasons(mixed)


def wide_program(random: Random) -> str:
    """A random program whose rows are blocks of Q8_0, and one of whose inputs is of Int."""
    text = random_program(random).replace("a 4 by", "a 64 by").replace("by 4 tensor", "by 64 tensor")
    for name, rows in (("n", 1), ("S", 64)):
        text = text.replace(f"Let {name} be a {rows} by 2 tensor", f"Let {name} be a {rows} by 32 tensor")
    return text.replace("Let x be a 1 by 64 tensor of Real", "Let x be a 1 by 64 tensor of Int")


@pytest.mark.parametrize("held", [(), FUSES], ids=["fused", "held"])
def test_launches_give_what_their_kernels_take_and_no_two_kernels_share_a_name(held: Collection[str]) -> None:
    kernels: dict[str, Kernel] = {}
    for graph in (q8_graph(read(wide_program(Random(seed))), held) for seed in range(40)):
        for launch in (launch for stage in graph.stages for launch in stage.launches):
            assert kernels.setdefault(launch.kernel.name, launch.kernel) == launch.kernel
            parameters = launch.kernel.parameters.replace("Fault *fault, int stage", "Fault *fault").split(", ")
            for parameter, given in zip(parameters, launch.arguments, strict=True):
                if isinstance(given, Buffer):
                    assert parameter.removeprefix("const ").split(" *")[0] == given.element.value, launch.kernel.text
    assert any("_q8" in name for name in kernels)


@pytest.mark.parametrize("step", FUSES)
def test_what_is_held_does_not_act(step: str) -> None:
    graphs = [*(read(random_program(Random(seed))) for seed in range(12)), read(ROUTED)]
    for held, there in (((), True), ((step,), False), (FUSES, False)):
        stages = [stage for graph in graphs for stage in q8_graph(graph, held).stages]
        found = {step for stage in stages for step in (stage.step, *stage.marks)}
        assert (step in found) == there
