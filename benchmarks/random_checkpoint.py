"""A checkpoint of random weights in Q8_0, in the shape of Qwen3-0.6B with two layers more: for rates.

    python benchmarks/random_checkpoint.py OUT.gguf [--layers 30]

Neither LOGOS nor llama.cpp takes a shorter way for weights that say nothing, and so rates are those of a trained model.
It has no vocabulary: token ids alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

WIDTH, INNER, HEADS, KEY_HEADS, HEAD, VOCABULARY, CONTEXT = 1024, 3072, 16, 8, 128, 151936, 4096
BLOCK, BLOCK_BYTES = 32, 34

Bytes = npt.NDArray[np.uint8]


def matrices(layers: int) -> Iterator[tuple[str, int, int]]:
    """Name, rows and columns of every matrix; the embeddings are the head, too."""
    yield "token_embd.weight", VOCABULARY, WIDTH
    for layer in range(layers):
        yield f"blk.{layer}.attn_q.weight", HEADS * HEAD, WIDTH
        for name in "kv":
            yield f"blk.{layer}.attn_{name}.weight", KEY_HEADS * HEAD, WIDTH
        yield f"blk.{layer}.attn_output.weight", WIDTH, HEADS * HEAD
        for name in ("gate", "up"):
            yield f"blk.{layer}.ffn_{name}.weight", INNER, WIDTH
        yield f"blk.{layer}.ffn_down.weight", WIDTH, INNER


def norms(layers: int) -> Iterator[tuple[str, int]]:
    """Name and length of every norm's weight."""
    yield "output_norm.weight", WIDTH
    for layer in range(layers):
        for name, length in (("attn_norm", WIDTH), ("attn_q_norm", HEAD), ("attn_k_norm", HEAD), ("ffn_norm", WIDTH)):
            yield f"blk.{layer}.{name}.weight", length


def random_blocks(random: np.random.Generator, rows: int, columns: int) -> Bytes:
    """Rows of Q8_0 blocks whose values have the standard deviation of a usual start, 1 / sqrt(columns)."""
    blocks = random.integers(0, 256, (rows * columns // BLOCK, BLOCK_BYTES), dtype=np.uint8)
    scale = np.array(1 / (73.9 * columns**0.5), np.float16)  # 73.9: that of whole numbers from -128 to 127
    blocks[:, :2] = scale.reshape(1).view(np.uint8)
    return blocks.reshape(rows, columns // BLOCK * BLOCK_BYTES)


def write_checkpoint(path: Path, layers: int) -> None:
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")
    for name, length in norms(layers):
        writer.add_tensor(name, np.ones(length, np.float32))
    random = np.random.default_rng(1)
    for name, rows, columns in matrices(layers):
        writer.add_tensor(name, random_blocks(random, rows, columns), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=int, default=30)
    given = parser.parse_args()
    write_checkpoint(given.out, given.layers)


if __name__ == "__main__":
    main()
