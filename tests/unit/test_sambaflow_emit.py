"""Emission: the library's surface, what is refused, what is read back, and what the whole module exports to."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import logos_sambaflow
from logos import Job, Refused, Request, Source, WeightEntry, make_job, make_manager
from logos.ops import OPS
from logos_sambaflow import QWEN38_OPS, VENDOR_HEADER, TorchArtifact, emit_torch_module, torch_spelling
from logos_sambaflow.emit import model_text
from logos_sambaflow.forward import statements
from logos_sambaflow.layout import Layout
from logos_sambaflow.readback import EmissionDiffers, check_module, operations
from logos_sambaflow.spelling import SPELLS, support
from logos_sambaflow.target import SambaflowTarget
from sambaflow_modules import emitted, exported_operators, quietly_traced, reference, sambaflow_job, stepped

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.lg"))
HYBRID = next(path for path in EXAMPLES if path.name == "hybrid.lg")
TARGET = SambaflowTarget()
SHORT = "Let x be a 1 by 4 tensor of Real.\nLet y be silu of x.\nLet z be y plus x.\n"


def model_of(job: Job) -> str:
    layout = Layout(job)
    return model_text(layout, statements(layout))


def messages(text: str, **options: object) -> list[tuple[str, str]]:
    with pytest.raises(Refused) as caught:
        sambaflow_job(text, **options)
    return [(refusal.code, refusal.what) for refusal in caught.value.refusals]


def test_importing_the_package_loads_no_torch_numpy_or_core() -> None:
    program = "import sys, logos_sambaflow\nprint([n for n in ('torch', 'numpy', 'logos.job') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_emitting_loads_no_torch() -> None:
    program = f"import sys\nfrom logos_sambaflow import emit_torch_module\nemit_torch_module({SHORT!r})\n"
    program += "print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_the_library_names_what_it_promises() -> None:
    assert set(logos_sambaflow.__all__) <= set(dir(logos_sambaflow))
    for name in logos_sambaflow.__all__:
        assert getattr(logos_sambaflow, name)
    with pytest.raises(AttributeError, match="no attribute 'emit_all'"):
        _ = logos_sambaflow.emit_all


def test_emit_torch_module_gives_the_three_texts() -> None:
    artifact = emit_torch_module(SHORT)
    assert isinstance(artifact, TorchArtifact)
    assert artifact.model_py.startswith(VENDOR_HEADER + "\n")
    assert artifact.compile_py.startswith(VENDOR_HEADER + "\n")
    assert VENDOR_HEADER.startswith("# ")
    manifest = json.loads(artifact.manifest_json)
    assert (manifest["schema"], manifest["version"]) == ("logos.sambaflow.manifest", 1)
    assert manifest["provenance"].lower() in VENDOR_HEADER.lower()


def test_emit_torch_module_raises_with_every_refusal() -> None:
    router = "Let E be a 8 by 4 tensor of Real.\nLet D be a 8 by 4 tensor of Real.\nLet R be a 2 by 4 tensor of Real.\n"
    moe = "moe of x with router R gate E up E down D top 1 of 2 experts"
    text = f"{SHORT}{router}Let m be {moe}.\nLet n be {moe}.\n"
    with pytest.raises(Refused) as caught:
        emit_torch_module(text, dtype="float16")
    codes = [refusal.code for refusal in caught.value.refusals]
    assert codes == ["op-not-spelled", "option-type"]
    assert "does not spell the op moe" in caught.value.refusals[0].what
    assert [place.label() for place in caught.value.refusals[0].also] == ["program.lg:8:1"]


def test_every_spelled_op_has_a_spelling_of_its_operands() -> None:
    assert set(QWEN38_OPS) <= SPELLS
    for op in OPS:
        if op.name == "moe":
            continue
        text = torch_spelling(op)
        assert text == torch_spelling(op.name)
        tree = ast.parse(text)
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called = {name.id for name in calls if isinstance(name, ast.Name)}
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - called - {"torch", "F"}
        assert names <= {word.text for word in op.pattern.holes}
        assert set(op.tensors) <= names


@pytest.mark.parametrize("operators", ["listed", "plain"])
def test_the_manifest_spells_with_formal_operands_alone(operators: str) -> None:
    text = HYBRID.read_text("utf-8")
    job = sambaflow_job(text, operators=operators)
    (manifest,) = (json.loads(artifact.text) for artifact in TARGET.emit(job) if artifact.path == "manifest.json")
    holes = {node.op.name: {word.text for word in node.op.pattern.holes} for node in job.graph.nodes}
    for entry in manifest["ops"]:
        tree = ast.parse(entry["torch"])
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called = {name.id for name in calls if isinstance(name, ast.Name)}
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - called - {"torch", "F"}
        assert names <= holes[entry["op"]], entry


def test_spellings_are_torch() -> None:
    assert torch_spelling("matmul") == "A @ B"
    assert torch_spelling("softmax") == "torch.softmax(X, dim=-1)"
    assert torch_spelling("rope") == "rope(Q, RC, RS, H)"
    assert torch_spelling("embedding") == "embedding(TOK, TABLE)"
    assert torch_spelling("argmax") == "argmax(X)"
    assert torch_spelling("swiglu") == "F.silu(GATE) * UP"


def test_an_unspelled_op_has_no_spelling() -> None:
    with pytest.raises(Refused, match=r"rdu-sambaflow does not spell 'roep'; did you mean rope\? \[op-not-spelled\]"):
        torch_spelling("roep")


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (("w",), ("unknown-output", "the program has no variable w")),
        (("zz", "y"), ("unknown-output", "the program has no variable zz; did you mean z?")),
        (("z", "x"), ("output-is-leaf", "x is a leaf (input), which forward does not return as an output")),
        (("z", "y", "z"), ("output-twice", "z stands twice among the outputs")),
    ],
)
def test_outputs_that_forward_cannot_return_are_refused(outputs: tuple[str, ...], message: tuple[str, str]) -> None:
    assert messages(SHORT, outputs=outputs) == [message]


def test_a_table_beyond_32_bits_is_refused_at_its_sentence() -> None:
    text = "Let t be a 2147483649 by 1 tensor of Real.\nLet p be a 1 by 1 tensor of Int.\nLet y be row p of t.\n"
    assert messages(text) == [("too-many-rows", "t has 2147483649 rows; row numbers are int32 on the RDU")]
    assert Layout(sambaflow_job(text.replace("649", "648"))).checks == (("p", "t", 2147483648),)


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("wrong", ["def helper(:\n    pass", "known = (newer := 1)", "1 +"])
def test_every_part_of_a_module_must_parse_as_the_vendor_s_python(wrong: str, place: str) -> None:
    model = emit_torch_module(SHORT).model_py
    before = model.replace("\n\n\nclass ", f"\n\n\n{wrong}\n\n\nclass ", 1)
    given = before if place == "before" else f"{model}\n\n{wrong}\n"
    assert given != model
    for _ in range(2):
        with pytest.raises(SyntaxError):
            operations(given)
        assert operations(model) == {"silu": 1, "plus": 1}


@pytest.mark.parametrize(
    "more",
    [
        'TEXT = """one\n\n\ntwo"""',
        "if True:\n    pass\n\n\nelse:\n    pass",
        "@property\n\n\ndef decorated():\n    pass",
    ],
)
def test_a_module_that_is_whole_though_its_parts_are_not_is_read(more: str) -> None:
    model = emit_torch_module(SHORT).model_py
    assert operations(f"{model}\n\n{more}\n") == {"silu": 1, "plus": 1}


def test_a_module_with_other_operations_than_the_program_stops_emission() -> None:
    model = emit_torch_module(SHORT).model_py
    assert operations(model) == {"silu": 1, "plus": 1}
    planted = model.replace("z = plus(y, x)", "z = silu(y)")
    with pytest.raises(EmissionDiffers) as caught:
        check_module(planted, {"silu": 1, "plus": 1})
    assert [line.split() for line in str(caught.value).splitlines()[1:]] == [
        ["operation", "program", "module"],
        ["plus", "1", "0"],
        ["silu", "1", "2"],
    ]


def test_a_statement_that_is_no_call_of_a_helper_counts_as_an_operation() -> None:
    model = emit_torch_module(SHORT).model_py.replace("        return (z,)", "        z = z + 1\n        return (z,)")
    assert operations(model) == {"silu": 1, "plus": 1, "z = z + 1": 1}


def test_a_file_name_cannot_end_its_comment() -> None:
    request = Request(Path("p"), source=Source("/some/where/odd\nimport os\udc80.lg", SHORT))
    _, job = make_job(make_manager(), request, "rdu-sambaflow")
    model = model_of(job)
    assert "# 0 y: silu, odd?import os?.lg:2\n" in model
    assert "/some/where" not in model


def test_only_the_helpers_that_are_used_are_emitted() -> None:
    model = emit_torch_module("Let x be a 1 by 4 tensor of Real.\nLet y be gelu of x.\n").model_py
    functions = {node.name for node in ast.parse(model).body if isinstance(node, ast.FunctionDef)}
    from logos_sambaflow.parts import helpers

    assert functions & set(helpers("listed")) == {"gelu", "sigmoid"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("operators", ["listed", "plain"])
def test_emitted_text_is_the_same_each_time_and_parses_as_the_vendors_python(path: Path, operators: str) -> None:
    texts = [model_of(sambaflow_job(path.read_text("utf-8"), operators=operators)) for _ in range(2)]
    assert texts[0] == texts[1]
    ast.parse(texts[0], feature_version=(3, 7))
    assert max(map(len, texts[0].splitlines())) <= 120


def test_options_decide_roles_outputs_and_storage() -> None:
    text = HYBRID.read_text("utf-8")
    job = sambaflow_job(text, dtype="bfloat16", outputs=("x1", "next"))
    assert Layout(job).outputs == ("x1", "next")
    assert "DTYPE = torch.bfloat16" in model_of(job)
    assert Layout(sambaflow_job(text)).outputs == ("next", "logits")


def test_weights_are_written_where_something_supplies_them() -> None:
    filled = SHORT + "Let c be a 2 by 4 tensor of Real.\nSet item 1 of c to 0.1.\nLet n be a 1 by 2 tensor of Int.\n"
    filled += "Set item 1 of n to 7.\nLet w be z matmul c.\n".replace("z matmul c", "transpose of c")
    (file,) = TARGET.steps(sambaflow_job(filled)).extractions
    assert (file.path, file.format) == ("weights.safetensors", "safetensors")
    assert file.entries == (WeightEntry("c", "F64"), WeightEntry("n", "I64"))
    assert TARGET.steps(sambaflow_job(filled, weights="none")).extractions == ()
    assert TARGET.steps(sambaflow_job(HYBRID.read_text("utf-8"))).extractions == ()


def manifest_operators(path: Path, operators: str) -> set[str]:
    job = sambaflow_job(path.read_text("utf-8"), operators=operators)
    record = json.loads(next(a.text for a in TARGET.emit(job) if a.path == "manifest.json"))
    return {entry["name"] for op in record["ops"] for entry in op["operators"]}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_whole_module_exports_to_operators_of_its_manifest(path: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    made = emitted(path.read_text("utf-8"), tmp_path)
    module, arguments = ready(made, torch.float32, made.noise())
    used = exported_operators(torch.export.export(module, arguments))
    assert used
    assert used <= manifest_operators(path, "listed")
    assert {name for name in used if support(name) == "unknown"} <= {"exp", "softplus"}


def ready(made: Any, dtype: Any, values: Any) -> tuple[Any, tuple[Any, ...]]:
    """The module with its weights, and forward's arguments."""
    import torch

    program = made.module.PROGRAM
    held = {name: values[name] for name in program.of_role("weight", "table", "constant")}
    module = program.module().load_weights(made.folder, dtype, held)
    arguments = [
        made.module.held_as(name, program.leaves[name], torch.from_numpy(values[name]), dtype)
        for name in [*program.of_role("input"), *program.of_role("state")]
    ]
    return module, tuple(arguments)


@pytest.mark.parametrize("way", ["export", "trace"])
def test_hybrid_step_is_right_at_tokens_and_positions_that_were_not_traced(way: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    made = emitted(HYBRID.read_text("utf-8"), tmp_path)
    values = made.noise()
    module, arguments = ready(made, torch.float64, values)
    run = torch.export.export(module, arguments).module() if way == "export" else quietly_traced(module, arguments)
    names = [*made.module.OUTPUTS, *made.module.PROGRAM.of_role("state")]
    for token, position in ((0, 0), (31, 11), (7, 5)):
        values["tok"][:], values["pos"][:] = token, position
        _, arguments = ready(made, torch.float64, values)
        want = reference(made, values, names)
        for name, tensor in zip(names, run(*arguments), strict=True):
            scale = max(abs(want[name]).max(), 1e-30)
            assert abs(tensor.numpy() - want[name]).max() / scale < 1e-12, (name, token, position)


def test_a_state_read_above_its_write_holds_the_last_steps_value(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    text = "Let s be a 2 by 2 tensor of Real.\nLet x be a 1 by 2 tensor of Real.\n"
    text += "Let old be row 1 of s.\nSet row 1 of s to x.\nLet new be row 1 of s.\nLet y be old plus new.\n"
    made = emitted(text, tmp_path)
    values = made.noise()
    found = stepped(made, values, "float64")
    assert found["y"].tolist() == (values["s"][1:] + values["x"]).tolist()


def test_verification_compares_what_forward_returns_in_the_dtypes_that_show_its_arithmetic() -> None:
    greedy = f"{SHORT}Let n be argmax of z.\n"
    assert TARGET.outputs(sambaflow_job(greedy)) == ("n", "z")
    assert TARGET.outputs(sambaflow_job(greedy, outputs=("y", "n"))) == ("y", "n")
    assert TARGET.outputs(sambaflow_job(SHORT)) == ("z",)
    assert TARGET.dtypes(sambaflow_job(SHORT)) == ("float64", "float32")
    assert TARGET.dtypes(sambaflow_job(SHORT, dtype="bfloat16")) == ("bfloat16",)
