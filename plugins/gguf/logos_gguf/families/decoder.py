"""What the families share: authoring a decoder's step from its blocks, and the view of every variable."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from logos import AuthorOptions, Checkpoint, Graph, Header, Spot, Table, TensorView, View, refuse
from logos_gguf import blocks, model, rope
from logos_gguf.keys import Keys, file_of
from logos_gguf.names import AS_STORED, HYBRID, attention_layers, gguf_name, split_name
from logos_gguf.sentences import Sentences, plain

LONGEST_DEFAULT = 2048
"""The context of an authored program where nobody asks for another and the model allows it."""

_BLOCK = re.compile(r"blk\.([0-9]{1,9})\.")


@dataclass(frozen=True)
class Decoder:
    """A family of decoders; satisfies `logos.PresetFamily`.

    neighbours  rope pairs neighbouring rows of a head's query and key projection (2i, 2i+1) in the file
    norms       queries and keys are normed per head
    gate        attention's result is gated, the gate's rows lying after each head's query rows
    delta       layers are attention or gated delta blocks
    experts     the feed-forward network is routed
    shared      the routed experts have a shared one beside them
    """

    name: str
    neighbours: bool = False
    norms: bool = False
    gate: bool = False
    delta: bool = False
    experts: bool = False
    shared: bool = False
    _layers: list[tuple[Graph, frozenset[int]]] = field(default_factory=list, compare=False, repr=False)

    def author(self, header: Header, options: AuthorOptions) -> str:
        """The decode step of a checkpoint as a program.

        Refused: metadata that is missing, broken or asks for what the family does not compute
        (`checkpoint-metadata`), tensors that the program needs and the file lacks (`missing-tensor`), tensors that
        the program would leave out unasked (`unused-tensor`), more layers than there are (`too-many-layers`).
        """
        keys = model.keys_of(header)
        model.check_neutral(keys)
        if not self.experts and keys.count("expert_count", 0, least=0):
            raise keys.bad("expert_count", f"is above 0, and the family {self.name} has no experts")
        layers = _layers_asked(keys, options)
        attends = self._attends(keys, layers)
        out = Sentences(header, lambda variable: self.tensor(variable, attends, header))
        self._write(out, header, keys, options, layers, attends)
        if not options.leave_out:
            _refuse_unused(header, out.taken, layers)
        return out.text()

    def _attends(self, keys: Keys, layers: int) -> Container[int]:
        return model.read_attention_layers(keys, layers) if self.delta else range(layers)

    def _write(
        self,
        out: Sentences,
        header: Header,
        keys: Keys,
        options: AuthorOptions,
        layers: int,
        attends: Container[int],
    ) -> None:
        width, sizes, eps = keys.count("embedding_length"), model.read_attention(keys), model.read_eps(keys)
        context = options.context or min(keys.count("context_length"), LONGEST_DEFAULT)
        half = model.rotary(keys, sizes) // 2
        rope.read_rope(keys, 2 * half)
        out.comment(f"{plain(header.metadata.get('general.name', self.name))}: one decode step, by `logos author`.")
        out.comment(
            f"{self.name}: {layers} layers of width {width}, {sizes.heads} heads in {sizes.groups} groups; "
            f"room for {context} positions."
        )
        out.heading("Inputs")
        out.declare("tok", 1, 1, "Int")
        out.declare("pos", 1, 1, "Int")
        out.heading("Embedding and rope")
        embedding = header.tensors.get("token_embd.weight")
        vocabulary = embedding.rows if embedding is not None else 1
        out.weight("emb", vocabulary, width)
        out.declare("RopeCos", context, half)
        out.declare("RopeSin", context, half)
        out.let("x0", "row tok of emb")
        out.let("c", "row pos of RopeCos")
        out.let("s", "row pos of RopeSin")
        x = "x0"
        for number in range(layers):
            layer = blocks.Layer(out, number, width, eps, context)
            if number in attends:
                y = blocks.attention(layer, x, sizes, self.norms, self.gate)
            else:
                y = blocks.delta(layer, x, model.read_delta(keys))
            if self.experts:
                x = blocks.routed(layer, y, model.read_experts(keys, self.shared))
            else:
                x = blocks.feed_forward(layer, y, keys.count("feed_forward_length"))
        out.heading("Output")
        out.weight("on", 1, width)
        if self.tensor("Wout", attends, header) == "token_embd.weight":
            out.comment("The head is tied: Wout is the embedding's own tensor, transposed.")
        out.weight("Wout", width, vocabulary)
        out.let("xn", f"rmsnorm of {x} with weight on" + (f" with eps {eps}" if eps is not None else ""))
        out.let("logits", "xn matmul Wout")
        out.let("next", "argmax of logits")

    def tensor(self, variable: str, attends: Container[int], header: Header) -> str:
        """The tensor of a variable in this checkpoint: the conventional one, or the one that holds it fused or tied."""
        name = gguf_name(variable, attends, self.name)
        assert name is not None
        block = _BLOCK.match(name)
        prefix, own = (block[0], name[block.end() :]) if block else ("", name)
        other = prefix + _ALTERNATIVES.get(own, own)
        return other if name not in header.tensors and other in header.tensors else name

    @property
    def presets(self) -> Mapping[str, Header]:
        """The headers of the family's published models, by preset."""
        from logos_gguf.presets import presets_of

        return presets_of(self.name)

    def view(self, variable: str, graph: Graph, checkpoint: Checkpoint | None) -> View | None:
        """What a variable takes; see `logos.hookspecs.Family`."""
        if variable in rope.TABLES:
            return Table() if checkpoint is None else _table(variable, checkpoint)
        attends = self._attention_layers(graph)
        name = gguf_name(variable, attends, self.name)
        if name is None:
            return None
        stem, layer = split_name(variable)
        transposed = stem not in AS_STORED
        if checkpoint is None:
            return TensorView(name, None, transposed)
        name = self.tensor(variable, attends, checkpoint)
        if name not in checkpoint.tensors:
            return TensorView(name, None, transposed)
        ranges = self._ranges(stem, layer, name, attends, checkpoint)
        return TensorView(name, ranges, transposed)

    def _attention_layers(self, graph: Graph) -> frozenset[int]:
        """The graph's attention layers; a binding asks for every leaf of one graph, so the last answer is kept."""
        if self.name not in HYBRID:
            return frozenset()
        if not self._layers or self._layers[0][0] is not graph:
            self._layers[:] = [(graph, attention_layers(graph))]
        return self._layers[0][1]

    def _ranges(
        self, stem: str, layer: int | None, name: str, attends: Container[int], checkpoint: Checkpoint
    ) -> tuple[range, ...] | None:
        """The rows of a tensor that a variable takes, in its order; None for all as stored."""
        keys = model.keys_of(checkpoint)
        if self.delta and layer not in attends and stem in _DELTA_PARTS:
            sizes = model.read_delta(keys)
            return (_part((sizes.keys, sizes.keys, sizes.values), _DELTA_PARTS[stem]),)
        if stem in _ATTENTION_PARTS:
            return self._attention_ranges(stem, name, keys)
        if stem in ("Eg", "Eu") and name.endswith("ffn_gate_up_exps.weight"):
            routed = model.read_experts(keys, shared=False)
            width, experts = routed.width, routed.count
            first = 0 if stem == "Eg" else width
            return tuple(range(2 * width * e + first, 2 * width * e + first + width) for e in range(experts))
        return None

    def _attention_ranges(self, stem: str, name: str, keys: Keys) -> tuple[range, ...] | None:
        sizes = model.read_attention(keys)
        per_head = 2 * sizes.head if self.gate else sizes.head
        queries, others = sizes.heads * per_head, sizes.groups * sizes.head
        fused = name.endswith("attn_qkv.weight")
        rows = _part((queries, others, others), _ATTENTION_PARTS[stem])
        if not fused:
            rows = range(len(rows))
        if stem in ("Wq", "Wqg") and (self.gate or stem == "Wqg"):
            first = rows.start + (sizes.head if stem == "Wqg" else 0)
            return tuple(range(at, at + sizes.head) for at in range(first, rows.stop, per_head))
        if self.neighbours and stem in ("Wq", "Wk"):
            return put_back(rows, sizes.head, model.rotary(keys, sizes))
        return (rows,) if fused else None


_ATTENTION_PARTS = {"Wq": 0, "Wqg": 0, "Wk": 1, "Wv": 2}
_DELTA_PARTS = {"Wq": 0, "Wk": 1, "Wv": 2, "Wcq": 0, "Wck": 1, "Wcv": 2}

# A tensor's name, without its block, and the name of the one that holds the same rows where the file lacks it.
_ALTERNATIVES = {
    "attn_q.weight": "attn_qkv.weight",
    "attn_k.weight": "attn_qkv.weight",
    "attn_v.weight": "attn_qkv.weight",
    "ffn_gate_exps.weight": "ffn_gate_up_exps.weight",
    "ffn_up_exps.weight": "ffn_gate_up_exps.weight",
    "output.weight": "token_embd.weight",
}


def put_back(rows: range, head: int, n: int) -> tuple[range, ...]:
    """The order that turns neighbouring rope pairs into halves: of each head's rows the even ones of the first n,
    the odd ones, then the rest. llama's converter wrote original row s·n/2 + i of a head as its row 2i + s."""
    order: list[range] = []
    for start in range(rows.start, rows.stop, head):
        order += [range(start, start + n, 2), range(start + 1, start + n, 2)]
        if n < head:
            order.append(range(start + n, start + head))
    return tuple(order)


def _part(lengths: tuple[int, ...], number: int) -> range:
    """One of the consecutive parts that lengths cut."""
    stops = list(accumulate(lengths))
    return range(stops[number] - lengths[number], stops[number])


def _table(variable: str, checkpoint: Checkpoint) -> Table:
    keys = model.keys_of(checkpoint)
    rotation = rope.read_rope(keys, model.rotary(keys, model.read_attention(keys)))
    factors = rope.read_factors(keys, checkpoint, rotation.half)
    return Table(rotation.table(variable, factors), () if factors is None else (rope.FACTORS,))


def _layers_asked(keys: Keys, options: AuthorOptions) -> int:
    layers = model.read_layers(keys)
    if options.layers is not None and not 1 <= options.layers <= layers:
        raise refuse(
            "too-many-layers",
            f"{options.layers} layers are asked for; the model has {layers}",
            Spot("--layers"),
            f"ask for 1 to {layers}",
        )
    return options.layers or layers


def _refuse_unused(header: Header, taken: set[str], layers: int) -> None:
    """Tensors of the layers written that no variable takes would be left out of the numbers without a word."""
    left = [name for name in header.tensors if name not in taken and name != rope.FACTORS and _within(name, layers)]
    if left:
        named = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        raise refuse(
            "unused-tensor",
            f"the checkpoint holds {named}, which this family's program does not use: its numbers would be wrong",
            Spot(f"{file_of(header)}tensor {left[0]}"),
            "use another --family if the checkpoint is of one; if not, LOGOS lacks this model's rule",
        )


def _within(name: str, layers: int) -> bool:
    match = _BLOCK.match(name)
    return match is None or int(match[1]) < layers
