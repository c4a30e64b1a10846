"""What the target emits for one small program, to be read. LOGOS_GOLDEN=write writes the files anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logos import Artifact
from logos_sambaflow import emit_torch_module
from logos_sambaflow.target import SambaflowTarget
from sambaflow_modules import sambaflow_job

GOLDEN = Path(__file__).parent / "sambaflow"
TEXT, PROMPT = ((GOLDEN / name).read_text("utf-8") for name in ("small.lg", "prompt.lg"))
ARTIFACT = emit_torch_module(TEXT)


def own(model: str) -> str:
    """What of model.py is the program's: its first lines, its variables, and forward; the rest is the same for all."""
    lines = model.split("\n")
    variables = lines.index("# The program's variables.")
    helpers = lines.index("# One operation of the program each.")
    module = lines.index("class LogosModule(nn.Module):")
    end = next(n for n, line in enumerate(lines) if line.startswith("    def load_weights"))
    return "\n".join([*lines[:3], "…", *lines[variables:helpers], "…", *lines[module:end]]).rstrip() + "\n"


def prefill(model: str) -> str:
    """What of model.py is LogosPrefill's: its helpers, the class, and what PROGRAM says of it."""
    lines, without = model.split("\n"), set(ARTIFACT.model_py.split("\n"))
    helpers, module = lines.index("# One operation of the program each."), lines.index("class LogosModule(nn.Module):")
    spelled = [line for line in lines[helpers:module] if line.startswith("def ") and line not in without]
    first = next(n for n, line in enumerate(lines) if line.startswith("class LogosPrefill"))
    end = next(n for n, line in enumerate(lines) if n > first and line.startswith("        return ("))
    said = next(n for n, line in enumerate(lines) if line.startswith("PROGRAM = "))
    last = lines.index('if __name__ == "__main__":', said)
    return "\n".join([*spelled, "…", *lines[first : end + 1], "…", *lines[said:last]]).rstrip() + "\n"


def many_steps() -> dict[str, str]:
    made: list[Artifact] = [*SambaflowTarget().emit(sambaflow_job(PROMPT, prefill=4))]
    return {artifact.path: artifact.text for artifact in made}


MANY = many_steps()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("model.py.part", own(ARTIFACT.model_py)),
        ("compile.py.whole", ARTIFACT.compile_py),
        ("manifest.json", ARTIFACT.manifest_json),
        ("README.md", ARTIFACT.readme_md),
        ("prefill.py.part", prefill(MANY["model.py"])),
        ("prefill.json", MANY["manifest.json"]),
        ("prefill.md", MANY["README.md"]),
    ],
)
def test_emitted_text_is_the_golden_one(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("LOGOS_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text("utf-8")
