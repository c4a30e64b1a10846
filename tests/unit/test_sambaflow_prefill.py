"""LogosPrefill in an artifact: what is emitted, what is refused, and prompts in chunks by model.py."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos import Refused
from logos_sambaflow.emit import kept, many_of, model_text
from logos_sambaflow.forward import statements
from logos_sambaflow.layout import Layout
from logos_sambaflow.readback import EmissionDiffers, check_module, operations
from sambaflow_modules import Emitted, emitted, load, sambaflow_job

TEXT = """
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 8 by 4 tensor of Real.
Let K0 be a 6 by 4 tensor of Real.
Let x be row tok of emb.
Set row pos of K0 to x.
Let a be attention of x over K0 and K0 with 2 heads 2 groups up to pos.
Let logits be a plus x.
Let next be argmax of logits.
"""


def model_of(text: str, **options: object) -> str:
    layout = Layout(sambaflow_job(text, **options))
    return model_text(layout, statements(layout), many_of(layout))


def test_its_forward_has_one_statement_an_operation_under_the_same_comments() -> None:
    made = model_of(TEXT, prefill=3)
    classes = [node for node in ast.parse(made, feature_version=(3, 7)).body if isinstance(node, ast.ClassDef)]
    parts = {node.name: ast.get_source_segment(made, node) or "" for node in classes}
    one, many = parts["LogosModule"].splitlines(), parts["LogosPrefill"].splitlines()
    comments = [line for line in one if line.startswith("        # ")]
    assert [line for line in many if line.startswith("        # ")] == comments
    assert len(comments) == 5
    assert "    def forward(self, tok, pos, K0):" in many
    assert many[-1] == "        return (next, logits, K0)"
    assert operations(made, "LogosPrefill") == operations(made)
    assert max(map(len, made.splitlines())) <= 120


def test_a_forward_that_lost_a_statement_is_found() -> None:
    made = model_of(TEXT, prefill=3)
    head, tail = made.split("class LogosPrefill", 1)
    kept_lines = [line for line in tail.split("\n") if not line.startswith("        logits = plus(")]
    broken = f"{head}class LogosPrefill" + "\n".join(kept_lines)
    check_module(broken, operations(made))
    with pytest.raises(EmissionDiffers, match="plus"):
        check_module(broken, operations(made), "LogosPrefill")


def test_without_prefill_nothing_of_it_is_emitted() -> None:
    assert "refill" not in model_of(TEXT, selftest=1)
    assert kept("a\nb  # with prefill\nc", False) == "a\nc"
    assert kept("a\nb  # with prefill\nc", True) == "a\nb\nc"


REFUSED = [
    (TEXT, -1, "-D prefill: prefill is -1; it is a number of steps [prefill-steps]\n  next: give one, or 0 for none"),
    (
        TEXT,
        7,
        "-D prefill: prefill is 7, and pos is a row of K0, which has 6 [prefill-steps]\n  next: give at most 6 steps",
    ),
    (
        TEXT.replace("tok", "id"),
        3,
        "p.lg: prefill takes chunks of tokens, and the program has no input tok, 1 by 1 of Int [prefill-no-tokens]\n"
        "  next: leave the option prefill out",
    ),
    (
        TEXT.replace("Let emb", "Set item 1 of pos to 1.\nLet emb"),
        3,
        "p.lg: prefill feeds pos a row for each step, and it is a constant of the module [prefill-no-tokens]\n"
        "  next: leave the option prefill out",
    ),
    (
        TEXT + "Let t be transpose of tok.\nLet y be row t of emb.\n",
        3,
        "p.lg:11:1: the op transpose has no rule for many steps at once [no-row-rule]\n"
        "    Let t be transpose of tok.\n"
        f"    {'^' * 25}\n"
        "  next: leave the option prefill out",
    ),
    (
        TEXT.replace("Let a be", "Let held be row 0 of K0.\nLet a be").replace("a plus x", "a plus held"),
        3,
        "p.lg:8:1: embedding reads of K0 what each step alone has of it [steps-not-at-once]\n"
        "    Let held be row 0 of K0.\n"
        f"    {'^' * 23}\n"
        "  next: leave the option prefill out",
    ),
]


@pytest.mark.parametrize(("text", "steps", "message"), REFUSED)
def test_what_many_steps_at_once_do_not_equal_is_refused(text: str, steps: int, message: str) -> None:
    with pytest.raises(Refused) as refused:
        sambaflow_job(text, prefill=steps)
    assert str(refused.value) == message


@pytest.fixture
def made(tmp_path: Path) -> Emitted:
    """The artifact of three steps at once, with rows of emb that tell tokens apart."""
    one = emitted(TEXT, tmp_path / "out", prefill=3)
    np.random.default_rng(1).uniform(-1, 1, (8, 4)).tofile(one.folder / "emb.f64")
    return one


def run(made: Emitted, *arguments: str) -> int:
    code: int = made.module.main(made.module.PROGRAM, ["--dtype", "float64", *arguments])
    return code


@pytest.mark.parametrize("tokens", ["5", "1,2", "1,2,3", "7,0,3,3,1", "1,2,3,4,5,6"])
@pytest.mark.parametrize("npy", [True, False])
def test_chunks_and_the_rest_give_what_single_steps_give(
    tokens: str, npy: bool, made: Emitted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, way in (("one", []), ("many", ["--prefill"])):
        arrays = ["--npy", str(tmp_path / folder)] if npy else []
        assert run(made, "--tokens", tokens, "--get", "tok,pos,x,K0@0,K0,next,logits,emb", *way, *arrays) == 0
    said = capsys.readouterr().out.splitlines()
    count = len(said) // 2
    for one, many in zip(said[:count], said[count:], strict=True):
        one, many = json.loads(one), json.loads(many)
        assert (one["output"], one["shape"]) == (many["output"], many["shape"])
        assert [many["first"], many["last"]] == pytest.approx([one["first"], one["last"]], abs=1e-14)
    for path in (tmp_path / "one").glob("*.npy"):
        np.testing.assert_allclose(np.load(tmp_path / "many" / path.name), np.load(path), atol=1e-14)


def test_what_no_step_but_the_last_needs_is_made_of_its_row_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TEXT.replace("logits", "forward").replace("Let a be", "Let forward_last be x plus x.\nLet a be")
    text += "Let u be silu of forward.\nLet _u_last be forward_last plus u.\nLet w be _u_last plus forward.\n"
    made = emitted(text, tmp_path / "out", prefill=3, outputs=("forward",))
    np.random.default_rng(2).uniform(-1, 1, (8, 4)).tofile(made.folder / "emb.f64")
    assert set(made.module.PROGRAM.prefill.last) == {"K0@0", "K0", "forward_last", "u", "_u_last", "w"}
    for folder, way in (("one", []), ("many", ["--prefill"])):
        assert run(made, "--tokens", "5,1,2,7", "--get", "*", "--npy", str(tmp_path / folder), *way) == 0
    files = sorted((tmp_path / "one").glob("*.npy"))
    assert {path.stem for path in files} >= {"u", "_u_last", "w", "forward", "forward_last", "K0"}
    for path in files:
        np.testing.assert_allclose(np.load(tmp_path / "many" / path.name), np.load(path), atol=1e-14)


def test_what_was_found_against_an_operator_of_many_steps_is_refused(tmp_path: Path) -> None:
    found = 'schema = "logos.sambaflow.support"\nversion = 1\n[operator.sum.float32]\nfinding = "failed"\n'
    (tmp_path / "support.toml").write_text(found, encoding="utf-8")
    sambaflow_job(TEXT, support=str(tmp_path / "support.toml"))
    with pytest.raises(Refused) as refused:
        sambaflow_job(TEXT, support=str(tmp_path / "support.toml"), prefill=3)
    (one,) = refused.value.refusals
    what = "rdu-sambaflow has no spelling of set row that the probes leave: set_rows uses sum, which failed in float32"
    assert (one.code, one.what) == ("unsupported-op", what)


def test_chunks_take_tokens(made: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(made, "--prefill", "--set", "tok=1", "--set", "pos=0") == 1
    assert capsys.readouterr().err == "--prefill takes chunks of tokens, and none are given\n"


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ("1,8,2", "tok is 8, outside the rows 0 to 7 of emb\n"),
        ("1,2,3,4,5,6,7,1,2", "pos is 6, outside the rows 0 to 5 of K0\n"),
    ],
)
def test_an_error_within_a_chunk_is_said_as_single_steps_say_it(
    tokens: str, message: str, made: Emitted, capsys: pytest.CaptureFixture[str]
) -> None:
    for way in ([], ["--prefill"]):
        assert run(made, "--tokens", tokens, *way) == 1
        assert capsys.readouterr() == ("", message)


def test_a_computed_row_and_a_nan_within_a_chunk_are_found_at_their_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TEXT + "Let m be tok plus tok.\nLet y be row m of emb.\n"
    made = emitted(text, tmp_path / "out", prefill=3, outputs=("logits",))
    assert run(made, "--tokens", "1,4,2", "--prefill", "--set", "emb=1") == 1
    assert capsys.readouterr().err == "m is 8, outside the rows 0 to 7 of emb\n"
    rows = [[1, 2, 3, 4]] * 8
    nan = json.dumps([[float("nan")] * 4, *rows[1:]])
    assert run(made, "--tokens", "1,0,2", "--prefill", "--set", f"emb={nan}") == 1
    assert capsys.readouterr().err == "argmax: the operand holds a NaN, so it has no largest element\n"


def test_values_that_are_not_finite_go_step_by_step(made: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[1.0, 2.0, 3.0, 4.0]] * 7
    infinite = json.dumps([*rows, [float("inf"), 0, 0, 0]])
    given = ["--tokens", "1,2,7", "--set", f"emb={infinite}", "--get", "next"]
    assert [run(made, *given), run(made, *given, "--prefill")] == [1, 1]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == said[1]


def test_a_module_of_many_steps_that_errs_where_single_steps_do_not_is_said(
    made: Emitted, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made.folder / "model.py"
    head, tail = path.read_text("utf-8").split("class LogosPrefill", 1)
    path.write_text(f"{head}class LogosPrefill" + tail.replace("a = attention", "a = x / 0 + attention", 1), "utf-8")
    broken = Emitted(made.folder, made.job, load(path))
    assert run(broken, "--tokens", "1,2,3,4", "--prefill") == 1
    what = "LogosPrefill errs in steps 0 to 2, which single steps make: it gives what is not finite\n"
    assert capsys.readouterr().err == what
