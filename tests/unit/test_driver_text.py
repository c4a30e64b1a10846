"""C++ text of names, numbers and messages: nothing that a program, a path or a checkpoint says becomes code."""

from __future__ import annotations

from pathlib import Path

import pytest

from logos import (
    Request,
    Source,
    c_comment,
    c_double,
    c_integer,
    c_string,
    c_table,
    make_job,
    make_manager,
    one_line,
    paste_headers,
)

NAME = '/home/me/a "b" %d \\\n#error ü\\'
TEXT = "Let t be a 1 by 1 tensor of Int.\nLet T be a 3 by 1 tensor of Real.\nLet y be row t of T.\n"


def test_constants_are_written_with_exactly_their_value() -> None:
    assert (c_integer(-(2**63)), c_integer(7)) == ("(-9223372036854775807LL - 1)", "7LL")
    assert (c_double(0.1), c_double(float("-inf")), c_double(float("nan"))) == (
        "0x1.999999999999ap-4", "-INFINITY", "NAN",
    )  # fmt: skip
    assert c_string('"\\\n\t?\x01é\udcff') == '"\\"\\\\\\n\\t\\?\\001\\303\\251\\377"'
    assert (one_line("a\nb\u2028\\"), c_comment("a\nb\\ \\")) == ("a?b?\\", "a?b")


@pytest.mark.parametrize("name", ["p.lg", "},  // .lg"])
def test_a_table_has_a_comma_behind_every_entry_whatever_its_texts_say(name: str) -> None:
    entries = c_table("Value", "values", [f"{{{c_string(name)}, 1}}", "{2}"], [name, "a\\"])
    assert entries.splitlines() == [
        "const Value values[] = {", f'    {{"{name}", 1}},  // {name}', "    {2},  // a", "    {},", "};"
    ]  # fmt: skip


@pytest.mark.parametrize("target", ["cuda", "cpu"])
@pytest.mark.parametrize("kind", ["forward", "generate"])
def test_a_file_s_name_stays_in_its_comment_and_its_string(target: str, kind: str) -> None:
    text = TEXT.replace("Let t ", "Let tok ").replace("row t ", "row tok ") + "Let next be argmax of y.\n"
    request = Request(Path("p.lg"), source=Source(NAME, text), options={"kind": kind})
    chosen, job = make_job(make_manager(), request, target)
    (artifact,) = chosen.emit(job)
    lines = artifact.text.splitlines()
    said = [line for line in lines if "#error" in line]
    comments = [line.partition("//")[2] for line in said if "PROGRAM" not in line]
    assert all(comment.partition("#error")[0].endswith(' a "b" %d \\?') for comment in comments)
    assert len(comments) >= 3
    assert [line for line in said if "PROGRAM" in line] == [
        'const char *const PROGRAM = "a \\"b\\" %d \\\\\\?#error \\303\\274\\\\";'
    ]
    assert not any(line.endswith("\\") for line in lines if "#error" in line)
    assert '"tok is %lld, outside the rows 0 to 2 of T [row-outside-table]\\n' in artifact.text
    assert "/home/me" not in artifact.text


def test_headers_are_pasted_once_after_those_that_they_include() -> None:
    texts = {
        "a.h": '#pragma once\n#include "b.h"\n#include "types.h"\n#include "host.h"\na\n',
        "b.h": '#include "c.h"\nb\n',
        "c.h": '#include "a.h"\nc\n',  # a circle ends
    }
    assert paste_headers(["a.h", "b.h", "a.h"], texts.get, ("types.h",)) == ("c\n", "b\n", '#include "host.h"\na\n')
