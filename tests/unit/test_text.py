"""Text to ids and back: against llama.cpp's ids, and what a vocabulary may not say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_vocabularies import CONTROL, USER_DEFINED, VOCABULARIES, by_score, byte_level, write

from logos import Refused, Text
from logos_gguf.checkpoint import GGUFCheckpoint
from logos_gguf.text.split import RULES

ORACLES = Path(__file__).parents[1] / "oracles"
TINY = "llama-tiny-rope3/llama-tiny-rope3-q8_0.gguf"
SAMPLES = (
    "plain words, and more of them",
    "naïve café — ünïcödé",
    "日本語 中文 한국어",
    "e\u0301 a\u0308\u0323 \u0928\u093f",
    "🙂👩‍👩‍👧 🇫🇷",
    "def f(x):\n\treturn {'a': x ** 2}  # ok\n\n",
    "\u200bזה עברית\u200f ",
)


def text_of(path: Path, metadata: dict[str, Any]) -> Text:
    return GGUFCheckpoint(write(path / "v.gguf", metadata)).text()


@pytest.fixture
def make(tmp_path: Path) -> Callable[[dict[str, Any]], Text]:
    return lambda metadata: text_of(tmp_path, metadata)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Text]:
    folder = tmp_path_factory.mktemp("vocabularies")
    return {name: text_of(folder, metadata) for name, metadata in VOCABULARIES.items()}


def refusal(metadata: dict[str, Any], make: Callable[[dict[str, Any]], Text]) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        make(metadata).encode("a")
    (only,) = refused.value.refusals
    return only.code, only.what


@pytest.mark.parametrize("name", VOCABULARIES)
def test_ids_are_those_of_llama_cpp(name: str, texts: dict[str, Text]) -> None:
    expected = json.loads((ORACLES / "splits.json").read_text("utf-8"))
    off, on = expected["off"][name], expected["on"][name]
    for number, text in enumerate(expected["texts"]):
        assert list(texts[name].encode(text)) == off[number], ascii(text)
        assert list(texts[name].encode(text, special=True)) == on.get(str(number), off[number]), ascii(text)


def test_every_rule_has_expected_ids_or_is_another_name_of_one_that_has() -> None:
    assert {id(rule) for rule in RULES.values()} == {id(RULES[name]) for name in RULES if name in VOCABULARIES}


def test_the_tiny_checkpoints_give_the_oracles_ids_and_text_both_ways() -> None:
    rows = json.loads((ORACLES / "tokenization.json").read_text("utf-8"))["tiny (any tiny file; its add_bos is true)"]
    text = GGUFCheckpoint(ORACLES / TINY).text()
    assert len(rows) == 11
    for row in rows:
        assert list(text.encode(row["text"], special=True)) == row["ids"]
        assert text.decode(row["ids"]) == row["text"]


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("sample", SAMPLES)
def test_text_comes_back(name: str, sample: str, texts: dict[str, Text]) -> None:
    assert texts[name].decode(texts[name].encode(sample)) == sample


@given(sample=st.text(st.characters(exclude_characters="\x05▁", exclude_categories=["Cs"])))
@pytest.mark.parametrize("name", ["gpt-2", "qwen35", "llama"])
def test_any_text_comes_back_and_streams_in_whole_characters(name: str, sample: str, texts: dict[str, Text]) -> None:
    text = texts[name]
    ids = text.encode(sample)
    assert text.decode(ids) == sample
    stream = text.stream()
    pieces = [stream.feed(number) for number in ids]
    assert stream.finish() == ""
    assert "".join(pieces).endswith(sample)
    # U+FFFD is what a split character would leave; it is in the pieces as often as in the text.
    assert "".join(pieces).count("\ufffd") == sample.count("\ufffd")


def test_a_stream_holds_a_character_back_until_it_is_whole(texts: dict[str, Text]) -> None:
    text = texts["gpt-2"]
    stream = text.stream()
    assert [stream.feed(number) for number in text.encode("🙂")] == ["", "", "", "🙂"]
    assert [stream.feed(number) for number in text.encode("ß")[:1]] == [""]
    assert stream.finish() == "\ufffd"


def test_a_stream_goes_on_where_decode_begins(texts: dict[str, Text]) -> None:
    text = texts["llama"]
    ids = text.encode("a")
    assert text.decode(ids) == "a"
    stream = text.stream()
    assert "".join(map(stream.feed, ids[1:])) == " a"


@pytest.mark.parametrize("add_bos", [True, False, None])
@pytest.mark.parametrize(("pre", "default"), [("gpt-2", False), ("llama-bpe", True)])
def test_add_bos_token_decides_bos_whatever_its_id(
    pre: str, default: bool, add_bos: bool | None, make: Callable[[dict[str, Any]], Text]
) -> None:
    keys = {} if add_bos is None else {"ggml.add_bos_token": add_bos}
    metadata = byte_level(pre, **keys)
    text, bos = make(metadata), metadata["tokenizer.ggml.bos_token_id"]
    ids = text.encode("a")
    assert (ids[0] == bos) == (default if add_bos is None else add_bos)
    assert text.decode(ids) == "a"
    # A BOS that the file does not put first is a token like others.
    assert text.decode((bos, *ids)) == "<|im_start|>a"


def test_special_tokens_are_text_unless_they_are_asked_for(texts: dict[str, Text]) -> None:
    text, tokens = texts["smollm"], VOCABULARIES["smollm"]["tokenizer.ggml.tokens"]
    sample = f"a{CONTROL[1]}b{USER_DEFINED[0]}"
    control, user_defined = tokens.index(CONTROL[1]), tokens.index(USER_DEFINED[0])
    off, on = text.encode(sample), text.encode(sample, special=True)
    assert control not in off
    assert off[-1] == on[-1] == user_defined
    assert on.count(control) == 1
    assert text.decode(off) == text.decode(on) == sample


def test_a_special_token_is_never_made_of_text(make: Callable[[dict[str, Any]], Text]) -> None:
    whole = byte_level("llama-bpe")
    tokens = whole["tokenizer.ggml.tokens"]
    tokens[tokens.index(CONTROL[0])] = "word"  # llama-bpe takes a word that is a token whole.
    assert tokens.index("word") not in make(whole).encode("word")[1:]
    merged = by_score({"<s": 5.0, "<s>": 6.0})
    merged["tokenizer.ggml.tokens"][-2:] = ["<", "<s"]
    assert 1 not in make(merged).encode("<s>")[1:]


def test_stop_ids_are_eos_eot_and_whatever_ends_a_turn(make: Callable[[dict[str, Any]], Text]) -> None:
    metadata = byte_level("gpt-2")
    tokens = metadata["tokenizer.ggml.tokens"]
    ends = {tokens.index("<|im_end|>"), tokens.index("<|end|>")}
    assert make(metadata).stop == ends
    eot = byte_level("gpt-2", **{"ggml.eot_token_id": 7, "ggml.eos_token_id": 9})
    assert make(eot).stop == ends | {7, 9}
    plain = byte_level("gpt-2")
    plain["tokenizer.ggml.tokens"][300] = "</s>"
    assert make(plain | {"tokenizer.ggml.merges": []}).stop == ends


def test_ids_past_the_vocabulary_have_no_text(texts: dict[str, Text]) -> None:
    text = texts["gpt-2"]
    assert text.decode((*text.encode("a"), 10**6)) == "a"


def test_a_file_without_a_vocabulary_is_refused(make: Callable[[dict[str, Any]], Text]) -> None:
    assert refusal({"general.architecture": "llama"}, make) == (
        "no-vocabulary",
        "the file holds no vocabulary: it has no metadata key tokenizer.ggml.model",
    )


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"pre": "qwen25"}, "tokenizer.ggml.pre is qwen25, which LOGOS cannot turn text into tokens by; "
         "did you mean qwen2?"),
        ({"pre": 3}, "tokenizer.ggml.pre is 3, which LOGOS cannot turn text into tokens by"),
        ({"model": "bert"}, "tokenizer.ggml.model is bert, which LOGOS cannot turn text into tokens by"),
    ],
)  # fmt: skip
def test_an_unknown_kind_of_vocabulary_is_refused_by_name(
    keys: dict[str, Any], what: str, make: Callable[[dict[str, Any]], Text]
) -> None:
    metadata = byte_level("gpt-2") | {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    assert refusal(metadata, make) == ("unknown-tokenizer", what)


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"tokens": "abc"}, "there is no array tokenizer.ggml.tokens"),
        ({"tokens": [1, 2]}, "tokenizer.ggml.tokens holds int, not str"),
        ({"tokens": ["a", "b", "a"], "token_type": [1, 1, 1], "merges": ["a b"]}, "two tokens have the same text"),
        ({"token_type": [1, 1]}, "tokenizer.ggml.token_type has 2 items for 1349 tokens"),
        ({"merges": ["ab"]}, "the merge 'ab' has no two parts"),
        ({"merges": ["a", "b"]}, "the merge 'a' has no two parts"),
        ({"bos_token_id": 5000}, "tokenizer.ggml.bos_token_id is 5000; the vocabulary has 1349 tokens"),
        ({"eos_token_id": -1}, "tokenizer.ggml.eos_token_id is -1; the vocabulary has 1349 tokens"),
        ({"add_bos_token": 1}, "tokenizer.ggml.add_bos_token is 1; true or false is due"),
    ],
)
def test_a_vocabulary_that_contradicts_itself_is_refused(
    keys: dict[str, Any], what: str, make: Callable[[dict[str, Any]], Text]
) -> None:
    metadata = byte_level("gpt-2")
    for name in ("bos", "eos") if "tokens" in keys else ():
        metadata.pop(f"tokenizer.ggml.{name}_token_id")
    metadata |= {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    assert refusal(metadata, make) == ("broken-vocabulary", what)


def test_a_merge_of_what_is_no_token_is_refused(make: Callable[[dict[str, Any]], Text]) -> None:
    code, what = refusal(byte_level("gpt-2", **{"ggml.merges": ["a Q"]}), make)
    assert code == "broken-vocabulary"
    assert what.startswith("the merges do not fit the tokens: ")


def test_more_special_tokens_than_any_model_has_are_refused(make: Callable[[dict[str, Any]], Text]) -> None:
    metadata = byte_level("gpt-2")
    metadata["tokenizer.ggml.tokens"] = [f"<{number}>" for number in range(65_537)]
    metadata["tokenizer.ggml.token_type"] = [3] * 65_537
    assert refusal(metadata, make) == ("broken-vocabulary", "more than 65536 tokens are special")


def test_add_bos_token_without_a_bos_is_refused(make: Callable[[dict[str, Any]], Text]) -> None:
    metadata = byte_level("gpt-2", **{"ggml.add_bos_token": True})
    del metadata["tokenizer.ggml.bos_token_id"]
    assert refusal(metadata, make)[1] == "add_bos_token is true, and there is no bos_token_id"


@pytest.mark.parametrize("name", ["smollm", "qwen35", "llama-bpe", "llama"])
@pytest.mark.parametrize("unit", ["the state of the art; ", "日本語", "a", " ", "\n", "🙂", "'"])
def test_a_hundred_kilobytes_take_less_than_a_second(name: str, unit: str, texts: dict[str, Text]) -> None:
    text = texts[name]
    text.encode("a")
    sample = unit * (100_000 // len(unit.encode()))
    started = time.process_time()
    text.encode(sample, special=True)
    assert time.process_time() - started < 1


def test_a_quarter_of_a_million_tokens_are_read_within_two_seconds(make: Callable[[dict[str, Any]], Text]) -> None:
    metadata = byte_level("gpt-2")
    count = len(metadata["tokenizer.ggml.tokens"])
    metadata["tokenizer.ggml.tokens"] += [f"word{number}" for number in range(250_000)]
    metadata |= {"tokenizer.ggml.token_type": [1] * (count + 250_000)}
    text = make(metadata)
    started = time.process_time()
    text.encode("a")
    assert time.process_time() - started < 2
