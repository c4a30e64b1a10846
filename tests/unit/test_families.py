"""Model families: what an author writes, what it refuses, and the rows that each view takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logos.check import read_program
from logos.grammar import make_grammar
from logos.graph import Graph
from logos.hookspecs import AuthorOptions
from logos.ops import OPS
from logos.refusal import Refused
from logos.source import Source
from logos.weights.checkpoint import Tensor
from logos.weights.views import Table, TensorView
from logos_gguf.families.decoder import Decoder, put_back
from logos_gguf.families.llama import LLAMA
from logos_gguf.families.qwen3 import QWEN3
from logos_gguf.families.qwen3moe import QWEN3MOE
from logos_gguf.families.qwen35 import QWEN35
from logos_gguf.families.qwen35moe import QWEN35MOE

GRAMMAR = make_grammar(OPS)
D, HEADS, GROUPS, HEAD, HIDDEN, VOCABULARY = 8, 4, 2, 4, 12, 10
EXPERTS, EXPERT = 3, 5
KEY_HEADS, VALUE_HEADS, DELTA = 2, 4, 6


@dataclass
class MadeHeader:
    metadata: Mapping[str, object]
    tensors: Mapping[str, Tensor]


@dataclass
class MadeCheckpoint(MadeHeader):
    path: Path = Path("made.gguf")


def metadata(family: Decoder, **more: object) -> dict[str, object]:
    keys: dict[str, object] = {
        "block_count": 2,
        "context_length": 64,
        "embedding_length": D,
        "attention.head_count": HEADS,
        "attention.head_count_kv": GROUPS,
        "attention.key_length": HEAD,
        "attention.layer_norm_rms_epsilon": float(np.float32(1e-5)),
        "feed_forward_length": HIDDEN,
    }
    if family.experts:
        keys |= {"expert_count": EXPERTS, "expert_used_count": 2, "expert_feed_forward_length": EXPERT}
    if family.shared:
        keys |= {"expert_shared_feed_forward_length": 7}
    if family.delta:
        keys |= {
            "attention.recurrent_layers": [True, False],
            "ssm.conv_kernel": 3,
            "ssm.state_size": DELTA,
            "ssm.group_count": KEY_HEADS,
            "ssm.time_step_rank": VALUE_HEADS,
            "ssm.inner_size": VALUE_HEADS * DELTA,
        }
    keys |= more
    return {
        "general.architecture": family.name,
        "general.name": "Made\nup",
        **{f"{family.name}.{key}": value for key, value in keys.items() if value is not None},
    }


def shapes(family: Decoder, layers: int = 2) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (VOCABULARY, D), "output_norm.weight": (D,), "output.weight": (VOCABULARY, D),
    }  # fmt: skip
    for layer in range(layers):
        block = _delta() if family.delta and layer == 0 else _attention(family)
        block |= {"attn_norm.weight": (D,), **_feed_forward(family)}
        found |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    return found


def _attention(family: Decoder) -> dict[str, tuple[int, ...]]:
    rows = HEADS * HEAD * (2 if family.gate else 1)
    found: dict[str, tuple[int, ...]] = {
        "attn_q.weight": (rows, D), "attn_k.weight": (GROUPS * HEAD, D), "attn_v.weight": (GROUPS * HEAD, D),
        "attn_output.weight": (D, HEADS * HEAD),
    }  # fmt: skip
    return found | ({"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)} if family.norms else {})


def _delta() -> dict[str, tuple[int, ...]]:
    channels = (2 * KEY_HEADS + VALUE_HEADS) * DELTA
    return {
        "attn_qkv.weight": (channels, D), "attn_gate.weight": (VALUE_HEADS * DELTA, D),
        "ssm_conv1d.weight": (channels, 3),
        "ssm_beta.weight": (VALUE_HEADS, D), "ssm_alpha.weight": (VALUE_HEADS, D), "ssm_dt.bias": (VALUE_HEADS,),
        "ssm_a": (VALUE_HEADS,), "ssm_norm.weight": (DELTA,), "ssm_out.weight": (D, VALUE_HEADS * DELTA),
    }  # fmt: skip


def _feed_forward(family: Decoder) -> dict[str, tuple[int, ...]]:
    norm = "post_attention_norm.weight" if family.delta else "ffn_norm.weight"
    if not family.experts:
        return {
            norm: (D,), "ffn_gate.weight": (HIDDEN, D), "ffn_up.weight": (HIDDEN, D), "ffn_down.weight": (D, HIDDEN),
        }  # fmt: skip
    found: dict[str, tuple[int, ...]] = {
        norm: (D,), "ffn_gate_inp.weight": (EXPERTS, D), "ffn_gate_exps.weight": (EXPERTS, EXPERT, D),
        "ffn_up_exps.weight": (EXPERTS, EXPERT, D), "ffn_down_exps.weight": (EXPERTS, D, EXPERT),
    }  # fmt: skip
    if family.shared:
        found |= {
            "ffn_gate_inp_shexp.weight": (D,), "ffn_gate_shexp.weight": (7, D), "ffn_up_shexp.weight": (7, D),
            "ffn_down_shexp.weight": (D, 7),
        }  # fmt: skip
    return found


def header(
    family: Decoder, drop: tuple[str, ...] = (), add: Mapping[str, tuple[int, ...]] | None = None, **more: object
) -> MadeCheckpoint:
    made = {name: shape for name, shape in shapes(family).items() if name not in drop} | dict(add or {})
    tensors = {name: Tensor(name, shape, "F32", 0, Path("made.gguf")) for name, shape in made.items()}
    return MadeCheckpoint(metadata(family, **more), tensors)


def graph_of(family: Decoder, made: MadeCheckpoint, options: AuthorOptions | None = None) -> Graph:
    return read_program(Source("made.lg", family.author(made, options or AuthorOptions())), GRAMMAR)


def refusal(family: Decoder, made: MadeCheckpoint, options: AuthorOptions | None = None) -> str:
    with pytest.raises(Refused) as caught:
        family.author(made, options or AuthorOptions())
    (one,) = caught.value.refusals
    return one.text().splitlines()[0]


FAMILIES = [LLAMA, QWEN3, QWEN3MOE, QWEN35, QWEN35MOE]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_an_authored_program_checks_and_every_leaf_has_a_view_of_its_shape(family: Decoder) -> None:
    made = header(family)
    graph = graph_of(family, made)
    assert graph.output.name == "next"
    assert {leaf.name for leaf in graph.leaves if family.view(leaf.name, graph, None) is None and not leaf.state} == {
        "tok", "pos",
    }  # fmt: skip
    taken = set()
    for leaf in graph.leaves:
        view = None if leaf.state else family.view(leaf.name, graph, made)
        if isinstance(view, TensorView):
            taken.add(view.tensor)
            assert view.shape(made.tensors[view.tensor]) == leaf.value.shape, leaf.name
    assert taken == set(made.tensors)


def test_the_programs_text_is_headed_named_and_short() -> None:
    text = LLAMA.author(header(LLAMA), AuthorOptions(context=32, layers=1))
    lines = text.splitlines()
    assert lines[0] == "# Made up: one decode step, by `logos author`."
    assert [line for line in lines if line.startswith("## ")] == [
        "## Inputs", "## Embedding and rope", "## Layer 0: attention", "## Layer 0: feed-forward", "## Output",
    ]  # fmt: skip
    assert "Let h0 be rmsnorm of x0 with weight an0 with eps 1e-05." in lines
    assert "Let RopeCos be a 32 by 2 tensor of Real." in lines
    assert "Let K0 be a 32 by 8 tensor of Real." in lines
    assert "Let q0 be rope of q0 with cos c and sin s across 4 heads." in lines
    assert "Let a0 be attention of q0 over K0 and V0 with 4 heads 2 groups up to pos." in lines
    assert lines[-3:] == [
        "Let xn be rmsnorm of x1 with weight on with eps 1e-05.",
        "Let logits be xn matmul Wout.",
        "Let next be argmax of logits.",
    ]


@pytest.mark.parametrize(("length", "asked", "rows"), [(64, None, 64), (9000, None, 2048), (64, 100, 100)])
def test_the_context_is_the_smaller_of_the_models_and_2048_unless_asked(
    length: int, asked: int | None, rows: int
) -> None:
    graph = graph_of(LLAMA, header(LLAMA, context_length=length), AuthorOptions(context=asked))
    assert {leaf.value.rows for leaf in graph.leaves if leaf.state} == {rows}


@pytest.mark.parametrize(("eps", "text"), [(1e-6, None), (1e-5, "1e-05"), (3e-7, "3e-07"), (0.1, "0.1"), (None, None)])
def test_eps_is_the_shortest_text_of_its_float32_and_the_default_is_left_out(
    eps: float | None, text: str | None
) -> None:
    stored = None if eps is None else float(np.float32(eps))
    lines = LLAMA.author(header(LLAMA, **{"attention.layer_norm_rms_epsilon": stored}), AuthorOptions())
    assert f"Let h0 be rmsnorm of x0 with weight an0{f' with eps {text}' if text else ''}.\n" in lines


def test_a_tied_head_takes_the_embedding_and_says_so() -> None:
    made = header(LLAMA, drop=("output.weight",))
    text = LLAMA.author(made, AuthorOptions())
    assert "# The head is tied: Wout is the embedding's own tensor, transposed.\nLet Wout be a 8 by 10" in text
    graph = graph_of(LLAMA, made)
    assert LLAMA.view("Wout", graph, made) == TensorView("token_embd.weight", None, True)
    assert LLAMA.view("Wout", graph, header(LLAMA)) == TensorView("output.weight", None, True)


def test_prediction_layers_are_not_run() -> None:
    made = header(QWEN3, nextn_predict_layers=1)
    assert {leaf.name for leaf in graph_of(QWEN3, made).leaves if leaf.state} == {"K0", "V0"}


def test_the_interval_decides_where_no_list_says_which_layers_are_recurrent() -> None:
    made = header(QWEN35, **{"attention.recurrent_layers": None, "full_attention_interval": 2})
    states = {leaf.name for leaf in graph_of(QWEN35, made).leaves if leaf.state}
    assert states == {"Cq0", "Ck0", "Cv0", "S0", "K1", "V1"}


def test_the_list_wins_over_the_interval() -> None:
    made = header(QWEN35, full_attention_interval=1)
    assert "S0" in {leaf.name for leaf in graph_of(QWEN35, made).leaves}


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_llamas_rows_are_put_back_from_neighbours_to_halves(n: int) -> None:
    head, heads = 8, 3
    original = np.arange(head * heads)
    stored = original.reshape(heads, head).copy()
    stored[:, :n] = original.reshape(heads, head)[:, :n].reshape(heads, 2, n // 2).swapaxes(1, 2).reshape(heads, n)
    order = [row for part in put_back(range(head * heads), head, n) for row in part]
    np.testing.assert_array_equal(stored.reshape(-1)[order], original)


def rows(view: object) -> list[int]:
    assert isinstance(view, TensorView)
    assert view.ranges is not None
    return [row for part in view.ranges for row in part]


def test_llamas_views_of_queries_and_keys_only_are_reordered() -> None:
    made = header(LLAMA)
    graph = graph_of(LLAMA, made)
    assert rows(LLAMA.view("Wk1", graph, made)) == [0, 2, 1, 3, 4, 6, 5, 7]
    assert LLAMA.view("Wv1", graph, made) == TensorView("blk.1.attn_v.weight", None, True)
    assert QWEN3.view("Wq0", graph, header(QWEN3)) == TensorView("blk.0.attn_q.weight", None, True)


def test_a_gate_lies_after_each_heads_query_rows() -> None:
    made = header(QWEN35)
    graph = graph_of(QWEN35, made)
    assert rows(QWEN35.view("Wq1", graph, made)) == [h * 8 + i for h in range(4) for i in range(4)]
    assert rows(QWEN35.view("Wqg1", graph, made)) == [h * 8 + 4 + i for h in range(4) for i in range(4)]


def test_a_delta_block_shares_its_projection_and_its_convolution() -> None:
    made = header(QWEN35)
    graph = graph_of(QWEN35, made)
    parts = {"q": range(12), "k": range(12, 24), "v": range(24, 48)}
    for stem, part in parts.items():
        assert QWEN35.view(f"W{stem}0", graph, made) == TensorView("blk.0.attn_qkv.weight", (part,), True)
        assert QWEN35.view(f"Wc{stem}0", graph, made) == TensorView("blk.0.ssm_conv1d.weight", (part,), True)


def test_fused_attention_and_fused_experts_are_cut_by_rows() -> None:
    names = ("attn_q", "attn_k", "attn_v", "ffn_gate_exps", "ffn_up_exps")
    drop = tuple(f"blk.{layer}.{name}.weight" for layer in range(2) for name in names)
    add = {
        f"blk.{layer}.{name}.weight": shape
        for layer in range(2)
        for name, shape in {"attn_qkv": (32, D), "ffn_gate_up_exps": (EXPERTS, 2 * EXPERT, D)}.items()
    }
    made = header(QWEN3MOE, drop, add)
    graph = graph_of(QWEN3MOE, made)
    assert QWEN3MOE.view("Wq0", graph, made) == TensorView("blk.0.attn_qkv.weight", (range(16),), True)
    assert QWEN3MOE.view("Wk0", graph, made) == TensorView("blk.0.attn_qkv.weight", (range(16, 24),), True)
    assert QWEN3MOE.view("Wv0", graph, made) == TensorView("blk.0.attn_qkv.weight", (range(24, 32),), True)
    gates, ups = (rows(QWEN3MOE.view(f"{stem}1", graph, made)) for stem in ("Eg", "Eu"))
    assert gates == [*range(5), *range(10, 15), *range(20, 25)]
    assert ups == [*range(5, 10), *range(15, 20), *range(25, 30)]


def test_without_a_checkpoint_a_view_names_tensor_and_orientation_alone() -> None:
    graph = graph_of(QWEN35, header(QWEN35))
    assert QWEN35.view("Wq1", graph, None) == TensorView("blk.1.attn_q.weight", None, True)
    assert QWEN35.view("Wq0", graph, None) == TensorView("blk.0.attn_qkv.weight", None, True)
    assert QWEN35.view("Dt0", graph, None) == TensorView("blk.0.ssm_dt.bias", None, False)
    assert QWEN35.view("RopeCos", graph, None) == Table()
    assert QWEN35.view("K1", graph, None) is None


REFUSED: dict[str, tuple[Decoder, dict[str, Any]]] = {
    "block_count: the file has no such key, and the model cannot be written without it": (LLAMA, {"block_count": None}),
    "block_count: is 0; a whole number from 1 to 4096 is due": (LLAMA, {"block_count": 0}),
    "block_count: is 4294967295; a whole number from 1 to 4096 is due": (LLAMA, {"block_count": 2**32 - 1}),
    "block_count: is '2'; a whole number from 1 to 4096 is due": (LLAMA, {"block_count": "2"}),
    "attention.head_count: is 4097; a whole number from 1 to 4096 is due": (LLAMA, {"attention.head_count": 4097}),
    "attention.key_length: is 1073741824; a whole number from 1 to 4096 is due": (
        LLAMA, {"attention.key_length": 2**30},
    ),
    "embedding_length: is 4294967295; a whole number from 1 to 2147483647 is due": (
        LLAMA, {"embedding_length": 2**32 - 1},
    ),
    "attention.head_count_kv: differs from layer to layer ([2, 4]), which LOGOS does not do yet": (
        LLAMA, {"attention.head_count_kv": [2, 4]},
    ),
    "attention.head_count_kv: is 3, which does not divide the 4 query heads": (LLAMA, {"attention.head_count_kv": 3}),
    "attention.value_length: is 9; LOGOS does attention whose values are as wide as keys": (
        LLAMA, {"attention.value_length": 9},
    ),
    "attention.layer_norm_rms_epsilon: is -1.0; a number from 0 up is due": (
        LLAMA, {"attention.layer_norm_rms_epsilon": -1.0},
    ),
    "attention.sliding_window: is 512, which LOGOS does not compute for this family yet": (
        LLAMA, {"attention.sliding_window": 512},
    ),
    "expert_count: is above 0, and the family llama has no experts": (LLAMA, {"expert_count": 8}),
    "expert_used_count: is 9 of 3 experts": (QWEN3MOE, {"expert_used_count": 9}),
    "nextn_predict_layers: leaves no layer of 2": (QWEN35, {"nextn_predict_layers": 2}),
    "attention.recurrent_layers: lists 1 layers of 2": (QWEN35, {"attention.recurrent_layers": [True]}),
    "attention.recurrent_layers: is 5; an array of true and false is due": (QWEN35, {"attention.recurrent_layers": 5}),
    "ssm.inner_size: is not 4 value heads times their width 6": (QWEN35, {"ssm.inner_size": 25}),
    "ssm.group_count: is 3, which does not divide 4 heads": (QWEN35, {"ssm.group_count": 3}),
    "rope.scaling.type: is longrope; LOGOS knows none, linear and yarn": (LLAMA, {"rope.scaling.type": "longrope"}),
    "rope.dimension_count: is 6; an even number up to the head width 4 is due": (LLAMA, {"rope.dimension_count": 6}),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_metadata_that_a_family_cannot_honour_is_refused_by_key(what: str) -> None:
    family, more = REFUSED[what]
    assert refusal(family, header(family, **more)) == (
        f"made.gguf, metadata key {family.name}.{what} [checkpoint-metadata]"
    )


def test_heads_given_for_each_layer_alike_count_once() -> None:
    made = header(LLAMA, **{"attention.head_count_kv": [2, 2]})
    assert LLAMA.author(made, AuthorOptions()) == LLAMA.author(header(LLAMA), AuthorOptions())


def test_a_block_count_beyond_the_tensors_stops_at_the_first_missing_one() -> None:
    assert refusal(LLAMA, header(LLAMA, block_count=4096)) == (
        "made.gguf, tensor blk.2.attn_norm.weight: the program needs an2 from blk.2.attn_norm.weight; the file has no "
        "such tensor; the nearest is blk.1.attn_norm.weight [missing-tensor]"
    )


def test_a_tensor_that_the_program_would_leave_out_is_refused() -> None:
    assert refusal(LLAMA, header(LLAMA, add={"blk.1.attn_q.bias": (16,)})) == (
        "made.gguf, tensor blk.1.attn_q.bias: the checkpoint holds blk.1.attn_q.bias, which this family's program does "
        "not use: its numbers would be wrong [unused-tensor]"
    )
    fewer = AuthorOptions(layers=1)
    assert "Layer 0" in LLAMA.author(header(LLAMA, add={"blk.1.attn_q.bias": (16,)}), fewer)


def test_more_layers_than_there_are_is_refused() -> None:
    assert refusal(LLAMA, header(LLAMA), AuthorOptions(layers=3)) == (
        "--layers: 3 layers are asked for; the model has 2 [too-many-layers]"
    )


def test_a_file_without_an_architecture_is_refused() -> None:
    made = header(LLAMA)
    made.metadata = {key: value for key, value in made.metadata.items() if key != "general.architecture"}
    assert refusal(LLAMA, made) == (
        "made.gguf, metadata key general.architecture: the file has no such key as text, so its model is unknown "
        "[checkpoint-metadata]"
    )


HOSTILE: list[object] = [
    0, 1, 3, 2**16, 2**31 - 1, 2**32 - 1, 2**63, -1, True, 0.0, -0.5, 1e-38, 3e38, float("nan"), float("inf"), "", "x",
    [], [1, 2], [0] * 5, ["a"], [[1]],
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_value_of_a_key_does_worse_than_a_refusal(family: Decoder) -> None:
    sound = header(family)
    graph = graph_of(family, sound)
    keys = {*sound.metadata, *(f"{family.name}.rope.{key}" for key in ROPE_KEYS)}
    refused = 0
    for key in sorted(keys):
        for value in HOSTILE:
            made = MadeCheckpoint({**sound.metadata, key: value}, sound.tensors)
            try:
                family.author(made, AuthorOptions(context=4))
                for leaf in graph.leaves:
                    family.view(leaf.name, graph, made)
            except Refused:
                refused += 1
    assert refused > 3 * len(keys)


ROPE_KEYS = ("dimension_count", "freq_base", "scaling.type", "scaling.factor", "scaling.original_context_length")
