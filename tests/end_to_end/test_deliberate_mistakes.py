"""Mistakes that ports of these models are known to make: the oracles' logits catch each of them.

Of such mistakes some keep every greedy id and some look right at position 0, so all positions are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logos import AuthorOptions, Machine, Source, make_manager, read_program, run_steps
from logos.job import open_checkpoint
from logos.ops.attention import attention
from logos.ops.pointwise import silu, softmax
from logos.ops.recurrent import decay, gated_delta
from logos.values import run_values
from logos.weights.binding import bind
from logos_gguf.families.decoder import Decoder
from logos_gguf.families.llama import LLAMA
from logos_gguf.rope import Rope

Array = np.ndarray[Any, Any]
Values = dict[str, Array]
MANAGER = make_manager()
CONTEXT = 24
CASES = {
    "llama-tiny-untied": ("f32", "logits_f64.npy", 1e-9),
    "llama-tiny-rope3": ("f32", "logits_f64.npy", 1e-5),
    "qwen3-tiny": ("q8_0", "logits_q8_weights_f64.npy", 1e-9),
    "qwen3moe-tiny": ("q8_0", "logits_q8_weights_f64.npy", 1e-9),
    "qwen35-tiny": ("q8_0", "logits_q8_weights_f64.npy", 2e-5),
    "qwen35moe-tiny": ("q8_0", "logits_q8_weights_f64.npy", 2e-5),
}


@dataclass(frozen=True)
class Mistake:
    """What is done wrong: to the program's text, to an op, to the values that a view gives, or by the family."""

    case: str
    text: Callable[[str], str] = field(default=lambda text: text)
    ops: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    values: Callable[[Values], None] = field(default=lambda values: None)
    family: Decoder | None = None


def distance(mistake: Mistake, oracles: Path, tokens: list[int]) -> float:
    """The largest difference of a logit at any position from the oracle's, in bounds of the case."""
    storage, expected, bound = CASES[mistake.case]
    folder = oracles / mistake.case
    checkpoint = open_checkpoint(MANAGER, folder / f"{mistake.case}-{storage}.gguf")
    family = mistake.family or MANAGER.family(str(checkpoint.metadata["general.architecture"]))
    text = family.author(checkpoint, AuthorOptions(CONTEXT))
    changed = mistake.text(text)
    right = read_program(Source("m.lg", text), MANAGER.grammar)
    values = run_values(bind(right, family, checkpoint), {}, None, fed=("tok", "pos"))
    graph = read_program(Source("m.lg", changed), MANAGER.grammar)
    before = dict(values)
    mistake.values(values)
    nodes = [replace(node, op=replace(node.op, value=mistake.ops.get(node.op.name, node.op.value)))
             for node in graph.nodes]  # fmt: skip
    used = {node.op.name for node in graph.nodes}
    assert used >= mistake.ops.keys()
    moved = any(values[name] is not before.get(name) for name in values)
    assert text != changed or mistake.ops or moved or mistake.family or mistake == Mistake(mistake.case)
    machine = Machine(replace(graph, nodes=tuple(nodes)), values)
    found = run_steps(machine, ["logits"], tokens).stacked("logits")[:, 0]
    want = np.load(folder / expected)
    assert found.shape == want.shape
    assert np.isfinite(found).all()
    return float(np.abs(found - want).max()) / bound


def without(*parts: str) -> Callable[[str], str]:
    """The program without its sentences that have these words."""
    return lambda text: "".join(line for line in text.splitlines(True) if not all(part in line for part in parts))


def swapped(one: str, other: str) -> Callable[[str], str]:
    """The program with two words exchanged."""
    return lambda text: text.replace(one, "\0").replace(other, one).replace("\0", other)


def stems(change: Callable[[Array], Array], *names: str) -> Callable[[Values], None]:
    """The values of the variables of some stems changed."""

    def run(values: Values) -> None:
        for name in values:
            if name.rstrip("0123456789") in names:
                values[name] = change(values[name])

    return run


def tables(rope_of: Rope) -> Callable[[Values], None]:
    """Rope tables of another rotation."""

    def run(values: Values) -> None:
        for name in ("RopeCos", "RopeSin"):
            values[name] = rope_of.table(name, None)(CONTEXT, rope_of.half)

    return run


def neighbours(Q: Array, RC: Array, RS: Array, H: int) -> Array:
    """Rope that turns elements 2i and 2i + 1 of a head."""
    half = RC.shape[1]
    x = Q.reshape(H, -1).copy()
    a, b = x[:, 0 : 2 * half : 2].copy(), x[:, 1 : 2 * half : 2].copy()
    x[:, 0 : 2 * half : 2], x[:, 1 : 2 * half : 2] = a * RC - b * RS, a * RS + b * RC
    return x.reshape(Q.shape)


def rope_before_norm(text: str) -> str:
    """Queries and keys normed after they were turned."""
    lines = text.split("\n")
    for number in range(len(lines) - 1):
        if " with weight Qn" in lines[number] or " with weight Kn" in lines[number]:
            lines[number : number + 2] = lines[number + 1], lines[number]
    return "\n".join(lines)


def present_left_out(text: str) -> str:
    """The tables of keys and values appended after attention has read them."""
    lines, waiting = [], []
    for line in text.split("\n"):
        if line.startswith("Set row"):
            waiting.append(line)
            continue
        lines.append(line)
        if " be attention of " in line:
            lines += waiting
            waiting = []
    return "\n".join(lines)


def groups_taken_in_turn(Q: Array, K: Array, V: Array, H: int, KV: int, P: int) -> Array:
    """Attention in which query head h reads group h mod KV."""
    order = np.argsort(np.arange(H) % KV, kind="stable")
    head = Q.shape[1] // H
    turned = attention(Q.reshape(H, head)[order].reshape(Q.shape), K, V, H, KV, P).reshape(H, head)
    back = np.empty_like(turned)
    back[order] = turned
    return back.reshape(Q.shape)


def unscaled(Q: Array, K: Array, V: Array, H: int, KV: int, P: int) -> Array:
    return attention(Q * math.sqrt(Q.shape[1] // H), K, V, H, KV, P)


def not_renormalized(X: Array, WR: Array, WG: Array, WU: Array, WD: Array, TOP: int, EXPERTS: int) -> Array:
    f, d = len(WG) // EXPERTS, X.shape[1]
    probabilities = softmax(X @ WR.T)[0]
    out = np.zeros_like(X)
    for e in np.argsort(-probabilities)[:TOP]:
        hidden = silu(WG[e * f : (e + 1) * f] @ X[0]) * (WU[e * f : (e + 1) * f] @ X[0])
        out[0] += probabilities[e] * (WD[e * d : (e + 1) * d] @ hidden)
    return out


def key_heads_in_runs(Q: Array, K: Array, HV: int, HK: int, **rest: Any) -> Any:
    """Value head h reading key head h ÷ (HV / HK)."""
    q, k = (np.repeat(x.reshape(HK, -1), HV // HK, axis=0).reshape(1, -1) for x in (Q, K))
    return gated_delta(q, k, HV=HV, HK=HV, **rest)


def query_scale_lost(Q: Array, S: Array, **rest: Any) -> Any:
    return gated_delta(Q * math.sqrt(S.shape[1]), S=S, **rest)


def decay_forgotten(A: Array, **rest: Any) -> Any:
    return gated_delta(A=np.ones_like(A), **rest)


def beta_forgotten(B: Array, **rest: Any) -> Any:
    return gated_delta(B=np.ones_like(B), **rest)


def state_transposed(S: Array, HV: int, **rest: Any) -> Any:
    """A state read as its transpose: keys by values for values by keys."""
    out, made = gated_delta(S=S.reshape(HV, -1, S.shape[1]).swapaxes(1, 2).reshape(S.shape), HV=HV, **rest)
    return out, made


def gate_before_norm(Z: Array, GN: Array, EPS: float, HV: int, **rest: Any) -> Any:
    """o · silu(z) normed, where o is normed and then gated."""
    constant = np.full_like(Z, 40.0)
    normed, made = gated_delta(Z=constant, GN=np.ones_like(GN), EPS=EPS, HV=HV, **rest)
    x = (normed / silu(constant) * silu(Z)).reshape(HV, -1)
    return (GN * x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + EPS)).reshape(Z.shape), made


def decay_without_softplus(AR: Array, DT: Array, AL: Array) -> Array:
    return np.exp(AL * (AR + DT))


def decay_bias_forgotten(AR: Array, DT: Array, AL: Array) -> Array:
    return decay(AR, np.zeros_like(DT), AL)


def halves_for_a_gate(values: Values) -> None:
    """The projection's first half taken for queries and its second for gates, where they alternate by head."""
    query, gate = values["Wq3"], values["Wqg3"]
    head = 64
    parts = [part.reshape(len(query), -1, head) for part in (query, gate)]
    both = np.stack(parts, axis=2).reshape(len(query), -1)
    values["Wq3"], values["Wqg3"] = both[:, : query.shape[1]], both[:, query.shape[1] :]


def by_head_width(values: Values) -> None:
    """f_i = base^(−2i / head width), where the exponent divides by the rotary width."""
    wide = Rope(64, 1e7)
    for name in ("RopeCos", "RopeSin"):
        values[name] = wide.table(name, None)(CONTEXT, 32)[:, :8]


def exchanged(one: str, other: str) -> Callable[[Values], None]:
    """Two stems' values of one shape exchanged in every layer that has both."""

    def run(values: Values) -> None:
        for layer in range(8):
            a, b = f"{one}{layer}", f"{other}{layer}"
            if a in values and b in values and values[a].shape == values[b].shape:
                values[a], values[b] = values[b], values[a]

    return run


def plus_one(array: Array) -> Array:
    return array + 1.0


NORMS = ("an", "fn", "on", "Qn", "Kn")
MISTAKES = {
    "llama: rows left as neighbours": Mistake("llama-tiny-untied", family=replace(LLAMA, neighbours=False)),
    "llama: eps left at its default": Mistake(
        "llama-tiny-untied", text=lambda text: text.replace(" with eps 1e-05", "")
    ),
    "llama: the present row left out": Mistake("llama-tiny-untied", text=present_left_out),
    "llama: key groups in turn": Mistake("llama-tiny-untied", ops={"attention": groups_taken_in_turn}),
    "llama: scores not scaled": Mistake("llama-tiny-untied", ops={"attention": unscaled}),
    "llama: gate and up exchanged": Mistake("llama-tiny-untied", values=exchanged("Wg", "Wu")),
    "rope_freqs ignored": Mistake("llama-tiny-rope3", values=tables(Rope(64, 10000.0))),
    "qwen3: neighbours for halves": Mistake("qwen3-tiny", ops={"rope": neighbours}),
    "qwen3: norm plus one twice": Mistake("qwen3-tiny", values=stems(plus_one, *NORMS)),
    "qwen3: rope before the norms": Mistake("qwen3-tiny", text=rope_before_norm),
    "qwen3: no query and key norms": Mistake("qwen3-tiny", text=without("rmsnorm", " heads.")),
    "qwen3: the base of another model": Mistake("qwen3-tiny", values=tables(Rope(64, 10000.0))),
    "qwen3: linear scaling that the file does not say": Mistake("qwen3-tiny", values=tables(Rope(64, 1e6, 4.0))),
    "qwen3moe: router not renormalized": Mistake("qwen3moe-tiny", ops={"moe": not_renormalized}),
    "qwen3moe: one expert fewer": Mistake("qwen3moe-tiny", text=lambda text: text.replace(" top 2 of", " top 1 of")),
    "qwen3moe: gate and up exchanged": Mistake("qwen3moe-tiny", values=exchanged("Eg", "Eu")),
    "qwen35: norm plus one twice": Mistake("qwen35-tiny", values=stems(plus_one, *NORMS)),
    "qwen35: delta norm plus one": Mistake("qwen35-tiny", values=stems(plus_one, "Gn")),
    "qwen35: gate rows not de-interleaved": Mistake("qwen35-tiny", values=halves_for_a_gate),
    "qwen35: the gate without its sigmoid": Mistake("qwen35-tiny", text=without("sigmoid of qg")),
    "qwen35: attention not gated": Mistake("qwen35-tiny", text=without("hadamard qg")),
    "qwen35: key heads in runs": Mistake("qwen35-tiny", ops={"gated delta": key_heads_in_runs}),
    "qwen35: conv taps reversed": Mistake("qwen35-tiny", values=stems(lambda array: array[::-1], "Wcq", "Wck", "Wcv")),
    "qwen35: conv without silu": Mistake("qwen35-tiny", text=without("silu of")),
    "qwen35: decay without softplus": Mistake("qwen35-tiny", ops={"decay": decay_without_softplus}),
    "qwen35: decay without its bias": Mistake("qwen35-tiny", ops={"decay": decay_bias_forgotten}),
    "qwen35: the rate made negative twice": Mistake("qwen35-tiny", values=stems(lambda array: -np.exp(array), "Al")),
    "qwen35: no decay": Mistake("qwen35-tiny", ops={"gated delta": decay_forgotten}),
    "qwen35: no beta": Mistake("qwen35-tiny", ops={"gated delta": beta_forgotten}),
    "qwen35: query scale lost": Mistake("qwen35-tiny", ops={"gated delta": query_scale_lost}),
    "qwen35: no l2norm": Mistake("qwen35-tiny", text=without("l2norm of")),
    "qwen35: gate before the norm": Mistake("qwen35-tiny", ops={"gated delta": gate_before_norm}),
    "qwen35: state transposed between steps": Mistake("qwen35-tiny", ops={"gated delta": state_transposed}),
    "qwen35: queries and keys exchanged": Mistake("qwen35-tiny", values=exchanged("Wq", "Wk")),
    "qwen35: rope exponent by head width": Mistake("qwen35-tiny", values=by_head_width),
    "qwen35: neighbours for halves": Mistake("qwen35-tiny", ops={"rope": neighbours}),
    "qwen35: whole heads turned": Mistake(
        "qwen35-tiny",
        text=lambda text: text.replace(f"{CONTEXT} by 8 tensor", f"{CONTEXT} by 32 tensor"),
        values=tables(Rope(64, 1e7)),
    ),
    "qwen35moe: router not renormalized": Mistake("qwen35moe-tiny", ops={"moe": not_renormalized}),
    "qwen35moe: no shared expert": Mistake("qwen35moe-tiny", text=without(" plus e")),
    "qwen35moe: shared expert not gated": Mistake("qwen35moe-tiny", text=without("hadamard r")),
    "qwen35moe: shared gate without its sigmoid": Mistake("qwen35moe-tiny", text=without("sigmoid of r")),
    "qwen35moe: key heads in runs": Mistake("qwen35moe-tiny", ops={"gated delta": key_heads_in_runs}),
}


@pytest.mark.parametrize("case", CASES)
def test_without_a_mistake_the_logits_lie_within_their_bound(
    case: str, oracles: Path, oracle_cases: dict[str, Any]
) -> None:
    assert distance(Mistake(case), oracles, oracle_cases[case]["tokens"]) < 1


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_leaves_the_bound(what: str, oracles: Path, oracle_cases: dict[str, Any]) -> None:
    mistake = MISTAKES[what]
    assert distance(mistake, oracles, oracle_cases[mistake.case]["tokens"]) > 10
