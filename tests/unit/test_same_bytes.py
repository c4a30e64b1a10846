"""The same inputs give the same bytes, wherever and by whomever they are built; and nothing else is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from process import logos, tree, unprivileged, workspace

CIRCUMSTANCES: tuple[tuple[str, Mapping[str, str | None], int, tuple[str, ...]], ...] = (
    ("plain", {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C", "USER": "one"}, 0o022, ("-j", "1")),
    ("an other $place: größe", {"PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "USER": "two",
                                "HOME": None, "LANG": "de_DE.UTF-8", "COLUMNS": "40"}, 0o077, ("-j", "4")),
    ("x" * 100 + "/" + "y" * 100, {"PYTHONHASHSEED": "random", "TZ": "Antarctica/Troll", "PYTHONUTF8": "0",
                                   "LC_ALL": "POSIX", "SOURCE_DATE_EPOCH": "1", "HOME": "/nowhere"}, 0o027, ()),
)  # fmt: skip


def test_two_builds_in_any_circumstances_are_identical_trees(tmp_path: Path, oracles: Path) -> None:
    made = []
    for number, (name, changes, umask, flags) in enumerate(CIRCUMSTANCES):
        folder = workspace(tmp_path / name)
        (folder / "c").mkdir()
        shutil.copy(oracles / "llama-tiny-untied/llama-tiny-untied-q8_0.gguf", folder / "c/m.gguf")
        (folder / "c/logos.toml").write_text(
            '[project]\nname = "c"\nauthor = { checkpoint = "m.gguf" }\n[target.rdu-sambaflow]\n[target.toy]\n'
        )
        (folder / "logos.toml").write_text('[workspace]\nmembers = ["a", "b", "c"]\n')

        def before(umask: int = umask, other_user: bool = number == 1) -> None:
            os.umask(umask)
            if other_user:
                unprivileged()

        ran = logos(folder, "build", *flags, changes=changes, before=before)
        assert (ran.returncode, ran.stderr) == (0, "")
        made.append(tree(folder / "build"))
        assert {path.stat().st_mode & 0o777 & umask for path in (folder / "build").rglob("*")} == {0}
    assert len(made[0]) > 8
    assert made[1] == made[0]
    assert made[2] == made[0]
    texts = b"".join(data for path, data in made[0].items() if not path.endswith((".f32", ".safetensors")))
    assert os.fsencode(tmp_path) not in texts
    assert os.uname().nodename.encode() not in texts


def test_sources_that_are_read_only_without_a_home_or_a_network_build(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "sources")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = tree(folder)
    alone: tuple[str, ...] = ("unshare", "-n")
    if subprocess.run([*alone, "true"], capture_output=True, preexec_fn=unprivileged).returncode != 0:
        alone = ()  # not allowed here: only that nothing else is missing is seen
    out = os.fspath(tmp_path / "out")
    changes = {"HOME": None, "XDG_CACHE_HOME": None, "LOGOS_CACHE": None, "TMPDIR": None}
    ran = logos(folder, "build", "--out", out, changes=changes, prefix=alone, before=unprivileged)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert tree(folder) == before
    assert "b/rdu-sambaflow/model.py" in tree(Path(out))


NAMES = (
    "two  blanks, dollar $x $$ ${y}",
    'colon: bar|pipe it\'s "quoted" `so` größe 模型 ☃',
    "n" * 200,
    " -D x=y a;b&c>d #e %41 \\n ",
)


@pytest.mark.parametrize("name", [NAMES[1], *(pytest.param(NAMES[i], marks=pytest.mark.slow) for i in (0, 2, 3))])
def test_any_path_is_a_path_to_build_rebuild_and_clean(tmp_path: Path, name: str) -> None:
    folder = workspace(tmp_path / name)
    (folder / name).mkdir()
    program = f"{name}/{name[:100]}.lg"
    shutil.copy(folder / "a/p.lg", folder / program)
    arguments = (
        program,
        "--target",
        "toy",
        "--family",
        "toy",
        "-D",
        "weights=raw",
        "-D",
        "tool=copy",
        "--out",
        f"o/{name}",
    )
    ran = logos(folder, "build", *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    made = tree(folder / f"o/{name}")
    assert sorted(made) == ["copy.txt", "notes/counts.txt", "program.txt", "raw/W.f32"]
    (folder / program).write_text((folder / program).read_text().replace("to 1.0", "to 8.0"))
    assert logos(folder, "build", *arguments, "-v").stderr == "[1/1] extract raw of " + f"{name[:100]} for toy\n"
    assert tree(folder / f"o/{name}")["raw/W.f32"] != made["raw/W.f32"]
    assert "nothing to do" in logos(folder, "build", *arguments).stdout
    assert logos(folder, "clean", "--out", f"o/{name}").stdout == "removed 4 files\n"
    assert not (folder / f"o/{name}").exists()
