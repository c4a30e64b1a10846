"""Programs that fusion acts on: parts of models, small, of widths that quantize too."""

from __future__ import annotations

_ROW = "Let @x be a 1 by 64 tensor of Real."

_ATTENTION = f"""\
{_ROW}
Let @pos be a 1 by 1 tensor of Int.
Set item 1 of @pos to 2.
Let @an be a 1 by 64 tensor of Real.
Let @Wq be a 64 by 64 tensor of Real.
Let @Wk be a 64 by 32 tensor of Real.
Let @Wv be a 64 by 32 tensor of Real.
Let @Wo be a 64 by 64 tensor of Real.
Let @RC be a 1 by 8 tensor of Real.
Let @RS be a 1 by 8 tensor of Real.
Let @K be a 5 by 32 tensor of Real.
Let @V be a 5 by 32 tensor of Real.
NORMS
Let @h be rmsnorm of @x with weight @an.
Let @q be @h matmul @Wq.
Let @k be @h matmul @Wk.
Let @v be @h matmul @Wv.
NORMED
Let @q be rope of @q with cos @RC and sin @RS across 4 heads.
Let @k be rope of @k with cos @RC and sin @RS across 2 heads.
Set row @pos of @K to @k.
Set row @pos of @V to @v.
Let @a be attention of @q over @K and @V with 4 heads 2 groups up to @pos.
Let @o be @a matmul @Wo.
Let @y be @x plus @o.
Let @out be rmsnorm of @y with weight @an.
"""

_NORMS = """\
Let @Qn be a 1 by 16 tensor of Real.
Let @Kn be a 1 by 16 tensor of Real."""

_NORMED = """\
Let @q be rmsnorm of @q with weight @Qn across 4 heads.
Let @k be rmsnorm of @k with weight @Kn across 2 heads."""

_FORWARD = f"""\
{_ROW}
Let @fn be a 1 by 64 tensor of Real.
Let @Wg be a 64 by 96 tensor of Real.
Let @Wu be a 64 by 96 tensor of Real.
Let @Wd be a 96 by 64 tensor of Real.
Let @f be rmsnorm of @x with weight @fn.
Let @g be @f matmul @Wg.
GATED
Let @m be @m matmul @Wd.
Let @out be @x plus @m.
"""

_SWIGLU = """\
Let @u be @f matmul @Wu.
Let @m be swiglu of @g and @u."""

_SILU = """\
Let @g be silu of @g.
Let @u be @f matmul @Wu.
Let @m be @g hadamard @u."""

_CHAIN = """\
Let @x be a 3 by 40 tensor of Real.
Let @w be a 3 by 40 tensor of Real.
Let @y be @x plus @w.
Let @y be sigmoid of @y.
Let @y be @y hadamard @x.
Let @y be gelu of @y.
Let @out be @y plus @w.
"""

_SUM = """\
Let @x be a 2 by 40 tensor of Real.
Let @w be a 2 by 40 tensor of Real.
Let @n be a 1 by 40 tensor of Real.
Let @y be @x plus @w.
Let @z be rmsnorm of @y with weight @n.
Let @out be @z plus @y.
"""

_CHOICE = f"""\
{_ROW}
Let @Wout be a 64 by 96 tensor of Real.
Let @logits be @x matmul @Wout.
Let @out be argmax of @logits.
"""

_DELTA = f"""\
{_ROW}
Let @Wq be a 64 by 32 tensor of Real.
Let @Wk be a 64 by 32 tensor of Real.
Let @Wv be a 64 by 64 tensor of Real.
Let @Wz be a 64 by 64 tensor of Real.
Let @Wb be a 64 by 4 tensor of Real.
Let @Wa be a 64 by 4 tensor of Real.
Let @Wo be a 64 by 64 tensor of Real.
Let @Tq be a 3 by 32 tensor of Real.
Let @Tk be a 3 by 32 tensor of Real.
Let @Tv be a 3 by 64 tensor of Real.
Let @Cq be a 3 by 32 tensor of Real.
Let @Ck be a 3 by 32 tensor of Real.
Let @Cv be a 3 by 64 tensor of Real.
Let @Dt be a 1 by 4 tensor of Real.
Let @Al be a 1 by 4 tensor of Real.
Let @Gn be a 1 by 16 tensor of Real.
Let @S be a 64 by 16 tensor of Real.
Let @q be @x matmul @Wq.
Let @k be @x matmul @Wk.
Let @v be @x matmul @Wv.
Let @z be @x matmul @Wz.
Let @b be @x matmul @Wb.
Let @d be @x matmul @Wa.
Let @q be causal conv of @q with weight @Tq state @Cq over 3 taps.
Let @q be silu of @q.
Let @k be causal conv of @k with weight @Tk state @Ck over 3 taps.
Let @k be silu of @k.
Let @v be causal conv of @v with weight @Tv state @Cv over 3 taps.
Let @v be silu of @v.
Let @q be l2norm of @q across 2 heads.
Let @k be l2norm of @k across 2 heads.
Let @b be sigmoid of @b.
Let @d be decay of @d with bias @Dt rate @Al.
Let @a be gated delta of @q over @k and @v with gate @z beta @b decay @d state @S norm @Gn with 4 heads 2 groups.
Let @o be @a matmul @Wo.
Let @out be @x plus @o.
"""

_EXPERTS = f"""\
{_ROW}
Let @Wr be a 4 by 64 tensor of Real.
Let @Eg be a 128 by 64 tensor of Real.
Let @Eu be a 128 by 64 tensor of Real.
Let @Ed be a 256 by 32 tensor of Real.
Let @Sr be a 64 by 1 tensor of Real.
Let @Sg be a 64 by 32 tensor of Real.
Let @Su be a 64 by 32 tensor of Real.
Let @Sd be a 32 by 64 tensor of Real.
Let @m be moe of @x with router @Wr gate @Eg up @Eu down @Ed top 2 of 4 experts.
Let @r be @x matmul @Sr.
Let @r be sigmoid of @r.
Let @g be @x matmul @Sg.
Let @u be @x matmul @Su.
Let @s be swiglu of @g and @u.
Let @s be @s matmul @Sd.
Let @s be @s hadamard @r.
Let @m be @m plus @s.
Let @out be @x plus @m.
"""

BLOCKS: dict[str, str] = {
    "attention": _ATTENTION.replace("NORMS\n", "").replace("NORMED\n", ""),
    "attention with normed heads": _ATTENTION.replace("NORMS", _NORMS).replace("NORMED", _NORMED),
    "swiglu network": _FORWARD.replace("GATED", _SWIGLU),
    "silu network": _FORWARD.replace("GATED", _SILU),
    "elementwise": _CHAIN,
    "sum and norm": _SUM,
    "choice": _CHOICE,
    "delta": _DELTA,
    "experts": _EXPERTS,
}
"""Each program by what it is; `@` stands for what tells its names from another's."""


def block_text(name: str, number: int) -> str:
    """The program of a block, with names that are its alone."""
    return BLOCKS[name].replace("@", f"f{number}_")
