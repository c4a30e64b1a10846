"""The session: one compiled graph with inputs and outputs on the host, or a multigraph with regions on the device."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sambaflow.double import ContractError, logged
from sambaflow.samba.graph import FwdGraph
from sambaflow.samba.operators import check_support
from sambaflow.samba.pef import check_same, read_pef, write_pef
from sambaflow.samba.tensor import SambaTensor, description
from sambaflow.samba.traced import Traced, check_input, check_inputs

_converted: list[Any] = []
_traced: dict[str, Any] = {}
_graphs: dict[str, FwdGraph] = {}
_memory: dict[str, torch.Tensor] = {}
_device: dict[str, Any] = {"pef": None}


def compile(model: Any, inputs: Sequence[SambaTensor], *more: Any, **options: Any) -> str:
    """Compiles one graph and gives the PEF's path."""
    logged("session.compile", [tensor.sn_name for tensor in inputs])
    check_converted(model)
    traced = Traced(model, inputs)
    check_support(traced.graph)
    graph = {"name": "fwd", "inputs": traced.inputs, "outputs": traced.outputs, "operators": traced.operators}
    return write_pef(options.get("config_dict") or {}, [graph])


def run(
    input_tensors: Sequence[SambaTensor],
    output_tensors: Sequence[SambaTensor] | None = None,
    section_types: Sequence[str] | None = None,
    graph_name: str | None = None,
    **options: Any,
) -> Sequence[SambaTensor]:
    """One step: the outputs of `trace_graph`, filled; of a multigraph, by its name, the regions in device memory."""
    if graph_name is not None:
        return _run_graph(graph_name, input_tensors)
    logged("session.run", list(section_types or []))
    if "fwd" not in _traced or output_tensors is None:
        raise ContractError("session.run before trace_graph: it takes what trace_graph returned as output_tensors")
    traced = _traced["fwd"]
    check_inputs(traced.inputs, input_tensors)
    made = traced.run([tensor.data for tensor in input_tensors])
    for tensor, value in zip(output_tensors, made, strict=True):
        tensor.data = value
    return output_tensors


def trace(model: Any, inputs: Sequence[SambaTensor], pef: str | None, exact: bool) -> Sequence[SambaTensor]:
    """The outputs of one graph, held to its PEF."""
    check_converted(model)
    graph = read_pef(pef)["fwd"]
    check_inputs(graph["inputs"], inputs)
    traced = Traced(model, inputs)
    check_same(graph, traced.operators, str(pef))
    traced.exact = exact
    _traced["fwd"] = traced
    return outputs_of(traced, inputs, "fwd")


def trace_named(model: Any, inputs: Mapping[str, SambaTensor], name: str, exact: bool) -> tuple[SambaTensor, ...]:
    """The outputs of one graph of a multigraph."""
    check_converted(model)
    due = list(inspect.signature(model.forward).parameters)
    if due != list(inputs):
        raise ContractError(f"inputs in the wrong order: {', '.join(inputs)}; forward takes {', '.join(due)}")
    traced = Traced(model, list(inputs.values()))
    traced.exact = exact
    _traced[name] = traced
    return outputs_of(traced, list(inputs.values()), name)


def outputs_of(traced: Traced, inputs: Sequence[SambaTensor], prefix: str) -> tuple[SambaTensor, ...]:
    made = traced.run([tensor.data for tensor in inputs])
    outputs = tuple(SambaTensor(value, f"{prefix}_output_{number}") for number, value in enumerate(made))
    for tensor in outputs:
        tensor.place = "output"
    return outputs


def check_converted(model: Any) -> None:
    if not any(one is model for one in _converted):
        raise ContractError("the module was not converted: from_torch_model_ comes before compile and trace")


def add_graph(graph: FwdGraph) -> None:
    """Adds a traced graph. ContractError: one that was not traced; two inputs in a region; an output that does not fit
    the input whose region it takes."""
    logged("session.add_graph", graph.name)
    if graph.name not in _traced:
        raise ContractError(f"add_graph {graph.name}: trace_multigraph comes first, with its name as the prefix")
    regions: dict[str, SambaTensor] = {}
    for tensor in graph.inputs.values():
        if tensor.sn_region_name in regions:
            other = regions[tensor.sn_region_name].sn_name
            raise ContractError(f"{tensor.sn_name} and {other}: two inputs may not share a region")
        regions[tensor.sn_region_name] = tensor
    for output in graph.outputs:
        place = regions.get(output.sn_region_name)
        if place is not None and description(place)[1:] != description(output)[1:]:
            raise ContractError(f"{output.sn_name} does not fit the region of {place.sn_name}")
        output.place = "added"
    _graphs[graph.name] = graph


def compile_multigraph(
    name: str,
    config_dict: Mapping[str, Any] | None = None,
    pef_metadata: Mapping[str, Any] | None = None,
    enable_hypersection: bool = False,
    inference: bool = False,
    **options: Any,
) -> str:
    """Compiles the added graphs and gives the PEF's path."""
    logged("session.compile_multigraph", name)
    if not _graphs:
        raise ContractError("compile_multigraph: no graph was added")
    for key in _graphs:
        check_support(_traced[key].graph)
    return write_pef(config_dict or {}, [_record(graph) for graph in _graphs.values()])


def init_multigraph_runtime(pef: str) -> None:
    """Brings the weights to the device. ContractError: graphs or regions that are not the PEF's."""
    logged("session.init_multigraph_runtime", pef)
    compiled = read_pef(pef)
    for graph in _graphs.values():
        record = _record(graph)
        if graph.name not in compiled:
            raise ContractError(f"{pef} has no graph {graph.name}; it has {', '.join(compiled)}")
        check_same(compiled[graph.name], record["operators"], pef)
        if compiled[graph.name] != record:
            raise ContractError(f"{pef}: the inputs or regions of {graph.name} are not those of compilation")
    _device["pef"] = pef
    _memory.clear()


def _record(graph: FwdGraph) -> dict[str, Any]:
    traced = _traced[graph.name]
    return {
        "name": graph.name,
        "inputs": traced.inputs,
        "outputs": traced.outputs,
        "operators": traced.operators,
        "regions": [tensor.sn_region_name for tensor in (*graph.inputs.values(), *graph.outputs)],
    }


def _run_graph(name: str, given: Sequence[SambaTensor]) -> Sequence[SambaTensor]:
    logged("session.run", name, [tensor.sn_name for tensor in given])
    if _device["pef"] is None or name not in _graphs:
        raise ContractError(f"session.run {name}: init_multigraph_runtime and the graph's trace come first")
    graph, traced = _graphs[name], _traced[name]
    regions = [tensor.sn_region_name for tensor in graph.inputs.values()]
    for tensor in given:
        if tensor.sn_name not in regions:
            raise ContractError(f"{tensor.sn_name}: the PEF has no input of this name; it has {', '.join(regions)}")
        check_input(traced.inputs[regions.index(tensor.sn_name)], tensor)
        _memory[tensor.sn_name] = tensor.data.clone()
    empty = [region for region in regions if region not in _memory]
    if empty:
        raise ContractError(f"missing name: nothing was ever written to {', '.join(empty)}, which {name} reads")
    made = traced.run([_memory[region] for region in regions])
    _memory.update((output.sn_region_name, value) for output, value in zip(graph.outputs, made, strict=True))
    return ()


def get_tensors_by_name(names: Sequence[str]) -> list[SambaTensor]:
    """Tensors from device memory, by their regions."""
    logged("session.get_tensors_by_name", *names)
    missing = [name for name in names if name not in _memory]
    if missing:
        raise ContractError(f"missing name: device memory has no {', '.join(missing)}; it has {', '.join(_memory)}")
    return [SambaTensor(_memory[name].clone(), name) for name in names]
