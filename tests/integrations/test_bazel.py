"""Bazel builds LOGOS's programs in its sandbox: the real Bazel, over the example that is shipped."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from actions import may_be_alone, read_action, run_alone
from foreign import ROOT, built, files, replace, run

BAZEL = shutil.which("bazel")
RULES = ROOT / "integrations/bazel"
FIRST = ("first.lg", "--target", "rdu-sambaflow")
SQUARES = ("squares.lg", "--target", "cuda", "--family", "llama", "--weights", "weights", "--hold", "add-norm")
SANDBOXES = ("linux-sandbox", "processwrapper-sandbox", "darwin-sandbox")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BAZEL is None, reason="needs bazel: apt-get install bazel-bootstrap"),
]


@dataclass(frozen=True)
class Workspace:
    """A workspace, and a Bazel of its own."""

    folder: Path
    root: Path

    def bazel(self, command: str, *arguments: str) -> str:
        """What a command prints to its standard output; to standard error Bazel says how it goes, and what is wrong."""
        assert BAZEL is not None
        start = (BAZEL, f"--output_user_root={self.root}", "--nohome_rc", "--noworkspace_rc", "--max_idle_secs=60")
        try:
            return run(self.folder, "sh", "-c", 'exec "$@" 2>../said', "sh", *start, command, *arguments)
        except AssertionError:
            raise AssertionError((self.folder / "../said").read_text()) from None

    def build(self) -> list[str]:
        """The targets whose actions ran. Each ran in a sandbox."""
        log = self.root.parent / "log.json"
        flags = ("--spawn_strategy=sandboxed", "--nosandbox_debug", f"--execution_log_json_file={log}")
        self.bazel("build", "//...", *flags)
        text, decoder, records = log.read_text(), json.JSONDecoder(), []
        while text.strip():
            record, end = decoder.raw_decode(text.lstrip())
            records.append(record)
            text = text.lstrip()[end:]
        assert all(record["runner"] in SANDBOXES for record in records)
        return sorted(record["progressMessage"].split()[1] for record in records)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, installation: Path) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("bazel")
    shutil.copytree(RULES, folder / "rules_logos", ignore=shutil.ignore_patterns("example", "__pycache__"))
    shutil.copytree(RULES / "example", folder / "models")
    made = Workspace(folder / "models", folder / "out")
    replace(made.folder / "WORKSPACE", 'logos_local(name = "logos")',
            f'logos_local(name = "logos", python = "{installation}/bin/python")')  # fmt: skip
    yield made
    made.bazel("shutdown")


@pytest.fixture(scope="module")
def whole(workspace: Workspace) -> Path:
    """The folder of the artifacts, all built."""
    assert workspace.build() == ["//:first_rdu", "//:squares_cuda"]
    return workspace.folder / "bazel-bin"


def test_bazel_builds_in_its_sandbox_what_logos_builds(workspace: Workspace, whole: Path) -> None:
    assert files(whole / "first_rdu") == built(workspace.folder, *FIRST)
    squares = files(whole / "squares_cuda")
    assert sorted(squares) == ["forward.cu", "weights/W.f32"]
    assert squares == built(workspace.folder, *SQUARES, "-D", "compile=off")
    assert not (whole / "first_rdu/.logos").exists()


@pytest.mark.skipif(not may_be_alone(), reason="needs the right to hide files and the network from a command, as root")
def test_an_action_by_hand_needs_what_it_declares_and_makes_the_same(
    workspace: Workspace, whole: Path, installation: Path
) -> None:
    name = "squares_cuda"
    action = read_action(workspace.bazel("aquery", f'mnemonic("LogosBuild", //:{name})', "--output=jsonproto"))
    root = Path(workspace.bazel("info", "execution_root").strip())
    assert "HOME" not in action.environment
    assert not any(word.startswith("/") for word in action.arguments)
    with run_alone(action, root, [workspace.root.parent, installation.parent]) as made:
        assert files(made) == files(whole / name)
        assert sorted(os.listdir(made)) == sorted(os.listdir(whole / name))


def test_again_no_work_and_one_change_is_one_action(workspace: Workspace, whole: Path) -> None:
    assert workspace.build() == []
    replace(workspace.folder / "first.lg", "item 6 of W to 3", "item 6 of W to 4")
    assert workspace.build() == ["//:first_rdu"]
    assert files(whole / "first_rdu") == built(workspace.folder, *FIRST)
    weights = workspace.folder / "weights/W.f32"
    weights.write_bytes(weights.read_bytes()[::-1])
    assert workspace.build() == ["//:squares_cuda"]
    assert files(whole / "squares_cuda") == built(workspace.folder, *SQUARES, "-D", "compile=off")


def test_a_checkpoint_and_an_option_s_file_are_inputs(workspace: Workspace, whole: Path, oracles: Path) -> None:
    folder = workspace.folder / "tiny"
    folder.mkdir()
    shutil.copy(oracles / "llama-tiny-untied/llama-tiny-untied-q8_0.gguf", folder / "m.gguf")
    run(folder, sys.executable, "-m", "logos", "author", "m.gguf", "-o", "tiny.lg", "--context", "24")
    tuning = 'schema = "logos.cuda.tune"\nversion = 1\nfound_by = "model"\ncrossover = 8\n'
    (folder / "tune.toml").write_text(tuning)
    (folder / "BUILD.bazel").write_text("""\
load("@rules_logos//:logos.bzl", "logos_artifact", "logos_program")
logos_program(name = "program", src = "tiny.lg", checkpoint = ["m.gguf"])
logos_artifact(
    name = "tiny",
    option_files = {"tune.toml": "tune"},
    options = {"compile": "off", "kind": "generate"},
    program = ":program",
    target = "cuda",
)
""")
    assert workspace.build() == ["//tiny:tiny"]
    flags = ("-D", "compile=off", "-D", "kind=generate", "-D", "tune=tiny/tune.toml")
    expected = built(workspace.folder, "tiny/tiny.lg", "--target", "cuda", "--checkpoint", "tiny/m.gguf", *flags)
    assert files(whole / "tiny/tiny") == expected
    (folder / "tune.toml").write_text(tuning.replace("logos.cuda.tune", "another"))
    with pytest.raises(AssertionError, match="it is no tune"):
        workspace.build()
