"""Messages to text by a checkpoint's chat template, which nobody trusts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from logos import Refused, Spot, refuse
from logos_gguf.text.vocabulary import Vocabulary

ROLES = ("system", "user", "assistant", "tool")
_LONGEST_TEMPLATE = 1 << 20
_PATIENCE = 30
"""Seconds of waiting; the process itself may compute for far fewer."""

_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from logos_gguf.text.template import main
main()
"""


def render(vocabulary: Vocabulary, messages: Sequence[Mapping[str, str]], specials: Sequence[str]) -> tuple[str, bytes]:
    """The messages in the template, and for each character 1 where the template itself wrote it.

    `specials` are the texts of the tokens that only the template may write. Refused: a vocabulary without a template
    (`no-chat-template`), a template that fails, that takes too much time or memory, or that writes special tokens in a
    way that cannot be told from the messages' text (`broken-chat-template`).
    """
    place = Spot(f"{vocabulary.file}, metadata key tokenizer.chat_template")
    if vocabulary.template is None:
        what = "the checkpoint has no chat template"
        raise refuse("no-chat-template", what, Spot(str(vocabulary.file)), "leave --chat out")
    if unknown := [message["role"] for message in messages if message["role"] not in ROLES]:
        raise ValueError(f"the role {unknown[0]!r} is none of {', '.join(ROLES)}")
    if len(vocabulary.template) > _LONGEST_TEMPLATE:
        raise _broken(place, f"has {len(vocabulary.template)} characters, more than {_LONGEST_TEMPLATE}")
    asked = {"template": vocabulary.template, "messages": [dict(one) for one in messages], "named": vocabulary.named}
    answer = _run(json.dumps(asked), place)
    if "error" in answer:
        raise _broken(place, f"fails: {answer['error']}")
    text, own = answer["text"], bytes(map(int, answer["own"]))
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _broken(place, "writes half of a character")
    given = [part for message in messages for part in message.values()]
    for special in specials:
        if special in text and special not in "\n".join(given) and _mixed(text, own, special):
            raise _broken(place, f"makes {special} of parts that cannot be told from the messages' text")
    return text, own


def _mixed(text: str, own: bytes, special: str) -> bool:
    """Whether the token's text stands somewhere without being wholly the template's own."""
    at = -1
    while (at := text.find(special, at + 1)) >= 0:
        if 0 in own[at : at + len(special)]:
            return True
    return False


def _run(asked: str, place: Spot) -> dict[str, str]:
    # -I: nothing of the folder that the user stands in; the path is this process's own.
    command = [sys.executable, "-I", "-c", _PROGRAM, json.dumps(sys.path)]
    try:
        done = subprocess.run(command, input=asked.encode(), capture_output=True, timeout=_PATIENCE, check=False)
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        raise _broken(place, "takes more time or memory than a template may") from None
    assert isinstance(answer, dict)
    return answer


def _broken(place: Spot, what: str) -> Refused:
    next_ = "leave --chat out, or convert the model again"
    return refuse("broken-chat-template", f"the chat template {what}", place, next_)
