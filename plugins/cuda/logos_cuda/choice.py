"""From a job's options to how its program is kept: weights in Q8_0, how they are multiplied, tables as float16."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from logos import Bound, Graph, Job, Leaf, Refusal, Refused, Role, Spot, TensorView, suggestion
from logos_cuda.gpu import find_gpu
from logos_cuda.options import NATIVE, Options
from logos_cuda.storage import (
    EXPERTS,
    Multiply,
    Storage,
    half_tables,
    is_transposed,
    keeps_q8,
    multiplied_by,
    name_of,
)
from logos_cuda.tiling import LEAST_ARCH, SEVERAL, Tiling
from logos_cuda.tuning_file import Tuning, number_of, read_tuning

AUTO, NONE = "auto", "none"
_Q8_BYTES, _FLOAT_BYTES = 34 / 32, 4


def storage_of(job: Job) -> Storage:
    """What the options ask for. Names that cannot be kept in Q8_0 are among them: lowering refuses those."""
    options = job.options
    q8 = frozenset(_chosen(job))
    multiply = Multiply.EXACT if options.multiply == "exact" else Multiply.DP4A
    half = options.kv == "f16" or (options.kv == AUTO and bool(q8) and multiply is Multiply.DP4A)
    return Storage(q8, multiply, options.experts == "single-pass", half, _tiling(options))


def _tiling(options: Options) -> Tiling | None:
    """What goes to the tensor cores: nothing by a way that is not theirs, or for devices that have none for bytes."""
    asked = options.multiply == "mma"
    if options.multiply not in ("mma", AUTO) or (not asked and _without_mma(options)):
        return None
    tuning = Tuning() if options.tune is None else read_tuning(options.tune)
    tuned = tuning.of(_architectures(options))
    if options.kind == "gemm":
        return Tiling(1, tuned, asked=True)
    return Tiling(SEVERAL if asked else tuning.crossover, tuned, asked=asked)


def _architectures(options: Options) -> list[str]:
    """Those to build for, `native` being that of this machine's GPU where there is one; else building refuses it."""
    gpu = find_gpu() if NATIVE in options.arch else None
    return [gpu.arch if name == NATIVE and gpu is not None else name for name in options.arch]


def _without_mma(options: Options) -> list[str]:
    """The architectures among those to build for that lack the instructions."""
    return [name for name in _architectures(options) if 0 < number_of(name) < LEAST_ARCH]


def _chosen(job: Job) -> Iterator[str]:
    asked = tuple(job.options.q8)
    if asked == (AUTO,):
        stored = {bound.name for bound in job.binding.leaves if _stored_q8(job.graph, bound)}
        yield from stored - _without_partner(job.graph, stored)
    if asked in ((AUTO,), (NONE,)):
        return
    for leaf in job.graph.leaves:
        named = leaf.name in asked
        matched = any(fnmatchcase(leaf.name, pattern) for pattern in asked if "*" in pattern)
        if named or (matched and _may_be_rounded(job, leaf)):
            yield leaf.name


def _may_be_rounded(job: Job, leaf: Leaf) -> bool:
    """Whether a pattern is meant to find a leaf: not a table that is computed to the last digit, such as rope's."""
    return job.binding[leaf.name].role is not Role.TABLE and keeps_q8(job.graph, leaf) is None


def _stored_q8(graph: Graph, bound: Bound) -> bool:
    """Whether the checkpoint has a leaf in Q8_0, its rows as the kernels read them."""
    if bound.tensor is None or bound.file is not None or not isinstance(bound.view, TensorView):
        return False
    if bound.tensor.storage != "Q8_0" or keeps_q8(graph, bound.leaf) is not None:
        return False
    return bound.view.transposed == is_transposed(graph, bound.leaf)


def _without_partner(graph: Graph, stored: set[str]) -> set[str]:
    """Gate and up rows of experts whose partner is stored otherwise: one kernel reads both."""
    pairs = [{name_of(node, hole) for hole in EXPERTS[:2]} for node in graph.nodes if node.op.name == "moe"]
    return {name for pair in pairs if not pair <= stored for name in pair & stored}


def choice_refusals(job: Job) -> Iterator[Refusal]:
    """Names of `q8` that the program has not (`unknown-variable`), a way to multiply that an architecture lacks
    (`no-multiply`)."""
    if job.options.multiply == "mma" and (old := _without_mma(job.options)):
        what = f"mma takes devices from sm_{LEAST_ARCH} on; arch names {', '.join(old)}"
        yield Refusal("no-multiply", what, Spot("multiply"), "leave out those architectures, or name dp4a")
    names = [leaf.name for leaf in job.graph.leaves]
    for name in job.options.q8:
        if name in (AUTO, NONE) and len(job.options.q8) == 1:
            continue
        if name not in names and not any(fnmatchcase(one, name) for one in names if "*" in name):
            what = f"q8 names {name}; the program has no such leaf{suggestion(name, names)}"
            next_ = "name weights of the program, with * for any letters, or auto or none"
            yield Refusal("unknown-variable", what, Spot("q8"), next_)


def tuning_refusals(job: Job) -> Iterator[Refusal]:
    """A tune.toml that is not sound (`bad-toml`, `bad-tune`): until it is, nothing is said of how products are made."""
    try:
        _tiling(job.options)
    except Refused as refused:
        yield from refused.refusals


def dtype_of(graph: Graph, storage: Storage) -> str:
    """The dtype that the artifact's values are held to."""
    if storage.multiply is Multiply.DP4A:
        ops = {op for name in storage.q8 for op in multiplied_by(graph, name)}
        if "matmul" in ops or ("moe" in ops and storage.single_pass):
            return "int8"
    return "float16" if storage.half and half_tables(graph) else "float32"


def choice_notes(job: Job) -> Iterator[str]:
    """The choices in words, and what could be kept in Q8_0 beside."""
    graph, storage = job.graph, storage_of(job)
    kept = [leaf for leaf in graph.leaves if leaf.name in storage.q8]
    if kept:
        size = sum(leaf.value.size for leaf in kept)
        passes = "" if storage.single_pass else ", experts in two passes"
        how = f"multiplied {_ways(storage)}{passes}"
        yield f"{_weights(len(kept))} in Q8_0, {_megabytes(size * _Q8_BYTES)}, {how} (-D q8, -D multiply, -D experts)"
        rounded = [bound for name in sorted(storage.q8) if not _stored_q8(graph, bound := job.binding[name])]
        if rounded:
            yield f"rounded to Q8_0, each value by up to 1/254 of its 32's largest: {_listed(rounded)}"
    yield from _untuned(job.options, storage.tiling)
    tables = half_tables(graph)
    if tables:
        yield f"the {len(tables)} tables of attention are {'float16' if storage.half else 'float32'} (-D kv)"
    floats = [leaf.name for leaf in graph.leaves if leaf.name not in storage.q8 and _may_be_rounded(job, leaf)]
    if floats:
        size = sum(job.binding[name].leaf.value.size for name in floats)
        asked = f"-D q8=NAME,… would make them {_megabytes(size * _Q8_BYTES)} and round those not stored so"
        listed = _listed([job.binding[name] for name in floats])
        yield f"{_weights(len(floats))} in float32, {_megabytes(size * _FLOAT_BYTES)}: {listed}; {asked}"


def launch_notes(job: Job) -> Iterator[str]:
    """What a step launches beside its stages."""
    if job.options.kind == "generate":
        yield "a step of kind generate ends with one launch more, which makes of its output what the next one reads"


def _untuned(options: Options, tiling: Tiling | None) -> Iterator[str]:
    """That a tuning is of other architectures than those to build for."""
    if options.tune is None or tiling is None or tiling.tuned:
        return
    if has := sorted({one.arch for one in read_tuning(options.tune).shapes}, key=number_of):
        due = ", ".join(_architectures(options))
        yield f"{options.tune.name} has tiles for {', '.join(has)} and none for {due}: they are as without it (-D arch)"


def _ways(storage: Storage) -> str:
    if storage.tiling is None:
        return storage.multiply.value
    least = storage.tiling.crossover
    return "mma" if least == 1 else f"{storage.multiply.value}, {least} rows and more at once by mma"


def _weights(count: int) -> str:
    return "1 weight" if count == 1 else f"{count} weights"


def _megabytes(count: float) -> str:
    return f"{count / 1e6:,.1f} MB"


def _listed(bounds: Sequence[Bound], most: int = 4) -> str:
    """The first names with how the checkpoint stores them, and how many more there are."""
    words = [f"{one.name} ({one.tensor.storage})" if one.tensor is not None else one.name for one in bounds[:most]]
    more = [f"{len(bounds) - most} more"] if len(bounds) > most else []
    return ", ".join([*words, *more])
