"""Hugging Face folders from anywhere: what is broken in a header, an index or a configuration is refused and says so;
half precision and other ways to write a configuration are read exactly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_writer import write_folder
from safetensors.numpy import load_file

from logos import Checkpoint, Refused, make_manager
from logos.job import open_checkpoint

LLAMA = Path(__file__).parents[1] / "oracles/llama-tiny-untied/llama-tiny-untied-f32.gguf"
NO_LIST = "its header is no list of tensors"
NO_PLACE = "does not lie in bytes"
NO_MAP = "its weight_map does not say which safetensors file of this folder holds each tensor"

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama") / "llama"
    write_folder(LLAMA, folder)
    return folder


@pytest.fixture
def folder(tmp_path: Path, llama: Path) -> Path:
    return shutil.copytree(llama, tmp_path / "folder")


def opened(folder: Path) -> Checkpoint:
    return open_checkpoint(make_manager(), folder)


def said(folder: Path) -> str:
    with pytest.raises(Refused) as refused:
        opened(folder)
    (refusal,) = refused.value.refusals
    assert refusal.code == "huggingface-checkpoint"
    return refusal.what


def change(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **values}), "utf-8")


def write(folder: Path, header: bytes, data: bytes) -> None:
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)


def parts(folder: Path) -> tuple[dict[str, Any], bytes]:
    """A safetensors file's header and what is behind it."""
    data = (folder / "model.safetensors").read_bytes()
    stop = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:stop]), data[stop:]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"dtype": ["F32"]}, "model.norm.weight is stored as ['F32']; the sample reads F32, F16, BF16"),
        ({"dtype": "f32"}, "model.norm.weight is stored as f32; the sample reads F32, F16, BF16"),
        ({"data_offsets": ["a", "b"]}, NO_LIST),
        ({"data_offsets": [0, 512, 512]}, NO_LIST),
        ({"data_offsets": [0.0, 512.0]}, NO_LIST),
        ({"data_offsets": None}, NO_LIST),
        ({"data_offsets": [-512, 0]}, NO_PLACE),
        ({"data_offsets": [2**70, 2**70 + 512]}, NO_PLACE),
        ({"data_offsets": [0, 512]}, "begins at byte 0, where another tensor still is"),
        ({"shape": "ab"}, NO_LIST),
        ({"shape": [[128]]}, NO_LIST),
        ({"shape": []}, NO_PLACE),
        ({"shape": [0, 128], "data_offsets": [0, 0]}, NO_PLACE),
        ({"shape": [2**70] * 8}, NO_PLACE),
        ({"shape": [1] * 10**5 + [128]}, NO_PLACE),
    ],
)
def test_a_tensor_that_is_nowhere_in_its_file(folder: Path, fields: dict[str, Any], says: str) -> None:
    header, data = parts(folder)
    header["model.norm.weight"] |= fields
    write(folder, json.dumps(header).encode(), data)
    assert says in said(folder)


@pytest.mark.parametrize(
    "header", [b'{"a":' * 10**5, b"[]", b'{"a":NaN}', b'{"\xff":1}', b""], ids=["deep", "list", "nan", "bytes", "none"]
)
def test_a_header_that_is_no_list_of_tensors(folder: Path, header: bytes) -> None:
    write(folder, header, b"")
    assert said(folder) == NO_LIST


def test_a_header_longer_than_its_file(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\xff" * 9)
    assert said(folder) == "it has a header of 18446744073709551615 bytes in a file of 9"


@pytest.mark.parametrize(
    ("homes", "says"),
    [
        (None, NO_MAP),
        (["model.safetensors"], NO_MAP),
        ({"a": {}, "b": "model.safetensors"}, NO_MAP),
        ({"a": "../folder/model.safetensors"}, NO_MAP),
        ({"a": "config.json"}, NO_MAP),
        ({"a": "x" * 5000 + ".safetensors"}, NO_MAP),
        ({"a": "b.safetensors"}, "there is no such file, and the checkpoint has a part of its tensors there"),
    ],
)
def test_an_index_that_names_no_file_of_the_folder(folder: Path, homes: Any, says: str) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": homes}), "utf-8")
    assert said(folder) == says


def test_the_index_is_a_file_of_the_checkpoint(folder: Path) -> None:
    """So that a build is due again when it names other files."""
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model.safetensors"}}), "utf-8")
    assert opened(folder).files == (folder / "config.json", index, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"hidden_size": None}, "its hidden_size is None, not a count"),
        ({"hidden_size": float("nan")}, "its hidden_size is nan, not a count"),
        ({"tie_word_embeddings": "no"}, "its tie_word_embeddings is 'no', not true or false"),
        ({"partial_rotary_factor": 0.5}, "it says partial_rotary_factor = 0.5, which the sample does not compute"),
        ({"rope_scaling": "x"}, "it has the rope parameters 'x'; one set of them for all layers is due"),
        (
            {"rope_parameters": {"full_attention": {}}},
            "rope parameters {'full_attention': {}}; one set of them for all",
        ),
        ({"head_dim": None, "num_attention_heads": 1000}, "attn_k.weight has 64 rows, no heads of 0"),
    ],
)
def test_a_configuration_that_says_no_model(folder: Path, values: dict[str, Any], says: str) -> None:
    change(folder, **values)
    assert says in said(folder)


def test_null_is_said_of_what_is_not_there(folder: Path) -> None:
    """As transformers writes it, and the base of rope where version 5 has it."""
    before = dict(opened(folder).metadata)
    base = json.loads((folder / "config.json").read_text("utf-8"))["rope_theta"]
    rope = {"rope_type": "default", "rope_theta": base}
    change(folder, head_dim=None, rope_theta=None, hidden_act=None, rope_parameters=rope)
    del before["llama.attention.key_length"]
    assert opened(folder).metadata == before


@pytest.mark.parametrize("storage", ["F16", "BF16"])
def test_half_precision_is_read_exactly(folder: Path, storage: str) -> None:
    arrays = {name: array[:2] for name, array in load_file(folder / "model.safetensors").items()}
    name = "model.layers.1.mlp.up_proj.weight"
    halves = arrays[name].astype("<f2") if storage == "F16" else (arrays[name].view("<u4") >> 16).astype("<u2")
    header, data = parts(folder)
    start = header[name]["data_offsets"][0]
    header[name] |= {"dtype": storage, "shape": halves.shape, "data_offsets": [start, start + halves.nbytes]}
    write(folder, json.dumps(header).encode(), data[:start] + halves.tobytes() + data[start + halves.nbytes :])
    exact = halves.astype("<f4") if storage == "F16" else (halves.astype("<u4") << 16).view("<f4")
    checkpoint = opened(folder)
    assert checkpoint.tensors["blk.1.ffn_up.weight"].storage == storage
    np.testing.assert_array_equal(checkpoint.float_rows("blk.1.ffn_up.weight", 0, 2), exact)
