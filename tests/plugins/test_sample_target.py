"""The sample's onnx target: what it builds verifies, what it lacks is refused, and its model needs no LOGOS."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from places import Place

ORACLES = Path(__file__).parents[1] / "oracles"
LLAMA = ORACLES / "llama-tiny-untied/llama-tiny-untied-q8_0.gguf"
QWEN3 = ORACLES / "qwen3-tiny/qwen3-tiny-q8_0.gguf"
QWEN35 = ORACLES / "qwen35-tiny/qwen35-tiny-q8_0.gguf"

ROWS = """\
Let x be a 2 by 3 tensor of Real.
Let T be a 4 by 3 tensor of Real.
Let i be argmax of x.
Let y be row i of T.
"""


@pytest.mark.slow
def test_the_sample_is_among_the_targets_and_leaves_no_trace_without(place: Place, bare: Place) -> None:
    shown = place.logos("targets").stdout
    assert "onnx\n  spells 10 of 23 ops; not causal conv, " in shown
    assert "sample  (logos-sample 1.0)\n  targets: onnx\n  checkpoint formats: huggingface\n  ops: squared relu\n" in (
        place.logos("plugins").stdout
    )
    without = bare.logos("targets").stdout + bare.logos("plugins").stdout + bare.logos("ops").stdout
    assert not re.search("onnx|squared|sample|huggingface", without)


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", [LLAMA, QWEN3], ids=["llama", "qwen3"])
def test_a_model_builds_and_verifies(place: Place, checkpoint: Path) -> None:
    place.logos("author", checkpoint, "-o", "m.lg", "--context", "24")
    given = ("m.lg", "--target", "onnx", "--checkpoint", checkpoint)
    built = place.logos("build", *given, "--out", "made").stdout
    assert "model.onnx: " in built
    assert sorted(path.name for path in (place.folder / "made").iterdir() if path.name != ".logos") == [
        "manifest.json",
        "model.onnx",
        "model.onnxtxt",
        "weights",
    ]
    assert "\nnothing to do: " in place.logos("build", *given, "--out", "made").stdout
    lines = place.logos("verify", *given, "--tokens", "5,4,3,2,1", "--json").stdout.splitlines()
    verdicts = [json.loads(line) for line in lines]
    assert {"next", "logits", "K0", "V2"} <= {one.get("variable") for one in verdicts}
    assert all(one["holds"] and one["difference"] < 1e-5 for one in verdicts if "variable" in one)


@pytest.mark.slow
def test_the_model_runs_by_its_manifest_alone(place: Place) -> None:
    place.logos("author", LLAMA, "-o", "m.lg", "--context", "24")
    place.logos("build", "m.lg", "--target", "onnx", "--checkpoint", LLAMA, "--out", "made", "-q")
    made = place.folder / "made"
    onnx.checker.check_model(made / "model.onnx", full_check=True)
    manifest = json.loads((made / "manifest.json").read_text("utf-8"))
    named = {tensor["var"]: tensor for tensor in manifest["tensors"]}
    session = onnxruntime.InferenceSession(made / "model.onnx", providers=["CPUExecutionProvider"])
    states = {named[name]["onnx"]: np.zeros(named[name]["shape"], np.float32) for name in manifest["states"]}
    afters = [named[name]["after"] for name in manifest["states"]]
    for position, token in enumerate((1, 2, 3)):
        fed = {named["tok"]["onnx"]: np.array([[token]]), named["pos"]["onnx"]: np.array([[position]])}
        chosen, *after = session.run([session.get_outputs()[0].name, *afters], {**fed, **states})
        states = dict(zip(states, after, strict=True))
    assert manifest["outputs"] == ["next", "logits"]
    ran = place.logos("run", "m.lg", "--checkpoint", LLAMA, "--tokens", "1,2,3", "--get", "next", "--json").stdout
    assert chosen.tolist() == json.loads(ran)["next"]


@pytest.mark.slow
def test_generating_and_reading_out_are_those_of_the_reference_machine(place: Place) -> None:
    place.logos("author", LLAMA, "-o", "m.lg", "--context", "24")
    given = ("run", "m.lg", "--checkpoint", LLAMA, "--tokens", "1,2,3", "--generate", "5", "--get", "m0,m0@1")
    reference = place.logos(*given, "--json").stdout
    mine = place.logos(*given, "--engine", "onnx", "--json").stdout
    one, other = json.loads(reference), json.loads(mine)
    assert len(one["generated"]) == 5
    assert one["generated"] == other["generated"]
    np.testing.assert_allclose(one["m0"], other["m0"], atol=1e-5)
    np.testing.assert_allclose(one["m0@1"], other["m0@1"], atol=1e-5)
    many = ("run", "m.lg", "--checkpoint", LLAMA, "--tokens", ",".join("1" * 25), "--engine", "onnx")
    assert "pos is 24, outside the rows 0 to 23 of RopeCos [onnx-run-failed]" in place.logos(*many, code=3).stderr


def test_a_hybrid_is_refused_by_name_with_every_place(place: Place) -> None:
    place.logos("author", QWEN35, "-o", "m.lg", "--context", "24")
    said = place.logos("build", "m.lg", "--target", "onnx", "--checkpoint", QWEN35, "--out", "made", code=1).stderr
    spelled = {"matmul", "plus", "rmsnorm", "rope", "attention", "swiglu", "row", "argmax", "Set"}
    text = (place.folder / "m.lg").read_text("utf-8").splitlines()
    due = set()
    for number, line in enumerate(text, 1):
        words = line.split()
        if words[:1] == ["Let"] and words[2] == "be" and words[3] != "a" and not spelled & set(words[3:5]):
            due.add(number)
    places = {int(number) for number in re.findall(r"^(?:  also )?m\.lg:(\d+):1", said, flags=re.MULTILINE)}
    assert places == due
    assert len(places) > 30
    names = re.findall(r"target onnx does not spell the op (.*?) \(", said)
    assert names == ["causal conv", "silu", "l2norm", "sigmoid", "decay", "gated delta", "hadamard"]
    assert not (place.folder / "made").exists()


def test_a_row_that_the_program_computes_is_refused(place: Place) -> None:
    (place.folder / "rows.lg").write_text(ROWS, "utf-8")
    assert place.logos("build", "rows.lg", "--target", "onnx", code=1).stderr == (
        "rows.lg:4:1: i is a row number that the program computes; ONNX would not check it [onnx-computed-row]\n"
        "    Let y be row i of T.\n    ^^^^^^^^^^^^^^^^^^^\n  next: make i an input of the program\n"
    )


def test_a_logit_that_is_no_number_is_not_taken_for_one(place: Place) -> None:
    (place.folder / "nan.lg").write_text("Let x be a 1 by 3 tensor of Real.\nLet i be argmax of x.\n", "utf-8")
    np.save(place.folder / "x.npy", np.array([[1.0, np.nan, 2.0]]))
    assert place.logos("run", "nan.lg", "--set", "x=@x.npy", "--engine", "onnx").stdout == "i = [[-1]]\n"
