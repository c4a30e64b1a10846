"""What the plugin offers through the hooks."""

from __future__ import annotations

from collections.abc import Sequence

from logos import CheckpointFormat, Op, Target, hookimpl
from logos_sample.op import SQUARED_RELU

logos_api = 1


@hookimpl
def logos_ops() -> Sequence[Op]:
    return [SQUARED_RELU]


@hookimpl
def logos_targets() -> Sequence[Target]:
    from logos_sample.target import OnnxTarget

    return [OnnxTarget()]


@hookimpl
def logos_checkpoints() -> Sequence[CheckpointFormat]:
    from logos_sample.huggingface import HuggingFaceFormat

    return [HuggingFaceFormat()]
