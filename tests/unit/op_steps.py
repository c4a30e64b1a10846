"""Programs of one sentence for every op with a T-row rule, whichever of its operands differ from step to step."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from many_steps import subsets

from logos import OPS, Op, Shapes
from logos.conformance import variants
from logos.op import factors
from logos.shapes import evaluate

ROWS = 13
RULED = [op for op in OPS if op.rows is not None]


def cases(op: Op) -> Iterator[tuple[frozenset[str], Shapes, frozenset[str]]]:
    """Optional parts, a shape rule for them, and the operands that differ from step to step."""
    assert op.rows is not None
    for present, rule in variants(op):
        for varying in subsets([hole for hole in op.rows.holes if hole in present]):
            yield present, rule, varying


def sizes_of(op: Op, rule: Shapes, random: Random) -> dict[str, int]:
    """Random sizes that a rule allows where what may differ from step to step has one row."""
    assert op.rows is not None
    dimensions = [dimension for dimensions in rule.operands.values() for dimension in dimensions]
    symbols = sorted({symbol for dimension in dimensions for symbol in factors(dimension)[1]} | set(op.counts))
    one = {symbol for hole in op.rows.holes if hole in rule.operands for symbol in factors(rule.operands[hole][0])[1]}
    while True:
        sizes = {symbol: 1 if symbol in one else random.randint(1, 5) for symbol in symbols}
        sizes.update(dict.fromkeys(op.indexes.values(), ROWS))
        sizes.update({whole: sizes[part] * random.randint(1, 3) for part, whole in rule.divides})
        if all((evaluate(low, sizes) or 0) <= (evaluate(high, sizes) or 0) for low, high in rule.most):
            return sizes


def program(op: Op, present: frozenset[str], rule: Shapes, varying: frozenset[str], random: Random, kind: str) -> str:
    """One sentence of the op. What varies is read by the token from a table of its own; `pos` is the row of a `Set
    row`, any row of another table is looked up as well."""
    sizes, lines, words = sizes_of(op, rule, random), [], []
    for hole, dimensions in rule.operands.items():
        rows, columns = (evaluate(dimension, sizes) for dimension in dimensions)
        if hole not in present:
            continue
        if hole in varying:
            lines += [f"Let {hole}s be a 8 by {columns} tensor of {kind}.", f"Let {hole} be row tok of {hole}s."]
        else:
            lines.append(f"Let {hole} be a {rows} by {columns} tensor of {kind}.")
    for hole in op.indexes:
        if hole in present and hole in varying and not op.writes:
            lines.append(f"Let {hole}s be a 8 by 1 tensor of Int.")
            lines += [f"Set item {item} of {hole}s to {random.randrange(ROWS)}." for item in range(1, 9)]
            lines.append(f"Let {hole} be row tok of {hole}s.")
        elif hole in present and hole not in varying:
            lines += [f"Let {hole} be a 1 by 1 tensor of Int.", f"Set item 1 of {hole} to {random.randrange(ROWS)}."]
    holes = {word.text: str(sizes.get(word.text, word.text)) for word in op.pattern.holes} | {"EPS": "0.001"}
    holes.update({hole: "pos" for hole in op.indexes if hole in varying and op.writes})
    for variant in op.pattern.variants:
        if {word.text for word in variant if word.hole is not None} == present:
            words = [word.text if word.hole is None else holes[word.text] for word in variant]
            break
    lines.append(" ".join(words) + ".")
    lines += [f"Let OUT be transpose of {op.writes[0]}."] if op.statement else []
    return "\n".join(lines) + "\n"
