"""A stand-in for the vendor's package: records the calls that compile.py makes, and runs the module on the host."""

from __future__ import annotations

import argparse
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

Call = tuple[str, dict[str, Any]]


def install(monkeypatch: Any, command: str) -> list[Call]:
    """Puts the package into sys.modules, `command` being what the user asked for; the list fills with its calls."""
    calls: list[Call] = []
    held: dict[str, Any] = {}

    def parse_app_args(argv: list[str], common_parser_fn: Any, run_parser_fn: Any) -> Any:
        calls.append(("parse_app_args", {}))
        parser = argparse.ArgumentParser()
        parser.add_argument("command")
        parser.add_argument("--inference", action="store_true")
        parser.add_argument("--pef-name")
        parser.add_argument("--pef")
        common_parser_fn(parser)
        run_parser_fn(parser)
        return parser.parse_args([command, *argv])

    def from_torch_model_(model: Any) -> None:
        calls.append(("from_torch_model_", {"parameters": dict(model.named_parameters())}))
        assert not list(model.buffers())
        held["model"] = model

    def from_torch_tensor(tensor: Any, name: str) -> Any:
        calls.append(("from_torch_tensor", {"name": name, "dtype": tensor.dtype, "shape": tuple(tensor.shape)}))
        return tensor

    def compile_(model: Any, inputs: tuple[Any, ...]) -> None:
        calls.append(("session.compile", {"inputs": len(inputs)}))
        held["model"](*inputs)

    def trace_graph(model: Any, inputs: tuple[Any, ...], pef: str) -> Any:
        calls.append(("trace_graph", {"pef": pef}))
        return model(*inputs)

    def run(input_tensors: Any, output_tensors: Any, section_types: list[str]) -> Any:
        calls.append(("session.run", {"section_types": section_types}))
        results = held["model"](*input_tensors)
        assert [tensor.shape for tensor in results] == [tensor.shape for tensor in output_tensors]
        return results

    def to_torch(tensor: Any) -> Any:
        calls.append(("to_torch", {"value": tensor}))
        return tensor

    session = SimpleNamespace(compile=compile_, run=run)
    modules = {name: ModuleType(name) for name in ("sambaflow", "sambaflow.samba", "sambaflow.samba.utils")}
    argparser = ModuleType("sambaflow.samba.utils.argparser")
    vars(argparser).update(parse_app_args=parse_app_args)
    samba, utils = modules["sambaflow.samba"], modules["sambaflow.samba.utils"]
    vars(samba).update(
        session=session,
        from_torch_model_=from_torch_model_,
        from_torch_tensor=from_torch_tensor,
        to_torch=to_torch,
        utils=utils,
    )
    vars(utils).update(trace_graph=trace_graph, argparser=argparser)
    vars(modules["sambaflow"]).update(samba=samba)
    for name, module in {**modules, argparser.__name__: argparser}.items():
        monkeypatch.setitem(sys.modules, name, module)
    return calls
