"""README.md of an artifact: the commands in order, and what holds of this artifact alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from logos import Request, Source, make_job, make_manager
from logos_sambaflow.target import SambaflowTarget

TOKENS = """
Let tok be a 1 by 1 tensor of Int.
Let emb be a 5 by 2 tensor of Real.
Let x be row tok of emb.
"""
DECAY = """
Let ar be a 1 by 2 tensor of Real.
Let Dt0 be a 1 by 2 tensor of Real.
Let Al0 be a 1 by 2 tensor of Real.
Let y be decay of ar with bias Dt0 rate Al0.
"""


def texts(text: str, name: str = "p.lg", **options: object) -> dict[str, str]:
    request = Request(Path(name), options=options, source=Source(name, text))
    _, job = make_job(make_manager(), request, "rdu-sambaflow")
    return {artifact.path: artifact.text for artifact in SambaflowTarget().emit(job)}


def commands(page: str) -> list[str]:
    return [line.strip() for line in page.splitlines() if line.startswith("       python")]


def test_the_commands_stand_in_order() -> None:
    page = texts(TOKENS, selftest=2)["README.md"]
    run = "--inference --pef out/step/step.pef --graphamp-preset mp0"
    assert commands(page) == [
        "python model.py --selftest",
        "python compile.py compile --inference --pef-name step --graphamp-preset mp0",
        f"python compile.py run {run} --tokens 1,2,3",
        f"python compile.py test {run}",
    ]
    assert "`selftest.safetensors` | 2 steps of LOGOS's reference machine" in page
    assert page.index("python compile.py test") < page.index("\n5. The probes") < page.index("## What to send back")


def test_without_a_recording_it_says_how_to_have_one() -> None:
    page = texts(DECAY)["README.md"]
    given = "--set ar=1"
    assert commands(page)[0] == f"python model.py {given}"
    assert commands(page)[-1].endswith(f" {given}")
    assert "Built with `-D selftest=4`" in page
    assert "\n4. The probes" in page
    assert "selftest.safetensors" not in page
    assert "of those used here the vendor neither\n  documents nor uses: `softplus`, `exp`\n" in page


def test_it_says_where_states_stay_and_what_is_unverified_of_that() -> None:
    host, region = (texts(TOKENS, state=state)["README.md"] for state in ("host", "region"))
    assert "States pass through the host" in host
    assert "States stay on the device" in region
    assert "samba.session.setup" in region
    assert "samba.session.setup" not in host


def test_it_holds_nothing_of_where_it_was_made(tmp_path: Path) -> None:
    first = texts(TOKENS, str(tmp_path / "p.lg"), selftest=1)["README.md"]
    assert first == texts(TOKENS, selftest=1)["README.md"]
    assert not re.search(r"/(home|tmp|root|work)/|20\d\d-", first)
    assert "$" not in first


@pytest.mark.parametrize("name", ["a`b.lg", "$x.lg", "${y}.lg"])
def test_a_files_name_is_no_markup(name: str) -> None:
    page = texts(TOKENS, name)["README.md"]
    assert page.splitlines()[0] == f"# `{name.replace('`', '')}` for SambaFlow"


def test_the_manifest_and_the_page_agree_on_what_is_unknown() -> None:
    made = texts(DECAY)
    operators = [one for op in json.loads(made["manifest.json"])["ops"] for one in op["operators"]]
    unknown = dict.fromkeys(one["name"] for one in operators if one["support"] == "unknown")
    assert ", ".join(f"`{name}`" for name in unknown) in made["README.md"]


def test_prompts_in_chunks_have_their_own_commands() -> None:
    page = texts(TOKENS, prefill=4)["README.md"]
    preset = "--graphamp-preset mp0"
    assert commands(page)[3:] == [
        "python model.py --prefill --tokens IDS",
        f"python compile.py compile --inference --module prefill --pef-name prefill {preset}",
        "python compile.py run --inference --module prefill --pef out/prefill/prefill.pef"
        f" {preset} --states states --tokens IDS",
        f"python compile.py run --inference --pef out/step/step.pef {preset} --states states --tokens IDS",
    ]
    assert "\n4. Prompts in chunks of 4 tokens" in page
    assert "\n5. The probes" in page
    page = texts(TOKENS, prefill=1, selftest=2)["README.md"]
    assert "\n5. Prompts in chunks of one token" in page
    assert "\n6. The probes" in page
    assert "python model.py --selftest --prefill" in commands(page)
    assert commands(page)[-1].startswith("python compile.py test --inference --module prefill")
    assert "prefill" not in texts(TOKENS, selftest=2)["README.md"]
