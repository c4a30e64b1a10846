"""The house's rules, read off the source: which way imports point, what is documented, which refusals there are."""

from __future__ import annotations

import ast
import inspect
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import logos
from logos.hookspecs import Specs

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core"
TESTS = ROOT / "tests"

LAYERS = (
    ("source", "refusal", "near", "late", "atomic", "stamps", "lock", "cache", "step_cache",
     "changes", "bounds"),
    ("op", "shapes"),
    ("ops", "grammar", "loops", "sentences", "misread", "graph"),
    ("parse", "survey", "check", "printer", "memory", "reference", "weights", "passes", "prefill", "values",
     "desugar", "lift", "recognition", "verification", "device_plan", "measure", "bisection", "finding"),
    ("hookspecs", "discovery", "contracts", "manager", "conformance", "job", "author", "artifacts", "extraction",
     "recording", "execution", "driver", "emitted", "engine", "compiled"),
    ("toml_places", "project", "project_file", "selection", "inputs", "journal", "steps", "plan", "installation",
     "since"),
    ("ninja_file", "ninja_run", "finished", "depfile", "cached_steps", "build", "clean", "starting", "explanation"),
    ("cli", "entry", "__main__"),
)
"""The core's modules from the ground up: each imports its own row and those above it in this list."""

LONG = 400
"""Lines beyond which a file is long."""


def modules(folder: Path) -> dict[str, Path]:
    """Every module below a folder of packages, by dotted name."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def plugins() -> dict[str, dict[str, Path]]:
    """The modules of each of our plugins' packages."""
    return {path.name: modules(path.parent) for path in sorted(ROOT.glob("plugins/*/logos_*"))}


def sources() -> list[Path]:
    return [*modules(CORE).values(), *(path for plugin in plugins().values() for path in plugin.values())]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def imported(path: Path, for_types: bool) -> Iterator[tuple[str, str | None]]:
    """Every (module, name) imported anywhere in a file; those under TYPE_CHECKING only with `for_types`."""
    pending: list[ast.AST] = [tree(path)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            pending += node.orelse
            pending += node.body if for_types else []
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import"
            yield from ((node.module or "", alias.name) for alias in node.names)
        pending += ast.iter_child_nodes(node)


def layer(module: str) -> int:
    """The row of a core module; the first part of its name below `logos` decides."""
    part = module.split(".")[1]
    (row,) = [row for row, names in enumerate(LAYERS) if part in names]
    return row


def test_every_core_module_has_its_layer() -> None:
    listed = {name for names in LAYERS for name in names}
    there = {module.split(".")[1] for module in modules(CORE) if module != "logos"}
    assert there - listed == set()


@pytest.mark.parametrize("module", [module for module in modules(CORE) if module != "logos"])
def test_imports_in_the_core_point_one_way(module: str) -> None:
    for name, inner in imported(modules(CORE)[module], for_types=False):
        if name == "logos" and inner is not None:
            name = f"logos.{inner}"
        if name.startswith("logos."):
            assert layer(name) <= layer(module), f"{module} imports {name}, which stands above it"


def test_the_core_never_imports_a_plugin() -> None:
    for module, path in modules(CORE).items():
        for name, _ in imported(path, for_types=True):
            assert not name.startswith("logos_"), f"{module} imports {name}"


@pytest.mark.parametrize("plugin", list(plugins()))
def test_a_plugin_imports_the_public_names_of_logos_and_no_other_plugin(plugin: str) -> None:
    faults = []
    for module, path in plugins()[plugin].items():
        for name, inner in imported(path, for_types=True):
            top = name.partition(".")[0]
            deeper = top == "logos" and (name != "logos" or inner not in logos.__all__)
            if deeper or (top.startswith("logos_") and top != plugin):
                faults.append(f"{plugin}.{module} imports {inner} from {name}")
    assert faults == []


@pytest.mark.parametrize(
    "arguments",
    [[], ["--help"], ["build", "--help"], ["run", "--help"], ["generate", "--help"], ["--version"]],
)
def test_starting_the_tool_imports_nothing_heavy_and_no_plugin(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom logos.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = ('numpy', 'torch', 'rich', 'tokenizers', 'jinja2', 'pluggy', 'ninja')\n"
        "heavy += ('logos_cpu', 'logos_cuda', 'logos_gguf', 'logos_sambaflow')\n"
        "print('LOADED', [name for name in heavy if name in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "LOADED []"


def test_every_hook_is_documented() -> None:
    page = (ROOT / "docs/plugins.md").read_text("utf-8")
    hooks = [name for name in dir(Specs) if name.startswith("logos_")]
    assert len(hooks) == 4
    for name in hooks:
        assert inspect.getdoc(getattr(Specs, name)), f"{name} has no docstring"
        assert name in page, f"docs/plugins.md does not say {name}"


def test_every_public_name_is_documented() -> None:
    values = {name: getattr(logos, name) for name in logos.__all__}
    bare = [name for name, value in values.items() if inspect.isroutine(value) or inspect.isclass(value)]
    assert [name for name in bare if not inspect.getdoc(values[name])] == []


def test_every_file_says_what_it_is() -> None:
    assert [str(path) for path in sources() if not ast.get_docstring(tree(path))] == []


def test_files_are_short() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in sources()}
    long = {path: length for path, length in lengths.items() if length > LONG}
    report = f"median {statistics.median(lengths.values())} lines; longer than {LONG}: {long}"
    assert statistics.median(lengths.values()) <= 150, report
    assert len(long) <= 3, report


def test_nothing_is_left_undone() -> None:
    words = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
    found = [str(path) for path in sources() if words.search(path.read_text("utf-8"))]
    assert found == []


def code_positions() -> dict[str, int]:
    """Each function or dataclass that takes a refusal's code, and the place of that argument in a call."""
    found = {}
    for path in sources():
        for node in ast.walk(tree(path)):
            names: list[str] = []
            if isinstance(node, ast.FunctionDef):
                names = [argument.arg for argument in node.args.args if argument.arg != "self"]
            elif isinstance(node, ast.ClassDef):
                fields = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
                names = [field.id for field in fields if isinstance(field, ast.Name)]
            if "code" in names:
                found[node.name] = names.index("code")
    return found


def written_codes() -> dict[str, set[str]]:
    """Every refusal code in the source, with the files that say it; a part computed at run time shows as `*`."""
    positions = code_positions()
    found: dict[str, set[str]] = {}
    for path in sources():
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if name in positions:
                given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                given += node.args[positions[name] : positions[name] + 1]
                for code in (code for argument in given for code in code_texts(argument, path)):
                    if re.fullmatch(r"[a-z0-9*]+(-[a-z0-9*]+)+", code):
                        found.setdefault(code, set()).add(path.name)
    return found


def code_texts(node: ast.expr, path: Path) -> Iterator[str]:
    """The codes that an argument may be: a literal, a text with computed parts, an entry of the file's table. A code
    that is handed on (a name, a field) was a literal where it began."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
    elif isinstance(node, ast.Subscript):
        table = ast.unparse(node.value)
        for other in ast.walk(tree(path)):
            if isinstance(other, (ast.Assign, ast.AnnAssign)) and isinstance(other.value, ast.Dict):
                targets = other.targets if isinstance(other, ast.Assign) else [other.target]
                if table in map(ast.unparse, targets):
                    yield from (text for value in other.value.values for text in code_texts(value, path))
    else:
        assert isinstance(node, (ast.Name, ast.Attribute)), f"{path}:{node.lineno}: where does this code come from?"


def pinned_codes() -> list[str]:
    return (TESTS / "refusal_codes.txt").read_text("utf-8").split()


def test_refusal_codes_are_those_pinned() -> None:
    """A code is stable: users match on it. One added or renamed on purpose changes refusal_codes.txt too."""
    assert pinned_codes() == sorted(pinned_codes())
    written = written_codes()
    fixed = {code for code in written if "*" not in code}
    patterns = [re.compile(code.replace("*", "[a-z0-9-]+")) for code in written if "*" in code]
    computed = {code for code in pinned_codes() if any(pattern.fullmatch(code) for pattern in patterns)}
    assert set(pinned_codes()) == fixed | computed
    assert all(any(pattern.fullmatch(code) for code in computed) for pattern in patterns)


def test_every_refusal_code_has_a_test() -> None:
    own = {Path(__file__).name, "refusal_codes.txt"}
    kinds = ("*.py", "*.txt", "*.lg", "*.md")
    paths = [path for kind in kinds for path in TESTS.rglob(kind) if path.name not in own]
    text = "\n".join(path.read_text("utf-8", "replace") for path in paths)
    words = set(re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)+", text))
    assert [code for code in pinned_codes() if code not in words] == []
