"""Which op a block of loops is: the core's functions, among this package's names."""

from __future__ import annotations

from logos import AttentionBlock as AttentionBlock
from logos import recognize_attention as recognize_attention
from logos import recognize_moe as recognize_moe
