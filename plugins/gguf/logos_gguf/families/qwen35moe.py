"""The qwen35moe family: qwen35 with routed experts and a shared one."""

from __future__ import annotations

from logos_gguf.families.decoder import Decoder

QWEN35MOE = Decoder("qwen35moe", norms=True, gate=True, delta=True, experts=True, shared=True)
