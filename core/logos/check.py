"""Sentences → graph: names, shapes, types, order. Everything wrong is collected, and nothing cascades."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from logos.grammar import Grammar
from logos.graph import Graph, Leaf, Node, Operand, Shown, Value
from logos.loops.block import block_op
from logos.loops.check import Tensor, check_loop
from logos.loops.recognize import recognize_loop
from logos.loops.uses import accesses
from logos.near import nearest
from logos.op import Op, TypeRule
from logos.parse import LARGEST, Parsed, parse
from logos.refusal import Refusal, Refused
from logos.sentences import AnySentence, Broken, Declaration, Fill, Loop, Operation, Show, Use
from logos.shapes import Misfit, Shape, Solution, evaluate, solve
from logos.source import Source, Span
from logos.survey import Survey

SUGGESTIONS = 200_000
"""Names compared at most to suggest one for each undeclared name: a machine-made program may have 10^5 of both."""
_INT64 = range(-(2**63), 2**63)


def read_program(source: Source, grammar: Grammar, recognize: bool = True) -> Graph:
    """Parses and checks a whole program. Raises `Refused` with everything wrong, in the program's order.

    A loop that is an op's becomes that op; with `recognize` False every loop stays one, and the reference machine runs
    it as it stands.
    """
    return check(parse(source, grammar), grammar.ops if recognize else ())


def check(parsed: Parsed, ops: tuple[Op, ...] = ()) -> Graph:
    """The graph of parsed sentences; loops that are one of these ops' become that op. Raises `Refused` with the parse's
    refusals and its own, in order."""
    return _Checker(parsed, ops=ops).run()


@dataclass
class _Checker(Survey):
    ops: tuple[Op, ...] = ()
    undeclared: dict[str, list[Span]] = field(default_factory=dict)
    row_names: set[str] = field(default_factory=set)
    solved: dict[object, Solution] = field(default_factory=dict)
    touched: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    fills: dict[str, dict[int, int | float]] = field(default_factory=lambda: defaultdict(dict))
    written: set[str] = field(default_factory=set)
    nodes: list[Node] = field(default_factory=list)
    shows: list[Shown] = field(default_factory=list)
    output: Value | None = None
    lost: bool = False
    """Whether a loop was refused, which might have made an output."""

    def run(self) -> Graph:
        self.survey()
        for sentence in self.parsed.sentences:
            self.visit(sentence)
        self.say_undeclared()
        source = self.parsed.source
        lost = self.lost or any(isinstance(sentence, Broken) for sentence in self.parsed.sentences)
        if not self.produced and not lost:
            sentences = self.parsed.sentences
            place = sentences[-1].span if sentences else Span(source, 1, 1, 1)
            what = "the program has no output: no operation other than `Set row` computes anything"
            next_ = "add an operation, such as `Let y be silu of x.`"
            if self.makes:
                next_ += ", or let a loop set every item of a declared tensor before it reads one"
            self.refuse("no-output", what, place, next_)
        found = [*self.parsed.refusals, *self.refusals]
        if found:
            raise Refused(sorted(found, key=_place))
        assert self.output is not None
        leaves = tuple(self.leaf(said) for name, said in self.declared.items() if name not in self.produced)
        return Graph(source, leaves, tuple(self.nodes), tuple(self.shows), self.output)

    def blame(self, name: str, span: Span) -> None:
        """An undeclared name is said once, with every place."""
        self.faults += 1
        self.undeclared.setdefault(name, []).append(span)

    def leaf(self, declaration: Declaration) -> Leaf:
        name = declaration.variable
        value = Value(name, 0, declaration.rows, declaration.columns, declaration.real)
        fills = tuple(sorted(self.fills.get(name, {}).items()))
        return Leaf(value, declaration.span, fills, name in self.written)

    def say_undeclared(self) -> None:
        known = sorted({*self.declared, *self.produced, *self.broken})
        for number, (name, places) in enumerate(self.undeclared.items(), 1):
            near = nearest(name, known) if number * len(known) <= SUGGESTIONS else None
            what = f"{name} is not declared{f'; did you mean {near}?' if near else ''}"
            due = "1 by 1 tensor of Int" if name in self.row_names else "R by C tensor of Real"
            next_ = f"declare it above: `Let {name} be a {due}.`"
            if near:
                next_ = f"write {near}, or {next_}"
            self.refuse("undeclared-name", what, places[0], next_, tuple(places[1:]))

    # The program in order.

    def visit(self, sentence: AnySentence) -> None:
        if isinstance(sentence, Fill):
            self.fill(sentence)
        elif isinstance(sentence, Show):
            self.show(sentence)
        elif isinstance(sentence, Operation):
            self.operation(sentence)
        elif isinstance(sentence, Loop):
            self.loop(sentence)
        elif isinstance(sentence, Broken) and sentence.out in self.broken:
            self.now[sentence.out] = None

    def read(self, name: str, sentence: Operation | Loop | Show, hole: str) -> Value | None:
        """The newest value of a name at a hole; None, with the refusal said, where there is none or its shape is
        unknown."""
        self.touched.setdefault(name, sentence.span.line)
        if name in self.now:
            return self.now[name]
        if name in self.produced:
            self.too_early(name, self.parsed.sentences[self.produced[name][0]].span.line, sentence.at(hole))
        else:
            self.blame(name, sentence.at(hole))
            if isinstance(sentence, Operation) and hole in sentence.op.decl.indexes:
                self.row_names.add(name)
        return None

    def too_early(self, name: str, line: int, span: Span) -> None:
        if line == span.line:
            what = f"{name} is read by the sentence that produces it first"
            next_ = f"produce {name} above this sentence, or read another name"
        else:
            what = f"{name} is read above the sentence that produces it (line {line})"
            next_ = f"move the sentence that produces {name} above this one"
        self.refuse("read-before-produced", what, span, next_)

    def fill(self, sentence: Fill) -> None:
        name = sentence.variable
        if name in self.broken:
            return
        if name in self.produced:
            what = f"{name} is produced by an operation, so it takes no initial values"
            next_ = "remove the fill: only a declared tensor that no operation produces takes one"
            self.refuse("fill-of-produced", what, sentence.at("V"), next_)
        elif name not in self.declared:
            self.blame(name, sentence.at("V"))
        elif name in self.touched:
            what = f"{name} is filled below a sentence that reads or writes it (line {self.touched[name]})"
            next_ = "move the fill above every sentence that uses the variable"
            self.refuse("fill-below-use", what, sentence.at("V"), next_)
        else:
            self.fill_leaf(sentence, self.declared[name])

    def fill_leaf(self, sentence: Fill, declaration: Declaration) -> None:
        size = declaration.rows * declaration.columns
        value: int | float = sentence.value
        if sentence.index > size:
            what = f"{sentence.variable} has {size} items; there is no item {sentence.index}"
            self.refuse("item-out-of-range", what, sentence.at("N"), f"items count from 1 to {size}, row by row")
        elif declaration.real:
            value = float(sentence.text or sentence.value)
        elif isinstance(value, float):
            what = f"{sentence.variable} is of Int; {sentence.text} has a point or an exponent"
            self.refuse("decimal-into-int", what, sentence.at("VALUE"), "write a whole number, or declare it of Real")
        elif value not in _INT64:
            what = f"{sentence.text} does not fit 64 bits"
            self.refuse("int-out-of-range", what, sentence.at("VALUE"), "write a number from −2^63 to 2^63 − 1")
        self.fills[sentence.variable][sentence.index - 1] = value

    def show(self, sentence: Show) -> None:
        value = self.read(sentence.variable, sentence, "V")
        if value is None:
            return
        if sentence.item is not None and sentence.item > value.size:
            what = f"{value.name} has {value.size} items; there is no item {sentence.item}"
            self.refuse("item-out-of-range", what, sentence.at("N"), f"items count from 1 to {value.size}, row by row")
        elif sentence.row is not None and sentence.row >= value.rows:
            self.row_out_of_range(sentence.row, value, sentence.at("P"))
        self.shows.append(Shown(sentence.span, len(self.nodes), value, sentence.item, sentence.row))

    def row_out_of_range(self, row: int, table: Value, span: Span) -> None:
        what = f"row {row} is outside the rows 0 to {table.rows - 1} of {table.name}"
        self.refuse("row-out-of-range", what, span, "rows count from 0; name one that the table has")

    def operation(self, sentence: Operation) -> None:
        before = self.faults
        use, op = sentence.op, sentence.op.decl
        operands: dict[str, Operand] = {}
        known = True
        for hole, operand in use.operands.items():
            if isinstance(operand, str):
                value = self.read(operand, sentence, hole)
                known = known and value is not None
                operands[hole] = value
            else:
                operands[hole] = operand
        self.requirements(sentence)
        sizes, out_shape = self.shapes(sentence, operands)
        self.rows(sentence, operands)
        states = self.states(sentence, operands, sizes)
        out_real = self.type_of(op, operands) if known else None
        good = known and before == self.faults
        out = None if op.statement else self.produce(sentence, out_shape if known else None, out_real)
        writes = {hole: self.write(hole, operands) for hole in states}
        if good and (op.statement or out is not None):
            node = Node(len(self.nodes), sentence.span, op, operands, sizes, out, writes)
            self.nodes.append(node)
            self.output = out if out is not None else self.output

    def loop(self, sentence: Loop) -> None:
        """A loop is an operation of its own: it makes a tensor whole, and writes what else it sets."""
        before, made = self.faults, self.makes[id(sentence)]
        tensors: dict[str, Tensor | None] = {}
        sets: dict[str, None] = {}
        for access in accesses(sentence.loop):
            name = access.item.tensor
            if access.sets:
                sets.setdefault(name)
            if name not in tensors:
                tensors[name] = self.tensor(name, sentence, name in made)
        if not sets:
            what = "this loop sets no tensor of the program, so it does nothing"
            self.refuse("loop-sets-nothing", what, sentence.span, "set the items of a declared tensor in it")
        proved = check_loop(sentence.loop, tensors, self.refuse)
        known = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        self.written |= sets.keys() - set(made)
        if len(known) < len(tensors) or len(made) > 1 or before != self.faults:
            self.now.update(dict.fromkeys(made))
            self.lost = True
            return
        out = made[0] if made else None
        found = recognize_loop(sentence.loop, known, out, self.ops) if self.ops else None
        op, operands = found or block_op(sentence.loop, known, out, proved)
        spans = {hole: sentence.at(name) for hole, name in operands.items() if isinstance(name, str)}
        name = out if out is not None else str(operands[op.writes[0]])
        self.operation(Operation(name, Use(op, operands), span=sentence.span, spans=spans))

    def tensor(self, name: str, sentence: Loop, made: bool) -> Tensor | None:
        """A tensor that a loop uses; None, where its shape is not known or the reason is said."""
        if made:
            said = self.declared[name]
            return Tensor(said.rows, said.columns, said.real)
        value = self.read(name, sentence, name)
        return None if value is None else Tensor(value.rows, value.columns, value.real)

    def requirements(self, sentence: Operation) -> None:
        use = sentence.op
        for hole, needed in use.decl.requires.items():
            if use.operands.get(hole) is not None and use.operands.get(needed) is None:
                part, due = use.decl.pattern.part_of(hole), use.decl.pattern.part_of(needed)
                what = f"{use.name} with the part `{part}` needs the part `{due}` too"
                next_ = f"add `{due}`: the sentence is `{use.decl.pattern.text}.`"
                self.refuse("part-required", what, sentence.at(hole), next_)

    def shapes(self, sentence: Operation, operands: Mapping[str, Operand]) -> tuple[Mapping[str, int], Shape | None]:
        op, uses = sentence.op.decl, sentence.op.operands
        names = {hole: str(uses[hole]) for hole in op.tensors if uses.get(hole) is not None}
        shapes = {hole: (v.shape if isinstance(v := operands.get(hole), Value) else None) for hole in names}
        # What stands in for a state is refused for that: its shape is another's.
        shapes.update(dict.fromkeys(hole for hole in op.writes if names.get(hole) in self.produced))
        counts = {hole: int(uses[hole]) for hole in op.counts if uses.get(hole) is not None}  # type: ignore[arg-type]
        # The layers of a model say the same shapes again and again.
        key = op, tuple(shapes.items()), tuple(counts.items())
        solution = self.solved.get(key) or solve(op, names, shapes, counts)
        if not solution.misfits:
            self.solved[key] = solution
        for misfit in solution.misfits:
            self.misfit(sentence, misfit)
        if solution.misfits:
            return {}, None
        return solution.sizes, solution.out

    def misfit(self, sentence: Operation, misfit: Misfit) -> None:
        where = sentence.at(misfit.hole) if misfit.hole else sentence.span
        self.refuse(misfit.code, f"{sentence.op.name}: {misfit.what}", where, misfit.next)

    def rows(self, sentence: Operation, operands: Mapping[str, Operand]) -> None:
        """Rows given by a variable are 1 by 1 Int; rows given by a literal lie in their table."""
        op = sentence.op.decl
        for hole in op.indexes:
            row = operands.get(hole)
            if isinstance(row, Value) and (row.shape != (1, 1) or row.real):
                what = f"{row.name} is {_described(row.shape, row.real)}; a row is given by a 1 by 1 tensor of Int"
                self.refuse("row-not-int", what, sentence.at(hole), f"declare {row.name} as a 1 by 1 tensor of Int")
            elif isinstance(row, int):
                table = operands.get(op.table(hole))
                if isinstance(table, Value) and row >= table.rows:
                    self.row_out_of_range(row, table, sentence.at(hole))

    def states(
        self, sentence: Operation, operands: Mapping[str, Operand], sizes: Mapping[str, int]
    ) -> tuple[str, ...]:
        op = sentence.op.decl
        for hole in op.writes:
            name = str(sentence.op.operands[hole])
            self.touched.setdefault(name, sentence.span.line)
            state = operands.get(hole)
            if name in self.produced:
                what = f"{op.name} writes {name}, which an operation produces; a state is declared and not produced"
                own = state.shape if isinstance(state, Value) else ("R", "C")
                due = (evaluate(dimension, sizes) for dimension in op.shapes[0].operands[hole])
                rows, columns = (size or usual for size, usual in zip(due, own, strict=True))
                next_ = f"declare a state of its own: `Let {name}_state be a {rows} by {columns} tensor of Real.`"
                self.refuse("state-not-a-leaf", what, sentence.at(hole), next_)
            elif isinstance(state, Value) and not state.real and not self.writes_int(op, operands):
                what = f"{op.name} writes reals into {name}, which is of Int"
                self.refuse("state-of-int", what, sentence.at(hole), f"declare {name} of Real")
            self.written.add(name)
        return op.writes

    def writes_int(self, op: Op, operands: Mapping[str, Operand]) -> bool:
        if op.block is not None or not op.exact:
            return op.block is not None
        tensors = [operands.get(hole) for hole in op.tensors]
        return all(value is None or (isinstance(value, Value) and not value.real) for value in tensors)

    def type_of(self, op: Op, operands: Mapping[str, Operand]) -> bool:
        """Whether OUT is Real."""
        if op.type is TypeRule.SAME:
            tensors = [operands.get(hole) for hole in op.tensors]
            return any(isinstance(value, Value) and value.real for value in tensors)
        return op.type is TypeRule.REAL

    def produce(self, sentence: Operation, shape: Shape | None, real: bool | None) -> Value | None:
        name, declared = sentence.out, self.declared.get(sentence.out)
        if shape is None or real is None:
            self.now[name] = None
            return None
        if shape[0] * shape[1] >= LARGEST:
            what = f"{name} would have {shape[0]} by {shape[1]} elements; a tensor has fewer than 2^48"
            self.refuse("tensor-too-large", what, sentence.at("OUT"), "use smaller operands")
            self.now[name] = None
            return None
        if declared is not None and ((declared.rows, declared.columns) != shape or declared.real != real):
            said = _described((declared.rows, declared.columns), declared.real)
            what = f"{name} was declared {said}, but this makes it {_described(shape, real)}"
            self.refuse("declared-otherwise", what, sentence.at("OUT"), "remove the declaration, or make both agree")
            self.now[name] = None
            return None
        self.versions[name] += 1
        value = Value(name, self.versions[name], *shape, real)
        self.now[name] = value
        return value

    def write(self, hole: str, operands: Mapping[str, Operand]) -> Value:
        """The state's next version. A state that was refused gets a stand-in, which no graph will hold."""
        state = operands[hole]
        if not isinstance(state, Value):
            return Value("", 0, 1, 1, True)
        self.versions[state.name] += 1
        value = Value(state.name, self.versions[state.name], state.rows, state.columns, state.real)
        if self.now.get(state.name) is not None:
            self.now[state.name] = value
        return value


def _place(refusal: Refusal) -> tuple[int, int]:
    where = refusal.where
    return (where.line, where.column) if isinstance(where, Span) else (0, 0)


def _described(shape: Shape, real: bool) -> str:
    return f"{shape[0]} by {shape[1]} of {'Real' if real else 'Int'}"
