"""model.py and compile.py from their parts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import Template

from logos import Role
from logos_sambaflow.forward import REAL, Statement, folded, statements
from logos_sambaflow.layout import Check, Layout
from logos_sambaflow.parts import body, closure, step_helpers, text
from logos_sambaflow.prefill import PrefillLayout
from logos_sambaflow.readback import check_module
from logos_sambaflow.spelling import base_op

PROVENANCE = "a vendor-ingestion artifact that LOGOS emitted for SambaFlow; it is not LOGOS's compute path"
VENDOR_HEADER = f"# {PROVENANCE[0].upper()}{PROVENANCE[1:]}."
"""The first line of every emitted Python file."""
LICENCE = "# Yours to use, change and pass on without conditions (MIT-0)."
TEMPLATE_MARK = "# SambaFlow API unverified"
"""Stands on or above every statement of compile.py that touches the SDK, which nobody here could run."""


@dataclass(frozen=True, slots=True)
class Many:
    """The module of many steps at once: its layout and statements."""

    layout: PrefillLayout
    written: Sequence[Statement]


def many_of(layout: Layout) -> Many | None:
    """The module of many steps at once, where the options ask for one."""
    if not layout.options.prefill:
        return None
    many = PrefillLayout(layout.job, layout)
    return Many(many, statements(many))


def model_text(layout: Layout, written: Sequence[Statement], many: Many | None = None) -> str:
    """model.py of the program's statements, and of those of many steps at once where there are any; read back and
    counted against the graphs."""
    names, graph = layout.names, layout.graph
    pool = step_helpers(layout.options.operators)
    used = closure((statement.helper.name for statement in (*written, *(many.written if many else ()))), pool)
    made = Template(text("module.py.in")).substitute(
        prefill=_prefill_class(many, list(_constant_lines(layout, written))) if many else "",
        prefilled=f",\n{_prefill(many.layout)}" if many else "",
        header="\n".join((VENDOR_HEADER, _counts(layout), LICENCE, "")),
        loader=body("loader.py"),
        variant=kept(body("variant.py"), many is not None),
        program=kept(body("program.py"), many is not None).rstrip("\n"),
        prompts=f"\n\n{body('prefill.py')}" if many else "",
        selftest=f"\n\n{kept(body('selftest.py'), many is not None)}" if layout.options.selftest else "",
        tests=", selftest" if layout.options.selftest else "",
        leaves=_lines("{", _leaf_lines(layout), "}"),
        names=_dictionary((quoted(name), quoted(python)) for name, python in names.items() if name != python),
        fills=_lines("{", _fill_lines(layout), "}"),
        checks=_lines("(", (f'("{name}", "{table}", {rows})' for name, table, rows in layout.checks), ")"),
        checked=_lines("(", map(_check_line, layout.checked), ")"),
        output=graph.output.name,
        outputs=_tuple(map(quoted, layout.outputs)),
        dtype=layout.options.dtype,
        helpers="\n\n\n".join(part.source for part in used),
        constants="".join(f"{line}\n" for line in _constant_lines(layout, written)),
        **_forward(layout, written),
    )
    check_module(made, Counter(node.op.name for node in graph.nodes))
    if many:
        check_module(made, Counter(base_op(node.op.name) for node in many.layout.graph.nodes), "LogosPrefill")
    return made


_WITH, _WITHOUT = "  # with prefill", "  # without prefill"


def kept(source: str, prefill: bool) -> str:
    """A text's lines, but for those whose end says that they are there `without prefill` alone, or `with prefill`
    alone. The marks are taken off."""
    mark, other = (_WITH, _WITHOUT) if prefill else (_WITHOUT, _WITH)
    return "\n".join(line.removesuffix(mark) for line in source.split("\n") if not line.endswith(other))


def _prefill_class(many: Many, known: Sequence[str]) -> str:
    """LogosPrefill; `known` are the lines of the constants that it has from LogosModule."""
    layout, count = many.layout, many.layout.options.prefill
    own = [line for line in _constant_lines(layout, many.written) if line not in known]
    init = ["    def __init__(self) -> None:", "        super().__init__()", *own, "", ""] if own else [""]
    fed = " and ".join(layout.fed)
    return Template(text("prefill.py.in").rstrip("\n")).substitute(
        steps="One step" if count == 1 else f"{count} steps",
        fed=fed,
        init="\n".join(init),
        **_forward(layout, many.written),
    )


def _prefill(layout: PrefillLayout) -> str:
    """The entry of PROGRAM that says what LogosPrefill is."""
    entry = [
        "Prefill(",
        "    LogosPrefill,",
        f"    {layout.options.prefill},",
        f"    {_tuple(map(quoted, layout.fed))},",
    ]
    entry += ["    (", *(f"        {_check_line(check)}," for check in layout.checked), "    ),"]
    entry += [*folded("(", [*map(quoted, layout.last)], ",)," if len(layout.last) == 1 else "),", indent=4), "),"]
    return "\n".join(f"    {line}" for line in entry)


def _forward(layout: Layout, written: Sequence[Statement]) -> dict[str, str]:
    """The parts of a forward: what it takes, its statements, what it returns."""
    names = layout.names
    states = [names[leaf.name] for leaf in layout.leaves(Role.STATE)]
    arguments = [*(names[leaf.name] for leaf in layout.leaves(Role.INPUT)), *states]
    results = [*(names[name] for name in layout.outputs), *states]
    return {
        "forward": "\n".join(folded("def forward(", ["self", *arguments], "):", indent=4)),
        "returned": "\n".join(folded("return (", results, ",)" if len(results) == 1 else ")", indent=8)),
        "body": "\n".join(line for statement in written for line in statement.lines),
    }


DEVICES = {"host": "carried.py", "region": "region.py"}
"""By the option `state`, the file below `emitted/` whose Device makes the SDK's calls."""

_MAIN = 'if __name__ == "__main__":'
_OWN_IMPORT = re.compile("from (?:carried|compile_prefill) import .*\n")
_SDK_IMPORT = re.compile(f"{TEMPLATE_MARK}\n((?:import|from) sambaflow.*)\n+")


def compile_text(state: str, prefill: bool = False) -> str:
    """compile.py: the same for every program, since it asks model.py; `state` is the option, `prefill` whether there is
    a LogosPrefill."""
    script = kept(text("compile_script.py").split("\n", 1)[1], prefill)
    imports = dict.fromkeys((*_SDK_IMPORT.findall(text(DEVICES[state])), *_SDK_IMPORT.findall(script)))
    marked = "\n\n".join(f"{TEMPLATE_MARK}\n{line}" for line in imports)
    own, commands, rest = _SDK_IMPORT.sub("", script).partition("COMMANDS = ")
    own = _OWN_IMPORT.sub("", own).rstrip("\n")
    if prefill:
        rest = rest.replace(_MAIN, f"{body('compile_prefill.py')}\n\n{_MAIN}")
    line, rest = rest.split("\n", 1)
    made = f"{own}\n\n{marked}\n\n{commands}{line}\n{_spaced(body(DEVICES[state]))}{rest}"
    return "\n".join((VENDOR_HEADER, LICENCE, made))


def _spaced(definitions: str) -> str:
    """Two blank lines before what begins with a class or function, none before a constant."""
    return f"\n\n{definitions}" if definitions.startswith(("class ", "def ")) else definitions


def _counts(layout: Layout) -> str:
    output = layout.graph.output
    kind = "Real" if output.real else "Int"
    tensors = len(layout.graph.newest())
    shape = f"{output.rows} by {output.columns} of {kind}"
    return f"# {tensors} tensors, {len(layout.graph.nodes)} ops, output {output.name} ({shape})."


def _leaf_lines(layout: Layout) -> Iterable[str]:
    for leaf in layout.graph.leaves:
        kind, role = layout.kinds[leaf.name], layout.roles[leaf.name].value
        yield f'"{leaf.name}": Leaf({leaf.value.shape}, "{role}", "{kind}")'


def _fill_lines(layout: Layout) -> Iterable[str]:
    for leaf in layout.graph.leaves:
        if leaf.fills or layout.roles[leaf.name] is Role.CONSTANT:
            fills = _dictionary((str(element), repr(value)) for element, value in leaf.fills)
            yield f'"{leaf.name}": {fills}'


def _check_line(check: Check) -> str:
    more = _tuple(quoted(word) if isinstance(word, str) else str(word) for word in check.more)
    return f'({check.statement}, {check.returned}, "{check.name}", {_tuple(map(quoted, check.variables))}, {more})'


def quoted(name: str) -> str:
    return f'"{name}"'


def _dictionary(items: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in items) + "}"


def _tuple(items: Iterable[str]) -> str:
    texts = list(items)
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _lines(opening: str, items: Iterable[str], closing: str) -> str:
    """A literal with one item a line."""
    inside = "".join(f"    {item},\n" for item in items)
    return f"{opening}\n{inside}{closing}" if inside else opening + closing


def _constant_lines(layout: Layout, written: Iterable[Statement]) -> Iterable[str]:
    """The module's own parameters: int32 columns that statements read, and a Real whose dtype Ints are cast to."""
    needs = {name: values for statement in written for name, values in statement.needs.items()}
    for name, values in needs.items():
        inside = f"range({len(values)})" if values.start == 0 and len(values) > 1 else f"[{values.start}]"
        yield f"        self.{name} = int32_column({inside})"
    real = layout.constant(REAL)
    if any(f"self.{real}." in line for statement in written for line in statement.lines):
        yield f"        self.{real} = nn.Parameter(torch.zeros((1, 1), dtype=DTYPE), requires_grad=False)"
