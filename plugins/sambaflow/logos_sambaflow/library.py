"""Emission as a function: program text in, the artifact's texts out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from logos import Request, Source, make_job, make_manager
from logos_sambaflow.target import NAME


@dataclass(frozen=True, slots=True)
class TorchArtifact:
    """The texts of an artifact: the module, the script that compiles it with SambaFlow, the manifest, and the page that
    says what to do with them."""

    model_py: str
    compile_py: str
    manifest_json: str
    readme_md: str


def emit_torch_module(source: str, *, family: str | None = None, dtype: str = "float32") -> TorchArtifact:
    """The rdu-sambaflow artifact of a program's text, without weights.

    `family` names the model family whose naming decides which leaves are weights (default: qwen35, the widest);
    `dtype` is float32 or bfloat16. Raises `logos.Refused` with everything wrong in the program and everything that
    the target cannot express.
    """
    request = Request(Path("program.lg"), family=family, options={"dtype": dtype}, source=Source("program.lg", source))
    target, job = make_job(make_manager(), request, NAME)
    texts = {artifact.path: artifact.text for artifact in target.emit(job)}
    return TorchArtifact(texts["model.py"], texts["compile.py"], texts["manifest.json"], texts["README.md"])
