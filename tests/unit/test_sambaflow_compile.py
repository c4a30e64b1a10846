"""compile.py: SambaFlow's calls in their published order, every one marked as unverified."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_sambaflow
import pytest

from logos_sambaflow import TEMPLATE_MARK, VENDOR_HEADER
from logos_sambaflow.emit import compile_text

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
ORDER = ["parse_app_args", "from_torch_model_", "from_torch_tensor", "session.compile", "trace_graph", "session.run"]


def touches_sdk(node: ast.AST) -> bool:
    names = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        parts = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        return any(part.startswith("sambaflow") for part in parts)
    return bool(names & {"samba", "sambaflow", "parse_app_args"})


def simple_statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Statements that hold no others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not any(isinstance(child, ast.stmt) for child in ast.iter_child_nodes(node)):
            yield node


def test_it_parses_as_the_vendors_python_and_says_what_it_is() -> None:
    text = compile_text()
    ast.parse(text, feature_version=(3, 7))
    assert text.startswith(VENDOR_HEADER + "\n")


def test_every_statement_that_touches_the_sdk_is_marked() -> None:
    lines = compile_text().split("\n")
    touching = [node for node in simple_statements(ast.parse("\n".join(lines))) if touches_sdk(node)]
    assert len(touching) >= 11
    for node in touching:
        assert TEMPLATE_MARK in lines[node.lineno - 1] or TEMPLATE_MARK in lines[node.lineno - 2], ast.unparse(node)


def test_no_header_of_a_compound_statement_touches_the_sdk() -> None:
    for node in ast.walk(ast.parse(compile_text())):
        heads = [getattr(node, name, None) for name in ("test", "iter")] if isinstance(node, ast.stmt) else []
        assert not any(head is not None and touches_sdk(head) for head in heads)


def test_the_calls_are_written_in_the_published_order() -> None:
    text = compile_text()
    places = [text.index(f"{name}(") for name in (*ORDER, "to_torch")]
    assert places == sorted(places)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs compile.py's main with a command; gives the SDK's calls."""
    pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    import numpy as np

    from sambaflow_modules import emitted, load

    made = emitted(TEXT, tmp_path / "out", dtype="bfloat16")
    np.arange(10.0).reshape(5, 2).tofile(made.folder / "emb.f64")

    def run(command: str, *arguments: str) -> tuple[int, list[fake_sambaflow.Call]]:
        calls = fake_sambaflow.install(monkeypatch, command)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.delitem(sys.modules, "model", raising=False)
        try:
            code = load(made.folder / "compile.py").main(list(arguments))
        finally:
            sys.modules.pop("model", None)
        return code, calls

    return run


def names(calls: list[fake_sambaflow.Call]) -> list[str]:
    return list(dict.fromkeys(name for name, _ in calls))


def test_compile_wraps_every_argument_by_name_and_prints_the_pef(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    code, calls = script("compile", "--inference", "--pef-name", "small")
    assert code == 0
    assert json.loads(capsys.readouterr().out) == {"pef": "out/small/small.pef", "output": "next"}
    assert names(calls) == ORDER[:4]
    wrapped = [(call["name"], call["dtype"], call["shape"]) for name, call in calls if name == "from_torch_tensor"]
    assert wrapped == [
        ("tok", torch.int32, (1, 1)),
        ("pos", torch.int32, (1, 1)),
        ("K0", torch.bfloat16, (4, 2)),
    ]
    (parameters,) = (call["parameters"] for name, call in calls if name == "from_torch_model_")
    assert parameters["emb"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert not any(parameter.requires_grad for parameter in parameters.values())


def test_run_carries_the_states_from_step_to_step(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, calls = script("run", "--inference", "--pef", "out/small/small.pef", "--tokens", "2,4")
    assert code == 0
    assert json.loads(capsys.readouterr().out) == {"output": "next", "shape": [1, 1]}
    assert names(calls) == [*ORDER[:3], "trace_graph", "session.run", "to_torch"]
    assert [call for name, call in calls if name == "session.run"] == [{"section_types": ["fwd"]}] * 2
    values = [call["value"] for name, call in calls if name == "to_torch"]
    assert values[-1].tolist() == [[4, 5], [8, 9], [0, 0], [0, 0]]


def test_run_takes_every_leafs_value(script: Any) -> None:
    given = ["K0=5", "tok=1", "pos=3", "emb=[[1, 2], [3, 4], [0, 0], [0, 0], [0, 0]]"]
    settings = [part for setting in given for part in ("--set", setting)]
    _, calls = script("run", "--inference", "--pef", "x.pef", *settings)
    values = [call["value"] for name, call in calls if name == "to_torch"]
    assert values[-1].tolist() == [[5, 5], [5, 5], [5, 5], [3, 4]]


def test_run_says_what_is_missing(script: Any) -> None:
    with pytest.raises(Exception, match=r"missing: input pos \(1 by 1\); give --weights"):
        script("run", "--inference", "--pef", "x.pef", "--set", "tok=1")


@pytest.mark.parametrize("command", ["compile", "run"])
def test_a_leaf_that_the_program_lacks_is_refused(command: str, script: Any) -> None:
    with pytest.raises(Exception, match=r"--set embb: the program declares no such leaf; did you mean emb\?"):
        script(command, "--set", "embb=5")


def test_run_refuses_an_argmax_of_nan(script: Any) -> None:
    emb = "emb=[[NaN, 2], [3, 4], [0, 0], [0, 0], [0, 0]]"
    with pytest.raises(Exception, match="argmax: the operand holds a NaN, so it has no largest element"):
        script("run", "--inference", "--pef", "x.pef", "--tokens", "0", "--set", emb)


def test_run_checks_rows_on_the_host(script: Any) -> None:
    with pytest.raises(Exception, match="tok is 5, outside the rows 0 to 4 of emb"):
        script("run", "--inference", "--pef", "x.pef", "--tokens", "5")


def test_another_command_is_refused(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = script("measure-performance")
    assert code == 2
    assert "compile and run, not measure-performance" in capsys.readouterr().err
