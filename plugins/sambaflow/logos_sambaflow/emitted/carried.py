# mypy: ignore-errors
"""The module on the device by SambaFlow's published calls for one graph; the host carries the states."""

from __future__ import annotations

import os

# SambaFlow API unverified
import sambaflow.samba.utils
from model import OUTPUTS

# SambaFlow API unverified
from sambaflow import samba


class Device:
    """The module on the device, its states carried by the host: they go there and come back at every step."""

    def __init__(self, module, arguments):
        """`arguments` are forward's, name and dummy tensor, in its order."""
        self.module, self.names = module, [name for name, _ in arguments]
        # SambaFlow API unverified
        self.inputs = tuple(samba.from_torch_tensor(tensor, name=name) for name, tensor in arguments)

    def compile(self, args):
        # SambaFlow API unverified
        samba.session.compile(self.module, self.inputs)
        return os.path.join("out", args.pef_name, args.pef_name + ".pef")

    def open(self, args, states):
        """Brings the weights to the device; `states` are those before the first step."""
        # SambaFlow API unverified
        self.traced = sambaflow.samba.utils.trace_graph(self.module, self.inputs, pef=args.pef)
        self.held = list(states)

    def step(self, inputs):
        """One step on the inputs' values; OUTPUTS' values."""
        values = zip(self.names, [*inputs, *self.held])
        # SambaFlow API unverified
        given = tuple(samba.from_torch_tensor(tensor, name=name) for name, tensor in values)
        # SambaFlow API unverified
        results = samba.session.run(input_tensors=given, output_tensors=self.traced, section_types=["fwd"])
        # SambaFlow API unverified
        results = [samba.to_torch(result) for result in results]
        self.held = results[len(OUTPUTS) :]
        return results[: len(OUTPUTS)]

    def states(self):
        """The states after the last step, on the host."""
        return self.held
