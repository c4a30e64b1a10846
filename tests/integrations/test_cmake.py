"""CMake builds LOGOS's programs: the real CMake, over the example that is shipped."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from foreign import LOGOS, ROOT, built, files, replace, run, stamps

from logos.ninja_run import find_ninja

CMAKE = shutil.which("cmake", path=os.pathsep.join([os.fspath(LOGOS.parent), os.environ["PATH"]]))
NINJA = find_ninja()
CONFIG = ROOT / "integrations/cmake"
IDLE = {"Ninja": "ninja: no work to do.\n", "Unix Makefiles": ""}

pytestmark = pytest.mark.skipif(CMAKE is None, reason="needs cmake: pip install cmake, or apt-get install cmake")


def configure(source: Path, build: Path, generator: str = "Ninja", *more: str) -> str:
    assert CMAKE is not None
    flags = [f"-DLogos_DIR={CONFIG}", f"-DLogos_EXECUTABLE={LOGOS}", "-DLogos_FLAGS=-q -v"]
    flags += [f"-DCMAKE_MAKE_PROGRAM={NINJA}"] if generator == "Ninja" else []
    return run(source, CMAKE, "-S", source, "-B", build, "-G", generator, *flags, *more)


def cmake(build: Path, *more: str, code: int = 0) -> str:
    """What `cmake --build` prints, without what make says of targets that are up to date."""
    assert CMAKE is not None
    said = run(build, CMAKE, "--build", build, *more, code=code)
    return "".join(f"{line}\n" for line in said.splitlines() if "Built target" not in line)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example, with a blank in its path."""
    return Path(shutil.copytree(CONFIG / "example", tmp_path / "a project"))


def test_cmake_builds_what_logos_builds_and_then_nothing(project: Path) -> None:
    build = project.parent / "a build"
    configure(project, build)
    assert "emit first for rdu-sambaflow" in cmake(build, "--target", "first")
    assert files(build / "logos/first") == built(project, "first.lg", "--target", "rdu-sambaflow")
    assert cmake(build, "--target", "first") == IDLE["Ninja"]


@pytest.mark.slow
def test_one_program_changed_makes_only_its_steps(project: Path) -> None:
    build = project.parent / "a build"
    configure(project, build)
    said = cmake(build)
    assert "emit first for rdu-sambaflow" in said
    assert "emit squares for cuda" in said
    before = stamps(build / "logos/first")
    replace(project / "squares.lg", "item 1 of W to 2", "item 1 of W to 7")
    said = cmake(build)
    assert "emit squares for cuda" in said
    assert "first" not in said
    assert stamps(build / "logos/first") == before
    squares = built(project, "squares.lg", "--target", "cuda", "-D", "compile=off")
    assert files(build / "logos/squares") == squares
    assert squares["forward.cu"] in (build / "squares.tar").read_bytes()
    assert cmake(build) == IDLE["Ninja"]


@pytest.mark.slow
@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_whatever_an_artifact_hangs_on_has_it_built_again(project: Path, generator: str, oracles: Path) -> None:
    if generator == "Unix Makefiles" and shutil.which("make") is None:
        pytest.skip("needs make: apt-get install make")
    checkpoint = project / "models/größe  2.gguf"
    checkpoint.parent.mkdir()
    shutil.copy(oracles / "llama-tiny-untied/llama-tiny-untied-q8_0.gguf", checkpoint)
    run(project, LOGOS, "author", checkpoint, "-o", "tiny.lg", "--context", "24")
    (project / "weights").mkdir()
    (project / "weights/W.f32").write_bytes(bytes(64))
    (project / "member").mkdir()
    shutil.copy(project / "first.lg", project / "member/p.lg")
    member = '[project]\nname = "member"\nprogram = "p.lg"\n[target.rdu-sambaflow]\ndtype = "bfloat16"\n'
    (project / "member/logos.toml").write_text(member)
    replace(project / "squares.lg", "Set item 1 of W to 2.\n", "")
    (project / "CMakeLists.txt").write_text("""\
cmake_minimum_required(VERSION 3.20)
project(models LANGUAGES NONE)
find_package(Logos REQUIRED)
logos_add_program(tiny SOURCE tiny.lg TARGET cuda CHECKPOINT "models/größe  2.gguf" OPTIONS compile=off kind=generate)
logos_add_program(squares SOURCE squares.lg TARGET cuda WEIGHTS weights FAMILY llama OPTIONS compile=off HOLD add-norm)
logos_add_program(member SOURCE member TARGET rdu-sambaflow OUT "the member")
add_custom_command(OUTPUT made.lg COMMAND ${CMAKE_COMMAND} -E copy "${CMAKE_CURRENT_SOURCE_DIR}/first.lg" made.lg
                   DEPENDS first.lg VERBATIM)
logos_add_program(made SOURCE "${CMAKE_CURRENT_BINARY_DIR}/made.lg" TARGET rdu-sambaflow)
""")
    build = project.parent / "größe mit  blanks"
    configure(project, build, generator)
    cmake(build)
    tiny = ("tiny.lg", "--target", "cuda", "-D", "compile=off", "-D", "kind=generate", "--checkpoint")
    assert files(build / "logos/tiny") == built(project, *tiny, "models/größe  2.gguf")
    assert files(build / "the member") == built(project, "member", "--target", "rdu-sambaflow")
    squares = ("squares.lg", "--target", "cuda", "-D", "compile=off", "--weights", "weights", "--family", "llama")
    assert files(build / "logos/squares") == built(project, *squares, "--hold", "add-norm")
    assert cmake(build) == IDLE[generator]

    changes = {
        "tiny": lambda: checkpoint.write_bytes(checkpoint.read_bytes()[:-1] + b"\1"),
        "squares": lambda: (project / "weights/W.f32").write_bytes(b"\0\0\x80?" * 16),
        "member": lambda: replace(project / "member/logos.toml", "bfloat16", "float32"),
        "made": lambda: replace(project / "first.lg", "item 6", "item 5"),
    }
    for name, change in changes.items():
        change()
        said = cmake(build)
        assert [one for one in changes if f" for {name} " in said or f" {one} for " in said] == [name], said
        assert cmake(build) == IDLE[generator], name
    made = build / "logos/made/model.py"
    text = made.read_text()
    made.write_text("edited\n")
    (build / "logos/made/manifest.json").unlink()
    cmake(build)
    assert made.read_text() == text
    assert (build / "logos/made/manifest.json").exists()
    cmake(build, "--target", "clean")
    assert not (build / "logos/made").exists()


@pytest.mark.slow
def test_a_program_that_is_refused_fails_the_build_and_says_where(project: Path) -> None:
    build = project.parent / "build"
    configure(project, build)
    replace(project / "first.lg", "x matmul W", "x matmul V")
    said = cmake(build, "--", "-k", "0", code=1)
    assert "first.lg:5:19: " in said
    assert (build / "logos/squares/forward.cu").exists()
    assert not (build / "logos/first/model.py").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("logos_add_program(p SOURCE first.lg)", "logos_add_program(p): give TARGET"),
        ("logos_add_program(p TARGET cuda)", "logos_add_program(p): give SOURCE"),
        ("logos_add_program(p SOURCE first.lg TARGET)", "logos_add_program(p): no value for TARGET"),
        ("logos_add_program(p SUORCE first.lg TARGET cuda)", "unknown arguments: SUORCE;first.lg"),
    ],
)
def test_a_call_that_is_not_whole_says_what_is_missing(project: Path, call: str, message: str) -> None:
    head = "cmake_minimum_required(VERSION 3.20)\nproject(p LANGUAGES NONE)\nfind_package(Logos REQUIRED)\n"
    (project / "CMakeLists.txt").write_text(head + call + "\n")
    with pytest.raises(AssertionError) as raised:
        configure(project, project.parent / "build")
    assert message in " ".join(str(raised.value).split())


def test_the_version_that_cmake_is_told_is_the_distribution_s() -> None:
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    assert f'set(PACKAGE_VERSION "{found[1]}")' in (CONFIG / "LogosConfigVersion.cmake").read_text()


@pytest.mark.slow
def test_cmake_finds_what_pip_installed(project: Path, installation: Path) -> None:
    assert CMAKE is not None
    flags = (f"-DCMAKE_PREFIX_PATH={installation}", f"-DCMAKE_MAKE_PROGRAM={NINJA}")
    build = project.parent / "build"
    run(project, CMAKE, "-S", ".", "-B", build, "-G", "Ninja", *flags)
    cmake(build, "--target", "first")
    assert f"Logos_EXECUTABLE:FILEPATH={installation}/bin/logos\n" in (build / "CMakeCache.txt").read_text()
    assert files(build / "logos/first") == built(project, "first.lg", "--target", "rdu-sambaflow")
