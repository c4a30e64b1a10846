"""What the target emits for one small program, to be read. LOGOS_GOLDEN=write writes the files anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logos_sambaflow import emit_torch_module

GOLDEN = Path(__file__).parent / "sambaflow"
ARTIFACT = emit_torch_module((GOLDEN / "small.lg").read_text("utf-8"))


def own(model: str) -> str:
    """What of model.py is the program's: its first lines, its variables, and forward; the rest is the same for all."""
    lines = model.split("\n")
    variables = lines.index("# The program's variables.")
    helpers = lines.index("# One operation of the program each.")
    module = lines.index("class LogosModule(nn.Module):")
    end = next(n for n, line in enumerate(lines) if line.startswith("    def load_weights"))
    return "\n".join([*lines[:3], "…", *lines[variables:helpers], "…", *lines[module:end]]).rstrip() + "\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("model.py.part", own(ARTIFACT.model_py)),
        ("compile.py.whole", ARTIFACT.compile_py),
        ("manifest.json", ARTIFACT.manifest_json),
        ("README.md", ARTIFACT.readme_md),
    ],
)
def test_emitted_text_is_the_golden_one(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("LOGOS_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text("utf-8")
