"""Variables whose names would break a Python module, and programs made of them."""

from __future__ import annotations

import keyword
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos_sambaflow.names import python_names, reserved

BREAKING = (
    "forward half float type state_dict parameters training dump_patches __init__ __x __dict__ sigmoid set_row linear"
    " lambda None self torch F nn code graph device"
)
BREAKING_IN_LOWER_CASE = "As IF In NaN Torch Self Device Fx_pytree"
WORDS = "of with be plus Let matmul row"


def test_a_sound_name_stays() -> None:
    assert python_names(["x0", "Wq", "of", "K12"]) == {"x0": "x0", "Wq": "Wq", "of": "of", "K12": "K12"}


def test_a_breaking_name_is_lengthened_past_other_variables() -> None:
    names = python_names(["forward_", "forward", "forward__", "__x", "v__x", "v__x_"])
    assert names == {
        "forward_": "forward_",
        "forward": "forward___",
        "forward__": "forward__",
        "__x": "v__x__",
        "v__x": "v__x",
        "v__x_": "v__x_",
    }


LOWERED = {*keyword.kwlist, "self", "torch", "device", "fx_pytree", "inf", "nan", "pytree"}
NAMES = st.one_of(
    st.sampled_from(sorted(LOWERED)).map(str.capitalize),
    st.sampled_from(sorted(reserved())),
    st.sampled_from(sorted(reserved())).map(lambda name: name + "_"),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True),
)


@given(st.lists(NAMES, unique=True))
def test_names_are_sound_distinct_and_the_same_each_time(variables: list[str]) -> None:
    names = python_names(variables)
    assert list(names) == variables
    assert len(set(names.values())) == len(variables)
    assert names == python_names(variables)
    for variable, name in names.items():
        assert name.isidentifier()
        assert not keyword.iskeyword(name)
        assert not name.startswith("_")
        assert name not in reserved()
        assert name.lower() not in LOWERED
        kept = variable not in reserved() and variable.lower() not in LOWERED and not variable.startswith("_")
        assert (name == variable) == kept


def test_everything_that_torch_gives_a_module_is_reserved() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    module = torch.nn.Module()
    names = {*dir(module), *vars(module), *dir(torch.fx.GraphModule), *dir(torch.jit.ScriptModule)}
    assert sorted(name for name in names if not name.startswith("_") and name not in reserved()) == []


def program(weight: str, x: str, state: str, out: str) -> str:
    return (
        f"Let {weight} be a 3 by 3 tensor of Real.\nSet item 1 of {weight} to 2.\n"
        f"Let {x} be a 1 by 3 tensor of Real.\nLet {state} be a 3 by 3 tensor of Real.\n"
        f"Set row 1 of {state} to {x}.\nLet {out} be {x} matmul {weight}.\n"
        f"Let {out} be {out} matmul {state}.\nLet {out} be sigmoid of {out}.\n"
    )


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("name", [*BREAKING.split(), *WORDS.split()])
def test_a_program_with_the_name_in_any_place_gives_its_values(name: str, place: int, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    from sambaflow_modules import emitted, reference, stepped

    names = ["a", "b", "c", "d"]
    names[place] = name
    made = emitted(program(*names), tmp_path)
    values = made.noise()
    found = stepped(made, values, "float64")
    for variable, array in reference(made, values, found).items():
        assert np.allclose(found[variable], array, rtol=0, atol=1e-12)


def test_programs_of_breaking_names_alone_export_and_trace(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    from sambaflow_modules import emitted, quietly_traced, reference

    names, lower = [*BREAKING.split(), "pad"], BREAKING_IN_LOWER_CASE.split()
    groups = [names[number : number + 4] for number in range(0, len(names), 4)]
    groups += [["w", *lower[number : number + 2], "y"] for number in range(0, len(lower), 2)]
    for number, group in enumerate(groups):
        made = emitted(program(*group), tmp_path / str(number))
        values = made.noise()
        module = made.module.LogosModule().load_weights(tmp_path, "float64", {group[0]: values[group[0]]})
        arguments = tuple(torch.from_numpy(values[name]) for name in group[1:3])
        want = reference(made, values, [group[3]])[group[3]]
        for run in (torch.export.export(module, arguments).module(), quietly_traced(module, arguments)):
            assert np.allclose(run(*arguments)[0].numpy(), want, rtol=0, atol=1e-12)
