"""A program of one operation for each first spelling: what its probe, and those of its alternatives, are made of."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_ATTENDED = ("q 1 by 16", "K0 6 by 8", "V0 6 by 8")
_SENTENCES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "linear": ("x 3 by 8", "Wq0 8 by 4", "Let out be x matmul Wq0."),
        "matmul": ("x 3 by 8", "y 8 by 4", "Let out be x matmul y."),
        "plus": ("x 3 by 8", "y 3 by 8", "Let out be x plus y."),
        "hadamard": ("x 3 by 8", "y 3 by 8", "Let out be x hadamard y."),
        "transpose": ("x 3 by 8", "Let out be transpose of x."),
        "rmsnorm": ("x 1 by 16", "r 1 by 16", "Qn0 1 by 8",
                    "Let out be rmsnorm of x plus r with weight Qn0 with eps 0.000001 across 2 heads."),
        "layernorm": ("x 3 by 8", "g 1 by 8", "b 1 by 8",
                      "Let out be layernorm of x with weight g and bias b with eps 0.000001."),
        "l2norm": ("x 1 by 16", "Let out be l2norm of x with eps 0.000001 across 2 heads."),
        "rope": ("q 1 by 24", "c 1 by 4", "s 1 by 4", "Let out be rope of q with cos c and sin s across 2 heads."),
        "attention": (*_ATTENDED, "Let out be attention of q over K0 and V0 with 4 heads 2 groups."),
        "attention_up_to": (*_ATTENDED, "pos row",
                            "Let out be attention of q over K0 and V0 with 4 heads 2 groups up to pos."),
        "full_attention": ("q 4 by 8", "k 4 by 8", "v 4 by 8",
                           "Let out be full attention of q over k and v with 2 heads."),
        "softmax": ("x 3 by 8", "Let out be softmax of x."),
        "sigmoid": ("x 3 by 8", "Let out be sigmoid of x."),
        "silu": ("x 3 by 8", "Let out be silu of x."),
        "gelu": ("x 3 by 8", "Let out be gelu of x."),
        "swiglu": ("x 3 by 8", "y 3 by 8", "Let out be swiglu of x and y."),
        "argmax": ("x 3 by 8", "Let out be argmax of x."),
        "embedding": ("tok row", "emb 6 by 8", "Let out be row tok of emb."),
        "set_row": ("pos row", "K0 6 by 8", "x 1 by 8", "Set row pos of K0 to x.", "Let out be transpose of x."),
        "causal_conv": ("x 1 by 8", "Wcq0 4 by 8", "Cq0 4 by 8",
                        "Let out be causal conv of x with weight Wcq0 state Cq0 over 4 taps."),
        "decay": ("x 1 by 8", "Dt0 1 by 8", "Al0 1 by 8", "Let out be decay of x with bias Dt0 rate Al0."),
        "gated_delta": ("q 1 by 8", "k 1 by 8", "v 1 by 16", "z 1 by 16", "b 1 by 4", "a 1 by 4", "S0 16 by 4",
                        "Gn0 1 by 4",
                        "Let out be gated delta of q over k and v with gate z beta b decay a state S0 norm Gn0"
                        " with 4 heads 2 groups."),
    }
)  # fmt: skip
"""For each of them, its leaves (those of one Int are `row`) and its operation."""

ROW = 4
"""The row that a probe's row number names: not the first, which a constant baked in at compile would name too."""


def program(helper: str, whole: bool) -> str:
    """The program's text; `whole`: its tensors are of Int. What its first operation makes is probed; `set row` needs a
    further one, since it makes no output."""
    kind = "Int" if whole else "Real"
    lines = []
    for part in _SENTENCES[helper]:
        name, _, rest = part.partition(" ")
        if part.endswith("."):
            lines.append(part)
        elif rest == "row":
            lines.append(f"Let {name} be a 1 by 1 tensor of Int.")
        else:
            lines.append(f"Let {name} be a {rest} tensor of {kind}.")
    return "".join(f"{line}\n" for line in lines)
