"""Where `logos` starts: a build with nothing to do ends here, before the command line is loaded."""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False  # typing costs more than all else that a build with nothing to do imports
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits. Without arguments the process is the command's alone and its words are."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What the terminal's encoding lacks shows as its escape: no message dies of an arrow.
            stream.reconfigure(errors="backslashreplace")
    if words[:1] == ["build"]:
        from logos.finished import nothing_to_do

        said = nothing_to_do(words[1:])
        if said is not None and _prints(said):
            if arguments is None:
                # All is printed, and taking the interpreter down costs as much as most of the looking.
                os._exit(0)
            sys.exit(0)
    from logos.cli.main import main as run

    run(words)


def _prints(text: str) -> bool:
    """Whether a text could be printed; where not, the command line says why."""
    try:
        print(text, end="", flush=True)
    except OSError:
        return False
    return True
