"""What is wrong with a sentence that no pattern matches, judged by the nearest pattern."""

from __future__ import annotations

from difflib import SequenceMatcher

from logos.grammar import COUNT, LONGEST_LITERAL, ROW, VALUE, Grammar, Rule, fits
from logos.near import nearest
from logos.op import Hole, Word
from logos.refusal import Refusal
from logos.sentences import HOLE_WORDS
from logos.source import Span, brief, printable

_CODES = {
    Hole.TENSOR: "name-expected",
    Hole.NEW: "name-expected",
    Hole.INDEX: "row-expected",
    Hole.COUNT: "count-expected",
    Hole.VALUE: "value-expected",
    Hole.TYPE: "type-expected",
}
_NO_SENTENCE = "this is no sentence of the language"
_SEE = "see `logos ops` for the sentences there are"
_STARTS = ("Let", "Set", "Show")
_SIGNS = {"=": "be", "+": "plus", "*": "hadamard", "@": "matmul"}
"""Words for the signs that other languages write."""
_LITERALS = {Hole.COUNT: COUNT, Hole.VALUE: VALUE, Hole.INDEX: ROW}


def misread(
    grammar: Grammar, span: Span, words: tuple[str, ...], places: tuple[Span, ...], advise: bool = True
) -> list[Refusal]:
    """One refusal for each wrong word where the sentence's pattern is plain, else one for the sentence; with `advise`
    it names the nearest pattern, which takes milliseconds to find."""
    exact = [rule for rule in grammar.by_length.get(len(words), ()) if rule.says(words)]
    if exact:
        rule = min(exact, key=lambda rule: len(_wrong(rule, words)))
        return [_bad_hole(rule, word, words[i], places[i]) for i, word in _wrong(rule, words)]
    if not words:
        what = "a period alone is no sentence"
        return [Refusal("unknown-sentence", what, span, "write a sentence or remove the line")]
    for word, after, place in zip(words, words[1:], places[1:], strict=False):
        if word.endswith(".") and after in _STARTS:
            what = f"a sentence ends before this {after}, in the middle of the line"
            return [Refusal("unknown-sentence", what, place, "write each sentence in a line of its own")]
    if advise:
        return [_unknown(grammar, span, words, places)]
    return [Refusal("unknown-sentence", _NO_SENTENCE, span, _SEE)]


def _wrong(rule: Rule, words: tuple[str, ...]) -> list[tuple[int, Word]]:
    pairs = enumerate(zip(rule.words, words, strict=True))
    return [(i, word) for i, (word, found) in pairs if word.hole is not None and not fits(word.hole, found)]


def _shown(word: str) -> str:
    return brief(printable(word))


def _bad_hole(rule: Rule, word: Word, found: str, place: Span) -> Refusal:
    hole = word.hole
    assert hole is not None
    if hole in _LITERALS and len(found) > LONGEST_LITERAL and _LITERALS[hole].match(found):
        what = f"this literal has {len(found)} characters; at most {LONGEST_LITERAL} are read"
        return Refusal("literal-too-long", what, place, "write the number shorter")
    if hole is Hole.TYPE:
        what = f"the type is {_shown(found)}; a tensor is of Real or of Int"
        near = nearest(found, ("Real", "Int"))
        return Refusal("type-expected", what, place, f"write {near}" if near else "write Real or Int")
    what = f"{HOLE_WORDS[hole]} is due here for {word.text}, but {_shown(found)} stands here"
    return Refusal(_CODES[hole], what, place, f"the sentence is `{rule.text()}.`; write {_example(hole, word.text)}")


def _example(hole: Hole, name: str) -> str:
    return {
        Hole.COUNT: f"{name} as a whole number from 1, such as 4",
        Hole.VALUE: f"{name} as a number, such as 1e-5",
        Hole.INDEX: f"{name} as a name, or as a row such as 0",
    }.get(hole, f"{name} as a name of letters, digits and _, such as x0")


def _score(rule: Rule, words: tuple[str, ...]) -> float:
    """How much of a pattern a sentence follows: literals in order count one (or a share where misspelt), holes that
    fit a little, and each word too many or too few costs."""
    literals = [word.text for word in rule.words if word.hole is None]
    words = tuple(_SIGNS.get(word, word) for word in words)
    matcher = SequenceMatcher(None, literals, words, autojunk=False)
    hits = sum(block.size for block in matcher.get_matching_blocks())
    rest = set(literals) - set(words)
    near = sum(1 for word in rest if nearest(word, words))
    return (hits + 0.7 * near) / max(len(literals), 1) - 0.1 * abs(len(rule.words) - len(words))


def _unknown(grammar: Grammar, span: Span, words: tuple[str, ...], places: tuple[Span, ...]) -> Refusal:
    shortened = words[:40]
    best = max(grammar.rules, key=lambda rule: _score(rule, shortened))
    if _score(best, shortened) < 0.45:
        return Refusal("unknown-sentence", _NO_SENTENCE, span, _SEE)
    literals = {word.text for word in best.words if word.hole is None}
    for word, place in zip(shortened, places, strict=False):
        near = _SIGNS.get(word) or nearest(word, literals)
        if word not in grammar.literals and near in literals and near not in words:
            what = f"{_NO_SENTENCE}: the word {_shown(word)} is unknown; did you mean {near}?"
            return Refusal("unknown-sentence", what, place, f"the nearest sentence is `{best.text()}.`")
    return Refusal("unknown-sentence", _NO_SENTENCE, span, f"the nearest sentence is `{best.text()}.`")
