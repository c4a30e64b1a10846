"""What the commands refuse beside a program's own faults, each with its exact message.

tests/golden/command_refusals.txt is every command below with what it says. With LOGOS_REFRESH_GOLDEN=1 it is written
anew: read its diff as someone who sees the message for the first time.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from toy_build import Toy

GOLDEN = Path(__file__).parents[1] / "golden/command_refusals.txt"

PROGRAM = """\
Let tok be a 1 by 1 tensor of Int.
Let x be a 1 by 2 tensor of Real.
Let W be a 2 by 3 tensor of Real.
Let K be a 4 by 3 tensor of Real.
Set item 1 of W to 2.5.
Let y be x matmul W.
Set row tok of K to y.
Let z be row tok of K.
"""

EXPERTS = """\
Let x be a 1 by 4 tensor of Real.
Let R be a 2 by 4 tensor of Real.
Let G be a 6 by 4 tensor of Real.
Let D be a 8 by 3 tensor of Real.
Let y be moe of x with router R gate G up G down D top 1 of 2 experts.
Let z be moe of y with router R gate G up G down D top 1 of 2 experts.
Let s be gelu of z.
"""

LAYERS = """\
Let x be a 1 by 2 tensor of Real.
Let W0 be a 2 by 2 tensor of Real.
Let W1 be a 2 by 2 tensor of Real.
Let W2 be a 2 by 2 tensor of Real.
Let W3 be a 2 by 2 tensor of Real.
Let W4 be a 2 by 2 tensor of Real.
Let y be x matmul W0.
"""

UNFIT = """\
Let tok be a 1 by 1 tensor of Int.
Let emb be a 320 by 127 tensor of Real.
Let on be a 1 by 128 tensor of Int.
Let an9 be a 1 by 128 tensor of Real.
Let x be row tok of emb.
"""

COMMANDS = (
    "run p.lg --set xx=1",
    "run p.lg --set x=1 --set tok=0 --get q,x,V",
    "run p.lg --set y=1",
    "run p.lg --set x=1 --set tok=1 --tokens 1",
    "run p.lg --set tok=0 --set x=[[1,2,3]]",
    "run p.lg --set x=1 --set tok=0.5",
    "run p.lg --set x=one --set tok=0",
    "run p.lg --set x=@none.npy --set tok=0",
    "run p.lg --set x=1 --set tok=18446744073709551615",
    "run p.lg",
    "run layers.lg --family toy",
    "run layers.lg --family toy --weights broken",
    "run p.lg --set x=1 --set tok=4",
    "run p.lg --set x=1e400 --set tok=0",
    "run p.lg --set x=1 --set tok=0 --npy given/readme",
    "run vast.lg --fill noise",
    "author tiny.gguf --family qwen3 -o a.lg",
    "run p.lg --set x=1 --tokens 1 --generate 3",
    "run nowhere.lg",
    "run none.lg --tokens 1",
    "ops gated",
    "check p.lg --weights nowhere",
    "check p.lg --checkpoint nowhere.gguf",
    "check p.lg --checkpoint p.lg",
    "check p.lg --family toi",
    "check unfit.lg --checkpoint tiny.gguf",
    "emit p.lg --target toi --out o",
    "emit p.lg --target toy --family toy --out o -D stile=fancy -D style=loud -D loud=maybe",
    "emit p.lg --target toy --family toy --out o --hold glew",
    "emit p.lg --target toy --family toy --out o --tensor K=a --tensor y=b --tensor w=c",
    "emit p.lg --target toy --family toy --out o -D path=../x",
    "emit moe.lg --target toy --family toy --out o",
    "extract p.lg --target toy --family toy --out o -D weights=raw --file W.f32",
    "verify p.lg --target toy --family toy --against given",
    "new given",
    "explain sett row",
    "explain matmull",
    "clean",
    "clean --out given",
    "build",
    "build p",
    "build p.lg",
    "build p.lg --target toy --checkpoint nowhere.gguf",
)


def test_the_messages_are_exactly_these(toy: Toy, oracles: Path) -> None:
    shutil.copy(oracles / "llama-tiny-untied/llama-tiny-untied-q8_0.gguf", toy.folder / "tiny.gguf")
    toy.write("unfit.lg", UNFIT)
    toy.write("p.lg", PROGRAM)
    toy.write("moe.lg", EXPERTS)
    toy.write("none.lg", "Let x be a 1 by 2 tensor of Real.\nSet item 1 of x to 1.\nLet y be silu of x.\n")
    toy.write("layers.lg", LAYERS)
    toy.write("vast.lg", "Let x be a 16777216 by 16777215 tensor of Real.\nLet y be transpose of x.\n")
    toy.write("given/readme", "")
    toy.write("broken/weights.safetensors", "not one")
    given = [path.name for path in toy.folder.iterdir()]
    said = []
    for command in COMMANDS:
        ran = toy.logos(*command.split(" "))
        assert (ran.code, ran.out) == (1, ""), command
        said.append(f"$ logos {command}\n{ran.err}")
    text = "\n".join(said)
    if os.environ.get("LOGOS_REFRESH_GOLDEN") == "1":
        GOLDEN.write_text(text, encoding="utf-8", newline="\n")
    assert text == GOLDEN.read_text(encoding="utf-8")
    assert sorted(path.name for path in toy.folder.iterdir()) == sorted(given)
