"""The qwen3 family: dense decoders whose queries and keys are normed per head before rope."""

from __future__ import annotations

from logos_gguf.families.decoder import Decoder

QWEN3 = Decoder("qwen3", norms=True)
