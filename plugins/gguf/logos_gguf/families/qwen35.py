"""The qwen35 family: hybrids of gated delta and gated attention layers (Qwen3.5 and later)."""

from __future__ import annotations

from logos_gguf.families.decoder import Decoder

QWEN35 = Decoder("qwen35", norms=True, gate=True, delta=True)
