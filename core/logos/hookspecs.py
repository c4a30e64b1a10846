"""The plugin border: the four hooks, and the typed contracts of what they return.

A plugin is a module (or object) named by an entry point of the group `logos`, whose functions carry `hookimpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pluggy

from logos.graph import Graph
from logos.op import Op
from logos.refusal import Refusal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from logos.device_plan import DevicePlan
    from logos.weights.binding import Binding
    from logos.weights.checkpoint import Checkpoint, Header
    from logos.weights.views import View

API = 1
"""The version of these contracts, raised when one of them changes so that a plugin has to. A plugin may say which it is
for in its module, as `logos_api`; a target says it in `api`. One for another version is left out, by name."""

WEIGHT_DTYPES = {"safetensors": ("F64", "F32", "BF16", "I64"), "raw": ("F64", "F32", "I64", "Q8_0")}
"""The element types that each format of weight files takes."""

hookspec = pluggy.HookspecMarker("logos")
hookimpl = pluggy.HookimplMarker("logos")


@dataclass(frozen=True)
class Job:
    """One program for one target: what a target is asked about.

    options  an instance of the target's `options` dataclass, filled from logos.toml and `-D`
    hold     the fusion steps, of those that the target names in `fuses`, that are not to act (`--hold`)
    """

    graph: Graph
    binding: Binding
    options: Any
    hold: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Artifact:
    """A text file to write: a relative path with `/`, and its whole text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class WeightEntry:
    """One leaf in a weight file.

    `dtype` is F32, BF16, F64 or I64 (bfloat16 by round to nearest even), or Q8_0 (in raw files alone): int8 quants and
    one float32 scale for each 32 values of a row, split from what is stored as Q8_0, quantized from anything else.
    `transposed` stores the transpose of the program's shape: for a transposed view that is the checkpoint's own row
    order, so nothing moves. Q8_0's rows are rows as written here, so a matmul's weight is asked for transposed:
    quants (out, in), scales (out, in / 32).
    """

    variable: str
    dtype: str
    transposed: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its raw files: `W.f32`, `W.f64`, `W.i64`; `W.q` and `W.s` in Q8_0."""
        suffixes = ("q", "s") if self.dtype == "Q8_0" else (self.dtype.lower(),)
        return tuple(f"{self.variable}.{suffix}" for suffix in suffixes)


@dataclass(frozen=True, slots=True)
class WeightFile:
    """A weight file to extract; `format` is `safetensors`, or `raw`: files without headers, row-major and
    little-endian, `path` their folder. Raises ValueError for a dtype that the format does not take."""

    path: str
    entries: tuple[WeightEntry, ...]
    format: str = "safetensors"

    def __post_init__(self) -> None:
        taken = WEIGHT_DTYPES.get(self.format, ())
        wrong = [f"{entry.variable} in {entry.dtype}" for entry in self.entries if entry.dtype not in taken]
        if wrong or not taken:
            raise ValueError(f"a weight file of format {self.format} takes {', '.join(taken) or 'nothing'}: {wrong}")

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it is written as, relative to the artifact's folder."""
        if self.format == "safetensors":
            return (self.path,)
        return tuple(str(PurePosixPath(self.path, file)) for entry in self.entries for file in entry.files)


@dataclass(frozen=True, slots=True)
class Recording:
    """A run of the reference machine to record, in float64, for the artifact to be checked against: a safetensors file.

    `steps` steps are made on what has no value filled with noise. A program that takes tokens is fed `tok` with ids of
    its table and `pos` with the step's number, and its states start as they do; without, they start at noise. `outputs`
    are variables that the artifact returns, states left out. Raises ValueError for less than one step.

    Keys, names having no point: `input.x` (steps or 1, rows, columns); `state.S` and `weight.W` (rows, columns), where
    noise was filled in; `expected.y` (steps, rows, columns) for the outputs and the operand of an argmax among them;
    `rows.S` (changes, 2), the step and row of each row that a step changed in a state, and `written.S` (changes,
    columns), its new values; `stage.h` (rows, columns) for every other value of the first step, under the name that
    `--get` takes. The metadata `logos.recording` is JSON: `version`, `steps`, `compared` (variables), `bounds` (by
    dtype), `choices` (the operand of each argmax that is an output), `order` (variable, op and line in program order).
    """

    path: str
    steps: int
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"a recording makes at least one step, not {self.steps}")


@dataclass(frozen=True, slots=True)
class Rule:
    """A ninja rule that a target adds; `command` is ninja text, which may not rely on the folder it runs in.

    pool     `compilers`: as many at once as this machine's memory has room for
    depfile  ninja text, such as `$out.d`: the file in which the command leaves, as make reads them and by absolute
             paths, the inputs that only it knows. ninja keeps what it says and removes it
    """

    name: str
    command: str
    description: str
    pool: str | None = None
    depfile: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A ninja edge of a target's own rule; paths are relative to the artifact's folder, those of tools absolute."""

    rule: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Steps:
    """What follows emission: weight files to extract and recordings to make, then the target's own tools.

    tools        the tools of the edges as a build names them: `nvcc 13.0.88 (/usr/local/cuda/bin/nvcc, on PATH)`
    environment  the environment variables that decided them
    refusals     what keeps the edges from running on this machine; a build refuses it, while emission and extraction,
                 which run no tools, do not
    """

    extractions: tuple[WeightFile, ...] = ()
    rules: tuple[Rule, ...] = ()
    edges: tuple[Edge, ...] = ()
    tools: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    recordings: tuple[Recording, ...] = ()


def _unsaid(text: str) -> None:
    return


@dataclass(frozen=True)
class Inputs:
    """What an artifact is run on.

    artifact  the folder that the build wrote
    weights   the folder of weight files; holds a value for every weight, table and constant
    arrays    a value in the program's shape for every other input, and where states start, by variable
    tokens    token ids fed to `tok`, the step's number to `pos`; empty: one step
    taps      the variables to read, names of `graph.taps`; earlier versions (`x@1`) for a `VersionTarget` alone
    dtype     one of the target's `dtypes`
    checks    False: go on, where that can be, past a check within a step that would end the run (an argmax of NaN, a
              computed row outside its table), so that what led there can be read
    generate  how many ids to go on for after the tokens, each the output of the step before: T + generate − 1 steps
    say       takes what a person may want to know of the run, such as which device it is on
    """

    artifact: Path
    weights: Path
    arrays: Mapping[str, NDArray[np.generic]]
    tokens: Sequence[int]
    taps: Sequence[str]
    dtype: str
    checks: bool = True
    generate: int = 0
    say: Callable[[str], None] = _unsaid


@runtime_checkable
class Target(Protocol):
    """What emits programs for one machine."""

    @property
    def name(self) -> str: ...

    @property
    def api(self) -> int:
        """The contract's version it was written for."""
        ...

    @property
    def spells(self) -> frozenset[str]:
        """The names of the ops it spells."""
        ...

    @property
    def fuses(self) -> tuple[str, ...]:
        """The fusion steps it takes, by name."""
        ...

    @property
    def stores(self) -> tuple[str, ...]:
        """The weight storage it takes: float32, bfloat16, q8_0, …"""
        ...

    @property
    def options(self) -> type[Any]:
        """A frozen dataclass; its fields are the keys of `[target.NAME]` and `-D`. A field of type `Source | None`
        takes a file, relative to the logos.toml that names it: LOGOS reads it, and it is an input of the emission."""
        ...

    def refusals(self, job: Job) -> Iterable[Refusal]:
        """Everything that it cannot do with the job (unspelled ops excepted: the core says those). Writes nothing."""
        ...

    def emit(self, job: Job) -> Sequence[Artifact]:
        """The artifact's text files. Pure: no disk, no tools, no clock."""
        ...

    def steps(self, job: Job) -> Steps:
        """What the build does after emission."""
        ...

    def outputs(self, job: Job) -> tuple[str, ...]:
        """The variables that the artifact returns, states left out: `logos verify` compares their newest values, with
        the operand of an argmax among them and the states. Empty: the program's output."""
        ...

    def dtypes(self, job: Job) -> tuple[str, ...]:
        """The dtypes that `logos verify` runs the artifact in, each held to its own bound: float64, float32, bfloat16;
        float16 where tables are kept so, int8 where products quantize their operands to 8 bits. At least one."""
        ...

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, NDArray[np.generic]]:
        """Executes the built artifact on this host, in a process of its own: each tap over all steps,
        (steps, rows, columns). Refuses (`Refused`) where this host lacks what it takes."""
        ...


@runtime_checkable
class VersionTarget(Target, Protocol):
    """A target whose `run` also reads earlier versions of a name: taps such as `x@1` (see `Graph.taps`)."""

    @property
    def reads_versions(self) -> bool: ...


@runtime_checkable
class GeneratingTarget(Target, Protocol):
    """A target whose artifact goes on from a prompt by itself (`logos generate --engine NAME`)."""

    @property
    def generates(self) -> Mapping[str, object]:
        """The options of an artifact that does, such as `{"kind": "generate"}`; they stand above those given."""
        ...

    def generate(self, job: Job, inputs: Inputs, stop: Collection[int]) -> Iterator[int]:
        """Executes an artifact built with those options, as `run` does: the ids that follow `inputs.tokens`, each as it
        comes, `inputs.generate` at most, the last one an id of `stop` where there is one. Closing it ends the run."""
        ...


@runtime_checkable
class StandingTarget(GeneratingTarget, Protocol):
    """A generating target for any host: `logos generate` takes it where no engine is named."""

    def lacks(self) -> str:
        """What keeps this host from running its artifacts, in words; empty where nothing does. Builds nothing."""
        ...


@runtime_checkable
class QuantizingTarget(Target, Protocol):
    """A target that keeps weights in fewer bits than their sources do. `logos verify` then holds its artifact to the
    reference machine on the weights as they are kept, and says which of them were rounded."""

    def quantized(self, job: Job) -> tuple[WeightEntry, ...]:
        """The leaves that the artifact keeps in Q8_0, with how their rows lie."""
        ...


@runtime_checkable
class ProbingTarget(Target, Protocol):
    """A target that also writes probes: small programs that find out, on a machine that LOGOS does not run on, what its
    tools do with the target's spellings (`logos probe`)."""

    def probes(self, options: Any) -> Sequence[Artifact]:
        """The probes' text files; `options` is an instance of the target's `options`. Pure, as `emit` is."""
        ...


@dataclass(frozen=True, slots=True)
class TuneReport:
    """What a tuning found: the file's text, a table's heads and rows, and notes in words, such as that it was not
    timed."""

    text: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]
    notes: tuple[str, ...] = ()


@runtime_checkable
class TuningTarget(Target, Protocol):
    """A target that finds out what its kernels do best with on a machine (`logos tune`). An option of it names the file
    that its builds then read."""

    def tune(self, job: Job, say: Callable[[str], None]) -> TuneReport:
        """Tunes the kernels of a job that nothing is refused of; `say` takes lines on what it does meanwhile."""
        ...


@runtime_checkable
class PlanningTarget(Target, Protocol):
    """A target that says what runs on its device: `logos explain --target NAME` shows it."""

    def device_plan(self, job: Job) -> DevicePlan:
        """The stages that the artifact runs a step in, and its memory. Asked where nothing is refused. Pure."""
        ...


@runtime_checkable
class CheckpointFormat(Protocol):
    """A checkpoint container."""

    @property
    def name(self) -> str: ...

    def reads(self, path: Path) -> bool:
        """Whether the file is of this format, by its magic bytes."""
        ...

    def open(self, path: Path) -> Checkpoint:
        """The checkpoint; refuses a broken file."""
        ...


@runtime_checkable
class FolderFormat(CheckpointFormat, Protocol):
    """A format whose checkpoints may be folders: `reads` and `open` are asked about those too."""

    @property
    def reads_folders(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class AuthorOptions:
    """How to write a checkpoint's program.

    context    None is the smaller of the model's and 2048
    layers     None is all
    leave_out  write it even where it leaves tensors of its layers out: to be looked at, its numbers being wrong
    """

    context: int | None = None
    layers: int | None = None
    leave_out: bool = False


@runtime_checkable
class Family(Protocol):
    """A model family: writes programs from metadata and knows which variable takes which tensor."""

    @property
    def name(self) -> str:
        """As `general.architecture` says it."""
        ...

    def author(self, header: Header, options: AuthorOptions) -> str:
        """The decode step's program text. Refuses what the family cannot honour."""
        ...

    def view(self, variable: str, graph: Graph, checkpoint: Checkpoint | None) -> View | None:
        """What a leaf takes, or None where the family's naming does not cover it. Without a checkpoint, rows and
        values are unknown, and the view says only which tensor and whether it is transposed."""
        ...


@runtime_checkable
class PresetFamily(Family, Protocol):
    """A family that also knows published models, so that they can be authored without a checkpoint."""

    @property
    def presets(self) -> Mapping[str, Header]:
        """The models' headers, by the name that `--preset` takes."""
        ...


class Specs:
    """The hooks. Each returns a list; every installed plugin may implement any of them."""

    @hookspec
    def logos_targets(self) -> Sequence[Target]:
        """Targets that this plugin brings."""
        raise AssertionError("a hook specification is never called")

    @hookspec
    def logos_checkpoints(self) -> Sequence[CheckpointFormat]:
        """Checkpoint formats that this plugin reads."""
        raise AssertionError("a hook specification is never called")

    @hookspec
    def logos_families(self) -> Sequence[Family]:
        """Model families that this plugin writes programs for."""
        raise AssertionError("a hook specification is never called")

    @hookspec
    def logos_ops(self) -> Sequence[Op]:
        """Further ops of the language."""
        raise AssertionError("a hook specification is never called")
