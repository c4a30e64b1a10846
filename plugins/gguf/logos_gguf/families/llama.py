"""The llama family: rope over neighbouring rows, which the views put back into halves."""

from __future__ import annotations

from logos_gguf.families.decoder import Decoder

LLAMA = Decoder("llama", neighbours=True)
