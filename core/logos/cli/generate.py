"""`logos generate`: text in, text out."""

from __future__ import annotations

import json
import re
import sys
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from logos.cli.common import json_option, open_manager, program_options, saying, target_options, verbose_option
from logos.cli.prefill import prefill_of, prefill_option
from logos.cli.progress import Update, progress
from logos.refusal import Refused, refuse
from logos.source import Spot

if TYPE_CHECKING:
    from logos.graph import Graph
    from logos.hookspecs import GeneratingTarget, Job
    from logos.job import Request
    from logos.manager import Manager
    from logos.weights.checkpoint import Text

_BUILT_FOR = 256
"""Positions by whose multiples an engine's context grows."""

_ACTED_ON = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal would act on, but for tabs and line ends: a checkpoint's text may not."""


@click.command()
@click.argument("source", metavar="CHECKPOINT or PROGRAM", type=click.Path(path_type=Path))
@click.option("--prompt", required=True, metavar="TEXT", help="The text to go on from; - reads standard input.")
@click.option("-n", "count", type=click.IntRange(min=1), default=128, show_default=True, help="At most so many tokens.")
@click.option("--chat", is_flag=True, help="Take the prompt as a user's message in the checkpoint's chat template.")
@click.option(
    "--context",
    type=click.IntRange(1, 2**31 - 1),
    metavar="N",
    help="Positions to leave room for, given a CHECKPOINT [what is needed, at most the model's and 2048].",
)
@program_options
@click.option(
    "--engine", metavar="NAME",
    help="What runs it: reference, or an installed target that generates [cpu where it can be built, else reference].",
)
@target_options
@prefill_option
@json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@verbose_option
def command(
    source: Path,
    prompt: str,
    count: int,
    chat: bool,
    context: int | None,
    checkpoint: Path | None,
    weights: Path | None,
    family: str | None,
    engine: str | None,
    options: dict[str, str],
    prefill: int | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Go on from a text, token by token, always by the likeliest.

    A CHECKPOINT is run as its family writes it; a PROGRAM takes its vocabulary (and, without --weights, its weights)
    from --checkpoint. Ends at a token that ends a turn, after -n tokens, or when the context is full.
    """
    if options and engine == "reference":
        raise click.UsageError("-D sets an option of the target that --engine names; the reference machine has none")
    if prefill is not None and engine not in (None, "reference"):
        raise click.UsageError("--prefill is the reference machine's; a target has options of its own")
    if options and engine is None:
        raise click.UsageError("-D sets an option of a target; name it with --engine")
    from logos.job import Request, load_graph, open_checkpoint

    manager = open_manager(verbose)
    engine, chosen, why = (engine, False, "") if engine is not None else _standing(manager, prefill)
    authored = _is_checkpoint(manager, source)
    if authored and checkpoint is not None:
        raise click.UsageError(f"{source} is a checkpoint itself; leave --checkpoint out")
    if not source.exists():
        raise refuse("missing-file", "there is no such file", Spot(str(source)), "correct the path")
    if not authored and checkpoint is None:
        formats = ", ".join(sorted(manager.formats)) or "none"
        what = f"{source} is no checkpoint of an installed format ({formats}), and a PROGRAM takes its vocabulary"
        raise click.UsageError(f"{what} from --checkpoint FILE")
    if not authored and context is not None:
        raise click.UsageError("a PROGRAM has its own context; --context goes with a CHECKPOINT")
    opened = open_checkpoint(manager, checkpoint or source)
    text = opened.text()
    given = _read_prompt(prompt)
    ids = text.chat([{"role": "user", "content": given}]) if chat else text.encode(given)
    opened.close()
    if not ids:
        what = "the prompt has no tokens, and this checkpoint's text begins with none"
        raise refuse("empty-prompt", what, Spot("--prompt"), "give a text")
    request = Request(source, checkpoint or source, weights, family, options=options)
    if authored:
        needed = len(ids) + count - 1
        # An engine builds for a context: prompts of about one length share a build.
        needed = needed if engine == "reference" else -(-needed // _BUILT_FOR) * _BUILT_FOR
        request = _authored(manager, request, context, needed)
    answer = _Answer(text, shown=not as_json)
    count = _room(load_graph(manager, request), ids, count, answer)
    job = None
    if engine != "reference":
        try:
            job = _engine_job(manager, request, engine)
        except Refused as refused:
            if not chosen:
                raise
            why = refused.refusals[0].what
    if job is None:
        if why:
            saying(quiet)(f"{why}: the reference machine goes on instead, slowly")
        _run(manager, request, ids, count, answer, prefill, quiet)
        answer.finish()
    else:
        _run_engine(job, ids, count, answer, quiet)
    if as_json:
        click.echo(json.dumps({"prompt": list(ids), **answer.record()}))
    elif answer.end == "context" and not quiet:
        click.echo(f"the context is full: {len(ids)} tokens of prompt and {len(answer.ids)} more", err=True)


def _is_checkpoint(manager: Manager, path: Path) -> bool:
    return (path.is_file() or path.is_dir()) and manager.format_of(path) is not None


def _read_prompt(prompt: str) -> str:
    """The prompt's text. Refused: bytes that are not UTF-8 (`not-utf-8`)."""
    try:
        if prompt == "-":
            return sys.stdin.buffer.read().decode()
        # What the shell handed over and Python could not decode came as lone surrogates.
        return prompt.encode().decode()
    except UnicodeError:
        raise refuse("not-utf-8", "the prompt is not UTF-8", Spot("--prompt"), "give the text as UTF-8") from None


def _authored(manager: Manager, request: Request, context: int | None, needed: int) -> Request:
    """The request with its program as the checkpoint's family writes it; without `context` it has the room that is
    needed, at most the family's default."""
    from dataclasses import replace

    from logos.author import Author, author_program
    from logos.job import load_graph
    from logos.source import Source

    def written(positions: int | None) -> Request:
        text = author_program(manager, Author(request.program, positions), request.family)
        return replace(request, source=Source(f"the program of {request.program}", text))

    whole = written(context)
    if context is None and needed < (_positions(load_graph(manager, whole)) or 0):
        return written(needed)
    return whole


def _positions(graph: Graph) -> int | None:
    """How many steps find a row in every table that `pos` counts; None where it counts none."""
    rows = [node.sizes[node.op.indexes[hole]] for node, hole in graph.readers("pos") if hole in node.op.indexes]
    return min(rows, default=None)


@dataclass
class _Answer:
    """What is generated, printed piece by piece as it comes. `end` is why it ended: at a token, at the count, or at the
    context's end."""

    text: Text
    shown: bool
    ids: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    end: Literal["token", "count", "context"] = "count"
    stop: int | None = None

    def __post_init__(self) -> None:
        self._stream = self.text.stream()

    def take(self, number: int) -> bool:
        """Adds an id; False for one that ends the text."""
        if number in self.text.stop:
            self.end, self.stop = "token", number
            return False
        self.ids.append(number)
        self._print(self._stream.feed(number))
        return True

    def finish(self) -> None:
        """Prints what still waits and, for a person, ends the line."""
        self._print(self._stream.finish())
        if self.shown and sys.stdout.isatty():
            click.echo()

    def record(self) -> dict[str, object]:
        """For --json; `generated` is without the id that ended the text."""
        return {"generated": self.ids, "text": "".join(self.pieces), "end": self.end, "stop": self.stop}

    def _print(self, piece: str) -> None:
        self.pieces.append(piece)
        if self.shown and piece:
            click.echo(_ACTED_ON.sub("?", piece) if sys.stdout.isatty() else piece, nl=False)
            sys.stdout.flush()


def _room(graph: Graph, ids: tuple[int, ...], count: int, answer: _Answer) -> int:
    """How many of `count` tokens the context has room for. Refused: a prompt longer than it (`prompt-too-long`)."""
    positions = _positions(graph)
    if positions is None:
        return count
    if len(ids) > positions:
        what = f"the prompt is {len(ids)} tokens long; the program has room for {positions}"
        raise refuse("prompt-too-long", what, Spot("--prompt"), "shorten it, or give --context N for a checkpoint")
    room = positions - len(ids) + 1
    if count > room:
        answer.end = "context"
    return min(count, room)


def _standing(manager: Manager, prefill: int | None) -> tuple[str, bool, str]:
    """The engine where none was named; whether it was chosen so; and what kept a target from it. --prefill is the
    reference machine's."""
    from logos.engine import standing_engine

    if prefill is not None:
        return "reference", False, ""
    engine, why = standing_engine(manager)
    return engine, True, why


def _engine_job(manager: Manager, request: Request, engine: str) -> tuple[GeneratingTarget, Job]:
    """The target that an engine is, and its job. Refused: what either cannot do."""
    from dataclasses import replace

    from logos.engine import generating_target
    from logos.job import bind_request, load_graph, make_job
    from logos.reference import check_generates, fed_by_tokens
    from logos.values import check_values

    target = generating_target(manager, engine)
    for name, value in target.generates.items():
        if request.options.get(name, value) != value:
            raise click.UsageError(f"{engine} generates with {name}={value}; leave -D {name} out")
    graph = load_graph(manager, request)
    check_generates(graph)
    binding = bind_request(manager, graph, request)
    check_values(binding, fed_by_tokens(graph))
    request = replace(request, options={**request.options, **target.generates})
    return target, make_job(manager, request, engine, binding)[1]


def _run_engine(
    made: tuple[GeneratingTarget, Job], ids: tuple[int, ...], count: int, answer: _Answer, quiet: bool
) -> None:
    """The same by a target. What it says once the answer has begun is shown below it."""
    from logos.engine import generate_ids

    target, job = made
    later: list[str] = []
    say = saying(quiet)

    def watch(path: str) -> AbstractContextManager[Update]:
        return progress(path, quiet, in_bytes=True)

    def said(text: str) -> None:
        if answer.ids or answer.stop is not None:
            later.append(text)
        else:
            say(text)

    for number in generate_ids(target, job, ids, count, answer.text.stop, watch, said):
        answer.take(number)
    answer.finish()
    for text in later:
        say(text)


def _run(
    manager: Manager,
    request: Request,
    ids: tuple[int, ...],
    count: int,
    answer: _Answer,
    prefill: int | None,
    quiet: bool,
) -> None:
    """Runs the program on the prompt's ids and then on its own."""
    from logos.job import bind_request, load_graph
    from logos.reference import Machine, fed_by_tokens, run_steps
    from logos.values import run_values

    graph = load_graph(manager, request)
    fed = fed_by_tokens(graph)
    values = run_values(bind_request(manager, graph, request), {}, None, fed)
    taken = prefill_of(graph, ids, prefill, (), (), quiet)
    with ExitStack() as stack:
        update = stack.enter_context(progress("prompt", quiet))

        def goes_on(number: int) -> bool:
            # The prompt's progress has left the terminal before the answer comes to it.
            stack.close()
            return answer.take(number)

        def advance(done: int, total: int) -> None:
            if done <= len(ids):
                update(done, len(ids))

        run_steps(Machine(graph, values), (), ids, count, progress=advance, goes_on=goes_on, prefill=taken)
