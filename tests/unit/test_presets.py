"""Published models by name: their sizes, the programs they give without a checkpoint, and the 30B with its files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePath

import click
import pytest

from logos import AuthorOptions, Refused, Role, Source, TensorView, make_manager, read_program
from logos.author import preset_program
from logos.cli.main import cli
from logos.weights.binding import bind
from logos_gguf import gen_qwen30b
from logos_gguf.presets import PRESETS

MANAGER = make_manager()

# Parameters as the models' publishers and llama.cpp's own count print them, in the digits that they print.
PUBLISHED = {
    "qwen3-0.6b": "596.05 M", "qwen3-1.7b": "1.72 B", "qwen3-4b": "4.02 B", "qwen3-8b": "8.19 B",
    "qwen3-14b": "14.77 B", "qwen3-32b": "32.76 B", "qwen3-30b-a3b": "30.53 B", "qwen3-235b-a22b": "235.09 B",
    "qwen3.5-0.8b": "752.39 M", "qwen3.5-2b": "1.88 B", "qwen3.5-4b": "4.21 B", "qwen3.5-9b": "8.95 B",
    "qwen3.5-27b": "26.90 B", "qwen3.6-27b": "26.90 B", "qwen3.8-27b": "26.90 B", "qwen3.5-35b-a3b": "34.66 B",
    "qwen3.6-35b-a3b": "34.66 B", "qwen3.5-122b-a10b": "122.11 B", "qwen3.5-397b-a17b": "396.35 B",
}  # fmt: skip
PREFIX = 4
"""Layers that the tests author: in a hybrid, the first three are delta layers and the fourth is attention."""


def test_every_preset_has_the_parameters_that_its_publisher_counts() -> None:
    found = {}
    for name, preset in PRESETS.items():
        count = sum(tensor.nbytes // 2 for tensor in preset.tensors.values())
        found[name] = f"{count / 1e9:.2f} B" if count >= 1e9 else f"{count / 1e6:.2f} M"
    assert found == PUBLISHED


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_presets_program_checks_and_every_weight_is_a_tensor_of_its_shape(name: str) -> None:
    preset = PRESETS[name]
    graph = read_program(Source(name, preset_program(MANAGER, name, layers=PREFIX)), MANAGER.grammar)
    binding = bind(graph, MANAGER.family(preset.family))
    roles = {bound.name: bound.role for bound in binding.leaves}
    assert [name for name, role in roles.items() if role is Role.INPUT] == ["tok", "pos"]
    assert [name for name, role in roles.items() if role is Role.TABLE] == ["RopeCos", "RopeSin"]
    family, taken = MANAGER.family(preset.family), set()
    for leaf in graph.leaves:
        view = None if leaf.name.startswith("Rope") or leaf.state else family.view(leaf.name, graph, preset)
        if isinstance(view, TensorView):
            taken.add(view.tensor)
            assert view.shape(preset.tensors[view.tensor]) == leaf.value.shape, leaf.name
    kept = [name for name in preset.tensors if not name.startswith("blk.") or int(name.split(".")[1]) < PREFIX]
    assert taken == set(kept)


def test_layers_and_context_are_as_asked() -> None:
    text = preset_program(MANAGER, "Qwen3.5-27B", context=77, layers=5)
    graph = read_program(Source("p.lg", text), MANAGER.grammar)
    states = {leaf.name: leaf.value.shape for leaf in graph.states}
    assert states["K3"] == states["V3"] == (77, 1024)
    assert (states["S4"], states["Cq4"], states["Cv4"]) == ((6144, 128), (4, 2048), (4, 6144))
    assert "S3" not in states
    assert "S5" not in states
    assert text.startswith("# Qwen3.5-27B: one decode step, by `logos author`.\n# qwen35: 5 layers of width 5120, ")


def test_an_unknown_preset_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refused) as caught:
        preset_program(MANAGER, "qwen3-80b")
    lines = caught.value.refusals[0].text().splitlines()
    assert lines[0] == (
        "--preset: no installed family has a preset qwen3-80b; did you mean qwen3-8b? [unknown-preset]"
    )
    assert set(lines[1].removeprefix("  next: presets: ").split(", ")) == set(PUBLISHED)


def test_more_layers_than_a_preset_has_is_refused() -> None:
    with pytest.raises(Refused, match="29 layers are asked for; the model has 28"):
        preset_program(MANAGER, "qwen3-0.6b", layers=29)


def test_the_command_writes_a_preset_without_a_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "m.lg"
    arguments = ["author", "--preset", "qwen3-0.6b", "--layers", "2", "--context", "64", "-o", str(program)]
    cli.main(arguments, prog_name="logos", standalone_mode=False)
    text = program.read_text("utf-8")
    assert text == preset_program(MANAGER, "qwen3-0.6b", 64, 2)
    lines = text.count("\n")
    assert capsys.readouterr().out == f"wrote {program}, {lines} lines; next: logos check {program}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give CHECKPOINT, or --preset NAME"),
        (["m.gguf", "--preset", "qwen3-8b"], "--preset takes neither CHECKPOINT nor --family beside it"),
        (["--preset", "qwen3-8b", "--family", "llama"], "--preset takes neither CHECKPOINT nor --family beside it"),
    ],
)
def test_a_preset_stands_alone(arguments: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=message):
        cli.main(["author", *arguments, "-o", str(tmp_path / "m.lg")], prog_name="logos", standalone_mode=False)
    assert not (tmp_path / "m.lg").exists()


def test_qwen30b_names_the_file_of_every_weight() -> None:
    made = gen_qwen30b(layers=2, weights_dir="w")
    binding = bind(made.program, MANAGER.family("qwen3moe"))
    weights = {bound.name for bound in binding.leaves if bound.role in (Role.WEIGHT, Role.TABLE)}
    assert made.float_weights.keys() | made.q8_weights.keys() == weights
    assert not made.float_weights.keys() & made.q8_weights.keys()
    assert {name: file.as_posix() for name, file in made.float_weights.items()} == {
        "RopeCos": "w/RopeCos.f64", "RopeSin": "w/RopeSin.f64", "on": "w/on.f32",
        **{f"{stem}{layer}": f"w/{stem}{layer}.f32" for stem in ("an", "Qn", "Kn", "fn", "Wr") for layer in (0, 1)},
    }  # fmt: skip
    projection = made.q8_weights["Wk1"]
    assert (projection.rows, projection.columns) == (512, 2048)
    assert (projection.quants, projection.scales) == (PurePath("w/Wk1.q"), PurePath("w/Wk1.s"))
    assert (made.q8_weights["emb"].rows, made.q8_weights["Wout"].rows) == (151936, 151936)


def test_qwen30b_lists_each_moe_with_its_experts() -> None:
    made = gen_qwen30b(layers=3, weights_dir=Path("w"))
    assert list(made.experts) == ["m0", "m1", "m2"]
    weights = made.experts["m2"]
    assert (weights.spec.d, weights.spec.f, weights.spec.E, weights.spec.K) == (2048, 768, 128, 8)
    assert weights.router == made.float_weights["Wr2"]
    assert (weights.gate, weights.up, weights.down) == tuple(made.q8_weights[name] for name in ("Eg2", "Eu2", "Ed2"))
    assert (weights.down.rows, weights.down.columns) == (128 * 2048, 768)


def test_qwen30b_is_the_presets_program() -> None:
    whole = gen_qwen30b(weights_dir="w")
    assert whole.program.source.text == preset_program(MANAGER, "qwen3-30b-a3b")
    assert len(whole.experts) == 48
    with pytest.raises(Refused, match="49 layers are asked for"):
        gen_qwen30b(layers=49, weights_dir="w")
    family = MANAGER.family("qwen3moe")
    text = family.author(PRESETS["qwen3-30b-a3b"], AuthorOptions(32, 1))
    assert gen_qwen30b(1, "w", context=32).program.source.text == text


def test_the_page_of_models_lists_every_preset() -> None:
    page = (Path(__file__).parents[2] / "docs/models.md").read_text("utf-8")
    for family in ("qwen3", "qwen3moe", "qwen35", "qwen35moe"):
        listed = ", ".join(f"`{name}`" for name, preset in PRESETS.items() if preset.family == family)
        assert f"| `{family}` | {listed} |" in page


def test_reading_authoring_and_checking_load_no_numpy() -> None:
    program = (
        "import sys\nfrom logos import Source, make_manager, read_program\nfrom logos.author import preset_program\n"
        "manager = make_manager()\nfor name in ('qwen3.5-27b', 'qwen3-30b-a3b'):\n"
        "    read_program(Source('m.lg', preset_program(manager, name, layers=4)), manager.grammar)\n"
        "print([name for name in ('numpy', 'torch', 'rich') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
