"""Rendering a checkpoint's chat template: jinja2's sandbox, in a process of its own with bounded time and memory.

The process reads one JSON object from standard input and writes one to standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from jinja2 import Environment, nodes, pass_environment
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from logos_gguf.text.own import Rendered, concatenate, origin, own

SECONDS, MEMORY, LONGEST = 2, 1 << 29, 1 << 22
"""What rendering may take: seconds of processor time, bytes of address space, characters of text."""


class OwnTextGenerator(CodeGenerator):
    """Compiles a template so that what it writes itself is known as its own text."""

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:  # noqa: N802 (jinja2's name)
        value = node.as_const(frame.eval_ctx)
        if isinstance(value, str):
            self.write(f"environment.own({str(value)!r})")
        else:
            super().visit_Const(node, frame)

    def visit_TemplateData(self, node: nodes.TemplateData, frame: Frame) -> None:  # noqa: N802 (jinja2's name)
        self.write(f"environment.own({node.data!r})")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 (jinja2's name)
        self.write("environment.concat((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return f"environment.own({''.join(map(str, group))!r})"


class Generation(Extension):
    """`{% generation %} … {% endgeneration %}` marks what the assistant wrote, for training; its body is rendered."""

    tags = {"generation"}  # noqa: RUF012 (jinja2's own declaration)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox with what chat templates expect to find (transformers' `apply_chat_template`)."""

    code_generator_class = OwnTextGenerator
    concat = staticmethod(concatenate)
    own = staticmethod(own)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation], cache_size=0
        )
        self.filters |= {"join": _join, "tojson": _to_json}
        self.globals["raise_exception"] = _raise
        self.globals["strftime_now"] = lambda form: datetime.now(timezone.utc).astimezone().strftime(form)


@pass_environment
def _join(environment: Environment, parts: Iterable[Any], separator: str = "", attribute: str | None = None) -> str:
    """jinja2's `join`, which forgets where its parts came from when it has no separator."""
    if attribute is not None:
        parts = map(make_attrgetter(environment, attribute), parts)
    return concatenate(parts, separator)


def _to_json(value: object, indent: int | None = None, **others: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> None:
    raise TemplateError(message)


def render_template(template: str, messages: list[Mapping[str, str]], named: Mapping[str, str]) -> Rendered:
    """The text, its own characters marked: those of the template, of the roles and of the named tokens.

    `named` are texts by variable (`bos_token`, …). Raises whatever the template makes jinja2 or Python raise;
    ValueError beyond LONGEST characters.
    """
    values: dict[str, Any] = {name: own(text) for name, text in named.items()}
    values["messages"] = [{**message, "role": own(message["role"])} for message in messages]
    values |= {"add_generation_prompt": True, "tools": None, "documents": None}
    pieces: list[str] = []
    length = 0
    for piece in ChatEnvironment().from_string(template).generate(values):
        pieces.append(piece)
        length += len(piece)
        if length > LONGEST:
            raise ValueError(f"the text has more than {LONGEST} characters")
    return concatenate(pieces)


def main() -> None:
    """Renders what standard input asks for, or says why not."""
    _limit()
    asked = json.load(sys.stdin)
    try:
        text = render_template(asked["template"], asked["messages"], asked["named"])
        answer = {"text": str.__str__(text), "own": "".join("01"[mark] for mark in origin(text))}
    except MemoryError:
        answer = {"error": f"it takes more than {MEMORY >> 20} MiB"}
    except RecursionError:
        answer = {"error": "it calls itself without end"}
    except Exception as error:  # A template can make anything be raised.
        answer = {"error": str(error) or type(error).__name__}
    json.dump(answer, sys.stdout)


def _limit() -> None:
    """Bounds this process, where the system can: beyond them it is killed or runs out of memory."""
    try:
        import resource
    except ImportError:
        return
    for kind, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        if hard == resource.RLIM_INFINITY or hard > most:
            resource.setrlimit(kind, (most, hard))
