"""Any change of a valid program or of a valid logos.toml ends in a refusal or in a plan, never in a crash.

LOGOS_MUTATIONS says how many of each are made (`make soak`: 10,000).
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from logos.manager import Manager, make_manager
from logos.plan import make_plan
from logos.refusal import Refused
from logos.selection import Flags, select

ROOT = Path(__file__).parents[2]
COUNT = int(os.environ.get("LOGOS_MUTATIONS", "150"))
SEED = int(os.environ.get("LOGOS_SEED", "1"))

PROGRAM = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 8 by 4 tensor of Real.
Let K be a 6 by 4 tensor of Real.
Let W be a 4 by 4 tensor of Real.
Set item 1 of W to -2.5e-1.
Let x be row tok of emb.
Let q be x matmul W.
Set row pos of K to q.
Let a be attention of q over K and K with 2 heads 2 groups up to pos.
Let n be rmsnorm of a with weight x with eps 1e-06.
Let y be n plus x.
Let next be argmax of y.
Show next.
"""

PROJECT = """\
# A project of its own, and one member
[workspace]
members = ["m*"]

[project]
name = "small"
program = "p.lg"
family = 'llama'
out = "made here"

[weights]
W = "blk.0.attn_q.weight"

[target.rdu-sambaflow]
dtype = "float32"
weights = "none"
outputs = ["y", "next"]
"""

MEMBER = '[project]\nname = "member"\nprogram = "../p.lg"\n[target.rdu-sambaflow]\nweights = "none"\n'


def mutated(text: str, chance: random.Random) -> bytes:
    """One to four changes: bytes put in, left out or exchanged, words and lines exchanged with others."""
    for _ in range(chance.randint(1, 4)):
        kind = chance.randrange(5)
        if kind == 0:
            at, length = chance.randrange(len(text) + 1), chance.randrange(6)
            text = text[:at] + text[at + length :]
        elif kind == 1:
            at = chance.randrange(len(text) + 1)
            piece = chance.choice(
                [".", " ", "\n", '"', "'", "[", "]", "{", "=", "é", "\x00", "\\", "9" * 30, "-", "\ud800"]
            )
            text = text[:at] + piece + text[at:]
        elif kind == 2:
            lines = text.splitlines(keepends=True) or [""]
            lines[chance.randrange(len(lines))] = chance.choice(lines)
            text = "".join(lines)
        else:
            words = re.split(r"(\W+)", text)
            words[chance.randrange(len(words))] = chance.choice(
                [*words, "0", "-1", "true", "1e400", "2147483648", "of"]
            )
            text = "".join(words)
    return text.encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def manager() -> Manager:
    return make_manager()


@pytest.mark.parametrize("changed", ["p.lg", "logos.toml"])
def test_a_changed_file_is_refused_or_planned(
    changed: str, manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"p.lg": PROGRAM, "logos.toml": PROJECT, "m/logos.toml": MEMBER}
    (tmp_path / "m").mkdir()
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    names = ["small"] if changed == "p.lg" else []
    assert len(make_plan(manager, select(names, Flags())).units) == 2 - len(names)
    chance = random.Random(SEED)
    planned = 0
    for number in range(COUNT):
        data = mutated(texts[changed], chance)
        (tmp_path / changed).write_bytes(data)
        try:
            make_plan(manager, select(names, Flags()))
            planned += 1
        except Refused as refused:
            for refusal in refused.refusals:
                assert refusal.next, data
                assert refusal.text().isprintable() or "\n" in refusal.text(), data
        except Exception as error:
            raise AssertionError(f"change {number} of seed {SEED}: {data!r}") from error
    assert 0 < planned < COUNT
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logos.toml", "m", "p.lg"]
