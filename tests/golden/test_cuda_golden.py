"""What the cuda target emits for one small program, to be read. LOGOS_GOLDEN=write writes the file anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from logos import OPS, read_source
from logos.check import read_program
from logos.grammar import make_grammar
from logos_cuda import moe_dp4a_kernels
from logos_cuda.emit import emit_forward
from logos_cuda.lower import forward_graph

GOLDEN = Path(__file__).parent / "cuda"


def own(text: str) -> str:
    """What of the source is the program's: its first lines, its kernels, its tables and its stages."""
    lines = text.split("\n")
    kernels = [line for line in lines if line.startswith('extern "C" __global__')]
    begin = lines.index("enum {")
    helpers = lines.index("// What the target defines.")
    first = next(n for n, line in enumerate(lines) if re.fullmatch(r"void stage_0\(\) \{", line)) - 1
    end = lines.index("void allow_shared() {")
    end = lines.index("}", end) + 2
    parts = [lines[:3], kernels, lines[begin : helpers - 1], lines[first : end - 1]]
    return "\n…\n".join("\n".join(part) for part in parts) + "\n"


def test_emitted_text_is_the_golden_one() -> None:
    graph = read_program(read_source(GOLDEN / "small.lg"), make_grammar(OPS))
    text = own(emit_forward(forward_graph(graph)))
    path = GOLDEN / "forward.cu.part"
    if os.environ.get("LOGOS_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("single_pass", [True, False])
def test_the_kernels_of_routed_experts_are_the_golden_ones(single_pass: bool) -> None:
    path = GOLDEN / f"moe_{'single_pass' if single_pass else 'two_pass'}.cuh"
    text = moe_dp4a_kernels(single_pass)
    if os.environ.get("LOGOS_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text("utf-8")
