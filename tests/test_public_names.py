"""The public names are those that are pinned: what plugins rely on changes on purpose, in public_names.txt too."""

from __future__ import annotations

import re
from pathlib import Path

import logos
from public_names import PINNED, described

ROOT = Path(__file__).parents[1]


def test_the_public_names_are_those_pinned() -> None:
    assert described() == PINNED.read_text("utf-8"), "meant? run: python tests/public_names.py --write"


def test_every_public_name_is_listed_on_the_page_for_plugins_and_no_other() -> None:
    page = (ROOT / "docs/plugins.md").read_text("utf-8")
    section = page.partition("## Public names\n")[2].partition("\n## ")[0]
    listed = re.findall(r"`(\w+)`", "\n".join(line for line in section.splitlines() if line.startswith("| ")))
    assert sorted(listed) == sorted(logos.__all__)
