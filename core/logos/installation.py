"""What computes artifacts: the code of LOGOS and of the plugins, and the distributions that it comes in and uses."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, distribution

from logos.discovery import OWN
from logos.inputs import code_digest, package_places
from logos.manager import Manager
from logos.plan import code_files, code_modules


def code_account(manager: Manager) -> dict[str, object]:
    """The code by the SHA-256 of its files' contents (`digest`), the folders in which those lie (`packages`), the
    versions of `python` and, by name, of the installed `distributions`: LOGOS's, the plugins', and what they require.
    """
    return {
        "digest": code_digest(code_files(manager)),
        "packages": [os.fspath(path) for path in package_places(code_modules(manager))],
        "python": platform.python_version(),
        "distributions": _distributions([OWN, *(one.distribution for one in manager.plugins)]),
    }


def _distributions(names: list[str]) -> dict[str, str]:
    """The versions of these and of all that they require and that is installed, extras left out."""
    pending, found = [*names], dict[str, str]()
    while pending:
        name = re.sub(r"[-_.]+", "-", pending.pop()).lower()
        if name in found:
            continue
        try:
            one = distribution(name)
        except PackageNotFoundError:  # required elsewhere: on another system, by an older Python
            continue
        found[name] = one.version
        required = [line for line in one.requires or () if "extra ==" not in line]
        pending += [re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in required]
    return dict(sorted(found.items()))
