"""The sample's checkpoint format: a Hugging Face folder gives what the GGUF file of the same model gives, and broken
ones are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_writer import write_folder
from places import Place
from safetensors.numpy import load_file, save_file

from logos import Refused, Request, bind_request, load_graph, make_manager, run_steps
from logos.author import Author, author_program
from logos.job import open_checkpoint
from logos.reference import Machine
from logos.source import Source
from logos.weights.values import leaf_array

ORACLES = Path(__file__).parents[1] / "oracles"
LLAMA = ORACLES / "llama-tiny-untied/llama-tiny-untied-f32.gguf"
QWEN3 = ORACLES / "qwen3-tiny/qwen3-tiny-q8_0.gguf"

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama") / "tiny llama"
    write_folder(LLAMA, folder)
    return folder


def logits(checkpoint: Path, tokens: tuple[int, ...]) -> Any:
    manager = make_manager()
    text = author_program(manager, Author(checkpoint, 24), None)
    request = Request(Path("p.lg"), checkpoint, source=Source("p.lg", text))
    graph = load_graph(manager, request)
    binding = bind_request(manager, graph, request)
    found = {bound.name: leaf_array(binding, bound) for bound in binding.leaves}
    machine = Machine(graph, {name: array for name, array in found.items() if array is not None})
    return run_steps(machine, ("logits",), tokens).stacked("logits")


@pytest.mark.parametrize(("gguf", "shards"), [(LLAMA, 1), (QWEN3, 3)], ids=["llama", "qwen3"])
def test_a_folder_gives_the_logits_of_the_gguf_to_the_bit(tmp_path: Path, gguf: Path, shards: int) -> None:
    write_folder(gguf, tmp_path / "folder", shards)
    tokens = (5, 1, 4, 2)
    np.testing.assert_array_equal(logits(tmp_path / "folder", tokens), logits(gguf, tokens))


def test_a_folder_gives_the_logits_of_transformers(llama: Path, oracle_cases: dict[str, Any]) -> None:
    case = oracle_cases["llama-tiny-untied"]
    expected = np.load(ORACLES / "llama-tiny-untied/logits_f64.npy")
    found = logits(llama, tuple(case["tokens"]))
    assert np.abs(found[:, 0] - expected).max() < 1e-9


@pytest.mark.slow
def test_author_run_and_build_take_a_folder(place: Place, llama: Path) -> None:
    place.logos("author", llama, "-o", "m.lg", "--context", "24")
    get = ("run", "m.lg", "--tokens", "1,2,3", "--get", "logits", "--checkpoint")
    assert place.logos(*get, llama).stdout == place.logos(*get, LLAMA).stdout
    folder = shutil.copytree(llama, place.folder / "here")
    (place.folder / "logos.toml").write_text(
        '[project]\nname = "m"\nauthor = { checkpoint = "here", context = 24 }\n[target.onnx]\n', "utf-8"
    )
    assert "built 1 artifact in 4 steps" in place.logos("build").stdout
    assert "nothing to do" in place.logos("build").stdout
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-3}), "utf-8")
    assert "built 1 artifact" in place.logos("build").stdout
    assert "with eps 0.001." in (place.folder / "build/.logos/programs/m.lg").read_text("utf-8")


def test_a_folder_that_no_format_reads_is_refused(place: Place) -> None:
    (place.folder / "empty").mkdir()
    said = place.logos("author", "empty", "-o", "m.lg", code=1).stderr
    assert said == (
        "empty: no installed checkpoint format reads this folder [unknown-checkpoint-format]\n"
        "  next: installed formats: gguf, huggingface\n"
    )


def change(key: str, value: Any) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        (folder / "config.json").write_text(json.dumps({**config, key: value}), "utf-8")

    return act


def cut(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-8])


def header(text: bytes) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)

    return act


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (change("model_type", "gpt2"), "its model_type is 'gpt2'; the sample reads llama and qwen3"),
        (change("hidden_act", "gelu"), "it says hidden_act = 'gelu', which the sample does not compute"),
        (change("rope_scaling", {"rope_type": "llama3"}), "it says rope_type = 'llama3', which the sample does not"),
        (change("head_dim", 0), "its head_dim is 0, not a count"),
        (change("head_dim", 48), "blk.0.attn_k.weight has 64 rows, no heads of 48"),
        (cut, "model.norm.weight, F32 (128,), does not lie in bytes "),
        (header(b"{"), "its header is no list of tensors"),
        (header(b'{"a":1}'), "its header is no list of tensors"),
        (header(b'{"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}}'), "a is stored as F8; the sample reads F32"),
        (lambda folder: (folder / "model.safetensors").unlink(), "there is no such file, and the checkpoint has a"),
        (lambda folder: (folder / "config.json").write_text("[]"), "it is no JSON object"),
    ],
)
def test_what_is_broken_or_not_computed_is_refused(
    tmp_path: Path, llama: Path, act: Callable[[Path], None], says: str
) -> None:
    folder = shutil.copytree(llama, tmp_path / "folder")
    act(folder)
    with pytest.raises(Refused) as refused:
        open_checkpoint(make_manager(), folder)
    (refusal,) = refused.value.refusals
    assert says in refusal.what
    assert refusal.code == "huggingface-checkpoint"


def test_a_head_that_is_neither_there_nor_tied_is_refused(tmp_path: Path) -> None:
    write_folder(LLAMA, tmp_path / "tied")
    change("tie_word_embeddings", True)(tmp_path / "tied")
    tied = open_checkpoint(make_manager(), tmp_path / "tied")
    assert "output.weight" not in tied.tensors
    change("tie_word_embeddings", False)(tmp_path / "tied")
    arrays = load_file(tmp_path / "tied/model.safetensors")
    del arrays["lm_head.weight"]
    save_file(arrays, tmp_path / "tied/model.safetensors")
    with pytest.raises(Refused, match="there is no lm_head"):
        open_checkpoint(make_manager(), tmp_path / "tied")
