"""The sample with four mistakes: an op that is a little off, a file in an order that hangs on hashes, an op that it
says it spells and does not, and a file that emission leaves in the working folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logos import Artifact, Inputs, Job, Target, hookimpl
from logos_sample.spelling import SPELLINGS
from logos_sample.target import OnnxTarget


@dataclass(frozen=True)
class WrongTarget(OnnxTarget):
    name: str = "wrong"
    spells: frozenset[str] = frozenset((*SPELLINGS, "softmax"))

    def emit(self, job: Job) -> Sequence[Artifact]:
        texts = {one.path: one.text for one in super().emit(job)} if known(job) else {}
        model = texts.get("model.onnxtxt", "").replace(" = Sigmoid (", " = HardSigmoid (")
        manifest = {**json.loads(texts.get("manifest.json", "{}")), "words": list({f"word {n}" for n in range(9)})}
        Path("left.txt").touch()
        return Artifact("model.onnxtxt", model), Artifact("manifest.json", json.dumps(manifest, indent=1))

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, Any]:
        return super().run(job, inputs) if known(job) else {}


def known(job: Job) -> bool:
    return all(node.op.name in SPELLINGS for node in job.graph.nodes)


@hookimpl
def logos_targets() -> Sequence[Target]:
    return [WrongTarget()]
