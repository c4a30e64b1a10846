"""support.toml: read without trust, honoured by the choice of spellings, said in the manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logos import Refused, Request, Source, make_job, make_manager
from logos_sambaflow.choice import choose
from logos_sambaflow.parts import digest
from logos_sambaflow.support import NOTHING, Finding, Support, read_support
from logos_sambaflow.target import SambaflowTarget

HEAD = 'schema = "logos.sambaflow.support"\nversion = 1\n'
TEXT = "Let x be a 2 by 3 tensor of Real.\nLet y be silu of x.\nLet z be sigmoid of y.\nLet w be silu of z.\n"
FALLS_BACK = 'finding = "falls back"\nlog = "silu: falling back to CPU"\n'
WRONG = 'finding = "wrong"\ndifference = 0.0099\nbound = 0.0001\n'
MANAGER = make_manager()


def finding(kind: str, name: str, text: str, dtype: str = "float32") -> str:
    return f"\n[{kind}.{name}.{dtype}]\n{text}"


def emitted(folder: Path, support: str, text: str = TEXT, **options: object) -> dict[str, str]:
    """The artifact's texts with a support.toml of these findings."""
    file = folder / "support.toml"
    file.write_text(HEAD + support, encoding="utf-8")
    request = Request(Path("p.lg"), options={"support": str(file), **options}, source=Source("p.lg", text))
    _, job = make_job(MANAGER, request, "rdu-sambaflow")
    return {artifact.path: artifact.text for artifact in SambaflowTarget().emit(job)}


def refused(text: str) -> str:
    with pytest.raises(Refused) as error:
        read_support(Source("support.toml", text))
    (refusal,) = error.value.refusals
    return refusal.text()


AGAIN = "\n  next: write it with run_probes.py of this LOGOS's `logos probe`"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'schema = "other"\n',
            "support.toml:1:1: schema: it is no support.toml: its schema is not 'logos.sambaflow.support'"
            " [bad-support]\n"
            '    schema = "other"\n    ^^^^^^' + AGAIN,
        ),
        ("", "support.toml: it is no support.toml: its schema is not 'logos.sambaflow.support' [bad-support]" + AGAIN),
        (
            'schema = "logos.sambaflow.support"\nversion = 2\n',
            "support.toml:2:1: version: it is of version 2; this LOGOS reads version 1 [bad-support]\n"
            "    version = 2\n    ^^^^^^^" + AGAIN,
        ),
        (
            HEAD + finding("operator", "add", 'finding = "fine"\n'),
            "support.toml:5:1: operator.add.float32.finding: finding is one of verified, falls back, wrong, failed"
            ' [bad-support]\n    finding = "fine"\n    ^^^^^^^' + AGAIN,
        ),
        (
            HEAD + finding("operator", "add", 'finding = "wrong"\ndifference = "much"\n'),
            "support.toml:6:1: operator.add.float32.difference: a number is due [bad-support]\n"
            '    difference = "much"\n    ^^^^^^^^^^' + AGAIN,
        ),
        (
            HEAD + finding("operator", "add", 'finding = "verified"\n', "float31"),
            "support.toml:4:2: operator.add.float31: float31 is no dtype that is probed; did you mean float32?"
            " [bad-support]\n    [operator.add.float31]\n     ^^^^^^^^^^^^^^^^^^^^" + AGAIN,
        ),
        (
            HEAD + finding("operator", "add", 'finding = "verified"\nsecond = 1\n'),
            "support.toml:6:1: operator.add.float32.second: unknown key second; did you mean seconds? [bad-support]\n"
            "    second = 1\n    ^^^^^^" + AGAIN,
        ),
        (
            HEAD.replace("1", "true"),
            "support.toml:2:1: version: it is of version True; this LOGOS reads version 1 [bad-support]\n"
            "    version = true\n    ^^^^^^^" + AGAIN,
        ),
        (
            HEAD + finding("operator", "add", 'finding = "wrong"\nbound = true\n'),
            "support.toml:6:1: operator.add.float32.bound: a number is due [bad-support]\n"
            "    bound = true\n    ^^^^^" + AGAIN,
        ),
        (
            HEAD + finding("operator", "add", 'finding = "wrong"\ncompiled = 1\n'),
            "support.toml:6:1: operator.add.float32.compiled: true or false is due [bad-support]\n"
            "    compiled = 1\n    ^^^^^^^^" + AGAIN,
        ),
        *(
            (
                HEAD + finding("operator", "add", f'finding = "wrong"\n{key} = {number}\n'),
                f"support.toml:6:1: operator.add.float32.{key}: a number from 0 on is due [bad-support]\n"
                f"    {key} = {number}\n    {'^' * len(key)}" + AGAIN,
            )
            for key, number in (("bound", "inf"), ("bound", "nan"), ("difference", "nan"), ("difference", "-1"))
        ),
        (
            HEAD + finding("operator", "add", 'finding = "wrong"\n"a\\nb" = 1\n'),
            'support.toml:6:1: operator.add.float32."a\\U0000000Ab": unknown key a?b [bad-support]\n'
            '    "a\\nb" = 1\n    ^^^^^^' + AGAIN,
        ),
        (
            HEAD.replace("1", '"1\\n2"'),
            "support.toml:2:1: version: it is of version 1?2; this LOGOS reads version 1 [bad-support]\n"
            '    version = "1\\n2"\n    ^^^^^^^' + AGAIN,
        ),
        (
            HEAD + "operator = 3\n",
            "support.toml:3:1: operator: a table is due [bad-support]\n    operator = 3\n    ^^^^^^^^" + AGAIN,
        ),
        (
            HEAD + "[operator]\nadd = 3\n",
            "support.toml:4:1: operator.add: a table is due [bad-support]\n    add = 3\n    ^^^" + AGAIN,
        ),
        (
            HEAD + "[operator]\nadd.float32 = 3\n",
            "support.toml:4:1: operator.add.float32: a table is due [bad-support]\n"
            "    add.float32 = 3\n    ^^^^^^^^^^^" + AGAIN,
        ),
    ],
)
def test_a_file_that_is_not_sound_is_refused_at_its_line(text: str, message: str) -> None:
    assert refused(text) == message


def test_a_file_that_is_no_toml_is_refused_at_its_line() -> None:
    assert refused(HEAD + "add =\n").startswith("support.toml:3:6: not TOML: Invalid value [bad-toml]\n")


def test_an_unsound_file_stops_the_build_and_nothing_else_is_said(tmp_path: Path) -> None:
    with pytest.raises(Refused) as error:
        emitted(tmp_path, "version = 1\n")
    assert [refusal.code for refusal in error.value.refusals] == ["bad-toml"]


def test_a_name_that_this_logos_does_not_probe_is_left_aside() -> None:
    made = read_support(Source("s", HEAD + finding("spelling", "fold_by_hand", FALLS_BACK)))
    assert choose("silu", "float32", made).helper == "silu"


def found(**operators: Finding) -> Support:
    return Support({}, {(name, "float32"): finding for name, finding in operators.items()})


def test_what_was_found_against_an_operator_turns_to_the_alternative() -> None:
    bad, good = Finding("failed", message="no"), Finding("verified", 0.0, 0.1)
    assert choose("silu", "float32", NOTHING).helper == "silu"
    assert choose("silu", "float32", found(silu=good)).helper == "silu"
    assert choose("silu", "float32", found(silu=bad)).helper == "silu_by_softmax"
    assert choose("silu", "bfloat16", found(silu=bad)).helper == "silu"
    assert choose("silu", "float32", found(silu=bad, cat=bad)).objections == (
        'silu uses silu, which failed ("no") in float32',
        'silu_by_softmax uses cat, which failed ("no") in float32',
        "silu_by_sigmoid uses sigmoid, which was not verified in float32",
    )


def test_what_was_found_against_a_spelling_turns_to_the_alternative() -> None:
    wrong = Support({("silu", "float32"): Finding("wrong", 0.02, 1e-4, digest=digest("silu"))}, {})
    choice = choose("silu", "float32", wrong)
    assert (choice.helper, choice.objections) == (
        "silu_by_softmax",
        ("silu is wrong by 0.02 (bound 0.0001) in float32",),
    )


def test_of_several_dtypes_the_gravest_finding_counts() -> None:
    neg = {("neg", "float32"): Finding("verified"), ("neg", "int32"): Finding("failed", message="no")}
    assert Support({}, neg).operator("neg", ("float32", "int32")) == neg["neg", "int32"]
    assert Support({}, neg).operator("neg", ("float32",)) == neg["neg", "float32"]
    assert Support({}, neg).operator("neg", ("bfloat16",)) is None


def test_what_was_found_of_another_text_is_left_aside() -> None:
    old = Support({("silu", "float32"): Finding("wrong", 0.02, 1e-4, digest="0123456789abcdef")}, {})
    assert choose("silu", "float32", old).helper == "silu"
    assert digest("silu_by_softmax") not in (digest("silu"), digest("swiglu_by_softmax"))


def test_an_unknown_operator_is_used_only_where_it_was_verified() -> None:
    bad, good = Finding("falls back", log="…"), Finding("verified", 0.0, 0.1)
    assert choose("softmax", "float32", found(softmax=bad)).helper == "softmax_by_silu"
    assert choose("softmax", "float32", found(softmax=bad, exp=good)).helper == "softmax_by_exp"
    assert choose("sigmoid", "float32", found(softmax=bad, exp=good)).helper == "sigmoid_by_exp"
    assert choose("sigmoid", "float32", found(softmax=bad, exp=good, sigmoid=good)).helper == "sigmoid_by_torch"
    spelled = Finding("verified", 0.0, 0.1, digest=digest("softmax_by_exp"))
    whole = Support({("softmax_by_exp", "float32"): spelled}, {("softmax", "float32"): bad})
    assert choose("softmax", "float32", whole).helper == "softmax_by_exp"


def test_row_numbers_ask_for_int32_whatever_the_dtype() -> None:
    bad = Support({}, {("neg", "int32"): Finding("failed", message="no")})
    assert choose("set_row", "bfloat16", bad).helper == "set_row_by_abs"
    assert choose("sigmoid", "bfloat16", bad).helper == "sigmoid"
    assert choose("decay", "float32", bad).helper == "decay"


def test_the_module_is_spelled_by_what_is_left(tmp_path: Path) -> None:
    texts = emitted(tmp_path, finding("operator", "silu", FALLS_BACK))
    assert "y = silu_by_softmax(x, X_rows=2, X_columns=3, zero=self.zero)" in texts["model.py"]
    assert "def silu(" not in texts["model.py"]
    ops = json.loads(texts["manifest.json"])["ops"]
    assert [op["torch"] for op in ops] == ["silu_by_softmax(X)", "sigmoid(X)", "silu_by_softmax(X)"]


def test_plain_spellings_are_left_as_they_are(tmp_path: Path) -> None:
    texts = emitted(tmp_path, finding("operator", "silu", FALLS_BACK), operators="plain")
    assert "y = silu(x)" in texts["model.py"]


def operators(texts: dict[str, str]) -> dict[str, Any]:
    return {one["name"]: one for op in json.loads(texts["manifest.json"])["ops"] for one in op["operators"]}


def test_the_manifest_says_what_was_found_with_its_measure(tmp_path: Path) -> None:
    support = finding("operator", "silu", 'finding = "verified"\ndifference = 2e-8\nbound = 0.0001\n')
    verified = f'digest = "{digest("sigmoid")}"\nfinding = "verified"\ndifference = 1e-8\nbound = 0.0001\n'
    support += finding("spelling", "sigmoid", verified)
    texts = emitted(tmp_path, support)
    assert operators(texts)["silu"] == {"name": "silu", "support": "verified", "difference": 2e-8, "bound": 1e-4}
    assert operators(texts)["softmax"] == {"name": "softmax", "support": "vendor-used"}
    ops = json.loads(texts["manifest.json"])["ops"]
    assert ops[1]["spelling"] == {"name": "sigmoid", "support": "verified", "difference": 1e-8, "bound": 1e-4}
    assert "spelling" not in ops[0]
    plain = json.loads(emitted(tmp_path, support, operators="plain")["manifest.json"])["ops"]
    assert "spelling" not in plain[1]


def test_the_readme_leaves_out_the_unknown_operators_that_were_verified(tmp_path: Path) -> None:
    text = "Let a be a 1 by 2 tensor of Real.\nLet Dt be a 1 by 2 tensor of Real.\n" + (
        "Let Al be a 1 by 2 tensor of Real.\nLet y be decay of a with bias Dt rate Al.\n"
    )
    verified = 'finding = "verified"\ndifference = 0.0\nbound = 0.0001\n'
    assert "`softplus`, `exp`" in emitted(tmp_path, "", text)["README.md"]
    readme = emitted(tmp_path, finding("operator", "exp", verified), text)["README.md"]
    assert "`softplus`" in readme
    assert "`exp`" not in readme


def test_the_manifest_of_plain_spellings_says_what_speaks_against_them(tmp_path: Path) -> None:
    support = finding("operator", "silu", 'finding = "wrong"\ndifference = inf\nbound = 0.0001\n')
    support += finding("operator", "sigmoid", FALLS_BACK)
    said = operators(emitted(tmp_path, support, operators="plain"))
    assert said["silu"] == {"name": "silu", "support": "wrong", "difference": "inf", "bound": 1e-4}
    assert said["sigmoid"] == {"name": "sigmoid", "support": "falls back", "said": "silu: falling back to CPU"}


def test_an_op_without_a_spelling_is_refused_with_every_place_and_what_was_found(tmp_path: Path) -> None:
    support = finding("operator", "silu", WRONG) + finding("operator", "softmax", FALLS_BACK)
    with pytest.raises(Refused) as error:
        emitted(tmp_path, support)
    assert "\n".join(refusal.text() for refusal in error.value.refusals) == UNSPELLED


UNSPELLED = """\
p.lg:2:1: rdu-sambaflow has no spelling of silu that the probes leave: silu uses silu, which is wrong by 0.0099 (bound \
0.0001) in float32; silu_by_softmax uses softmax, which falls back ("silu: falling back to CPU") in float32; \
silu_by_sigmoid uses sigmoid, which was not verified in float32 [unsupported-op]
    Let y be silu of x.
    ^^^^^^^^^^^^^^^^^^
  also p.lg:4:1
    Let w be silu of z.
    ^^^^^^^^^^^^^^^^^^
  next: build for a dtype that was verified, write the program without this op, or probe a newer SambaFlow
p.lg:3:1: rdu-sambaflow has no spelling of sigmoid that the probes leave: sigmoid uses softmax, which falls back \
("silu: falling back to CPU") in float32; sigmoid_by_torch uses sigmoid, which was not verified in float32; \
sigmoid_by_exp uses exp, which was not verified in float32; sigmoid_by_silu uses silu, which is wrong by 0.0099 (bound \
0.0001) in float32 [unsupported-op]
    Let z be sigmoid of y.
    ^^^^^^^^^^^^^^^^^^^^^
  next: build for a dtype that was verified, write the program without this op, or probe a newer SambaFlow"""


def test_a_number_beyond_float64_is_refused() -> None:
    text = HEAD + finding("operator", "add", f'finding = "wrong"\ndifference = 1{400 * "0"}\n')
    assert refused(text).startswith(
        "support.toml:6:1: operator.add.float32.difference: a number from 0 on is due [bad-support]\n"
    )


def test_what_a_log_said_stays_one_line_of_a_refusal_and_of_the_manifest(tmp_path: Path) -> None:
    said = 'finding = "failed"\nmessage = "no\\n\\u001b[31mp.lg:1:1: kernel' + 400 * "!" + '"\n'
    lost = "".join(finding("operator", name, said) for name in ("silu", "softmax", "sigmoid"))
    shown = "no??[31mp.lg:1:1: kernel" + 276 * "!"
    with pytest.raises(Refused) as error:
        emitted(tmp_path, lost)
    assert f'silu uses silu, which failed ("{shown}") in float32; ' in error.value.refusals[0].what
    made = emitted(tmp_path, finding("operator", "silu", said), operators="plain")
    operators = [one for op in json.loads(made["manifest.json"])["ops"] for one in op["operators"]]
    assert {"name": "silu", "support": "failed", "said": shown} in operators
