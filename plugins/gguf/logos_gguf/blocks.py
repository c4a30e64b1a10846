"""The sentences of a decoder layer: attention, the gated delta rule, dense and routed feed-forward."""

from __future__ import annotations

from dataclasses import dataclass

from logos_gguf.model import Attention, Delta, Experts
from logos_gguf.sentences import Sentences


@dataclass(frozen=True)
class Layer:
    """What the sentences of layer `number` share: the model's width, the norms' eps as text, the tables' rows."""

    out: Sentences
    number: int
    width: int
    eps: str | None
    context: int

    def name(self, stem: str) -> str:
        return f"{stem}{self.number}"

    def let(self, stem: str, operation: str) -> None:
        self.out.let(self.name(stem), operation)

    def weight(self, stem: str, rows: int, columns: int) -> None:
        self.out.weight(self.name(stem), rows, columns)

    def norm(self, stem: str, value: str, weight: str, tail: str = "") -> None:
        """`rmsnorm of <value> with weight <weight>`, the eps where it is not the default, then the tail."""
        eps = f" with eps {self.eps}" if self.eps is not None else ""
        self.let(stem, f"rmsnorm of {value} with weight {self.name(weight)}{eps}{tail}")


def attention(layer: Layer, x: str, sizes: Attention, norms: bool, gate: bool) -> str:
    """Attention over the layer's K and V tables, and its residual; `norms` per head before rope, `gate` on the
    result. Returns the residual stream's name after it."""
    n, out = layer.name, layer.out
    queries, keys = sizes.heads * sizes.head, sizes.groups * sizes.head
    out.heading(f"Layer {layer.number}: attention")
    layer.weight("an", 1, layer.width)
    layer.weight("Wq", layer.width, queries)
    if gate:
        layer.weight("Wqg", layer.width, queries)
    layer.weight("Wk", layer.width, keys)
    layer.weight("Wv", layer.width, keys)
    if norms:
        layer.weight("Qn", 1, sizes.head)
        layer.weight("Kn", 1, sizes.head)
    layer.weight("Wo", queries, layer.width)
    out.declare(n("K"), layer.context, keys)
    out.declare(n("V"), layer.context, keys)
    layer.norm("h", x, "an")
    layer.let("q", f"{n('h')} matmul {n('Wq')}")
    layer.let("k", f"{n('h')} matmul {n('Wk')}")
    layer.let("v", f"{n('h')} matmul {n('Wv')}")
    for stem, weight, heads in (("q", "Qn", sizes.heads), ("k", "Kn", sizes.groups)):
        if norms:
            layer.norm(stem, n(stem), weight, f" across {heads} heads")
        layer.let(stem, f"rope of {n(stem)} with cos c and sin s across {heads} heads")
    out.set_row("pos", n("K"), n("k"))
    out.set_row("pos", n("V"), n("v"))
    read = f"attention of {n('q')} over {n('K')} and {n('V')}"
    layer.let("a", f"{read} with {sizes.heads} heads {sizes.groups} groups up to pos")
    if gate:
        layer.let("qg", f"{n('h')} matmul {n('Wqg')}")
        layer.let("qg", f"sigmoid of {n('qg')}")
        layer.let("a", f"{n('a')} hadamard {n('qg')}")
    layer.let("o", f"{n('a')} matmul {n('Wo')}")
    layer.let("y", f"{x} plus {n('o')}")
    return n("y")


def delta(layer: Layer, x: str, sizes: Delta) -> str:
    """A gated delta block and its residual: convolved, normed queries and keys, a decaying memory."""
    n, out = layer.name, layer.out
    parts = (("q", sizes.keys), ("k", sizes.keys), ("v", sizes.values))
    out.heading(f"Layer {layer.number}: gated delta")
    layer.weight("an", 1, layer.width)
    for stem, columns in parts:
        layer.weight(f"W{stem}", layer.width, columns)
    layer.weight("Wz", layer.width, sizes.values)
    for stem, columns in parts:
        layer.weight(f"Wc{stem}", sizes.taps, columns)
    layer.weight("Wb", layer.width, sizes.value_heads)
    layer.weight("Wa", layer.width, sizes.value_heads)
    layer.weight("Dt", 1, sizes.value_heads)
    layer.weight("Al", 1, sizes.value_heads)
    layer.weight("Gn", 1, sizes.width)
    layer.weight("Wo", sizes.values, layer.width)
    for stem, columns in parts:
        out.declare(n(f"C{stem}"), sizes.taps, columns)
    out.declare(n("S"), sizes.values, sizes.width)
    layer.norm("h", x, "an")
    for stem, _ in parts:
        layer.let(stem, f"{n('h')} matmul {n(f'W{stem}')}")
        conv = f"causal conv of {n(stem)} with weight {n(f'Wc{stem}')} state {n(f'C{stem}')}"
        layer.let(stem, f"{conv} over {sizes.taps} taps")
        layer.let(stem, f"silu of {n(stem)}")
    for stem in ("q", "k"):
        layer.let(stem, f"l2norm of {n(stem)} across {sizes.key_heads} heads")
    layer.let("z", f"{n('h')} matmul {n('Wz')}")
    layer.let("b", f"{n('h')} matmul {n('Wb')}")
    layer.let("b", f"sigmoid of {n('b')}")
    layer.let("d", f"{n('h')} matmul {n('Wa')}")
    layer.let("d", f"decay of {n('d')} with bias {n('Dt')} rate {n('Al')}")
    eps = f" with eps {layer.eps}" if layer.eps is not None else ""
    read = f"gated delta of {n('q')} over {n('k')} and {n('v')} with gate {n('z')} beta {n('b')} decay {n('d')}"
    heads = f"with {sizes.value_heads} heads {sizes.key_heads} groups"
    layer.let("a", f"{read} state {n('S')} norm {n('Gn')}{eps} {heads}")
    layer.let("o", f"{n('a')} matmul {n('Wo')}")
    layer.let("y", f"{x} plus {n('o')}")
    return n("y")


def feed_forward(layer: Layer, y: str, hidden: int) -> str:
    """The gated feed-forward network and its residual."""
    n = layer.name
    layer.out.heading(f"Layer {layer.number}: feed-forward")
    layer.weight("fn", 1, layer.width)
    layer.weight("Wg", layer.width, hidden)
    layer.weight("Wu", layer.width, hidden)
    layer.weight("Wd", hidden, layer.width)
    layer.norm("f", y, "fn")
    _gated(layer, "m", "Wg", "Wu", "Wd")
    return _next(layer, y, n("m"))


def routed(layer: Layer, y: str, sizes: Experts) -> str:
    """Routed experts, with a shared one where the model has it, and their residual."""
    n = layer.name
    layer.out.heading(f"Layer {layer.number}: experts")
    layer.weight("fn", 1, layer.width)
    layer.weight("Wr", sizes.count, layer.width)
    layer.weight("Eg", sizes.count * sizes.width, layer.width)
    layer.weight("Eu", sizes.count * sizes.width, layer.width)
    layer.weight("Ed", sizes.count * layer.width, sizes.width)
    if sizes.shared:
        layer.weight("Sr", layer.width, 1)
        layer.weight("Sg", layer.width, sizes.shared)
        layer.weight("Su", layer.width, sizes.shared)
        layer.weight("Sd", sizes.shared, layer.width)
    layer.norm("f", y, "fn")
    experts = f"router {n('Wr')} gate {n('Eg')} up {n('Eu')} down {n('Ed')}"
    layer.let("m", f"moe of {n('f')} with {experts} top {sizes.used} of {sizes.count} experts")
    if sizes.shared:
        _gated(layer, "e", "Sg", "Su", "Sd")
        layer.let("r", f"{n('f')} matmul {n('Sr')}")
        layer.let("r", f"sigmoid of {n('r')}")
        layer.let("e", f"{n('e')} hadamard {n('r')}")
        layer.let("m", f"{n('m')} plus {n('e')}")
    return _next(layer, y, n("m"))


def _gated(layer: Layer, stem: str, gate: str, up: str, down: str) -> None:
    n = layer.name
    layer.let("g", f"{n('f')} matmul {n(gate)}")
    layer.let("u", f"{n('f')} matmul {n(up)}")
    layer.let(stem, f"swiglu of {n('g')} and {n('u')}")
    layer.let(stem, f"{n(stem)} matmul {n(down)}")


def _next(layer: Layer, y: str, value: str) -> str:
    following = f"x{layer.number + 1}"
    layer.out.let(following, f"{y} plus {value}")
    return following
