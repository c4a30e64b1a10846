"""Which tensor a variable takes, by name: the table of the families' naming."""

from __future__ import annotations

import pytest

from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS
from logos.source import Source
from logos_gguf import gguf_name
from logos_gguf.names import attention_layers, split_name

EVERYWHERE = {
    "an": "attn_norm.weight", "Wg": "ffn_gate.weight", "Wu": "ffn_up.weight", "Wd": "ffn_down.weight",
    "Wr": "ffn_gate_inp.weight", "Eg": "ffn_gate_exps.weight", "Eu": "ffn_up_exps.weight",
    "Ed": "ffn_down_exps.weight", "Sr": "ffn_gate_inp_shexp.weight", "Sg": "ffn_gate_shexp.weight",
    "Su": "ffn_up_shexp.weight", "Sd": "ffn_down_shexp.weight",
}  # fmt: skip
ATTENTION = {
    "Qn": "attn_q_norm.weight", "Kn": "attn_k_norm.weight", "Wq": "attn_q.weight", "Wqg": "attn_q.weight",
    "Wk": "attn_k.weight", "Wv": "attn_v.weight", "Wo": "attn_output.weight",
}  # fmt: skip
DELTA = {
    "Wq": "attn_qkv.weight", "Wk": "attn_qkv.weight", "Wv": "attn_qkv.weight", "Wz": "attn_gate.weight",
    "Wo": "ssm_out.weight", "Wcq": "ssm_conv1d.weight", "Wck": "ssm_conv1d.weight", "Wcv": "ssm_conv1d.weight",
    "Wb": "ssm_beta.weight", "Wa": "ssm_alpha.weight", "Dt": "ssm_dt.bias", "Al": "ssm_a", "Gn": "ssm_norm.weight",
}  # fmt: skip


@pytest.mark.parametrize("stem", [*EVERYWHERE, *ATTENTION])
@pytest.mark.parametrize(
    ("family", "lacks"),
    [("llama", "Qn Kn Wqg"), ("qwen3", "Wqg"), ("qwen3moe", "Wqg"), ("qwen35", ""), ("qwen35moe", "")],
)
def test_a_stem_names_its_tensor_in_an_attention_layer(stem: str, family: str, lacks: str) -> None:
    due = None if stem in lacks.split() else f"blk.12.{(EVERYWHERE | ATTENTION)[stem]}"
    assert gguf_name(f"{stem}12", {12}, family) == due


@pytest.mark.parametrize("variable", ["an0", "Wq0", "emb", "on", "Wout"])
def test_a_family_that_there_is_not_names_nothing(variable: str) -> None:
    assert gguf_name(variable, {0}, "nope") is None


@pytest.mark.parametrize("stem", [*EVERYWHERE, *DELTA])
def test_a_stem_names_its_tensor_in_a_delta_layer(stem: str) -> None:
    assert gguf_name(f"{stem}0", {3}) == f"blk.0.{(EVERYWHERE | DELTA)[stem]}"


@pytest.mark.parametrize("stem", sorted(set(DELTA) - set(ATTENTION)))
def test_a_delta_stem_means_nothing_in_an_attention_layer(stem: str) -> None:
    assert gguf_name(f"{stem}3", {3}) is None
    assert gguf_name(f"{stem}0", (), "llama") is None


@pytest.mark.parametrize("stem", sorted(set(ATTENTION) - set(DELTA)))
def test_an_attention_stem_means_nothing_in_a_delta_layer(stem: str) -> None:
    assert gguf_name(f"{stem}0", {3}) is None


def test_the_norm_before_the_feed_forward_is_named_by_the_family() -> None:
    for family in ("llama", "qwen3", "qwen3moe"):
        assert gguf_name("fn7", (), family) == "blk.7.ffn_norm.weight"
    for family in ("qwen35", "qwen35moe"):
        assert gguf_name("fn7", (), family) == "blk.7.post_attention_norm.weight"


def test_unnumbered_variables() -> None:
    assert gguf_name("emb", ()) == gguf_name("Emb", ()) == "token_embd.weight"
    assert gguf_name("on", ()) == "output_norm.weight"
    assert gguf_name("Wout", ()) == "output.weight"


@pytest.mark.parametrize(
    "variable",
    ["K0", "V0", "Cq0", "S0", "tok", "pos", "RopeCos", "x3", "an", "an00", "an01", "Wq", "emb0", "on1", "Wq_0", "0",
     "Wq" + "1" * 5000],
)  # fmt: skip
def test_other_names_take_no_tensor(variable: str) -> None:
    assert gguf_name(variable, {0}) is None


def test_a_name_splits_into_stem_and_all_trailing_digits() -> None:
    assert split_name("Wq10") == ("Wq", 10)
    assert split_name("on") == ("on", None)


def test_a_layer_is_attention_where_an_attention_ops_query_ends_in_its_digits() -> None:
    text = """\
Let q12 be a 1 by 4 tensor of Real.
Let head2q3 be a 1 by 4 tensor of Real.
Let q007 be a 1 by 4 tensor of Real.
Let q be a 1 by 4 tensor of Real.
Let T be a 5 by 4 tensor of Real.
Let a be attention of q12 over T and T with 2 heads 2 groups.
Let b be attention of head2q3 over T and T with 2 heads 2 groups.
Let d be attention of q007 over T and T with 2 heads 2 groups.
Let e be attention of q over T and T with 2 heads 2 groups.
Let q8 be a plus b.
Let f be softmax of q8.
"""
    graph = read_program(Source("made.lg", text), make_grammar(OPS))
    assert attention_layers(graph) == {12, 3}
