"""The gguf plugin: what it offers through the hooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from logos import Checkpoint, CheckpointFormat, Family, hookimpl


@dataclass(frozen=True)
class GGUFFormat:
    """The GGUF container; satisfies `logos.hookspecs.CheckpointFormat`."""

    name: str = "gguf"

    def reads(self, path: Path) -> bool:
        with open(path, "rb") as file:
            return file.read(4) == b"GGUF"

    def open(self, path: Path) -> Checkpoint:
        from logos_gguf.checkpoint import GGUFCheckpoint

        return GGUFCheckpoint(path)


@hookimpl
def logos_checkpoints() -> Sequence[CheckpointFormat]:
    return [GGUFFormat()]


@hookimpl
def logos_families() -> Sequence[Family]:
    from logos_gguf.families.llama import LLAMA
    from logos_gguf.families.qwen3 import QWEN3
    from logos_gguf.families.qwen3moe import QWEN3MOE
    from logos_gguf.families.qwen35 import QWEN35
    from logos_gguf.families.qwen35moe import QWEN35MOE

    return [LLAMA, QWEN3, QWEN3MOE, QWEN35, QWEN35MOE]
