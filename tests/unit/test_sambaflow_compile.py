"""compile.py on the double of the SDK: the published calls in their published order, every one marked as unverified."""

from __future__ import annotations

import ast
import json
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vendor_double

from logos_sambaflow import TEMPLATE_MARK, VENDOR_HEADER
from logos_sambaflow.emit import DEVICES, compile_text

TEXT = """
Let K0 be a 4 by 2 tensor of Real.
Set item 1 of K0 to 3.
Let tok be a 1 by 1 tensor of Int.
Let emb be a 5 by 2 tensor of Real.
Let pos be a 1 by 1 tensor of Int.
Let half be row tok of emb.
Set row pos of K0 to half.
Let scores be half plus half.
Let next be argmax of scores.
"""
SDK = {"samba", "sambaflow", "parse_app_args", "FwdGraph"}
RUN = ("run", "--inference", "--pef", "out/small/small.pef")
COMPILE = ("compile", "--inference", "--pef-name", "small")


def touches_sdk(node: ast.AST) -> bool:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        parts = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        return any(part.startswith("sambaflow") for part in parts)
    items = list(ast.walk(node))
    names = {item.id for item in items if isinstance(item, ast.Name)}
    return bool(names & SDK) or any(isinstance(item, ast.Attribute) and item.attr.startswith("sn_") for item in items)


def simple_statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Statements that hold no others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not any(isinstance(child, ast.stmt) for child in ast.iter_child_nodes(node)):
            yield node


@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize("state", DEVICES)
def test_it_parses_as_the_vendors_python_and_says_what_it_is(state: str, prefill: bool) -> None:
    text = compile_text(state, prefill)
    assert ("refill" in text) == prefill
    assert "# with" not in text
    ast.parse(text, feature_version=(3, 7))
    assert text.startswith(VENDOR_HEADER + "\n")
    assert "carried" not in text.replace("carried by the host", "")
    assert "\n\n\n\n" not in text


@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize(("state", "least"), [("host", 9), ("region", 13)])
def test_every_statement_that_touches_the_sdk_is_marked(state: str, least: int, prefill: bool) -> None:
    lines = compile_text(state, prefill).split("\n")
    touching = [node for node in simple_statements(ast.parse("\n".join(lines))) if touches_sdk(node)]
    assert len(touching) >= least
    for node in touching:
        assert TEMPLATE_MARK in lines[node.lineno - 1] or TEMPLATE_MARK in lines[node.lineno - 2], ast.unparse(node)


@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize("state", DEVICES)
def test_no_header_of_a_compound_statement_touches_the_sdk(state: str, prefill: bool) -> None:
    for node in ast.walk(ast.parse(compile_text(state, prefill))):
        heads = [getattr(node, name, None) for name in ("test", "iter")] if isinstance(node, ast.stmt) else []
        assert not any(head is not None and touches_sdk(head) for head in heads)


class Script:
    """Runs compile.py's main as a process of its own would; gives the exit code and the SDK's calls."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch

    def __call__(self, *arguments: str, **modes: object) -> tuple[int, list[list[Any]]]:
        from sambaflow_modules import load

        log = self.folder.parent / "calls.jsonl"
        log.unlink(missing_ok=True)
        vendor_double.install(self.monkeypatch, log=str(log), **modes)
        self.monkeypatch.setattr(sys, "path", list(sys.path))
        self.monkeypatch.delitem(sys.modules, "model", raising=False)
        try:
            code = load(self.folder / "compile.py").main(list(arguments))
        finally:
            sys.modules.pop("model", None)
        return code, [json.loads(line) for line in log.read_text("utf-8").splitlines()]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Script]:
    """The script of an artifact with these options, and with the option `text` of another program."""
    pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    from sambaflow_modules import emitted

    def make(text: str = TEXT, **options: object) -> Script:
        made = emitted(text, tmp_path / "artifact", **options)
        np.arange(10.0).reshape(5, 2).tofile(made.folder / "emb.f64")
        monkeypatch.chdir(tmp_path)
        return Script(made.folder, monkeypatch)

    return make


def names(calls: list[list[Any]]) -> list[str]:
    return list(dict.fromkeys(name for name, *_ in calls))


def test_compile_wraps_every_argument_by_name_and_prints_the_pef(
    script: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    code, calls = script(dtype="bfloat16")(*COMPILE)
    assert code == 0
    assert json.loads(capsys.readouterr().out) == {"pef": "out/small/small.pef", "output": "next"}
    assert names(calls) == ["parse_app_args", "from_torch_model_", "from_torch_tensor", "session.compile"]
    assert [words for name, *words in calls if name == "from_torch_tensor"] == [
        ["tok", "int32", [1, 1]],
        ["pos", "int32", [1, 1]],
        ["K0", "bfloat16", [4, 2]],
    ]
    assert Path("out/small/small.pef").is_file()


def test_run_carries_the_states_from_step_to_step(
    script: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    run = script()
    run(*COMPILE)
    capsys.readouterr()
    code, calls = run(*RUN, "--tokens", "2,4")
    assert code == 0
    assert json.loads(capsys.readouterr().out) == {"output": "next", "shape": [1, 1]}
    order = ["parse_app_args", "from_torch_model_", "from_torch_tensor", "trace_graph", "session.run", "to_torch"]
    assert names(calls) == order
    assert [words for name, *words in calls if name == "session.run"] == [[["fwd"]]] * 2
    wrapped = [words[0] for name, *words in calls if name == "from_torch_tensor"]
    assert wrapped == ["tok", "pos", "K0"] * 3


def test_states_in_regions_go_to_the_device_once(script: Callable[..., Script]) -> None:
    run = script(state="region")
    code, calls = run(*COMPILE)
    traced = ["parse_app_args", "from_torch_model_", "from_torch_tensor", "trace_multigraph", "sn_region_name"]
    assert code == 0
    assert names(calls) == [*traced, "session.add_graph", "session.compile_multigraph"]
    assert [words for name, *words in calls if name == "sn_region_name"] == [["logos_step_output_2", "K0"]]
    code, calls = run(*RUN, "--tokens", "2,4,1")
    assert code == 0
    runtime = ["session.init_multigraph_runtime", "from_named_dict", "session.run", "session.get_tensors_by_name"]
    assert names(calls) == [*traced, "session.add_graph", *runtime]
    given = [words for name, *words in calls if name == "session.run"]
    assert given == [["logos_step", ["tok", "pos", *first]] for first in (["K0"], [], [])]


def test_a_row_number_that_a_state_holds_is_read_from_the_device(script: Callable[..., Script]) -> None:
    counting = """
Let at be a 1 by 1 tensor of Int.
Let one be a 1 by 1 tensor of Int.
Set item 1 of one to 2.
Let emb be a 5 by 2 tensor of Real.
Let y be row at of emb.
Let next be at plus one.
Set row 0 of at to next.
"""
    for state in DEVICES:
        run = script(counting, state=state, outputs=("y",))
        run(*COMPILE)
        assert run(*RUN)[0] == 0
        with pytest.raises(Exception, match="at is 7, outside the rows 0 to 4 of emb"):
            run(*RUN, "--set", "at=7")


@pytest.mark.parametrize("state", DEVICES)
def test_run_takes_every_leafs_value(state: str, script: Callable[..., Script]) -> None:
    run = script(state=state)
    run(*COMPILE)
    given = ["K0=5", "tok=1", "pos=3", "emb=[[1, 2], [3, 4], [0, 0], [0, 0], [0, 0]]"]
    settings = [part for setting in given for part in ("--set", setting)]
    code, _ = run(*RUN, *settings)
    assert code == 0
    assert vendor_double.last_results()[-1].tolist() == [[5, 5], [5, 5], [5, 5], [3, 4]]


def test_run_says_what_is_missing(script: Callable[..., Script]) -> None:
    with pytest.raises(Exception, match=r"missing: input pos \(1 by 1\); give --weights"):
        script()(*RUN, "--set", "tok=1")


def test_a_leaf_that_the_program_lacks_is_refused(script: Callable[..., Script]) -> None:
    with pytest.raises(Exception, match=r"--set embb: the program declares no such leaf; did you mean emb\?"):
        script()(*RUN, "--set", "embb=5")


def test_run_refuses_an_argmax_of_nan(script: Callable[..., Script]) -> None:
    run = script()
    run(*COMPILE)
    with pytest.raises(Exception, match="argmax: the operand holds a NaN, so it has no largest element"):
        run(*RUN, "--tokens", "0", "--set", "emb=[[NaN, 2], [3, 4], [0, 0], [0, 0], [0, 0]]")


def test_run_checks_rows_on_the_host(script: Callable[..., Script]) -> None:
    run = script()
    run(*COMPILE)
    with pytest.raises(Exception, match="tok is 5, outside the rows 0 to 4 of emb"):
        run(*RUN, "--tokens", "5")


def recorded(run: Script, **options: object) -> None:
    from logos.recording import write_recording
    from logos_sambaflow.target import SambaflowTarget
    from sambaflow_modules import sambaflow_job

    job = sambaflow_job(TEXT, selftest=3, **options)
    (recording,) = SambaflowTarget().steps(job).recordings
    write_recording(job.binding, recording, run.folder)
    (run.folder / "emb.f64").unlink()


@pytest.mark.parametrize("state", DEVICES)
def test_the_command_test_holds_the_device_to_the_recording(
    state: str, script: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    run = script(state=state, selftest=3)
    recorded(run, state=state)
    run(*COMPILE)
    capsys.readouterr()
    test = ("test", *RUN[1:])
    code, _ = run(*test)
    *table, last = capsys.readouterr().out.splitlines()
    assert code == 0
    assert [line.split()[0] for line in table] == ["variable", "next", "scores", "K0"]
    assert json.loads(last)["selftest"] == "ok"
    code, _ = run(*test, wrong={"aten.add.Tensor": 0.05})
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 4
    assert (record["first"]["step"], record["first"]["variable"], record["first"]["op"]) == (0, "K0", "set row")
    code, _ = run(*test, bfloat16=True)
    assert code == 4
    assert run(*test, "--bound", "bfloat16", bfloat16=True)[0] == 0
    assert run(*test, "--graphamp-preset", "mp0", bfloat16=True)[0] == 0


def test_an_artifact_without_a_recording_has_nothing_to_test(script: Callable[..., Script]) -> None:
    with pytest.raises(Exception, match="this artifact has no recording to test against; build it with -D selftest=N"):
        script()("test", "--pef", "out/small/small.pef")


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (PermissionError(13, "Permission denied", "states"), "[Errno 13] Permission denied: 'states'", ""),
    ],
)
def test_an_interrupt_and_what_the_system_refuses_are_one_line(
    raised: BaseException, code: int | str, said: str, script: Callable[..., Script], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def meets(**_: object) -> None:
        raise raised

    made = script()
    vendor_double.install(monkeypatch)
    monkeypatch.setattr("sambaflow.samba.utils.argparser.parse_app_args", meets)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    monkeypatch.setattr(sys, "argv", ["compile.py", *RUN])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(made.folder / "compile.py"), run_name="__main__")
    sys.modules.pop("model", None)
    assert (ended.value.code, capsys.readouterr().err) == (code, said)


def test_another_command_is_refused(script: Callable[..., Script], capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = script()("measure-performance")
    assert code == 2
    assert "the commands of this script are compile, run, test, not measure-performance" in capsys.readouterr().err


MANY = ("--module", "prefill", "--pef", "out/many/many.pef")


@pytest.fixture
def chunked(script: Callable[..., Script], capsys: pytest.CaptureFixture[str]) -> Callable[..., Script]:
    """The script of an artifact of two steps at once, both of its modules compiled."""

    def make(**options: object) -> Script:
        run = script(prefill=2, **options)
        assert run(*COMPILE)[0] == 0
        code, calls = run("compile", "--inference", "--module", "prefill", "--pef-name", "many")
        assert code == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["pef"] == "out/many/many.pef"
        wrapped = [words for name, *words in calls if name == "from_torch_tensor"]
        assert wrapped == [["tok", "int32", [2, 1]], ["pos", "int32", [2, 1]], ["K0", "float32", [4, 2]]]
        return run

    return make


@pytest.mark.parametrize("state", DEVICES)
def test_chunks_leave_the_states_from_which_single_steps_go_on(
    state: str, chunked: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    run = chunked(state=state)
    tokens = ("--tokens", "2,4,1")
    assert run(*RUN, *tokens)[0] == 0
    due = vendor_double.last_results()
    capsys.readouterr()
    code, calls = run("run", "--inference", *MANY, *tokens, "--states", "kept")
    assert code == 0
    assert json.loads(capsys.readouterr().out) == {"output": "next", "shape": [2, 1], "steps": 2}
    assert [name for name, *_ in calls].count("session.run") == 1
    assert np.load("kept/K0.npy").tolist() == [[4, 5], [8, 9], [0, 0], [0, 0]]
    code, calls = run(*RUN, *tokens, "--states", "kept")
    assert code == 0
    assert [name for name, *_ in calls].count("session.run") == 1
    for one, other in zip(vendor_double.last_results(), due, strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", *MANY, "--tokens", "1"), "LogosPrefill takes chunks of 2 tokens; 1 are given"),
        (("run", *MANY, "--tokens", "1,5"), "a row of tok lies outside the rows 0 to 4 of emb"),
        ((*RUN, "--tokens", "1", "--states", "none"), "none/position.json is not there; run --module prefill"),
        (
            (*RUN, "--tokens", "1,2", "--states", "kept"),
            "kept holds the states behind 2 tokens; give these and more, not 2",
        ),
    ],
)
def test_what_chunks_and_those_behind_them_refuse(
    arguments: tuple[str, ...], message: str, chunked: Callable[..., Script]
) -> None:
    run = chunked()
    assert run("run", *MANY, "--tokens", "1,2", "--states", "kept")[0] == 0
    with pytest.raises(Exception, match=message):
        run(*arguments)


@pytest.mark.parametrize("state", DEVICES)
def test_the_command_test_holds_chunks_to_the_recording(
    state: str, chunked: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    run = chunked(state=state, selftest=3)
    recorded(run, state=state)
    # The weights that the recording holds are compiled in.
    run("compile", "--inference", "--module", "prefill", "--pef-name", "many")
    capsys.readouterr()
    assert run("test", *MANY)[0] == 0
    *table, last = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in table[1:]] == [["next", "2"], ["scores", "2"], ["K0", "2"]]
    assert json.loads(last)["selftest"] == "ok"
    assert run("test", *MANY, wrong={"aten.matmul.default": 0.05})[0] == 4
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["first"]["variable"] == "K0"


def test_a_recording_of_fewer_steps_than_a_chunk_is_refused(script: Callable[..., Script]) -> None:
    run = script(prefill=4, selftest=3)
    recorded(run)
    run("compile", "--inference", "--module", "prefill", "--pef-name", "many")
    with pytest.raises(Exception, match="has 3 steps, fewer than LogosPrefill makes at once; build with -D selftest=4"):
        run("test", *MANY)
