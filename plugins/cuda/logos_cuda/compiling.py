"""The steps of a build after emission: nvcc compiles the source and links the executable."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Sequence

from logos import Edge, Refusal, Refused, Rule, Spot, Steps, WeightFile
from logos_cuda.gpu import find_gpu
from logos_cuda.options import NATIVE, Options
from logos_cuda.toolkit import ENVIRONMENT, NVCC_ENVIRONMENT, Toolkit, find_toolkit, host_compiler_refusals, output

COMPILE = ("--objdir-as-tempdir", "-O3", "-Xcompiler=-ffp-contract=off", "-fmad=false", "-std=c++17")
"""The intermediate files' names are part of an object, so they are those of the object. Where a fused multiply-add is
meant the kernels say fmaf, and every other result is the same on every device and on the host."""

LINK = ("-nodlink",)
"""Whole programs need no linking of device code, which would leave the toolkit's folder in the executable."""


def compile_steps(
    options: Options, extractions: tuple[WeightFile, ...], says: Callable[[tuple[str, ...]], str] = output
) -> Steps:
    """Weight files, then the object and the executable. What this machine lacks, as its tools say (`says`), is among
    the steps' refusals."""
    if options.compile == "off":
        return Steps(extractions)
    try:
        toolkit = find_toolkit(says)
        flags = arch_flags(architectures(options.arch, toolkit))
        lacking = tuple(host_compiler_refusals(toolkit, options.ccbin))
    except Refused as refused:
        return Steps(extractions, environment=ENVIRONMENT, refusals=refused.refusals)
    host = host_flags(options.ccbin)
    kind = options.kind
    rules = (
        Rule("compile", _compile(toolkit, kind, sorted((*COMPILE, *flags, *host))), "", "compilers", "$out.d"),
        Rule("link", _link(toolkit, kind, sorted((*LINK, *flags, *host, *toolkit.library_flags))), "", "compilers"),
    )
    edges = (
        Edge("compile", (f"{kind}.o",), (f"{kind}.cu", *toolkit.files)),
        Edge("link", (kind,), (f"{kind}.o", *toolkit.files)),
    )
    return Steps(extractions, rules, edges, (toolkit.label,), ENVIRONMENT, lacking)


def host_flags(ccbin: str) -> tuple[str, ...]:
    """The host compiler as nvcc takes it: a path holds wherever nvcc runs."""
    if not ccbin:
        return ()
    return (f"-ccbin={os.path.abspath(ccbin) if os.sep in ccbin else ccbin}",)


def architectures(names: Sequence[str], toolkit: Toolkit) -> tuple[str, ...]:
    """The architectures in order, `native` as this machine's GPU's. Refused: ones that the toolkit does not build for
    (`unknown-arch`), `native` without a GPU (`no-gpu`)."""
    refusals: list[Refusal] = []
    found: dict[str, None] = {}
    for name in names:
        if name == NATIVE:
            gpu = find_gpu()
            if gpu is None:
                refusals.append(no_gpu("arch native asks this machine's GPU, and it has none"))
                continue
            name = gpu.arch
        found[name] = None
        if toolkit.architectures and name.rstrip("af") not in toolkit.architectures:
            known = ", ".join(sorted(toolkit.architectures, key=_number))
            what = f"nvcc {toolkit.version} does not build for {name}"
            refusals.append(Refusal("unknown-arch", what, Spot("arch"), f"it builds for {known}"))
    if refusals:
        raise Refused(refusals)
    return tuple(sorted(found, key=_number))


def no_gpu(what: str) -> Refusal:
    """A GPU was asked for, and the driver's library shows none."""
    return Refusal("no-gpu", what, Spot("gpu"), "use a machine with an NVIDIA GPU and its driver, or leave that out")


def _number(name: str) -> tuple[int, str]:
    found = re.search(r"\d+", name)
    return (int(found[0]) if found else 0), name


def arch_flags(names: Sequence[str]) -> tuple[str, ...]:
    """Machine code for each, and PTX of the newest that newer devices can compile (`sm_90a` is for that one alone)."""
    flags = [f"-gencode=arch={_virtual(name)},code={name}" for name in names]
    plain = [name for name in names if name[-1].isdigit()]
    if plain:
        newest = _virtual(max(plain, key=_number))
        flags.append(f"-gencode=arch={newest},code={newest}")
    return tuple(flags)


def _virtual(name: str) -> str:
    return name.replace("sm_", "compute_")


def _compile(toolkit: Toolkit, kind: str, flags: Sequence[str]) -> str:
    words = [os.fspath(toolkit.nvcc), "-c", f"../{kind}.cu", "-o", f"{kind}.o", *flags, "-MD", "-MF", f"{kind}.o.d"]
    # The source is an input of the edge; its relative name in the depfile would be another file's to ninja.
    depfile = f"sed '1s| \\.\\./{kind}\\.cu | |' {kind}.o.d > ../{kind}.o.d"
    return _apart(f"{kind}.o", [_with_version(toolkit, words), depfile, _kept(f"{kind}.o")])


def _link(toolkit: Toolkit, kind: str, flags: Sequence[str]) -> str:
    words = [os.fspath(toolkit.nvcc), f"../{kind}.o", "-o", kind, *flags]
    return _apart(kind, [_with_version(toolkit, words), _kept(kind)])


def _kept(output: str) -> str:
    """Moves an output to its place, but for one that came out as it was: what is made from it is not made again."""
    return f"{{ cmp -s {output} ../{output} || mv -f {output} ..; }}"


def _with_version(toolkit: Toolkit, words: Sequence[str]) -> str:
    """The command with the toolkit's version and what nvcc heeds of the environment in it: where one of them is
    another, the file is made again."""
    heeded = {name: os.environ[name] for name in NVCC_ENVIRONMENT if os.environ.get(name)}
    given = {"LOGOS_NVCC": toolkit.version, **heeded}
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in given.items()), shlex.join(words)])


def _apart(output: str, commands: Sequence[str]) -> str:
    """ninja text of commands that run in a folder of their own beside the output: relative names keep objects the same
    in every folder, and a build removes what killed commands left there."""
    work = f".{hashlib.sha256(output.encode()).hexdigest()[:16]}.nvcc.work"
    begin = ['cd "$$(dirname -- $out)"', f"mkdir -p {work}", f"cd {work}"]
    escaped = [command.replace("$", "$$") for command in commands]
    return " && ".join([*begin, *escaped, "cd ..", f"rm -rf {work}"])


