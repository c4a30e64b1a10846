"""What `logos explain` says of the stages of a device: which sentences, launches, bytes, by layer and in all."""

from __future__ import annotations

import json
import re

from toy_build import Toy

from logos import DevicePlan, DeviceStage, Source
from logos.check import read_program
from logos.device_plan import by_layer
from logos.grammar import make_grammar
from logos.ops import OPS

PROGRAM = """\
Let x0 be a 1 by 4 tensor of Real.
Let i be a 1 by 4 tensor of Int.
Let tok be a 1 by 1 tensor of Int.
Let emb be a 5 by 4 tensor of Real.
Let an0 be a 1 by 4 tensor of Real.
Let W0 be a 4 by 8 tensor of Real.
Let V0 be a 4 by 4 tensor of Real.
Let on be a 1 by 8 tensor of Real.
Let e be row tok of emb.
Let h0 be e plus x0.
Let h0 be rmsnorm of h0 with weight an0.
Let q0 be h0 matmul W0.
Let k0 be h0 matmul V0.
Let q0 be silu of q0.
Let q0 be gelu of q0.
Let j be i plus i.
Let j be j plus i.
Let y be rmsnorm of q0 with weight on.
"""
CUDA = ("p.lg", "--target", "cuda", "-D", "compile=off")


def explained(toy: Toy, *more: str) -> str:
    toy.write("p.lg", PROGRAM)
    ran = toy.logos("explain", *CUDA, *more)
    assert (ran.code, ran.err) == (0, "")
    return re.sub(r"      forward\.cu:.*\n", "", ran.out)


def test_a_stage_says_what_it_joins_launches_and_touches(toy: Toy) -> None:
    out = explained(toy)
    assert """\
  9: Let e be row tok of emb.
      embedding: e 1 by 4
      group 1 of 7
      launches embedding; reads 24 bytes, writes 16 bytes; 0 flops
  10: Let h0 be e plus x0.
      plus: h0 1 by 4
      group 2 of 7, add-norm, with line 11; h0 is not stored
  11: Let h0 be rmsnorm of h0 with weight an0.
      rmsnorm: h0 1 by 4
      group 2 of 7, add-norm, with line 10
      launches add_rmsnorm_narrow; reads 48 bytes, writes 16 bytes; 20 flops
  12: Let q0 be h0 matmul W0.
      matmul: q0 1 by 8
      group 3 of 7, qkv, with line 13
  13: Let k0 be h0 matmul V0.
      matmul: k0 1 by 4
      group 3 of 7, qkv, with line 12
      launches matvec_parts_2_by_warps; reads 208 bytes, writes 48 bytes; 96 flops
""" in out
    assert """\
      group 5 of 7
      launches plus_same_int; reads 32 bytes, writes 32 bytes; 4 flops
      not in chain: an op of Int tells its own overflow
""" in out


def test_layers_and_memory_are_summed(toy: Toy) -> None:
    out = explained(toy)
    assert """\

on the device, a step
  layer 0: 4 stages, 4 launches, 352 bytes read, 128 bytes written
  outside the layers: 3 stages, 3 launches, 120 bytes read, 80 bytes written
  in all: 7 stages, 7 launches, 472 bytes read, 208 bytes written

a token at least
""" in out
    assert """\

memory on the device
  input: 248 bytes
  weight: 128 bytes
  computed: 208 bytes
  where they are read out: 48 bytes
  in all: 632 bytes
""" in out


def test_what_is_held_is_not_joined(toy: Toy) -> None:
    out = explained(toy, "--hold", "qkv", "--hold", "add-norm")
    assert "  qkv, held: " in out
    assert "  in all: 9 stages, 9 launches, 504 bytes read, 224 bytes written\n" in out


def test_equal_layers_in_a_row_stand_together_where_there_are_many(toy: Toy) -> None:
    head = "Let x0 be a 1 by 4 tensor of Real.\n"
    lines = [f"Let w{i} be a 1 by 4 tensor of Real.\n" for i in range(12)]
    made = [f"Let x{i + 1} be rmsnorm of x{i} with weight w{i}.\n" for i in range(12)]
    toy.write("p.lg", "".join([head, *lines, *made]))
    out = toy.logos("explain", *CUDA).out
    assert "  layers 0 to 11, each: 1 stage, 1 launch, 32 bytes read, 16 bytes written\n  in all: 12 stages" in out


def test_a_stage_is_of_the_layer_of_its_leaves_else_of_its_values() -> None:
    graph = read_program(Source("p.lg", PROGRAM.replace("x0", "x7")), make_grammar(OPS))
    stages = tuple(DeviceStage((node.index,), ("k",), 1, 1) for node in graph.nodes)
    layers = {sum_.layer: sum_.stages for sum_ in by_layer(graph, DevicePlan(stages, ()))}
    assert layers == {0: 6, 7: 1, None: 3}
    graph = read_program(Source("p.lg", PROGRAM.replace("x0", "x" + "7" * 5000)), make_grammar(OPS))
    layers = {sum_.layer: sum_.stages for sum_ in by_layer(graph, DevicePlan(stages, ()))}
    assert layers == {0: 6, None: 4}


def test_of_experts_those_that_are_chosen_are_read(toy: Toy) -> None:
    """A row of 4, a router of 4 rows, and a quarter of 8, 8 and 16 rows of experts."""
    shapes = {"x": "1 by 4", "R": "4 by 4", "G": "8 by 4", "U": "8 by 4", "D": "16 by 2"}
    declared = "".join(f"Let {name} be a {shape} tensor of Real.\n" for name, shape in shapes.items())
    experts = "Let y be moe of x with router R gate G up U down D top 1 of 4 experts.\n"
    toy.write("p.lg", declared + experts)
    launched = "router_by_warps, experts_hidden, experts_down"
    assert f"      launches {launched}; reads 176 bytes, writes 16 bytes; 80 flops\n" in toy.logos("explain", *CUDA).out


TOKEN = """
a token at least
  at 1 position: 336 bytes (336 bytes of weights, 0 bytes of states, 0 bytes of cached rows), 172 flops, 7 launches
"""


def test_a_token_says_what_it_takes_and_how_long_on_cards(toy: Toy) -> None:
    out = explained(toy)
    assert TOKEN in out
    assert (
        "\n  L40S, 48.0 GB, 864 GB/s: fits (632 bytes); at 1 position 0.000 ms of memory and 0.009 ms between "
        "launches, up to 109,885 tok/s\n"
    ) in out


def test_json_has_the_plan_as_one_object(toy: Toy) -> None:
    toy.write("p.lg", PROGRAM)
    ran = toy.logos("explain", *CUDA, "--json")
    record = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert list(record) == ["stages", "token", "memory", "cards", "choices"]
    assert record["stages"][1] == {
        "lines": [10, 11], "steps": ["add-norm"], "launches": ["add_rmsnorm_narrow"], "reads": 48, "writes": 16,
        "flops": 20, "flops_a_position": 0, "notes": [],
    }  # fmt: skip
    assert sum(len(stage["launches"]) for stage in record["stages"]) == record["token"][0]["launches"] == 7
    assert [card["card"] for card in record["cards"]] == [
        "H200", "H100", "A100-80", "L40S", "RTX 5090", "RTX 4090", "RTX 3090", "RTX 3060"
    ]  # fmt: skip


def test_json_and_compiled_are_of_a_target_that_has_them(toy: Toy) -> None:
    toy.write("p.lg", PROGRAM)
    for option in ("--json", "--compiled"):
        assert toy.logos("explain", "p.lg", option).code == 2
    ran = toy.logos("explain", "p.lg", "--target", "rdu-sambaflow", "--json")
    event = {"what": "target rdu-sambaflow plans no device", "refusal": "no-device-plan", "where": "--json"}
    assert (ran.code, event.items() <= json.loads(ran.out).items()) == (1, True)
    ran = toy.logos("explain", "p.lg", "--target", "rdu-sambaflow", "--compiled")
    assert (ran.code, ran.err) == (
        1, "--compiled: target rdu-sambaflow compiles no kernels [no-kernels]\n"
        "  next: leave the option out, or name a target that does\n"
    )  # fmt: skip


DECODE = """\
Let tok be a 1 by 1 tensor of Int.
Let emb be a 5 by 4 tensor of Real.
Let W be a 4 by 5 tensor of Real.
Let x be row tok of emb.
Let h be silu of x.
Let h be gelu of h.
Let l be h matmul W.
Let o be argmax of l.
"""


def test_memory_is_what_the_emitted_program_takes_when_it_starts(toy: Toy) -> None:
    """Of its table of buffers those that are kept; the plan has inner values besides, by a name of their own."""
    toy.write("p.lg", DECODE)
    width = {"Int": 8, "Real": 4}
    for kind, options, more in (
        ("forward", (), False),
        ("generate", (), True),
        ("generate", ("prefill=1",), False),
        ("forward", ("prefill=3",), True),
    ):
        given = [*CUDA, *(word for option in (f"kind={kind}", *options) for word in ("-D", option))]
        record = json.loads(toy.logos("explain", *given, "--json").out)
        memory, more_launches = record["memory"], [note for note in record["choices"] if "one launch more" in note]
        assert len(more_launches) == (kind == "generate")
        assert ("many steps of a prompt at once" in memory) == more
        assert toy.logos("emit", *given, "--out", "made").code == 0
        text = (toy.folder / f"made/{kind}.cu").read_text("utf-8")
        kept = re.search(r"KEPT = (\d+),", text)
        assert kept is not None
        found = re.findall(r'^    \{"\w+", Size\((\d+)LL\) \* Size\(sizeof\((\w+)\)\)', text, re.MULTILINE)
        taken = sum(int(count) * width[element] for count, element in found[: int(kept[1])])
        assert sum(memory.values()) - memory["where they are read out"] == taken
