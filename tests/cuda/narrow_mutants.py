"""Named mistakes in the kernels of narrow_cases.py, as kernel_mutants.py has for the rest."""

from __future__ import annotations

from kernel_mutants import Mutant

Q8, EXACT, EXPERTS, TABLES = "matvec_q8.cuh", "exact_q8.cuh", "experts_q8.cuh", "tables_narrow.cuh"
NARROW = (
    Mutant("halves-not-exchanged", "matvec_q8_by_warps", Q8, "const int whole", "odd ? a : b, 1", "odd ? b : a, 1",
           "a lane adds its neighbour's half of the block that it gives away", quick=True),
    Mutant("odd-lane-s-block", "matvec_q8_by_warps", Q8, "const int own", "(lanes + lane) / 2", "lane / 2",
           "odd lanes take the scale of another block"),
    Mutant("tail-read-beyond", "matvec_q8_by_blocks", Q8, "bool near = lane", "lane + lanes < 2 * left", "true",
           "the last round reads beyond the row", shows="AddressSanitizer|beyond|off by|exit"),
    Mutant("tail-left-out", "matvec_q8_by_blocks", Q8, "none = {0", "left > 0", "left >= lanes",
           "a last round that is not full is left out"),
    Mutant("second-scale", "matvec_q8_by_blocks", Q8, "const float first", "at.ws + lanes", "at.ws",
           "the second round takes the first's scales"),
    Mutant("row-s-scales", "matvec_q8_by_warps_rows", Q8, "float sum[rows]", "xs + top * blocks", "xs",
           "later rows of x take the first rows' scales"),
    Mutant("scale-of-8", "matvec_q8_by_warps", "quantize.cuh", "size_of(x.w)));", "warp_join<Max, 8>",
           "warp_join<Max, 4>", "a block has two scales"),
    Mutant("ties-to-even", "matvec_q8_by_warps", "quantize.cuh", "int quant_of", "roundf(x", "rintf(x",
           "halfway, quants go to the even one"),
    Mutant("rest-s-place", "moe_q8_two_pass", "quantize.cuh", "unsigned quants;", "made + pass * n", "made",
           "what is left overwrites the first quants"),
    Mutant("exact-scale", "matvec_exact", EXACT, "const int4 quants", "ws + half / 2", "ws + half / 4",
           "the exact product takes another block's scale"),
    Mutant("exact-byte", "matvec_exact_rows", EXACT, "double exact_four", "quants >> 16", "quants >> 8",
           "a quant is taken twice"),
    Mutant("expert-of-the-first", "moe_q8", EXPERTS, "float sum = 0.0f;", "chosen[slot]", "chosen[row * top]",
           "all down rows are the best expert's"),
    Mutant("passes-of-one-row", "moe_q8_two_pass", EXPERTS, "const Size blocks = width / 32", "rows * blocks", "blocks",
           "the second pass of several rows starts within the first", shapes=(3, 4, 8, 9, 13, 14)),
    Mutant("up-for-gate", "moe_exact", "experts_exact.cuh", "const float g", "gate + at", "up + at",
           "gate rows are up rows"),
    Mutant("row-of-another-scale", "embedding_at_q8", TABLES, "const unsigned four", "i / 8", "i / 4",
           "a row's elements take their neighbours' scales", shows="AddressSanitizer|off by|exit|not finite"),
    Mutant("halves-in-another-order", "attention_128_half", "attention.cuh", "four_at(int i, int lanes", "+ i % 2", "",
           "both vectors of a load are the first"),
    Mutant("half-twice", "attention_up_to_64_half", "attention.cuh", "float4 widened", "high >> 16", "high & 65535",
           "an element of a head is another's"),
    Mutant("row-of-the-table", "attention_64_half", TABLES, "set_row_half_at(const", "row * columns + i", "i",
           "the first row is set in place of the asked one"),
)  # fmt: skip

LEFT = "arrivals counter is left|not finite|off by"
FUSED = (
    Mutant("counter-left", "argmax_combined", "logos.cuh", "before[0] = atomicAdd(arrivals, count);",
           "if (before[0] + count == due) *arrivals = 0;", "", "the next launch finds a counter that is not 0",
           shows=LEFT, shapes=(3,)),
    Mutant("first-goes-on", "attention_up_to_64_half_combined_q8", "logos.cuh", "const bool last = ",
           "before[0] + count == due", "before[0] == 0", "the block that comes first joins parts that are not there",
           shapes=(9,)),
    Mutant("tiles-of-the-first", "attention_up_to_64_half_combined_q8", "attention_combined.cuh",
           "const Size tiles = (heads", "number / tiles * heads", "0", "every group's queries are the first's",
           shapes=(4, 8)),
    Mutant("one-counter-for-all", "gate_up_q8_quantized_by_blocks", "quantize.cuh", "const Size block = first / 32;",
           "arrivals + block", "arrivals", "32 of any elements count as those of a block", shows=LEFT, shapes=(4,)),
    Mutant("head-of-another", "delta_q8", "delta_combined.cuh", "const Size head = first / width;", "arrivals + head",
           "arrivals", "rows of any heads count as one head's", shows=LEFT, shapes=(4,)),
    Mutant("gate-as-it-is", "router_gate_by_warps", "router.cuh", "product[0] = sum;", "Sigmoid::of(sum)", "sum",
           "a shared expert's gate is no sigmoid", shapes=(3, 4)),
    Mutant("part-of-the-first", "parts_by_warps", "matvec_q8_fused.cuh", "{w, ws, y, n, blocks, lanes};\n    block",
           " -= blocks", " -= 0", "blocks of the second weight begin beyond its rows", shapes=(3, 4)),
)  # fmt: skip
"""Mistakes in the kernels of fused_q8_cases.py."""
