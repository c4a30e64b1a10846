"""The pages say what is so: their commands print what they show, and nothing that exists goes unsaid."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest

from logos import Op
from logos.check import read_program
from logos.cli.main import COMMANDS, cli
from logos.grammar import make_grammar
from logos.ops import OPS
from logos.source import read_source

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
EXAMPLES = sorted(ROOT.glob("examples/*/*.lg"))

_PIP = "python tests/plugins/stand_in_pip.py"
STAND_INS = {
    "make build": "logos build",
    "pip install -q ./numpy-script": f"{_PIP} install numpy-script site",
    "pip install -q ./logos-sample": f"{_PIP} install logos-sample site",
    "pip uninstall -q -y logos-sample": f"{_PIP} uninstall logos-sample site",
}
"""What the tests run for a command that would install: the step of the Makefile that prints, and what pip leaves."""


@dataclass
class Command:
    """A command of a `console` block, its lines of input included, and the lines that it prints."""

    line: int
    text: str
    printed: list[str] = field(default_factory=list)


def commands(page: Path) -> Iterator[Command]:
    """`$` begins a command, `>` goes on with it; what follows is printed."""
    inside, command = False, None
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.startswith("```"):
            if command is not None:
                yield command
            inside, command = line == "```console", None
        elif inside and line.startswith("$ "):
            if command is not None:
                yield command
            command = Command(number, line[2:])
        elif inside and command is not None and not command.printed and re.match(r">( |$)", line):
            command.text += "\n" + line[2:]
        elif inside and command is not None:
            command.printed.append(line)


def listings(page: Path) -> dict[str, str]:
    """The files that a page lists under their titles. A title that comes again goes on with its file."""
    found: dict[str, str] = {}
    for title, text in re.findall(r'^```\w+ title="(.+?)"\n(.*?)^```$', page.read_text("utf-8"), re.M | re.S):
        found[title] = f"{found[title]}\n\n{text}" if title in found else text
    return found


def as_pattern(lines: list[str]) -> re.Pattern[str]:
    """`…` alone on a line stands for any lines, within a line for any characters."""
    parts = []
    for line in lines:
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(map(re.escape, line.split("…"))) + r"\n")
    return re.compile("".join(parts))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a page's commands use, with a blank in its path."""
    folder = tmp_path / "a checkout"
    folder.mkdir()
    shutil.copy(ROOT / "logos.toml", folder)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("build"))
    oracle = Path("tests/oracles/llama-tiny-untied")
    shutil.copytree(ROOT / oracle, folder / oracle)
    (folder / "tests/plugins").mkdir()
    for name in ("stand_in_pip.py", "huggingface_writer.py"):
        shutil.copy(ROOT / "tests/plugins" / name, folder / "tests/plugins")
    (folder / "site").mkdir()
    return folder


def runnable(page: Path) -> bool:
    return next(commands(page), None) is not None


LONG = ("cli.md", "cmake.md", "cuda.md", "getting-started.md", "plugins.md", "workspaces.md")
"""Pages whose commands take tens of seconds: in the slow tier."""
TOOLS = {"cmake.md": "cmake"}
"""What a page's commands need beside LOGOS."""


@pytest.mark.parametrize("page", [
    pytest.param(page, id=page.name, marks=pytest.mark.slow if page.name in LONG else ())
    for page in PAGES if runnable(page)
])  # fmt: skip
def test_a_page_s_commands_print_what_it_shows(page: Path, checkout: Path) -> None:
    path = os.pathsep.join([os.fspath(Path(sys.executable).parent), os.environ["PATH"]])
    tool = TOOLS.get(page.name)
    if tool is not None and shutil.which(tool, path=path) is None:
        pytest.skip(f"needs {tool}: pip install {tool}")
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONWARNINGS": "error"}
    environment["PYTHONPATH"] = os.fspath(checkout / "site")
    environment["Logos_DIR"] = os.fspath(ROOT / "integrations/cmake")
    for title, text in listings(page).items():
        (checkout / title).parent.mkdir(parents=True, exist_ok=True)
        (checkout / title).write_text(text, "utf-8")
    for command in commands(page):
        ran = subprocess.run(
            STAND_INS.get(command.text, command.text),
            shell=True,
            cwd=checkout,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        shown = "\n".join(command.printed)
        message = f"{page.name}:{command.line}: {command.text}\nshows:\n{shown}\nprints:\n{ran.stdout}"
        assert as_pattern(command.printed).fullmatch(ran.stdout), message


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_the_command_in_an_example_s_head_works(example: Path, checkout: Path) -> None:
    (command,) = re.findall(r"^# +(logos .*?)(?:   .*)?$", example.read_text("utf-8"), flags=re.MULTILINE)
    path = os.pathsep.join([os.fspath(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(command, shell=True, cwd=checkout, env={**os.environ, "PATH": path}, capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout


def test_the_page_of_the_language_has_the_table_that_the_declarations_make() -> None:
    specification = importlib.util.spec_from_file_location("op_table", ROOT / "docs/op_table.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    page = (ROOT / "docs/language.md").read_text("utf-8")
    assert page == module.page_with(module.table()), "run: python docs/op_table.py --write"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_on_the_page_of_the_command_line(name: str) -> None:
    sections = re.split(r"^## ", (ROOT / "docs/cli.md").read_text("utf-8"), flags=re.MULTILINE)
    (section,) = [section for section in sections if section.split("\n")[0] == f"logos {name}"]
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert [option.opts for option in options if not any(f"`{flag}" in section for flag in option.opts)] == []


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)\)", prose):
            assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_page_for_plugins_lists_the_whole_sample_and_a_target_in_under_60_lines() -> None:
    found = listings(ROOT / "docs/plugins.md")
    sample = {title: text for title, text in found.items() if title.startswith("logos-sample/")}
    folder = ROOT / "tests/sample_plugin"
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sample == {f"logos-sample/{path.relative_to(folder)}": path.read_text("utf-8") for path in files}
    assert len(found["numpy-script/numpy_script.py"].splitlines()) < 60
    assert list(found)[:2] == ["numpy-script/pyproject.toml", "numpy-script/numpy_script.py"]


@pytest.mark.parametrize("tool", ["bazel", "cmake", "hatch"])
def test_an_integration_s_page_lists_its_example(tool: str) -> None:
    listed = listings(ROOT / f"docs/integrations/{tool}.md")
    assert len(listed) > 1
    for name, text in listed.items():
        assert (ROOT / "integrations" / tool / "example" / name.partition("/")[2]).read_text("utf-8") == text


def test_the_examples_use_every_op_but_moe() -> None:
    grammar = make_grammar(OPS)
    used = {node.op for example in EXAMPLES for node in read_program(read_source(example), grammar).nodes}
    assert {op.name for op in OPS} - {op.name for op in used if isinstance(op, Op)} == {"moe"}
