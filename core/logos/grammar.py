"""The sentences there are: the core's statements and every op, as one set of patterns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from logos.op import Hole, Op, Pattern, Word, collisions
from logos.refusal import Refusal, Refused
from logos.source import Spot

_STATEMENTS: Mapping[str, Pattern] = {
    "declaration": Pattern(
        "Let V be a R by C tensor of TYPE",
        {"V": Hole.NEW, "R": Hole.COUNT, "C": Hole.COUNT, "TYPE": Hole.TYPE},
    ),
    "fill": Pattern("Set item N of V to VALUE", {"N": Hole.COUNT, "VALUE": Hole.VALUE}),
    "show": Pattern("Show V"),
    "show item": Pattern("Show item N of V", {"N": Hole.COUNT}),
    "show row": Pattern("Show row P of V", {"P": Hole.INDEX}),
}

COUNT = re.compile(r"[1-9][0-9]*\Z", re.ASCII)
ROW = re.compile(r"(0|[1-9][0-9]*)\Z", re.ASCII)
VALUE = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z", re.ASCII)
LONGEST_LITERAL = 40
"""Characters of a literal, at most: a longer one is refused before it is read."""


def is_name(word: str) -> bool:
    """Whether a word is a name by its form."""
    return word.isidentifier() and word.isascii()


def _literal(form: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda word: len(word) <= LONGEST_LITERAL and form.match(word) is not None


_is_row = _literal(ROW)
_FORMS: Mapping[Hole, Callable[[str], bool]] = {
    Hole.TENSOR: is_name,
    Hole.NEW: is_name,
    Hole.TYPE: ("Real", "Int").__contains__,
    Hole.INDEX: lambda word: is_name(word) or _is_row(word),
    Hole.COUNT: _literal(COUNT),
    Hole.VALUE: _literal(VALUE),
}


def fits(hole: Hole, word: str) -> bool:
    """Whether a word may stand at a hole, by its form."""
    return _FORMS[hole](word)


@dataclass(frozen=True)
class Rule:
    """One way to say something: a pattern's variant, and the op or statement it belongs to."""

    name: str
    op: Op | None
    words: tuple[Word, ...]

    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @cached_property
    def literals(self) -> tuple[tuple[int, str], ...]:
        """The place and text of each literal word."""
        return tuple((place, word.text) for place, word in enumerate(self.words) if word.hole is None)

    @cached_property
    def holes(self) -> tuple[tuple[int, str], ...]:
        """The place and name of each hole."""
        return tuple((place, word.text) for place, word in enumerate(self.words) if word.hole is not None)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each hole, by name."""
        return {name: place for place, name in self.holes}

    @cached_property
    def _forms(self) -> tuple[tuple[int, Callable[[str], bool]], ...]:
        return tuple((place, _FORMS[word.hole]) for place, word in enumerate(self.words) if word.hole is not None)

    def fits(self, words: tuple[str, ...]) -> bool:
        """Whether the words at the holes of a sentence that has the rule's literals may stand there."""
        return all(form(words[place]) for place, form in self._forms)

    def says(self, words: tuple[str, ...]) -> bool:
        """Whether a sentence of the rule's length has its literal words."""
        return all(words[place] == text for place, text in self.literals)


@dataclass(frozen=True)
class Grammar:
    """Every sentence that a set of ops allows. Made by `make_grammar`, which refuses ambiguity."""

    ops: tuple[Op, ...]

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        statements = [Rule(name, None, words) for name, p in _STATEMENTS.items() for words in p.variants]
        return (*statements, *(Rule(op.name, op, words) for op in self.ops for words in op.pattern.variants))

    @cached_property
    def by_length(self) -> Mapping[int, tuple[Rule, ...]]:
        lengths: dict[int, list[Rule]] = defaultdict(list)
        for rule in self.rules:
            lengths[len(rule.words)].append(rule)
        return {length: tuple(rules) for length, rules in lengths.items()}

    def match(self, words: tuple[str, ...]) -> Rule | None:
        """The rule that a sentence's words follow."""
        for places, rules in self._by_literals.get(len(words), ()):
            for rule in rules.get(tuple([words[place] for place in places]), ()):
                if rule.fits(words):
                    return rule
        return None

    @cached_property
    def _by_literals(self) -> Mapping[int, list[tuple[tuple[int, ...], Mapping[tuple[str, ...], list[Rule]]]]]:
        """For each length, and each choice of places where literals stand, the rules by those literals."""
        found: dict[int, dict[tuple[int, ...], dict[tuple[str, ...], list[Rule]]]] = {}
        for rule in self.rules:
            places, texts = zip(*rule.literals, strict=True) if rule.literals else ((), ())
            found.setdefault(len(rule.words), {}).setdefault(places, {}).setdefault(texts, []).append(rule)
        return {length: list(choices.items()) for length, choices in found.items()}

    @cached_property
    def literals(self) -> frozenset[str]:
        return frozenset(word.text for rule in self.rules for word in rule.words if word.hole is None)

    def op(self, name: str) -> Op | None:
        return next((op for op in self.ops if op.name == name), None)


def make_grammar(ops: Iterable[Op]) -> Grammar:
    """The grammar of some ops. Refused: two ops of one name (`op-declared-twice`), two patterns that could match one
    sentence (`ambiguous-ops`, naming both)."""
    found = tuple(ops)
    faults = []
    names: set[str] = set()
    for op in found:
        if op.name in names or op.name in _STATEMENTS:
            next_ = "remove one of the plugins that bring it, or rename its op"
            faults.append(Refusal("op-declared-twice", f"two ops are named {op.name}", Spot(f"op {op.name}"), next_))
        names.add(op.name)
    if not faults:
        patterns = dict(_STATEMENTS) | {op.name: op.pattern for op in found}
        for one, two, sentence in collisions(patterns):
            what = f"{one} and {two} could both be meant by `{sentence}.`"
            next_ = "change the words of one of the two patterns so that no sentence fits both"
            faults.append(Refusal("ambiguous-ops", what, Spot(f"op {two}"), next_))
    if faults:
        raise Refused(faults)
    return Grammar(found)
