"""A target of our own making in C++: what the core's driver asks of a target is all that `target.h` declares."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from logos import DriverTables, HeldValue, Source, c_block, c_table, driver_part, driver_text
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS
from logos_cuda.host_build import find_host_compiler

PROGRAM = "Let x be a 2 by 3 tensor of Real.\nLet y be x plus x.\n"
KERNELS = """\
typedef float Real;
typedef long long Int;
typedef long long Size;
typedef signed char Quant;
typedef unsigned short Half;
enum { FAULT_ROW = 1, FAULT_NAN = 2, FAULT_OVERFLOW = 3 };
"""
RECORDS = "struct Memory {\n    Size bytes;\n};\n\nconst Size BLOCK = 32;\n"
STRICT = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("machine")
    graph = read_program(Source("p.lg", PROGRAM), make_grammar(OPS))
    tables = DriverTables(graph, {value: HeldValue(name.upper()) for name, value in graph.taps.items()}, [graph.nodes])
    own = (c_block("enum {", ("X,", "Y,", "BUFFERS,"), "};"), c_table("Memory", "buffers", ["{24}", "{24}"]))
    machine = Path(__file__).with_name("one_machine.h").read_text("utf-8")
    records = "\n".join((RECORDS, driver_part("half.h")))
    text = driver_text(records, "\n\n".join((*own, tables.text())), machine, driver_part("plain.h"))
    (folder / "p.cpp").write_text(f"{KERNELS}\n{text}", encoding="utf-8")
    subprocess.run([*find_host_compiler(), *STRICT, "p.cpp", "-o", "p"], cwd=folder, check=True)
    return folder / "p"


def test_a_target_that_defines_what_is_declared_has_the_whole_command_line(program: Path, tmp_path: Path) -> None:
    def said(*arguments: str) -> str:
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout

    assert said() == "-3\n-2\n-1\n0\n1\n2\n"
    assert said("--list") == "x\t2\t3\tReal\tf32\ny\t2\t3\tReal\t-\n"
    np.arange(6, dtype="<f8").tofile(tmp_path / "x.f64")
    both = "x = [[0, 1, 2], [3, 4, 5]]\ny = [[0, 2, 4], [6, 8, 10]]\n"
    assert said("--weights", str(tmp_path), "--get", "x,y") == both
    assert said("--dump", str(tmp_path / "out")) == ""
    assert np.load(tmp_path / "out/y.npy").tolist() == [[[-3, -2, -1], [0, 1, 2]]]
