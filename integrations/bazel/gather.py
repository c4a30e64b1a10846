"""gather.py FOLDER DISTRIBUTION...: this interpreter, its standard library and installed distributions in one folder,
which needs nothing else of this machine but the system's own libraries. The repository rule logos_local runs it."""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

UNNEEDED = (
    "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages", "dist-packages",
    "__pycache__",
)  # fmt: skip
"""Folders of the standard library that are not copied."""


INSTALLERS = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
"""What installers note about this machine; without it the folder is the same on every one."""


def gather(folder: Path, names: list[str]) -> None:
    """Fills the folder: bin/python3, lib/pythonX.Y, and the distributions where this Python looks for them."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin/python3"
    python.parent.mkdir(parents=True)
    shutil.copy2(os.path.realpath(sys.executable), python)
    library = folder / "lib" / version
    for path in dict.fromkeys((sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))):
        base = path.replace(sys.prefix, sys.base_prefix, 1) if not os.path.isdir(path) else path
        shutil.copytree(base, library, ignore=_unneeded, dirs_exist_ok=True)
    shared = sysconfig.get_config_var("LDLIBRARY") or ""
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and ".so" in shared:
        for found in Path(sysconfig.get_config_var("LIBDIR")).glob(f"{shared}*"):
            shutil.copy2(found, folder / "lib", follow_symlinks=True)
    question = "import site; print(site.getsitepackages()[0])"
    said = subprocess.run([python, "-I", "-c", question], check=True, capture_output=True, text=True)
    place = Path(said.stdout.strip())
    if folder not in place.parents:
        sys.exit(f"{sys.executable}, copied to {folder}, looks for packages in {place}: take another Python")
    _warn_of_library(python, folder)
    for one in closure(names):
        _copy(one, place, folder / "bin")
    # Bytecode that is believed unasked: executors give files times of their own.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(folder, quiet=2, invalidation_mode=mode, stripdir=os.fspath(folder))


def closure(names: list[str]) -> list[Distribution]:
    """The distributions with all that they require and that is installed, and every plugin of LOGOS with its own."""
    plugins = [one.metadata["Name"] for one in distributions() if any(e.group == "logos" for e in one.entry_points)]
    pending, found = [*names, *plugins], {}
    while pending:
        key = re.sub(r"[-_.]+", "-", pending.pop()).lower()
        if key in found:
            continue
        try:
            found[key] = distribution(key)
        except PackageNotFoundError:
            if key in names:
                sys.exit(f"{key} is not installed for {sys.executable}: {sys.executable} -m pip install {key}")
            continue
        required = [line for line in found[key].requires or () if "extra ==" not in line]
        pending += [re.split(r"[^A-Za-z0-9._-]", line)[0] for line in required]
    return [found[key] for key in sorted(found)]


def _warn_of_library(python: Path, folder: Path) -> None:
    """Says to standard error where the copied interpreter takes its own library from this machine (seen on Linux)."""
    question = "import os; print(open('/proc/self/maps').read() if os.path.exists('/proc/self/maps') else '')"
    maps = subprocess.run([python, "-I", "-c", question], check=True, capture_output=True, text=True).stdout
    for path in dict.fromkeys(re.findall(r"\S+/libpython\S+", maps)):
        if folder not in Path(path).parents:
            what = f"{sys.executable} is linked to {path}: remote executors without this file cannot run it"
            print(f"warning: {what}; take one in one piece, as Debian's, or one that may be moved", file=sys.stderr)


def _copy(one: Distribution, place: Path, scripts: Path) -> None:
    """A distribution's files, with its programs (ninja is one) and without their Python launchers."""
    name = one.metadata["Name"]
    if any(path.suffix == ".pth" for path in one.files or ()):
        sys.exit(f"{name} is installed as a link to its sources (pip install -e): install it without -e")
    for path in one.files or ():
        source = Path(str(one.locate_file(path)))
        if {"test", "tests", "__pycache__"} & {*path.parts} or path.name in INSTALLERS or not source.is_file():
            continue
        if ".." in path.parts:
            if path.parent.name in ("bin", "Scripts") and source.read_bytes()[:2] != b"#!":
                shutil.copy2(source, scripts)
            continue
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place / path)


def _unneeded(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name in UNNEEDED or name.startswith("config-") or name.endswith(".a")]


if __name__ == "__main__":
    gather(Path(sys.argv[1]).absolute(), sys.argv[2:])
