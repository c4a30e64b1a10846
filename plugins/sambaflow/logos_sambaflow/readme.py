"""README.md of an artifact: what to do with it on the machine that has the SDK, in order, and what to send back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import Template

from logos_sambaflow.emit import PROVENANCE, TEMPLATE_MARK
from logos_sambaflow.forward import Statement
from logos_sambaflow.given import given_inputs
from logos_sambaflow.layout import PARAMETERS, Layout
from logos_sambaflow.parts import text
from logos_sambaflow.spelling import support

_FLAG = re.compile(r"\[(\w+)\] ?")
_FLAGS = re.compile(f"(?:{_FLAG.pattern})*")


def readme_text(layout: Layout, written: Iterable[Statement], weights: bool) -> str:
    """README.md; `weights`: the artifact holds weights.safetensors."""
    options = layout.options
    recorded = options.selftest > 0
    bare = not weights and bool(layout.leaves(*PARAMETERS))
    flags = {"weights": weights, "selftest": recorded, "untested": not recorded}
    flags |= {"bare": bare, "full": not bare, "noise": bare and recorded}
    flags |= {"prefill": options.prefill > 0}
    flags |= {"host": options.state == "host", "region": options.state == "region"}
    operators = dict.fromkeys(name for statement in written for name in statement.operators)
    known = layout.found
    unknown = [name for name in operators if support(name) == "unknown" and not known.verified(name, options.dtype)]
    return Template(_kept(text("README.md.in"), flags)).substitute(
        program=_literal(layout.file),
        provenance=PROVENANCE,
        mark=TEMPLATE_MARK.lstrip("# "),
        dtype=options.dtype,
        steps="one step" if options.selftest == 1 else f"{options.selftest} steps",
        last=4 + recorded + (options.prefill > 0),
        chunked=4 + recorded,
        chunk="one token" if options.prefill == 1 else f"{options.prefill} tokens",
        unknown=", ".join(f"`{name}`" for name in unknown) or "none",
        inputs=given_inputs(layout),
        prompt=given_inputs(layout, "IDS"),
    )


def _kept(template: str, flags: dict[str, bool]) -> str:
    """The lines whose flags are all set, each `[flag] ` taken off, and those without one."""
    lines = ((line, _FLAGS.match(line)) for line in template.splitlines(keepends=True))
    return "".join(
        line[found.end() :] for line, found in lines if found and all(flags[flag] for flag in _FLAG.findall(found[0]))
    )


def _literal(name: str) -> str:
    """A file's name as Markdown's code: what would end the code is left out."""
    return f"`{name.replace('`', '')}`"
