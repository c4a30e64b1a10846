"""`python assemble.py model.onnxtxt model.onnx`: a model's text as the bytes that runtimes load."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import onnx.parser


def main(source: str, made: str) -> None:
    model = onnx.parser.parse_model(Path(source).read_text(encoding="utf-8"))
    part = Path(f"{made}.part")
    part.write_bytes(model.SerializeToString(deterministic=True))
    os.replace(part, made)


if __name__ == "__main__":
    main(*sys.argv[1:])
