"""The qwen families: queries and keys normed per head, later ones hybrids with the gated delta rule, some routed."""

from __future__ import annotations

from logos_gguf.families.decoder import Decoder

QWEN3 = Decoder("qwen3", norms=True)
QWEN3MOE = Decoder("qwen3moe", norms=True, experts=True)
QWEN35 = Decoder("qwen35", norms=True, gate=True, delta=True)
QWEN35MOE = Decoder("qwen35moe", norms=True, gate=True, delta=True, experts=True, shared=True)
