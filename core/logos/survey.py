"""What a whole program declares and produces, known before the order of its sentences is checked."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from logos.graph import Value
from logos.loops.uses import outputs
from logos.parse import Parsed
from logos.refusal import Refusal
from logos.sentences import Broken, Declaration, Loop, Operation, Show
from logos.source import Span, brief


@dataclass
class Survey:
    """The declarations of parsed sentences, the positions of the sentences that produce each name, and what each loop
    makes; with everything that is wrong so far. `now` gives each leaf's value, None where its shape is not known."""

    parsed: Parsed
    refusals: list[Refusal] = field(default_factory=list)
    declared: dict[str, Declaration] = field(default_factory=dict)
    produced: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    broken: set[str] = field(default_factory=set)
    now: dict[str, Value | None] = field(default_factory=dict)
    makes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    faults: int = 0

    def refuse(self, code: str, what: str, where: Span, next: str, also: tuple[Span, ...] = ()) -> None:
        self.faults += 1
        self.refusals.append(Refusal(code, brief(what), where, brief(next), also))

    def survey(self) -> None:
        for position, sentence in enumerate(self.parsed.sentences):
            if isinstance(sentence, Declaration):
                self.declare(sentence)
            elif isinstance(sentence, Operation) and not sentence.op.decl.statement:
                self.produced[sentence.out].append(position)
            elif isinstance(sentence, Broken) and sentence.out is not None:
                self.broken.add(sentence.out)
        self.survey_loops()
        for name, declaration in self.declared.items():
            if name not in self.produced:
                real = declaration.real
                self.now[name] = Value(name, 0, declaration.rows, declaration.columns, real)
        self.broken -= self.declared.keys()
        self.now.update(dict.fromkeys(self.broken))

    def survey_loops(self) -> None:
        """What each loop makes. What is read above it, and made nowhere above, is what the last step left: a state."""
        shapes = {name: (said.rows, said.columns) for name, said in self.declared.items()}
        read: set[str] = set()
        made_above: set[str] = set()
        for position, sentence in enumerate(self.parsed.sentences):
            if isinstance(sentence, Operation):
                read |= set(sentence.op.inputs) - made_above
                made_above.add(sentence.out)
            elif isinstance(sentence, Show):
                read |= {sentence.variable} - made_above
            elif isinstance(sentence, Loop):
                made = tuple(name for name in outputs(sentence.loop, shapes) if name not in read)
                read |= sentence.spans.keys() - made_above - set(made)
                made_above |= set(made)
                self.makes[id(sentence)] = made
                for name in made:
                    self.produced[name] = sorted((*self.produced[name], position))
                if len(made) > 1:
                    what = f"this loop makes {' and '.join(made)}; a loop makes one tensor whole"
                    self.refuse("loop-makes-several", what, sentence.span, "write a loop for each of them")

    def declare(self, sentence: Declaration) -> None:
        name, first = sentence.variable, self.declared.get(sentence.variable)
        if first is None:
            self.declared[name] = sentence
            return
        what = f"{name} is declared twice (first in line {first.span.line})"
        self.refuse("declared-twice", what, sentence.at("V"), "remove one of the declarations, or rename one")
