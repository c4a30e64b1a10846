"""The Qwen families on rdu-sambaflow: dense and hybrid programs emit, verify and trace; routed experts are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logos import AuthorOptions, Refused, Source, Span, make_manager, read_program
from logos.cli.main import cli
from logos.job import open_checkpoint
from logos.values import run_values
from logos.weights.binding import bind
from logos_gguf import gen_qwen30b
from logos_gguf.presets import PRESETS
from logos_sambaflow import QWEN38_OPS, emit_torch_module
from sambaflow_modules import emitted, quietly_traced, sambaflow_job

MANAGER = make_manager()
CASES = {"qwen3-tiny": 1e-9, "qwen35-tiny": 2e-5}


def logos(*arguments: object) -> None:
    cli.main([str(argument) for argument in arguments], prog_name="logos", standalone_mode=False)


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.family in ("qwen3", "qwen35")])
def test_a_dense_or_hybrid_preset_is_emitted(name: str) -> None:
    family = PRESETS[name].family
    text = MANAGER.family(family).author(PRESETS[name], AuthorOptions(64, 4))
    model = emit_torch_module(text, family=family).model_py
    assert "class LogosModule(nn.Module):" in model
    used = {node.op.name for node in read_program(Source("m.lg", text), MANAGER.grammar).nodes}
    assert used <= {*QWEN38_OPS, "plus", "set row"}


def test_routed_experts_are_refused_by_name_with_every_layers_sentence() -> None:
    program = gen_qwen30b(weights_dir="w").program
    with pytest.raises(Refused) as caught:
        sambaflow_job(program.source.text)
    (refusal,) = caught.value.refusals
    assert refusal.code == "op-not-spelled"
    assert refusal.what.startswith("target rdu-sambaflow does not spell the op moe (")
    sentences = []
    for place in (refusal.where, *refusal.also):
        assert isinstance(place, Span)
        sentences.append(place.excerpt()[0])
    assert sentences == [
        f"Let m{l} be moe of f{l} with router Wr{l} gate Eg{l} up Eu{l} down Ed{l} top 8 of 128 experts."
        for l in range(48)  # noqa: E741
    ]


def test_building_routed_experts_writes_nothing(tmp_path: Path) -> None:
    program, out = tmp_path / "m.lg", tmp_path / "out"
    logos("author", "--preset", "qwen3.5-35b-a3b", "--layers", 4, "-o", program, "-q")
    with pytest.raises(Refused, match=r"does not spell the op moe") as caught:
        logos("build", program, "--target", "rdu-sambaflow", "--out", out)
    assert len(caught.value.refusals[0].also) == 3
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_verify_holds_over_24_steps_with_states_carried(
    case: str, oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    checkpoint, program = oracles / case / f"{case}-q8_0.gguf", tmp_path / "m.lg"
    logos("author", checkpoint, "-o", program, "--context", 24, "-q")
    tokens = ",".join(map(str, oracle_cases[case]["tokens"]))
    logos("verify", program, "--target", "rdu-sambaflow", "--checkpoint", checkpoint, "--tokens", tokens)
    lines = capsys.readouterr().out.splitlines()
    states = [leaf.name for leaf in read_program(Source("m.lg", program.read_text("utf-8")), MANAGER.grammar).states]
    compared = [tuple(line.split()[:2]) for line in lines if line.endswith("  ok")]
    assert compared == [(dtype, name) for dtype in ("float64", "float32") for name in ("next", "logits", *states)]
    assert lines[-1] == f"all {len(compared)} comparisons hold"


@pytest.mark.parametrize("way", ["export", "trace"])
@pytest.mark.parametrize("case", CASES)
def test_a_captured_module_gives_the_oracles_logits_at_positions_that_were_not_captured(
    case: str, way: str, oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    checkpoint = open_checkpoint(MANAGER, oracles / case / f"{case}-q8_0.gguf")
    family = MANAGER.family(str(checkpoint.metadata["general.architecture"]))
    text = family.author(checkpoint, AuthorOptions(24))
    graph = read_program(Source("m.lg", text), MANAGER.grammar)
    values = run_values(bind(graph, family, checkpoint), {}, None, fed=("tok", "pos"))
    made = emitted(text, tmp_path)
    program = made.module.PROGRAM
    assert list(program.of_role("input")) == ["tok", "pos"]
    held = {name: values[name] for name in program.of_role("weight", "table", "constant")}
    module = program.module().load_weights(made.folder, torch.float64, held)
    states = [torch.zeros(program.leaves[name].shape, dtype=torch.float64) for name in program.of_role("state")]

    def inputs(token: int, position: int) -> tuple[Any, ...]:
        return tuple(torch.tensor([[number]], dtype=torch.int32) for number in (token, position))

    example = (*inputs(7, 3), *states)
    captured = torch.export.export(module, example).module() if way == "export" else quietly_traced(module, example)
    at, found = made.module.OUTPUTS.index("logits"), []
    for position, token in enumerate(oracle_cases[case]["tokens"]):
        results = captured(*inputs(token, position), *states)
        states = list(results[len(made.module.OUTPUTS) :])
        found.append(results[at].numpy()[0])
    want = np.load(oracles / case / "logits_q8_weights_f64.npy")
    assert np.abs(np.stack(found) - want).max() < CASES[case]
