"""Roles of leaves, in language.md's order, and where the value of each comes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from weight_fakes import MemoryCheckpoint

from logos import AuthorOptions, Binding, Graph, Refused, Source, Table, TensorView, View
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS
from logos.values import run_values
from logos.weights import files
from logos.weights.binding import bind
from logos.weights.values import leaf_array


@dataclass(frozen=True)
class Kin:
    """A family: `W…` is a weight of a tensor `t.W…` stored transposed, `R` a table."""

    name: str = "kin"

    def author(self, header: object, options: AuthorOptions) -> str:
        raise AssertionError("never asked")

    def view(self, variable: str, graph: Graph, checkpoint: object) -> View | None:
        if variable == "R":
            return Table((lambda rows, columns: np.full((rows, columns), 0.5)) if checkpoint else None)
        return TensorView(f"t.{variable}", transposed=True) if variable.startswith("W") else None


PROGRAM = """
Let x be a 1 by 3 tensor of Real.
Let c be a 1 by 3 tensor of Real.
Set item 2 of c to 2.5.
Let W be a 3 by 2 tensor of Real.
Let Wf be a 3 by 2 tensor of Real.
Set item 1 of Wf to 7.
Let R be a 1 by 2 tensor of Real.
Let S be a 4 by 2 tensor of Real.
Set item 8 of S to 1.
Let q be a 3 by 2 tensor of Real.
Let a be x plus c.
Let b be a matmul W.
Let d be b plus R.
Let e be a matmul Wf.
Let f be d plus e.
Set row 0 of S to f.
Let g be a matmul q.
"""
STORED = np.arange(6, dtype=np.float32).reshape(2, 3)


def graph(text: str = PROGRAM) -> Graph:
    return read_program(Source("p.lg", text), make_grammar(OPS))


def checkpoint(**tensors: Any) -> MemoryCheckpoint:
    return MemoryCheckpoint({name.replace("_", "."): np.asarray(array, np.float32) for name, array in tensors.items()})


def roles(binding: Binding) -> dict[str, str]:
    return {bound.name: bound.role.value for bound in binding.leaves}


def codes(*arguments: Any, text: str = PROGRAM, **more: Any) -> list[str]:
    with pytest.raises(Refused) as refused:
        bind(graph(text), Kin(), *arguments, **more)
    return [refusal.code for refusal in refused.value.refusals]


def test_the_first_role_that_fits() -> None:
    due = {"x": "input", "c": "constant", "W": "weight", "Wf": "weight", "R": "table", "S": "state", "q": "input"}
    assert roles(bind(graph(), Kin())) == due
    assert roles(bind(graph(), Kin(), overrides={"q": "t.q"})) == {**due, "q": "weight"}
    assert roles(bind(graph(), Kin(), overrides={"c": "t.q"})) == {**due, "c": "weight"}
    assert roles(bind(graph(), Kin(), overrides={"R": "t.q"})) == {**due, "R": "weight"}


def test_a_file_makes_a_weight_of_any_leaf_but_a_state(tmp_path: Path) -> None:
    for name in ("x", "c", "S"):
        np.save(tmp_path / f"{name}.npy", np.ones((1, 3)))
    found = roles(bind(graph(), Kin(), None, tmp_path))
    assert (found["x"], found["c"], found["S"]) == ("weight", "weight", "state")


def test_a_file_comes_before_the_checkpoint_and_that_before_fills(tmp_path: Path) -> None:
    made = graph()
    stored = checkpoint(t_W=STORED, t_Wf=STORED + 10)
    binding = bind(made, Kin(), stored)
    assert np.array_equal(leaf_array(binding, binding["W"]), STORED.T)
    assert np.array_equal(leaf_array(binding, binding["Wf"]), STORED.T + 10)
    assert np.array_equal(leaf_array(binding, binding["R"]), [[0.5, 0.5]])
    np.save(tmp_path / "W.npy", np.full((3, 2), 9.0))
    np.save(tmp_path / "R.npy", np.full((1, 2), 8.0))
    binding = bind(made, Kin(), stored, tmp_path)
    assert np.array_equal(leaf_array(binding, binding["W"]), np.full((3, 2), 9.0))
    assert np.array_equal(leaf_array(binding, binding["R"]), [[8.0, 8.0]])
    # What a file supplies may be missing in the checkpoint, and fills stand in for what nothing supplies.
    binding = bind(made, Kin(), checkpoint(t_other=STORED), tmp_path)
    assert np.array_equal(leaf_array(binding, binding["Wf"]), [[7.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    given = {"W": np.zeros((3, 2))}
    assert np.array_equal(leaf_array(binding, binding["W"], given), given["W"])


def test_what_a_weight_file_can_hold_is_what_a_source_supplies(tmp_path: Path) -> None:
    np.save(tmp_path / "q.npy", np.zeros((3, 2)))
    bare = bind(graph(), Kin())
    assert [bound.name for bound in bare.leaves if bare.supplies(bound.name)] == ["c", "Wf"]
    whole = bind(graph(), Kin(), MemoryCheckpoint({"t.W": STORED, "t.Wf": STORED}), tmp_path)
    assert [bound.name for bound in whole.leaves if whole.supplies(bound.name)] == ["c", "W", "Wf", "R", "q"]


def test_constants_and_states_are_zero_but_for_their_fills() -> None:
    binding = bind(graph(), Kin())
    assert leaf_array(binding, binding["c"]).tolist() == [[0.0, 2.5, 0.0]]  # type: ignore[union-attr]
    assert leaf_array(binding, binding["S"]).tolist() == [[0, 0], [0, 0], [0, 0], [0, 1]]  # type: ignore[union-attr]
    for name in ("x", "q", "W", "R"):
        assert leaf_array(binding, binding[name]) is None


def test_what_the_checkpoint_does_not_supply_is_refused_all_at_once() -> None:
    text = PROGRAM.replace("matmul q", "matmul Wq").replace("Let q be", "Let Wq be")
    with pytest.raises(Refused) as refused:
        bind(graph(text), Kin(), checkpoint(t_Wqs=STORED, t_other=STORED))
    assert [str(refusal.text()) for refusal in refused.value.refusals] == [
        "memory.ckpt, tensor t.W: the program needs W from t.W; the file has no such tensor; the nearest is t.Wqs "
        '[missing-tensor]\n  next: name the tensor in [weights], as `W = "…"`',
        "memory.ckpt, tensor t.Wq: the program needs Wq from t.Wq; the file has no such tensor; the nearest is t.Wqs "
        '[missing-tensor]\n  next: name the tensor in [weights], as `Wq = "…"`',
    ]


def test_a_tensor_of_another_shape_or_for_an_int_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        bind(graph(), Kin(), checkpoint(t_W=np.zeros((3, 2)), t_Wf=STORED))
    assert str(refused.value) == (
        "memory.ckpt, tensor t.W: W is declared 3 by 2, but the tensor is 3 by 2 as stored, which its view (all rows, "
        "transposed) makes 2 by 3 [tensor-shape]\n  next: declare W as 2 by 3"
    )
    text = "Let W be a 3 by 2 tensor of Int.\nLet y be transpose of W."
    assert codes(checkpoint(t_W=STORED), text=text) == ["tensor-type"]


def test_an_override_names_a_leaf_that_is_no_state() -> None:
    assert codes(overrides={"S": "t.S", "a": "t.a", "Ww": "t.W"}) == [
        "override-of-state", "unknown-variable", "unknown-variable"
    ]  # fmt: skip
    with pytest.raises(Refused, match="the program has no leaf Ww; did you mean W"):
        bind(graph(), Kin(), overrides={"Ww": "t.W"})


def test_an_override_of_a_tensor_that_is_not_there_is_refused_even_where_fills_could_stand_in() -> None:
    stored = checkpoint(t_W=STORED)
    assert codes(stored, overrides={"c": "t.none"}) == ["missing-tensor"]
    assert codes(stored, overrides={"Wf": "t.none"}) == ["missing-tensor"]


def test_an_override_is_transposed_as_it_fits() -> None:
    stored = checkpoint(t_W=STORED, t_Wf=STORED, as_stored=STORED.T, other_way=STORED)
    for name in ("q", "W"):
        for tensor in ("as.stored", "other.way"):
            binding = bind(graph(), Kin(), stored, overrides={name: tensor})
            assert np.array_equal(leaf_array(binding, binding[name]), STORED.T)


def test_a_square_override_is_transposed_where_the_program_multiplies_by_it() -> None:
    text = (
        "Let x be a 1 by 2 tensor of Real.\nLet m be a 2 by 2 tensor of Real.\nLet t be a 2 by 2 tensor of Real.\n"
        "Let W be a 2 by 2 tensor of Real.\nLet a be x matmul m.\nLet b be row 1 of t.\nLet c be W plus b."
    )
    square = np.array([[1, 2], [3, 4]])
    stored = checkpoint(s=square)
    binding = bind(graph(text), Kin(), stored, overrides={"m": "s", "t": "s", "W": "s"})
    found = {name: leaf_array(binding, binding[name]).tolist() for name in "mtW"}  # type: ignore[union-attr]
    assert found == {"m": [[1, 3], [2, 4]], "t": [[1, 2], [3, 4]], "W": [[1, 3], [2, 4]]}


def test_a_run_names_everything_without_a_value_and_how_to_give_it() -> None:
    binding = bind(graph(), Kin())
    with pytest.raises(Refused) as refused:
        run_values(binding, {}, None)
    assert [refusal.what for refusal in refused.value.refusals] == [
        "the input x has no value", "the weight W and the table R have no value", "the input q has no value"
    ]
    assert "--set x=VALUE" in refused.value.refusals[0].next
    assert "--checkpoint FILE or --weights DIR" in refused.value.refusals[1].next
    values = run_values(binding, {"x": np.ones((1, 3))}, "zero", fed=("q",))
    assert sorted(values) == ["R", "W", "Wf", "c", "x"]


def test_many_weights_without_values_are_one_message_that_shows_a_few() -> None:
    lines = [f"Let W{number} be a 1 by 1 tensor of Real." for number in range(1000)]
    many = graph("\n".join([*lines, "Let y be W0 plus W1.", "Let R be a 1 by 1 tensor of Real."]))
    with pytest.raises(Refused) as refused:
        run_values(bind(many, Kin()), {}, None)
    (refusal,) = refused.value.refusals
    assert refusal.what == "the weights W0, W1, W2 and 997 more and the table R have no value"
    assert [place.label() for place in refusal.also[-2:]] == ["p.lg:1000:1", "p.lg:1002:1"]
    carets = f"    {'^' * (len(lines[1]) - 1)}"
    assert refusal.text().splitlines()[3:] == [
        "  also p.lg:2:1",
        "    Let W1 be a 1 by 1 tensor of Real.",
        carets,
        "  also p.lg:3:1",
        "    Let W2 be a 1 by 1 tensor of Real.",
        carets,
        "  also at 998 more places",
        "  next: give --checkpoint FILE or --weights DIR, or fill everything without a value with --fill noise",
    ]


def test_a_broken_weight_file_is_one_refusal_and_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights.safetensors").write_bytes(b"\xff" * 20)
    reads: list[Path] = []
    real = files.read_header
    monkeypatch.setattr(files, "read_header", lambda path: (reads.append(path), real(path))[1])
    with pytest.raises(Refused) as refused:
        bind(graph(), Kin(), None, tmp_path, {"y": "t"})
    assert [refusal.code for refusal in refused.value.refusals] == ["unknown-variable", "broken-weight-file"]
    assert len(reads) == 1
