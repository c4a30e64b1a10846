"""A module traced with dummy tensors, and its graph carried out on the host as the modes say."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from sambaflow.double import ContractError, modes
from sambaflow.samba.operators import check_operators, operator
from sambaflow.samba.tensor import SambaTensor, description

_VALUE = ("data-dependent", "data dependent", "datadependent")


class Traced:
    """What tracing made: the graph with the weights of that moment, the operators, inputs and outputs."""

    def __init__(self, model: Any, inputs: Sequence[SambaTensor]) -> None:
        check_order(model, [tensor.sn_name for tensor in inputs])
        exported = _exported(model, [tensor.data for tensor in inputs])
        self.operators = check_operators(exported.graph)
        self.graph = exported.graph
        self.module = exported.module()
        held = (*self.module.named_parameters(), *self.module.named_buffers())
        self.held = {name: value.detach().clone() for name, value in held}
        self.inputs = [description(tensor) for tensor in inputs]
        self.exact = False
        made = self.run([tensor.data for tensor in inputs])
        self.outputs = [[list(value.shape), str(value.dtype)] for value in made]

    def run(self, values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs for values of the inputs."""
        with torch.no_grad():
            self.last = list(_Device(self).run(*(_rounded(value, self.exact) for value in values)))
        return self.last


class _Device(torch.fx.Interpreter):
    """The graph with the weights that tracing brought over, whatever the host makes of its own."""

    def __init__(self, traced: Traced) -> None:
        super().__init__(traced.module)
        self.held, self.exact = traced.held, traced.exact

    def fetch_attr(self, target: str) -> Any:
        return self.held[target] if target in self.held else super().fetch_attr(target)

    def run_node(self, node: Any) -> Any:
        result = super().run_node(node)
        name = operator(node)
        if name is None and node.op != "get_attr":
            return result
        error = modes()["wrong"].get(name)
        if error is not None:
            result = tree_map(lambda value: _wrong(value, error), result)
        return tree_map(lambda value: _rounded(value, self.exact), result)


def _wrong(value: Any, error: float) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype == torch.bool:
        return value
    return value * (1 + error) if value.dtype.is_floating_point else value + 1


def _rounded(value: Any, exact: bool) -> Any:
    if exact or not modes()["bfloat16"] or not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
        return value
    return value.to(torch.bfloat16).to(value.dtype)


def _exported(model: Any, values: Sequence[torch.Tensor]) -> Any:
    """torch.export's undecomposed graph. ContractError: a decision on a tensor's value."""
    try:
        exported = torch.export.export(model, tuple(values), strict=False)
    except Exception as error:
        if any(word in f"{type(error).__name__} {error}".lower() for word in _VALUE):
            what = str(error).splitlines()[0]
            raise ContractError(f"control flow on a tensor's value cannot be traced: {what}") from error
        raise
    kinds = [spec.kind.name for spec in exported.graph_signature.output_specs]
    if "USER_INPUT_MUTATION" in kinds:
        raise ContractError("a write in place to an input; a traced tensor takes none")
    if not kinds or exported.call_spec.out_spec.type is not tuple:
        raise ContractError("forward returns a plain tuple of tensors")
    return exported


def check_model(model: Any) -> None:
    """ContractError: buffers, which stay host tensors, and weights that two names share."""
    for name, _ in model.named_buffers():
        raise ContractError(
            f"{name}: a buffer is not converted and stays on the host; state is an input and an output of forward"
        )
    seen: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        other = seen.setdefault(parameter.data_ptr(), name) if parameter.numel() else name
        if other != name:
            raise ContractError(f"{name} shares its tensor with {other}; shared weights are not supported")


def check_order(model: Any, names: Sequence[str]) -> None:
    """ContractError: dummy inputs in another order than forward takes them."""
    due = list(inspect.signature(model.forward).parameters)
    if len(set(names)) < len(names):
        raise ContractError(f"two inputs bear one name: {', '.join(names)}")
    if sorted(due) == sorted(names) and due != list(names):
        raise ContractError(f"inputs in the wrong order: {', '.join(names)}; forward takes {', '.join(due)}")


def check_inputs(due: Sequence[Sequence[Any]], given: Sequence[SambaTensor]) -> None:
    """ContractError: inputs whose names, order, dtypes or shapes are not those of compilation."""
    names, wanted = [tensor.sn_name for tensor in given], [entry[0] for entry in due]
    for name in wanted:
        if name not in names:
            raise ContractError(f"missing name: no input is called {name}; given are {', '.join(names) or 'none'}")
    for name in names:
        if name not in wanted:
            raise ContractError(f"{name}: the PEF has no input of this name; it has {', '.join(wanted)}")
    if names != wanted:
        raise ContractError(f"inputs in the wrong order: {', '.join(names)}; compiled was {', '.join(wanted)}")
    for entry, tensor in zip(due, given, strict=True):
        check_input(entry, tensor)


def check_input(due: Sequence[Any], tensor: SambaTensor) -> None:
    """ContractError: another dtype or shape than at compilation."""
    name, dtype, shape = description(tensor)
    if dtype != due[1]:
        raise ContractError(f"{name}: wrong dtype {dtype}; compiled was {due[1]}")
    if shape != list(due[2]):
        raise ContractError(f"{name}: wrong shape {shape}; compiled was {due[2]}")
