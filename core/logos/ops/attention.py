"""Rotary embedding and attention."""

from __future__ import annotations

import math
from functools import partial

from logos.late import np
from logos.op import LoopForm, Op, Rows, Shapes
from logos.ops.exact import Array
from logos.ops.pointwise import softmax


def rope(Q: Array, RC: Array, RS: Array, H: int | None) -> Array:
    """Rotary position embedding (Su et al. 2021) of a one-row Q by given cosines and sines.

    RC and RS hold `half` values. Per head of width hd = C / H (without heads, hd = 2 · half and H = C / hd) the
    leading 2 · half elements turn in pairs (i, i + half): (a, b) becomes (a·c − b·s, a·s + b·c). The rest of a head
    passes through (partial rotary).
    """
    half = RC.shape[1]
    x = Q.reshape(H if H is not None else Q.shape[1] // (2 * half), -1)
    a, b, rest = x[:, :half], x[:, half : 2 * half], x[:, 2 * half :]
    return np.concatenate((a * RC - b * RS, a * RS + b * RC, rest), axis=1).reshape(Q.shape)


def rope_rows(Q: Array, RC: Array, RS: Array, H: int | None) -> Array:
    """`rope` of T rows, each by its own row of cosines and sines."""
    half = RC.shape[1]
    x = Q.reshape(Q.shape[0], H if H is not None else Q.shape[1] // (2 * half), -1)
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    c, s = RC[:, None, :], RS[:, None, :]
    return np.concatenate((a * c - b * s, a * s + b * c, rest), axis=2).reshape(Q.shape)


def attention(Q: Array, K: Array, V: Array, H: int, KV: int, P: int | None) -> Array:
    """Grouped-query attention (Ainslie et al. 2023) of one query row over the rows of a table.

    Query head h reads group h ÷ (H / KV): scores q·k / √hd over the rows of K, softmax, weighted sum of V's rows.
    `up to P` reads rows 0 … P, P included; without it every row.
    """
    stop = K.shape[0] if P is None else P + 1
    hd = Q.shape[1] // H
    q = Q.reshape(KV, H // KV, hd)
    k = K[:stop].reshape(stop, KV, hd).transpose(1, 2, 0)
    v = V[:stop].reshape(stop, KV, hd).transpose(1, 0, 2)
    scores = (q @ k) / math.sqrt(hd)
    weights = softmax(scores.reshape(H, stop)).reshape(KV, H // KV, stop)
    return np.asarray(weights @ v).reshape(Q.shape)


_SCORES = 2_000_000
"""Scores of `attention_rows` at a time: 16 MB, whatever the number of steps and rows."""


def attention_rows(Q: Array, K: Array, V: Array, H: int, KV: int, P: Array | None) -> Array:
    """`attention` of T queries over one table, the t-th over its rows 0 … P[t]: all of a block of queries at once, what
    lies past a query's own last row masked out."""
    last = np.full(Q.shape[0], K.shape[0] - 1) if P is None else P
    out, first = np.empty(Q.shape), 0
    while first < len(last):
        stop = first + max(1, _SCORES // (H * (int(last[first:].max()) + 1)))
        block = last[first:stop]
        # A masked row has the share 0, and 0 times an infinity or NaN of a row still to come would be NaN.
        if not np.isfinite(V[int(block.min()) + 1 : int(block.max()) + 1]).all():
            stop = first + 1
        out[first:stop] = _masked(Q[first:stop], K, V, H, KV, last[first:stop])
        first = stop
    return out


def _masked(Q: Array, K: Array, V: Array, H: int, KV: int, last: Array) -> Array:
    queries, stop = len(last), int(last.max()) + 1
    hd = Q.shape[1] // H
    q = Q.reshape(queries, KV, H // KV, hd).transpose(1, 2, 0, 3).reshape(KV, -1, hd)
    k = K[:stop].reshape(stop, KV, hd).transpose(1, 2, 0)
    v = V[:stop].reshape(stop, KV, hd).transpose(1, 0, 2)
    scores = ((q @ k) / math.sqrt(hd)).reshape(H, queries, stop)
    scores[:, np.arange(stop) > last[:, None]] = -math.inf
    weights = softmax(scores.reshape(H * queries, stop)).reshape(KV, -1, stop)
    out = (weights @ v).reshape(KV, H // KV, queries, hd)
    return np.asarray(out.transpose(2, 0, 1, 3)).reshape(queries, -1)


def full_attention(Q: Array, K: Array, V: Array, H: int) -> Array:
    """Bidirectional attention (Vaswani et al. 2017) of T rows over T rows, per head, scale 1/√hd, no mask."""
    rows = Q.shape[0]
    q, k, v = (x.reshape(rows, H, -1).transpose(1, 0, 2) for x in (Q, K, V))
    scores = (q @ k.transpose(0, 2, 1)) / math.sqrt(q.shape[2])
    weights = softmax(scores.reshape(H * rows, rows)).reshape(scores.shape)
    return np.asarray(weights @ v).transpose(1, 0, 2).reshape(Q.shape)


def rope_loops(form: LoopForm) -> str:
    return _rope(False, False, form)


def _rope(second_first: bool, rest_first: bool, form: LoopForm) -> str:
    """The lines set different elements, so they may stand in any order."""
    width, heads = ("hd", "H") if "H" in form.present else ("(2 * half)", "h")
    first = f"1, (head - 1) * {width} + pair"
    rest = f"""  Repeat for place from 2 * half + 1 to {width}:
    Set item 1, (head - 1) * {width} + place of OUT to item 1, (head - 1) * {width} + place of Q.
"""
    turned = [
        f"    Set item {first} of OUT to a * item 1, pair of RC - b * item 1, pair of RS.\n",
        f"    Set item {first} + half of OUT to a * item 1, pair of RS + b * item 1, pair of RC.\n",
    ]
    pairs = f"""  Repeat for pair from 1 to half:
    Let a be item {first} of Q.
    Let b be item {first} + half of Q.
{"".join(reversed(turned) if second_first else turned)}"""
    parts = [pairs, rest] if "H" in form.present else [pairs]
    return f"\nRepeat for head from 1 to {heads}:\n{''.join(reversed(parts) if rest_first else parts)}"


def _softmax_and_sum(first: str, last: str, of_head: str, of_row: str) -> str:
    """The scores' softmax, and by its shares the sum of V's rows up to the last; the largest score is looked for
    from the one numbered `first`; the places of an element of the query head's run and of a table's."""
    return f"""
    Let largest be item 1, {first} of scores.
    Repeat for place from 1 to {last}:
      If item 1, place of scores > largest:
        Set largest to item 1, place of scores.
    Let total be 0.
    Repeat for place from 1 to {last}:
      Set item 1, place of scores to exp(item 1, place of scores - largest).
      Set total to total + item 1, place of scores.
    Repeat for column from 1 to hd:
      Let mixed be 0.
      Repeat for place from 1 to {last}:
        Set mixed to mixed + item 1, place of scores / total * item place, {of_row} of V.
      Set item {of_head} of OUT to mixed.
"""


def attention_loops(form: LoopForm) -> str:
    """A P below the rows of K is an error: there is no last score."""
    return _attention(form, _last(form))


def attention_from_first(form: LoopForm) -> str:
    """Where P is a row of K."""
    return _attention(form, "1")


def _last(form: LoopForm) -> str:
    return f"{form.row('P')} + 1" if "P" in form.present else "L"


def _attention(form: LoopForm, first: str) -> str:
    last = _last(form)
    of_head, of_row = "1, ((group - 1) * H_per_KV + member - 1) * hd + column", "(group - 1) * hd + column"
    return f"""
Repeat for group from 1 to KV:
  Repeat for member from 1 to H_per_KV:
    Let scores be a 1 by L tensor of Real.
    Repeat for place from 1 to {last}:
      Let score be 0.
      Repeat for column from 1 to hd:
        Set score to score + item {of_head} of Q * item place, {of_row} of K.
      Set item 1, place of scores to score / sqrt(hd).{_softmax_and_sum(first, last, of_head, of_row)}"""


def full_attention_loops(form: LoopForm) -> str:
    of_head, of_row = "row, (head - 1) * hd + column", "(head - 1) * hd + column"
    return f"""
Repeat for row from 1 to T:
  Repeat for head from 1 to H:
    Let scores be a 1 by T tensor of Real.
    Repeat for place from 1 to T:
      Let score be 0.
      Repeat for column from 1 to hd:
        Set score to score + item {of_head} of Q * item place, {of_row} of K.
      Set item 1, place of scores to score / sqrt(hd).{_softmax_and_sum("1", "T", of_head, of_row)}"""


OPS = (
    Op(
        "rope",
        "rope of Q with cos RC and sin RS [across H heads]",
        (
            Shapes("Q (1, h*2*half), RC (1, half), RS (1, half) -> (1, h*2*half)", absent=("H",)),
            Shapes("Q (1, H*hd), RC (1, half), RS (1, half) -> (1, H*hd)", given=("H",), most=(("2*half", "hd"),)),
        ),
        rope,
        counts=("H",),
        rows=Rows(("Q", "RC", "RS"), value=rope_rows),
        loops=rope_loops,
        other_loops=(partial(_rope, True, False), partial(_rope, False, True), partial(_rope, True, True)),
    ),
    Op(
        "attention",
        "attention of Q over K and V with H heads KV groups [up to P]",
        (Shapes("Q (1, H*hd), K (L, KV*hd), V (L, KV*hd) -> (1, H*hd)", divides=(("KV", "H"),)),),
        attention,
        counts=("H", "KV"),
        indexes={"P": "L"},
        variables=("P",),
        rows=Rows(("Q", "P"), value=attention_rows, reads={"K": "P", "V": "P"}),
        loops=attention_loops,
        other_loops=(attention_from_first,),
    ),
    Op(
        "full attention",
        "full attention of Q over K and V with H heads",
        (Shapes("Q (T, H*hd), K (T, H*hd), V (T, H*hd) -> (T, H*hd)"),),
        full_attention,
        counts=("H",),
        rows=Rows(("Q", "K", "V")),
        loops=full_attention_loops,
    ),
)
