"""Programs of kind generate, of cuda on the host and of cpu: captured and plain, prompt after prompt, their checks and
their words."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from logos import Machine, Refused, Request, Source, make_job, make_manager, run_steps
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS
from logos_cpu.building import executable
from logos_cpu.options import Options
from logos_cuda import Qwen30b, emit_generate, emit_qwen30b_generate
from logos_cuda.host_build import compile_host

DECODE = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 5 by 4 tensor of Real.
Let W be a 4 by 5 tensor of Real.
Let w be a 2 by 4 tensor of Real.
Let K be a 12 by 4 tensor of Real.
Let V be a 12 by 4 tensor of Real.
Let ring be a 2 by 4 tensor of Real.
Set item 2 of ring to 0.5.
Let x be row tok of emb.
Set row pos of K to x.
Let c be causal conv of x with weight w state ring over 2 taps.
Set row pos of V to c.
Let a be attention of x over K and V with 1 heads 1 groups up to pos.
Let h be x plus a.
Let logits be h matmul W.
Let next be argmax of logits.
"""


def built(text: str, folder: Path, steps: int = 1, change: tuple[str, str] = ("", "")) -> Path:
    """The program as `generate` beside its source and its weights; `change` is made in its text."""
    source = folder / "generate.cu"
    made = emit_generate(read_program(Source("p.lg", text), make_grammar(OPS)), steps=steps)
    assert change[0] in made
    source.write_text(made.replace(*change, 1) if change[0] else made, encoding="utf-8")
    compile_host(source, folder / "generate", flags=["-O1"])
    return weighted(folder)


def built_by_cpu(folder: Path, steps: int = 1) -> Path:
    """The same of the cpu target."""
    request = Request(Path("p.lg"), source=Source("p.lg", DECODE), options={"kind": "generate", "prefill": steps})
    target, job = make_job(make_manager(), request, "cpu")
    (artifact,) = target.emit(job)
    source = folder / artifact.path
    source.write_text(artifact.text, encoding="utf-8")
    # A copy: the folder of weights is the one beside the file that is run.
    shutil.copy(executable(source, Options()), folder / "generate")
    return weighted(folder)


def weighted(folder: Path) -> Path:
    """The program of a folder, with its weights there."""
    (folder / "weights").mkdir()
    for name, value in VALUES.items():
        (value.T if name == "W" else value).astype("<f4").tofile(folder / f"weights/{name}.f32")
    return folder / "generate"


RANDOM = np.random.default_rng(7)
VALUES = {name: RANDOM.standard_normal(shape).astype(np.float32).astype(float)
          for name, shape in {"emb": (5, 4), "W": (4, 5), "w": (2, 4)}.items()}  # fmt: skip


def due(tokens: list[int], count: int) -> list[int]:
    """The ids of the reference machine."""
    graph = read_program(Source("p.lg", DECODE), make_grammar(OPS))
    return run_steps(Machine(graph, VALUES), (), tokens, count).generated


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(DECODE, tmp_path_factory.mktemp("generate"))


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGOS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def by_cpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_by_cpu(tmp_path_factory.mktemp("cpu"))


@pytest.fixture(scope="module", params=["program", "by_cpu"])
def either(request: pytest.FixtureRequest) -> Path:
    """The program of one target and then of the other: they say the same."""
    return Path(request.getfixturevalue(request.param))


def ways(program: Path) -> Sequence[list[str]]:
    """Arguments that change how a program runs and not what it says."""
    return ([], ["--no-graph"]) if program.with_name("generate.cu").exists() else (["-t", "1"], ["-t", "3"])


def run(program: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    ran = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stderr
    return ran.stdout, ran.stderr


def ids(program: Path, *arguments: str) -> list[list[int]]:
    return [list(map(int, line.split())) for line in run(program, *arguments)[0].splitlines()]


def test_in_every_way_it_says_what_the_reference_machine_says(either: Path) -> None:
    expected = due([1, 4, 2], 10)
    for more in ways(either):
        assert ids(either, "--prompt-ids", "1,4,2", "-n", "10", *more) == [expected]
    assert ids(either, "--tokens", "1,4,2", "--generate", "10") == [expected]
    assert len(set(expected)) > 1


def test_a_second_prompt_starts_from_the_start(either: Path) -> None:
    prompts = ([1, 4, 2], [3], [0, 0, 1, 2, 3], [3])
    given = [word for prompt in prompts for word in ("--prompt-ids", ",".join(map(str, prompt)))]
    for more in ways(either):
        assert ids(either, *given, "-n", "7", *more) == [due(prompt, 7) for prompt in prompts]


def test_a_stop_ends_it_and_is_printed(either: Path, tmp_path: Path) -> None:
    expected = due([1, 4, 2], 10)
    stop = expected[4]
    said = expected[: expected.index(stop) + 1]
    assert ids(either, "--prompt-ids", "1,4,2", "-n", "10", "--stop", f"{stop},99") == [said]
    (tmp_path / "ids").write_text("1,4\r\n\n2\n")
    assert run(either, "--prompt-ids", f"@{tmp_path}/ids", "-n", "3", "--lines")[0].split() == [
        str(one) for one in expected[:3]
    ]
    out, err = run(either, "--prompt-ids", "1,4,2", "-n", "10", "--stop", str(stop), "--json")
    record = json.loads(out)
    assert (record["prompt"], record["generated"], record["end"]) == (3, said, "stop")
    assert record["tokens_per_second"] is None or record["tokens_per_second"] > 0
    assert err.startswith("prompt: 3 tokens in ")


def test_a_full_context_is_refused_where_the_next_step_would_be(either: Path) -> None:
    out, err = run(either, "--prompt-ids", "1,4,2", "-n", "11", code=1)
    assert list(map(int, out.split())) == due([1, 4, 2], 10)
    assert err.split("\n", 1)[1] == (
        "p.lg:11:1: pos is 12, outside the rows 0 to 11 of K [row-outside-table]\n"
        "    Set row pos of K to x.\n"
        "    ^^^^^^^^^^^^^^^^^^^^^\n"
        "  next: give pos a row that K has\n"
    )
    said = run(either, "--prompt-ids", ",".join("1" * 13), "-n", "1", "--json", code=1)
    assert said[0] == ""
    assert "pos is 12, outside the rows 0 to 11 of K" in said[1]
    out = run(either, "--prompt-ids", "1,4,2", "-n", "11", "--json", code=1)[0]
    assert json.loads(out)["end"] == "context"


def test_a_token_outside_the_table_is_refused_before_the_step(either: Path) -> None:
    out, err = run(either, "--prompt-ids", "1,5", code=1)
    assert out == ""
    assert err.startswith("p.lg:10:1: tok is 5, outside the rows 0 to 4 of emb [row-outside-table]\n")


def test_what_the_device_finds_is_told_after_the_step(either: Path, tmp_path: Path) -> None:
    start = next(one for one in range(5) if due([one], 1) != [one])
    emb = VALUES["emb"].copy()
    emb[due([start], 1)[0]] = np.nan
    emb.astype("<f4").tofile(tmp_path / "emb.f32")
    given = ["--set", f"emb={tmp_path}/emb.f32", "--prompt-ids", str(start), "-n", "5"]
    for more in ways(either):
        out, err = run(either, *given, *more, code=1)
        assert list(map(int, out.split())) == due([start], 1)
        assert err.split("\n")[1] == (
            "p.lg:17:1: argmax: the operand holds a NaN, so it has no largest element [no-value]"
        )
    assert json.loads(run(either, *given, "--json", code=1)[0])["end"] == "fault"


@pytest.fixture(scope="module", params=["cuda", "cpu"])
def chunked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chunked")
    return built(DECODE, folder, steps=3) if request.param == "cuda" else built_by_cpu(folder, steps=3)


def test_prompts_go_many_steps_at_once_and_what_is_left_one_by_one(chunked: Path) -> None:
    prompts = [[1, 4, 2, 0, 3, 3, 1, 2][:length] for length in range(1, 9)]
    given = [word for prompt in prompts for word in ("--prompt-ids", ",".join(map(str, prompt)))]
    assert ids(chunked, *given, "-n", "5") == [due(prompt, 5) for prompt in prompts]
    assert ids(chunked, "--prompt-ids", "1,4,2", "--stop", "0,1,2,3,4") == [due([1, 4, 2], 1)]
    if (source := chunked.with_name("generate.cu")).exists():
        assert source.read_text().count("set_row_steps_kernel, dim3") == 2


def test_a_fault_within_a_chunk_is_told_at_its_own_step(chunked: Path, program: Path, tmp_path: Path) -> None:
    emb = VALUES["emb"].copy()
    emb[3] = np.nan
    emb.astype("<f4").tofile(tmp_path / "emb.f32")
    given = ["--set", f"emb={tmp_path}/emb.f32", "--prompt-ids", "1,3,2,1", "-n", "2"]
    said = [run(one, *given, code=1)[1].split("\n", 1) for one in (chunked, program)]
    assert said[0] == said[1]
    assert "argmax: the operand holds a NaN" in said[0][0]
    assert run(chunked, "--prompt-ids", "1,2,5", code=1) == run(program, "--prompt-ids", "1,2,5", code=1)
    long = ",".join("1" * 13)
    assert run(chunked, "--prompt-ids", long, code=1) == run(program, "--prompt-ids", long, code=1)


def test_a_program_without_many_steps_at_once_goes_token_by_token_and_says_so(tmp_path: Path) -> None:
    text = DECODE.replace("Set row pos of K", "Set row tok of K")
    program = built(text, tmp_path, steps=3)
    said = run(program, "--prompt-ids", "1,4,2", "-n", "2")[1].splitlines()[0]
    assert said.startswith("the prompt goes token by token: ")


def test_a_row_that_a_state_counts_is_held_to_its_table_at_every_step(tmp_path: Path) -> None:
    counted = "Let n be a 1 by 1 tensor of Int.\nLet one be a 1 by 1 tensor of Int.\nSet item 1 of one to 1.\n"
    text = counted + DECODE.replace("row pos of", "row n of").replace(" up to pos", "").replace(
        "Let logits", "Let m be n plus one.\nSet row 0 of n to m.\nLet logits"
    )
    out, err = run(built(text, tmp_path), "--prompt-ids", "1,4,2", "-n", "11", code=1)
    assert len(out.split()) == 10
    assert "p.lg:14:1: n is 12, outside the rows 0 to 11 of K [row-outside-table]\n" in err


@pytest.mark.parametrize("call", ["cudaMalloc(&memory[0], 64)", "cudaStreamSynchronize(stream)"])
def test_a_step_that_cannot_be_captured_is_launched_as_it_is(tmp_path: Path, call: str) -> None:
    kept = "void *const kept = memory[0];" if "Malloc" in call else ""
    back = "memory[0] = kept;" if kept else ""
    refused = f"void stage_0() {{\n    if (capturing) {{ {kept} CHECK({call}); {back} }}"
    program = built(DECODE, tmp_path, change=("void stage_0() {", refused))
    prompts = ("--prompt-ids", "1,4,2", "--prompt-ids", "3", "-n", "6")
    out, err = run(program, *prompts)
    assert [list(map(int, line.split())) for line in out.splitlines()] == [due([1, 4, 2], 6), due([3], 6)]
    assert err.splitlines()[0] == (
        "no graph of the step (operation failed due to a previous error during capture): its kernels are launched one "
        "by one"
    )


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--prompt-ids", ""], "--prompt-ids: the prompt has no ids"),
        (["--prompt-ids", "1,x"], "--prompt-ids: x is no whole number"),
        (["--prompt-ids", "1", "-n", "0"], "-n: at least one id is made"),
        (["--prompt-ids", "1", "-n", "2147483648"], "-n: 2147483648 is more than 2147483647"),
        (["--tokens", "1", "--generate", str(2**63 - 1)], f"--generate: {2**63 - 1} is more than 2147483647"),
        (["--prompt-ids", "1", "--set", "pos=f"], "--set: --tokens feeds pos at every step"),
        (["--stop", "1"], "--stop goes with --prompt-ids"),
        (["--tokens", "1", "-n", "3"], "-n goes with --prompt-ids"),
        (["--prompt-ids", "1", "--get", "x"], "--get does not go with --prompt-ids, which prints the ids alone"),
        (["--prompt-ids", "1", "--dump", "/no/d"], "--dump does not go with --prompt-ids, which prints the ids alone"),
        (["--tokens", "1", "--prompt-ids", "1"], "--tokens does not go with --prompt-ids, which prints the ids alone"),
        (["--prompt-ids", "1", "--tokens", "1"], "--tokens does not go with --prompt-ids, which prints the ids alone"),
        (["--prompt-ids", "1", "--generate", "2"],
         "--generate does not go with --prompt-ids, which prints the ids alone"),
        (["--graph"], "--graph: no such option, or its value is missing; --help lists them"),
    ],
)
def test_what_is_not_understood_is_a_matter_of_usage(either: Path, arguments: list[str], what: str) -> None:
    assert run(either, *arguments, code=2) == ("", f"{what}\n")


def test_a_prompt_that_cannot_be_read(either: Path, tmp_path: Path) -> None:
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "ids", "No such file or directory")):
        assert run(either, "--prompt-ids", f"@{path}", code=1) == ("", f"cannot read {path}: {why}\n")


def test_no_device_and_too_little_memory_are_one_message(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGOS_HOST_DEVICES", "0")
    assert run(program, "--prompt-ids", "1", code=3) == ("", (
        "there is no GPU here that the CUDA runtime can use: no CUDA-capable device is detected\n"
        "  next: run it where there are an NVIDIA GPU and its driver; without one, `logos run` and `logos generate` "
        "take `--engine cuda -D device=host`\n"
    ))  # fmt: skip
    monkeypatch.delenv("LOGOS_HOST_DEVICES")
    said, room = [], 0
    while (ran := cramped(program, room)).returncode:
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (3, "", 1)
        said.append(ran.stderr)
        room += 100
    assert [line for line in said if not line.endswith(": out of memory\n")] == []
    assert "no room for 8 bytes of b0_tok on the device: out of memory\n" in said
    assert len(set(said)) > 3
    assert list(map(int, ran.stdout.split())) == due([1], 1)


def cramped(program: Path, room: int) -> subprocess.CompletedProcess[str]:
    """The program on a device of so many bytes."""
    environment = {**os.environ, "LOGOS_HOST_MEMORY": str(room)}
    command = [program, "--prompt-ids", "1", "-n", "1"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_help_says_every_option(program: Path) -> None:
    said = run(program, "--help")[0]
    options = ("--prompt-ids", "-n N", "--stop", "--no-graph", "--lines", "--json", "--tokens")
    assert [option for option in options if f"  {option}" not in said] == []


def test_help_of_both_differs_in_what_the_targets_are(program: Path, by_cpu: Path) -> None:
    cuda, cpu = (run(one, "--help")[0].replace(str(one), "generate").splitlines() for one in (program, by_cpu))
    own = [line.split()[0] for line in cuda if line not in cpu], [line.split()[0] for line in cpu if line not in cuda]
    assert own == (["--weights", "--no-graph"], ["--weights", "-t", "--level", "--tell", "--lay"])


@pytest.mark.parametrize(
    ("lines", "options", "refusals"),
    [
        (DECODE.replace("Let next be argmax of logits.\n", ""), {}, [
            "p.lg:16:1: kind generate takes a decode step; this program has no argmax as its output, but logits "
            "[not-a-decode-step]"]),
        ("Let x be a 1 by 3 tensor of Real.\nLet y be argmax of x.\n", {}, [
            "p.lg: kind generate takes a decode step; this program has no input tok, 1 by 1 of Int "
            "[not-a-decode-step]"]),
        (DECODE, {"prefill": "0"}, ["-D prefill: prefill is 0; it is a number of steps [prefill-steps]"]),
    ],
)  # fmt: skip
def test_what_does_not_generate_is_refused(
    lines: str, options: dict[str, str], refusals: list[str], tmp_path: Path
) -> None:
    (tmp_path / "p.lg").write_text(lines)
    request = Request(tmp_path / "p.lg", name="p.lg", options={"kind": "generate", **options})
    with pytest.raises(Refused) as error:
        make_job(make_manager(), request, "cuda")
    assert [one.text().splitlines()[0] for one in error.value.refusals] == refusals


def test_a_30b_model_is_a_program_like_another() -> None:
    few, more = (emit_qwen30b_generate(Qwen30b(layers=layers, context=64)) for layers in (2, 3))
    kernels = [[line for line in text.splitlines() if line.startswith('extern "C" __global__')] for text in (few, more)]
    assert kernels[0] == kernels[1]
    assert 'const char *const ALONE = "";' in few
    assert "QUANTS" in few
    with pytest.raises(Refused, match="49 layers are asked for; the model has 48"):
        emit_qwen30b_generate(Qwen30b(layers=49))
