"""The double of the vendor's package fails what breaks the documented contract, and does what its modes say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import vendor_double as double

torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

Samba = Any


@pytest.fixture
def samba(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Samba:
    monkeypatch.chdir(tmp_path)
    return double.install(monkeypatch)


def sound(self: Any, x: Any, T: Any) -> Any:
    return torch.nn.functional.silu(x), T + x


def wrapped(samba: Samba, names: str = "x T", **values: Any) -> tuple[Any, ...]:
    tensors = {"x": torch.ones(1, 3), "T": torch.zeros(2, 3), **values}
    return tuple(samba.from_torch_tensor(tensors[name], name=name) for name in names.split())


def compiled(samba: Samba, model: Any, inputs: Any = None) -> Any:
    samba.from_torch_model_(model)
    return samba.session.compile(model, wrapped(samba) if inputs is None else inputs)


def traced(samba: Samba, model: Any) -> Any:
    pef = compiled(samba, model)
    return samba.utils.trace_graph(model, wrapped(samba), pef=pef)


def step(samba: Samba, outputs: Any, *inputs: Any) -> list[Any]:
    given = inputs or wrapped(samba)
    results = samba.session.run(input_tensors=given, output_tensors=outputs, section_types=["fwd"])
    return [samba.to_torch(result) for result in results]


def in_place(self: Any, x: Any, T: Any) -> Any:
    T.add_(x)
    return x, T


def indexed(self: Any, x: Any, T: Any) -> Any:
    T = T * 2
    T[1] = x[0]
    return x, T


def put(self: Any, x: Any, T: Any) -> Any:
    T = T * 2
    T[self.rows] = x
    return x, T


def branching(self: Any, x: Any, T: Any) -> Any:
    return (x, T) if x.sum() > 0 else (x * 2, T)


def read(self: Any, x: Any, T: Any) -> Any:
    return x * x.sum().item(), T


def unlisted(self: Any, x: Any, T: Any) -> Any:
    return torch.sigmoid(x), T


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (in_place, r"aten\.add_\.Tensor: a write in place"),
        (indexed, r"aten\.copy_\.default: an index assignment"),
        (branching, "control flow on a tensor's value cannot be traced"),
        (read, r"aten\.item\.default: a tensor's value is read while tracing"),
        (unlisted, r"aten\.sigmoid\.default: neither documented nor used"),
        (lambda self, x, T: [x, T], "forward returns a plain tuple"),
    ],
)
def test_a_module_that_cannot_be_traced_fails(forward: Callable[..., Any], message: str, samba: Samba) -> None:
    with pytest.raises(RuntimeError, match=message):
        compiled(samba, double.module(forward))


def test_an_assignment_to_computed_rows_fails(samba: Samba) -> None:
    rows = torch.nn.Parameter(torch.tensor([1]), requires_grad=False)
    with pytest.raises(RuntimeError, match=r"aten\.index_put_\.default: an index assignment"):
        compiled(samba, double.module(put, rows=rows))


def test_a_buffer_as_state_fails(samba: Samba) -> None:
    with pytest.raises(RuntimeError, match="cache: a buffer is not converted and stays on the host"):
        samba.from_torch_model_(double.module(sound, cache=torch.zeros(2)))


def test_shared_weights_fail(samba: Samba) -> None:
    weight = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
    with pytest.raises(RuntimeError, match="b shares its tensor with a"):
        samba.from_torch_model_(double.module(sound, a=weight, b=weight))


def test_inputs_in_the_wrong_order_fail(samba: Samba) -> None:
    with pytest.raises(RuntimeError, match="inputs in the wrong order: T, x; forward takes x, T"):
        compiled(samba, double.module(sound), wrapped(samba, "T x"))
    outputs = traced(samba, double.module(sound))
    with pytest.raises(RuntimeError, match="inputs in the wrong order: T, x; compiled was x, T"):
        step(samba, outputs, *wrapped(samba, "T x"))


def test_a_wrong_dtype_fails(samba: Samba) -> None:
    with pytest.raises(RuntimeError, match="x: wrong dtype float16; it is in no row"):
        wrapped(samba, x=torch.ones(1, 3).half())
    outputs = traced(samba, double.module(sound))
    with pytest.raises(RuntimeError, match="x: wrong dtype bfloat16; compiled was float32"):
        step(samba, outputs, *wrapped(samba, x=torch.ones(1, 3).bfloat16()))
    with pytest.raises(RuntimeError, match=r"x: wrong shape \[1, 4\]; compiled was \[1, 3\]"):
        step(samba, outputs, *wrapped(samba, x=torch.ones(1, 4)))


def test_a_missing_name_fails(samba: Samba) -> None:
    with pytest.raises(RuntimeError, match="an input without a name"):
        samba.from_torch_tensor(torch.ones(1))
    outputs = traced(samba, double.module(sound))
    with pytest.raises(RuntimeError, match="missing name: no input is called T; given are x"):
        step(samba, outputs, *wrapped(samba, "x"))
    with pytest.raises(RuntimeError, match="extra: the PEF has no input of this name; it has x, T"):
        step(samba, outputs, *wrapped(samba, "x T extra", extra=torch.ones(1)))


def test_calls_out_of_order_fail(samba: Samba) -> None:
    with pytest.raises(RuntimeError, match="from_torch_model_ comes before compile and trace"):
        samba.session.compile(double.module(sound), wrapped(samba))
    with pytest.raises(RuntimeError, match=r"session\.run before trace_graph"):
        step(samba, None)


def test_a_sound_module_runs_with_the_weights_of_its_tracing(samba: Samba) -> None:
    model = double.module(lambda self, x, T: (x * self.w, T), w=torch.nn.Parameter(torch.ones(3), requires_grad=False))
    outputs = traced(samba, model)
    model.w.mul_(5)
    assert step(samba, outputs)[0].tolist() == [[1, 1, 1]]


def test_the_run_of_another_module_is_not_the_pefs(samba: Samba) -> None:
    pef = compiled(samba, double.module(sound))
    other = double.module(lambda self, x, T: (x, T))
    samba.from_torch_model_(other)
    with pytest.raises(RuntimeError, match="was compiled from another graph"):
        samba.utils.trace_graph(other, wrapped(samba), pef=pef)


def modal(samba: Samba, monkeypatch: pytest.MonkeyPatch, **modes: object) -> list[Any]:
    monkeypatch.setenv("SAMBAFLOW_DOUBLE", json.dumps(modes))
    return step(samba, traced(samba, double.module(sound)), *wrapped(samba, x=torch.full((1, 3), 0.3)))


def test_modes(samba: Samba, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    right = torch.nn.functional.silu(torch.full((1, 3), 0.3))
    assert torch.equal(modal(samba, monkeypatch)[0], right)
    assert torch.equal(modal(samba, monkeypatch, wrong={"aten.silu.default": 0.01})[0], right * 1.01)
    rounded = modal(samba, monkeypatch, bfloat16=True)[1]
    assert rounded[0, 0] == torch.tensor(0.3).bfloat16().float() != torch.tensor(0.3)
    assert "fall" not in capsys.readouterr().err
    modal(samba, monkeypatch, fallback=["aten.silu.default"])
    assert "operator aten.silu.default has no RDU implementation, falling back to CPU" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match=r"compilation failed: operator aten\.silu\.default is not supported"):
        modal(samba, monkeypatch, fail=["aten.silu.default"])
    monkeypatch.setenv("SAMBAFLOW_DOUBLE", json.dumps({"known": ["aten.sigmoid.default"]}))
    compiled(samba, double.module(unlisted))


def test_the_preset_turns_bfloat16_off(samba: Samba, monkeypatch: pytest.MonkeyPatch) -> None:
    samba.utils.argparser.parse_app_args(["run", "--graphamp-preset", "mp0"])
    assert modal(samba, monkeypatch, bfloat16=True)[1][0, 0] == torch.tensor(0.3)


def connected(samba: Samba, model: Any, pairs: dict[int, str]) -> tuple[dict[str, Any], Any]:
    samba.from_torch_model_(model)
    inputs = dict(zip(("x", "T"), wrapped(samba), strict=True))
    outputs = samba.utils.trace_multigraph(model, inputs, trace_prefix="g")
    for number, name in pairs.items():
        outputs[number].sn_region_name = inputs[name].sn_region_name
    return inputs, outputs


def added(samba: Samba, inputs: Any, outputs: Any) -> str:
    from sambaflow.samba.graph import FwdGraph

    samba.session.add_graph(FwdGraph(inputs, outputs, name="g"))
    return str(samba.session.compile_multigraph(name="m", config_dict={"pef_name": "p"}, inference=True))


def test_a_region_keeps_a_state_on_the_device(samba: Samba) -> None:
    inputs, outputs = connected(samba, double.module(sound), {1: "T"})
    samba.session.init_multigraph_runtime(added(samba, inputs, outputs))
    with pytest.raises(RuntimeError, match="nothing was ever written to T, which g reads"):
        samba.session.run(input_tensors=wrapped(samba, "x"), graph_name="g")
    samba.session.run(input_tensors=wrapped(samba), graph_name="g")
    samba.session.run(input_tensors=wrapped(samba, "x"), graph_name="g")
    (state,) = samba.session.get_tensors_by_name(["T"])
    assert state.data.tolist() == [[2, 2, 2], [2, 2, 2]]
    with pytest.raises(RuntimeError, match="device memory has no U"):
        samba.session.get_tensors_by_name(["U"])


def test_regions_that_break_the_contract_fail(samba: Samba) -> None:
    inputs, outputs = connected(samba, double.module(sound), {})
    with pytest.raises(RuntimeError, match="T: an output takes an input's region, never the other way"):
        inputs["T"].sn_region_name = outputs[1].sn_region_name
    with pytest.raises(RuntimeError, match="no graph was added"):
        samba.session.compile_multigraph(name="m")
    added(samba, inputs, outputs)
    with pytest.raises(RuntimeError, match="connect regions before add_graph"):
        outputs[1].sn_region_name = "T"
    inputs, outputs = connected(samba, double.module(sound), {0: "T"})
    with pytest.raises(RuntimeError, match="g_output_0 does not fit the region of T"):
        added(samba, inputs, outputs)
    inputs["T"]._region = "x"
    with pytest.raises(RuntimeError, match="T and x: two inputs may not share a region"):
        added(samba, inputs, outputs)
