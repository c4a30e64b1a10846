"""Programs of random sentences, many steps at once: named as needing single steps, or equal to them."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from many_steps import GRAMMAR, HEAD, TOKENS, farthest, noise

from logos import Graph, Machine, Refused, Source, read_program, run_steps
from logos.prefill import Prefill

TABLES = """\
Let E be a 8 by 4 tensor of Real.
Let N be a 8 by 4 tensor of Int.
Let K be a 12 by 4 tensor of Real.
Let V be a 12 by 4 tensor of Real.
Let L be a 12 by 1 tensor of Int.
Let C be a 3 by 4 tensor of Real.
Let D be a 3 by 4 tensor of Real.
Let w be a 4 by 4 tensor of Real.
Let v be a 1 by 4 tensor of Real.
Let one be a 1 by 1 tensor of Real.
Let i be a 4 by 4 tensor of Int.
Let r be a 12 by 1 tensor of Real.
Let x be row tok of E.
Let n be row tok of N.
Let g be row pos of r.
"""
ROW = (
    "row tok of E", "row pos of E", "row 3 of E", "row q of E", "{0} plus {1}", "{0} hadamard {1}", "{0} plus g",
    "{0} hadamard one", "{0} matmul w", "{0} matmul i", "rmsnorm of {0}", "rmsnorm of {0} across 2 heads",
    "rmsnorm of {0} plus {1} with weight v", "layernorm of {0} with weight v and bias {1}",
    "l2norm of {0} across 2 heads", "rope of {0} with cos {2} and sin {2} across 1 heads", "softmax of {0}",
    "swiglu of {0} and {1}", "gelu of {0}", "decay of {0} with bias v rate d",
    "attention of {0} over K and V with 2 heads 2 groups up to pos",
    "attention of {0} over E and E with 1 heads 1 groups up to tok",
    "attention of {0} over K and K with 4 heads 4 groups up to pos",
    "attention of {0} over K and V with 1 heads 1 groups",
    "full attention of {0} over {1} and v with 2 heads",
    "causal conv of {0} with weight c state C over 3 taps", "causal conv of {0} with weight c state D over 3 taps",
    "row 1 of K", "row pos of V", "n plus n", "{0} plus n",
)  # fmt: skip
OTHER = (
    "Set row pos of K to {0}.", "Set row pos of V to {0}.", "Set row 2 of V to {0}.", "Set row tok of K to {0}.",
    "Set row pos of L to next.", "Set row pos of L to tok.", "Let next be argmax of {0}.", "Let n be n plus n.",
    "Let n be n matmul i.", "Let g be {0} matmul r4.", "Let y be transpose of {0}.", "Let n be row next of N.",
    "Show {0}.", "Let y be transpose of K.",
)  # fmt: skip
MORE = """\
Let c be a 3 by 4 tensor of Real.
Let d be a 1 by 4 tensor of Real.
Let r4 be a 4 by 1 tensor of Real.
Let q be a 1 by 1 tensor of Int.
Let h be row 2 of w.
Let y be h plus h.
Let next be argmax of h.
"""


def random_program(random: Random) -> str:
    lines, rows = [], ["x", "h", "v"]
    for number in range(random.randint(3, 12)):
        words = [*random.choices(rows, k=2), random.choice(["x2", "v2"])]
        if random.random() < 0.3:
            lines.append(random.choice(OTHER).format(*words))
            continue
        out = random.choice([f"o{number}", f"o{number}", *(row for row in rows if row != "v")])
        lines.append(f"Let {out} be {random.choice(ROW).format(*words)}.")
        rows.append(out)
    head = "Let E2 be a 8 by 2 tensor of Real.\nLet v2 be a 1 by 2 tensor of Real.\nLet x2 be row tok of E2.\n"
    return HEAD + TABLES + MORE + head + "\n".join(lines)


def message(made: Graph, prefill: Prefill | None) -> str:
    try:
        run_steps(Machine(made, noise(made)), (), TOKENS, prefill=prefill)
    except Refused as refused:
        return str(refused)
    return ""


def outcome(random: Random) -> str:
    """Checks one program; says which way it went."""
    text = random_program(random)
    try:
        made = read_program(Source("p.lg", text), GRAMMAR)
    except Refused:
        return "no program"
    steps = random.choice([2, 3, 5, 7, 12])
    one_row = [tap for tap in made.made if made.taps[tap].rows == 1 and made.taps[tap].name not in "KVLCD"]
    names = random.choice([(), random.sample(one_row, min(2, len(one_row)))])
    try:
        prefill = Prefill(made, steps, names)
    except Refused:
        return "single steps"
    if error := message(made, None):
        assert message(made, prefill) == error
        return "error"
    assert farthest(made, noise(made), steps, names, whole=False) <= 1e-11, text
    return "equal"


@given(st.integers(0, 2**32))
def test_random_programs_equal_single_steps(seed: int) -> None:
    outcome(Random(seed))


def test_the_random_programs_go_every_way() -> None:
    ways = [outcome(Random(seed)) for seed in range(150)]
    assert ways.count("equal") > 30
    assert ways.count("single steps") > 30
    assert ways.count("error") > 5
