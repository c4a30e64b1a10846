"""The qwen3moe family: qwen3 with routed experts; the chosen experts' weights always sum to 1."""

from __future__ import annotations

from logos_gguf.families.decoder import Decoder

QWEN3MOE = Decoder("qwen3moe", norms=True, experts=True)
