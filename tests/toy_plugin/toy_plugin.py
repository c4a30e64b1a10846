"""A small plugin for the tests of builds: a target with every kind of step, and a family whose weights begin with W."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from logos import (
    API,
    Artifact,
    AuthorOptions,
    Checkpoint,
    Edge,
    Graph,
    Header,
    Inputs,
    Job,
    Refusal,
    Role,
    Rule,
    Spot,
    Steps,
    TensorView,
    View,
    WeightEntry,
    WeightFile,
    hookimpl,
    refuse,
)

SPELLED = ("matmul", "plus", "silu", "rmsnorm", "rope", "embedding", "set row", "attention", "swiglu", "argmax")


@dataclass(frozen=True)
class ToyOptions:
    """`tool` is the step that follows emission; `path` is written beside the program's text."""

    style: Literal["plain", "fancy"] = "plain"
    weights: Literal["none", "safetensors", "raw"] = "none"
    tool: Literal["none", "copy", "fail", "slow", "say", "starve"] = "none"
    path: str = "notes/counts.txt"
    words: tuple[str, ...] = ()
    loud: bool = False


@dataclass(frozen=True)
class ToyTarget:
    name: str = "toy"
    api: int = API
    spells: frozenset[str] = frozenset(SPELLED)
    fuses: tuple[str, ...] = ("glue",)
    stores: tuple[str, ...] = ("float32",)
    options: type[Any] = ToyOptions

    def refusals(self, job: Job) -> Iterable[Refusal]:
        if "refuse" in job.options.words:
            yield Refusal("toy-refusal", "the toy does not like this", Spot("toy"), "leave the word out")

    def emit(self, job: Job) -> Sequence[Artifact]:
        options = job.options
        if "crash" in options.words and "NINJA_STATUS" in os.environ:
            raise RuntimeError("the toy broke")
        lines = [f"{node.line}: {node.op.name}" for node in job.graph.nodes]
        said = [options.style, str(options.loud), *options.words, *(f"held {step}" for step in job.hold)]
        text = "\n".join([*lines, *said, ""])
        return Artifact("program.txt", text), Artifact(options.path, f"{len(lines)}\n")

    def steps(self, job: Job) -> Steps:
        options = job.options
        held = [bound for bound in job.binding.leaves if bound.role in (Role.WEIGHT, Role.CONSTANT)]
        entries = tuple(WeightEntry(bound.name, "F32" if bound.leaf.value.real else "I64") for bound in held)
        path = "raw" if options.weights == "raw" else "weights.safetensors"
        files = () if options.weights == "none" else (WeightFile(path, entries, options.weights),)
        copy = Rule("copy", "cp $in $out", "")
        fail = Rule("fail", "echo half > $out; echo 'toy tool: line 3: it broke' >&2; exit 7", "")
        slow = Rule("slow", "echo half > $out; sleep 60", "")
        say = Rule("say", f"echo {' '.join(options.words)} > $out", "")
        starve = Rule("starve", "kill -9 $$$$", "")
        edges = {
            "starve": (Edge("starve", ("no.txt",), ()),),
            "say": (Edge("say", ("said.txt",), ()),),
            "copy": (Edge("copy", ("copy.txt",), ("program.txt",)),),
            "fail": (Edge("fail", ("no.txt",), ()),),
            "slow": (Edge("slow", ("slow.txt",), ()),),
        }
        return Steps(files, (copy, fail, slow, say, starve), edges.get(options.tool, ()))

    def outputs(self, job: Job) -> tuple[str, ...]:
        return ()

    def dtypes(self, job: Job) -> tuple[str, ...]:
        return ("float32",)

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, Any]:
        raise refuse("toy-run", "the toy runs nothing", Spot("toy"), "run the program on the reference machine")


@dataclass(frozen=True)
class ToyFamily:
    name: str = "toy"

    def author(self, header: Header, options: AuthorOptions) -> str:
        raise refuse("toy-author", "the toy writes no program", Spot("toy"), "write one by hand")

    def view(self, variable: str, graph: Graph, checkpoint: Checkpoint | None) -> View | None:
        return TensorView(f"toy.{variable}") if variable.startswith("W") else None


@hookimpl
def logos_targets() -> Sequence[ToyTarget]:
    return [ToyTarget()]


@hookimpl
def logos_families() -> Sequence[ToyFamily]:
    return [ToyFamily()]
