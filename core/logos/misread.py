"""What is wrong with a sentence that no pattern matches, judged by the nearest pattern."""

from __future__ import annotations

from difflib import SequenceMatcher

from logos.grammar import COUNT, LONGEST_LITERAL, ROW, VALUE, Grammar, Rule, fits
from logos.near import nearest
from logos.op import Hole, Word
from logos.refusal import Refusal
from logos.sentences import HOLE_WORDS
from logos.source import Span

_CODES = {
    Hole.TENSOR: "name-expected",
    Hole.NEW: "name-expected",
    Hole.INDEX: "row-expected",
    Hole.COUNT: "count-expected",
    Hole.VALUE: "value-expected",
    Hole.TYPE: "type-expected",
}
_LITERALS = {Hole.COUNT: COUNT, Hole.VALUE: VALUE, Hole.INDEX: ROW}


def misread(grammar: Grammar, span: Span, words: tuple[str, ...], places: tuple[Span, ...]) -> list[Refusal]:
    """One refusal for each wrong word where the sentence's pattern is plain, else one for the sentence."""
    exact = [rule for rule in grammar.by_length.get(len(words), ()) if _literals_fit(rule, words)]
    if exact:
        rule = min(exact, key=lambda rule: len(_wrong(rule, words)))
        return [_bad_hole(rule, word, words[i], places[i]) for i, word in _wrong(rule, words)]
    return [_unknown(grammar, span, words, places)]


def _literals_fit(rule: Rule, words: tuple[str, ...]) -> bool:
    return all(word.hole is not None or word.text == found for word, found in zip(rule.words, words, strict=True))


def _wrong(rule: Rule, words: tuple[str, ...]) -> list[tuple[int, Word]]:
    pairs = enumerate(zip(rule.words, words, strict=True))
    return [(i, word) for i, (word, found) in pairs if word.hole is not None and not fits(word.hole, found)]


def _shown(word: str) -> str:
    plain = "".join(c if c.isprintable() else "?" for c in word)
    return plain if len(plain) <= 60 else plain[:57] + "…"


def _bad_hole(rule: Rule, word: Word, found: str, place: Span) -> Refusal:
    hole = word.hole
    assert hole is not None
    pattern = f"the sentence is `{rule.text()}.`"
    if hole in _LITERALS and len(found) > LONGEST_LITERAL and _LITERALS[hole].match(found):
        what = f"this literal has {len(found)} characters; at most {LONGEST_LITERAL} are read"
        return Refusal("literal-too-long", what, place, "write the number shorter")
    if hole is Hole.TYPE:
        what = f"the type is {_shown(found)}; a tensor is of Real or of Int"
        near = nearest(found, ("Real", "Int"))
        return Refusal("type-expected", what, place, f"write {near}" if near else "write Real or Int")
    what = f"{HOLE_WORDS[hole]} is due here for {word.text}, but {_shown(found)} stands here"
    return Refusal(_CODES[hole], what, place, f"{pattern[0].upper()}{pattern[1:]}; write {_example(hole, word.text)}")


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
    matcher = SequenceMatcher(None, literals, words, autojunk=False)
    hits = sum(block.size for block in matcher.get_matching_blocks())
    rest = set(literals) - set(words)
    near = sum(1 for word in rest if nearest(word, words))
    return (hits + 0.7 * near) / max(len(literals), 1) - 0.1 * abs(len(rule.words) - len(words))


def _unknown(grammar: Grammar, span: Span, words: tuple[str, ...], places: tuple[Span, ...]) -> Refusal:
    if not words:
        return Refusal("unknown-sentence", "a period alone is no sentence", span, "write a sentence or remove the line")
    shortened = words[:40]
    best = max(grammar.rules, key=lambda rule: _score(rule, shortened))
    if _score(best, shortened) < 0.45:
        what = "this is no sentence of the language"
        return Refusal("unknown-sentence", what, span, "see `logos ops` for the sentences there are")
    literals = {word.text for word in best.words if word.hole is None}
    for word, place in zip(shortened, places, strict=False):
        near = nearest(word, literals)
        if word not in grammar.literals and near and near not in words:
            what = f"this is no sentence of the language: the word {_shown(word)} is unknown; did you mean {near}?"
            return Refusal("unknown-sentence", what, place, f"The nearest sentence is `{best.text()}.`")
    what = "this is no sentence of the language"
    return Refusal("unknown-sentence", what, span, f"The nearest sentence is `{best.text()}.`")
