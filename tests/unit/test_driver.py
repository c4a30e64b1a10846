"""The emitted programs' command line, the same for both targets: its files, its output, its checks and its messages."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from logos import Request, Source, make_job, make_manager
from logos_cpu.building import executable
from logos_cpu.options import Options
from logos_cuda.host_build import compile_host

DECODE = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 5 by 4 tensor of Real.
Let W be a 4 by 5 tensor of Real.
Let K be a 4 by 4 tensor of Real.
Set item 2 of K to 0.1.
Let shift be a 1 by 4 tensor of Real.
Set item 1 of shift to -2.5.
Let x be row tok of emb.
Let x be x plus shift.
Set row pos of K to x.
Let logits be x matmul W.
Let next be argmax of logits.
"""
SUMS = """\
Let a be a 1 by 3 tensor of Int.
Let b be a 3 by 1 tensor of Int.
Let T be a 6 by 2 tensor of Int.
Let n be a matmul b.
Let row be row n of T.
"""
CHUNKED = "Let x be a 1 by 9000001 tensor of Real.\nLet y be x plus x.\n"


def built(target: str, text: str, folder: Path, name: str = "p.lg", **options: object) -> Path:
    """A target's program in a folder of its own, as `forward` beside its source."""
    request = Request(Path("p.lg"), source=Source(name, text), options=options)
    chosen, job = make_job(make_manager(), request, target)
    (artifact,) = chosen.emit(job)
    source, program = folder / artifact.path, folder / "forward"
    source.write_text(artifact.text, encoding="utf-8")
    if target == "cuda":
        compile_host(source, program, flags=["-O1"])
    else:
        program.symlink_to(executable(source, Options()))
    return program


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGOS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module", params=["cuda", "cpu"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def decode(target: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(target, DECODE, tmp_path_factory.mktemp("decode"), '/home/me/a %d "b".lg')


@pytest.fixture(scope="module")
def sums(target: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(target, SUMS, tmp_path_factory.mktemp("sums"))


def run(program: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    ran = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stderr
    return ran.stdout, ran.stderr


def raw(folder: Path, **arrays: np.ndarray) -> Path:
    """Files NAME.f32 and NAME.i64 in a folder."""
    folder.mkdir(exist_ok=True)
    for name, array in arrays.items():
        suffix = {"f4": "f32", "f8": "f64", "i8": "i64"}[array.dtype.str[1:]]
        array.tofile(folder / f"{name}.{suffix}")
    return folder


def ramp(rows: int, columns: int) -> np.ndarray:
    return (((np.arange(rows * columns) % 7) - 3) / 2).reshape(rows, columns).astype(np.float32)


def test_without_files_it_runs_on_the_ramp_and_prints_every_element(decode: Path) -> None:
    x = ramp(5, 4)[0] + np.array([-2.5, 0, 0, 0], np.float32)
    logits = x @ ramp(4, 5)
    assert run(decode) == (f"{int(np.argmax(logits))}\n", "")
    assert run(decode, "--get", "logits,K@0,x@1,tok")[0] == (
        f"logits = [[{', '.join(f'{value:g}' for value in logits)}]]\n"
        "K@0 = [[0, 0.1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]\n"
        "x@1 = [[-1.5, -1, -0.5, 0]]\n"
        "tok = [[0]]\n"
    )


def test_steps_feed_tokens_and_carry_states(decode: Path, tmp_path: Path) -> None:
    assert run(decode, "--tokens", "4,1,0", "--dump", str(tmp_path / "out"), "--get", "K,x,next")[0] == ""
    kept, x, chosen = (np.load(tmp_path / "out" / f"{name}.npy") for name in ("K", "x", "next"))
    assert (kept.shape, kept.dtype, x.shape, chosen.dtype) == ((3, 4, 4), np.float32, (3, 1, 4), np.int64)
    rows = ramp(5, 4)[[4, 1, 0]] + np.array([-2.5, 0, 0, 0], np.float32)
    assert np.array_equal(x[:, 0], rows)
    assert np.array_equal(kept[2, :3], rows)
    assert np.array_equal(chosen[:, 0, 0], np.argmax(rows @ ramp(4, 5), axis=1))
    generated = run(decode, "--tokens", "4,1", "--generate", "3")[0].split()
    again = run(decode, "--tokens", ",".join(["4", "1", *generated[:2]]))[0]
    assert again.split() == generated[-1:]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["K.npy", "next.npy", "x.npy"]


def test_a_dump_of_nothing_in_particular_is_all_that_is_computed(decode: Path, tmp_path: Path) -> None:
    run(decode, "--dump", str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["K.npy", "logits.npy", "next.npy", "x.npy", "x@1.npy"]


def test_files_give_values_as_they_are_stored(decode: Path, tmp_path: Path) -> None:
    emb, weight = np.random.default_rng(1).standard_normal((2, 5, 4)).astype(np.float32)
    folder = raw(tmp_path / "stored", emb=emb, W=weight)  # W is kept (out, in), as its file is
    wide = raw(tmp_path / "wide", emb=emb.astype(np.float64), W=weight.T.astype(np.float64))
    start = raw(tmp_path / "given", K=np.full((4, 4), 7, np.float32), tok=np.array([3])) / "K.f32"
    said = []
    for weights in (folder, wide):
        arguments = ["--weights", str(tmp_path / "given"), "--weights", str(weights), "--set", f"K={start}"]
        said.append(run(decode, *arguments, "--tokens", "3", "--get", "logits,K,W")[0])
    assert said[0] == said[1]
    logits = np.array(eval(re.match(r"logits = (.*)", said[0])[1]))
    assert np.allclose(logits, (emb[3] + np.array([-2.5, 0, 0, 0])) @ weight.T, atol=1e-5)
    assert said[0].splitlines()[1].endswith("], [7, 7, 7, 7], [7, 7, 7, 7], [7, 7, 7, 7]]")
    assert np.array_equal(np.array(eval(said[0].splitlines()[2].partition("= ")[2]), np.float32), weight.T)


def test_a_pipe_gives_a_value_and_a_folder_does_not(decode: Path, tmp_path: Path) -> None:
    values = np.arange(16, dtype=np.float32).reshape(4, 4)
    said = {}
    for given in (values.tobytes(), values.tobytes()[:-4]):
        command = [decode, "--set", "K=/dev/stdin", "--get", "K@0"]
        ran = subprocess.run(command, input=given, capture_output=True, check=False)
        said[ran.returncode] = (ran.stdout + ran.stderr).decode()
    assert said == {
        0: "K@0 = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]\n",
        1: "cannot read all of /dev/stdin\n",
    }
    assert run(decode, "--set", f"K={tmp_path}", code=1)[1] == f"cannot read all of {tmp_path}\n"


def test_the_folder_beside_the_program_is_where_weights_are(decode: Path, tmp_path: Path) -> None:
    program = tmp_path / "forward"
    program.write_bytes(decode.read_bytes())
    program.chmod(0o755)
    raw(tmp_path / "weights", emb=np.ones((5, 4), np.float32))
    assert run(program, "--tokens", "1", code=1)[1] == (
        f"no value for W in {tmp_path}/weights\n"
        "  next: put the files that `--list` names there, give --set NAME=FILE or, for tok and pos, --tokens\n"
    )
    raw(tmp_path / "weights", W=np.ones((5, 4), np.float32))
    assert run(program, "--tokens", "1", "--get", "logits")[0] == "logits = [[1.5, 1.5, 1.5, 1.5, 1.5]]\n"


def test_numbers_are_the_shortest_text_that_reads_back(decode: Path, tmp_path: Path) -> None:
    texts = ["10", "100", "1e+05", "123456", "16777216", "1e+10", "0.1", "3e-07", "0.33333334", "-20", "0", "-0",
             "1e-45", "3.4028235e+38", "Infinity", "-1234.5"]  # fmt: skip
    file = raw(tmp_path / "given", K=np.array(list(map(float, texts)), np.float32)) / "K.f32"
    said = run(decode, "--set", f"K={file}", "--get", "K@0")[0]
    assert re.findall(r"[^][, =\n]+", said)[1:] == texts


def test_output_that_cannot_be_written_is_refused(decode: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        ran = subprocess.run([decode], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "cannot write the output: No space left on device\n")


def test_the_list_names_what_there_is(decode: Path) -> None:
    assert run(decode, "--list")[0] == (
        "tok\t1\t1\tInt\ti64\npos\t1\t1\tInt\ti64\nemb\t5\t4\tReal\tf32\nW\t4\t5\tReal\tf32 transposed\n"
        "K@0\t4\t4\tReal\tf32\nshift\t1\t4\tReal\tf32\nx\t1\t4\tReal\t-\nK\t4\t4\tReal\t-\nlogits\t1\t5\tReal\t-\n"
        "next\t1\t1\tInt\t-\n"
    )


def test_a_file_of_another_length_is_refused_with_both_lengths(decode: Path, tmp_path: Path) -> None:
    folder = raw(tmp_path / "cut", emb=np.zeros((5, 4), np.float32), W=np.zeros(19, np.float32))
    what = f"{folder}/W.f32 holds 76 bytes; W, 4 by 5 of Real, takes 80\n"
    assert run(decode, "--weights", str(folder), "--tokens", "1", code=1) == ("", what)
    assert run(decode, "--set", f"tok={folder}/none", code=1)[1] == (
        f"cannot read {folder}/none: No such file or directory\n"
    )
    assert run(decode, "--weights", f"{folder}/none", code=1)[1] == f"there is no folder {folder}/none\n"


def test_a_row_outside_its_table_is_refused_before_the_step(decode: Path, tmp_path: Path) -> None:
    assert run(decode, "--tokens", "1,5", "--dump", str(tmp_path), code=1)[1] == (
        'a %d "b".lg:9:1: tok is 5, outside the rows 0 to 4 of emb [row-outside-table]\n'
        "    Let x be row tok of emb.\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  next: give tok a row that emb has\n"
    )
    assert list(tmp_path.iterdir()) == []
    assert "11:1: pos is 4, outside the rows 0 to 3 of K [row-" in run(decode, "--tokens", "1,1,1,1,1", code=1)[1]


def test_what_only_the_device_sees_is_refused_after_the_step(decode: Path, sums: Path, tmp_path: Path) -> None:
    folder = raw(tmp_path / "nan", emb=np.full((5, 4), np.nan, np.float32))
    said = run(decode, "--set", f"emb={folder}/emb.f32", code=1)[1]
    assert said.split("\n")[0] == (
        'a %d "b".lg:13:1: argmax: the operand holds a NaN, so it has no largest element [no-value]'
    )
    unchecked = ("--unchecked", "--get", "x")
    assert run(decode, "--set", f"emb={folder}/emb.f32", *unchecked)[0] == "x = [[NaN, NaN, NaN, NaN]]\n"
    raw(folder, a=np.array([2**62, 1, 1]), b=np.array([2, 0, 0]))
    given = ["--set", f"a={folder}/a.i64", "--set", f"b={folder}/b.i64"]
    assert run(sums, *given, code=1)[1].startswith("p.lg:4:1: matmul: a result does not fit 64 bits [no-value]\n")
    raw(folder, a=np.array([3, 0, 0]))
    assert run(sums, *given, code=1)[1] == (
        "p.lg:5:1: n is 6, outside the rows 0 to 5 of T [row-outside-table]\n"
        "    Let row be row n of T.\n"
        "    ^^^^^^^^^^^^^^^^^^^^^\n"
        "  next: give n a row that T has\n"
    )


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--tokes", "1"], "--tokes: no such option; --help lists them"),
        (["--tokens"], "--tokens: no such option, or its value is missing; --help lists them"),
        (["--tokens", "1,x"], "--tokens: x is no whole number"),
        (["--set", "tok"], "--set: tok is not NAME=FILE"),
        (["--set", "y=f"], "--set: the program has no input, weight or state y; --list names them"),
        (["--tokens", "1", "--set", "pos=f"], "--set: --tokens feeds pos at every step"),
        (["--get", "K@7"], "the program has no variable K@7; --list names them"),
        (["--generate", "2"], "--generate goes on after --tokens"),
    ],
)
def test_what_is_not_understood_is_a_matter_of_usage(decode: Path, arguments: list[str], what: str) -> None:
    assert run(decode, *arguments, code=2) == ("", f"{what}\n")


def test_help_says_every_option(decode: Path) -> None:
    said = run(decode, "--help")[0]
    assert max(map(len, said.replace(str(decode), "forward").splitlines())) <= 120
    options = ("--weights", "--set", "--tokens", "--generate", "--get", "--dump", "--list", "--unchecked")
    assert [option for option in options if f"  {option}" not in said] == []


def test_a_file_is_read_in_chunks_and_the_checksum_is_a_sum_in_double(tmp_path: Path) -> None:
    program = built("cuda", CHUNKED, tmp_path, kind="op")
    x = np.random.default_rng(2).standard_normal(9_000_001).astype(np.float32)
    folder = raw(tmp_path / "given", x=x)
    due = float(np.cumsum((x + x).astype(np.float64))[-1])
    assert float(run(program, "--weights", str(folder))[0]) == due
    assert os.stat(folder / "x.f32").st_size > 2 * 4 * (4 << 20)
