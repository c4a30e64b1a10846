"""Random programs full of what fusion looks for, with states, values read twice and orders that forbid it."""

from __future__ import annotations

from random import Random

HEAD = """\
Let tok be a 1 by 1 tensor of Int.
Let x be a 1 by 4 tensor of Real.
Let c be a 1 by 1 tensor of Real.
Let s be a 1 by 1 tensor of Real.
Let w be a 1 by 4 tensor of Real.
Let n be a 1 by 2 tensor of Real.
Let W0 be a 4 by 4 tensor of Real.
Let W1 be a 4 by 4 tensor of Real.
Let W2 be a 4 by 4 tensor of Real.
Let K be a 3 by 4 tensor of Real.
Let V be a 3 by 4 tensor of Real.
Let C be a 2 by 4 tensor of Real.
Let T be a 2 by 4 tensor of Real.
Let R be a 1 by 4 tensor of Real.
Let S be a 4 by 2 tensor of Real.
Let few be a 1 by 2 tensor of Real.
"""

SENTENCES = (
    "Let {out} be {a} plus {b}.",
    "Let {out} be {a} hadamard {b}.",
    "Let {out} be swiglu of {a} and {b}.",
    "Let {out} be silu of {a}.",
    "Let {out} be sigmoid of {a}.",
    "Let {out} be {a} matmul {weight}.",
    "Let {out} be {a} matmul {weight}.",
    "Let {out} be rmsnorm of {a} with weight {b}.",
    "Let {out} be rmsnorm of {a} with weight {a}.",
    "Let {out} be rmsnorm of {a} with weight n across 2 heads.",
    "Let {out} be rope of {a} with cos c and sin s across 2 heads.",
    "Let {out} be l2norm of {a} across 2 heads.",
    "Let {out} be row tok of {table}.",
    "Let {out} be causal conv of {a} with weight T state C over 2 taps.",
    "Let {out} be attention of {a} over K and V with 2 heads 2 groups.",
    "Set row tok of {table} to {a}.",
    "Let {out} be {a} matmul {matrix}.",
    "Let {matrix} be transpose of W1.",
    "Let {out} be {a} plus R.",
    "Let {out} be {a} hadamard R.",
    "Set row 0 of R to {b}.",
)

RUNS = (
    """Let q{i} be {a} matmul W0.
Let k{i} be {a} matmul W1.
Let v{i} be {a} matmul W2.
Let q{i} be rmsnorm of q{i} with weight n across 2 heads.
Let q{i} be rope of q{i} with cos c and sin s across 2 heads.
Let k{i} be rope of k{i} with cos c and sin s across 2 heads.
Set row tok of K to k{i}.
Set row tok of V to v{i}.
Let {out} be attention of q{i} over K and V with 2 heads 2 groups up to tok.""",
    """Let g{i} be {a} matmul W0.
Let u{i} be {a} matmul W2.
Let {out} be swiglu of g{i} and u{i}.""",
    """Let g{i} be {a} matmul W0.
Let g{i} be silu of g{i}.
Let u{i} be {a} matmul W1.
Let {out} be u{i} hadamard g{i}.""",
    """Let o{i} be {a} matmul W2.
Let {out} be {b} plus o{i}.""",
    """Let t{i} be {a} plus {b}.
Let {out} be rmsnorm of t{i} with weight w.""",
    """Set row tok of K to {a}.
Let m{i} be attention of {a} over K and V with 2 heads 2 groups.
Set row tok of V to m{i}.
Let {out} be attention of {b} over K and V with 2 heads 2 groups.""",
    """Let t{i} be {a} plus R.
Set row 0 of R to {b}.
Let {out} be t{i} hadamard R.""",
    """Let q{i} be silu of {a}.
Let q{i} be l2norm of q{i} across 2 heads.
Let b{i} be sigmoid of few.
Let d{i} be decay of few with bias few rate few.
Let {out} be gated delta of q{i} over {a} and {b} with gate x beta b{i} decay d{i} state S norm n\
 with 2 heads 2 groups.""",
)


def random_program(random: Random) -> str:
    """Rows of 4, so that everything fits everything; what a sentence reads is often what the last one made."""
    rows, matrices = ["x", "w"], ["W2"]
    lines = [HEAD]
    for number in range(random.randint(2, 14)):
        text = random.choice(SENTENCES if random.random() < 0.7 else RUNS)
        near = rows[-2:] if random.random() < 0.7 else rows
        # A name may be produced again, after it was read and before.
        out = random.choice(["y", "z", f"r{number}", f"r{number}"])
        matrix = f"M{number}" if "Let {matrix}" in text else random.choice(matrices)
        names = {"out": out, "a": random.choice(near), "b": random.choice(rows), "i": number, "matrix": matrix}
        names |= {"weight": random.choice(["W0", "W1", "W2"]), "table": random.choice("KV")}
        lines.append(text.format(**names))
        if "Let {out}" in text:
            rows.append(out)
        elif "Let {matrix}" in text:
            matrices.append(matrix)
    lines.append(f"Let last be {rows[-1]} plus {random.choice(rows)}.")
    return "\n".join(lines) + "\n"
