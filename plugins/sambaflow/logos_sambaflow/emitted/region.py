# mypy: ignore-errors
"""The module on the device by the calls of SambaFlow's published multigraph inference; the states stay there."""

from __future__ import annotations

# SambaFlow API unverified
import sambaflow.samba.utils
from model import OUTPUTS

# SambaFlow API unverified
from sambaflow import samba

# SambaFlow API unverified
from sambaflow.samba.graph import FwdGraph

GRAPH = "logos_step"


class Device:
    """The module on the device as a multigraph of one graph: a state that a step returns lies in the region of the
    state that it takes, so that it never leaves the device."""

    def __init__(self, module, arguments):
        """`arguments` are forward's, name and dummy tensor, in its order."""
        self.module, self.names = module, [name for name, _ in arguments]
        # SambaFlow API unverified
        self.inputs = {name: samba.from_torch_tensor(tensor, name=name) for name, tensor in arguments}
        # SambaFlow API unverified
        self.traced = sambaflow.samba.utils.trace_multigraph(module, self.inputs, trace_prefix=GRAPH)
        returned = self.traced[len(OUTPUTS) :]
        self.kept = self.names[len(self.names) - len(returned) :]
        for name, output in zip(self.kept, returned):
            # The output takes the input's region: the other direction does not work. No two inputs share one.
            # SambaFlow API unverified
            output.sn_region_name = self.inputs[name].sn_region_name
        # SambaFlow API unverified
        samba.session.add_graph(FwdGraph(self.inputs, self.traced, name=GRAPH))

    def compile(self, args):
        # SambaFlow API unverified
        return samba.session.compile_multigraph(
            name=GRAPH, config_dict=vars(args), pef_metadata={}, enable_hypersection=True, inference=True
        )

    def open(self, args, states):
        """Brings the weights to the device; `states` are those before the first step, which go there with it."""
        # SambaFlow API unverified
        samba.session.init_multigraph_runtime(args.pef)
        self.first = list(states)

    def step(self, inputs):
        """One step on the inputs' values; OUTPUTS' values."""
        values = dict(zip(self.names, [*inputs, *self.first]))
        self.first = []
        # SambaFlow API unverified
        given = samba.from_named_dict(values)
        # SambaFlow API unverified
        samba.session.run(input_tensors=given, graph_name=GRAPH)
        # SambaFlow API unverified
        regions = [output.sn_region_name for output in self.traced[: len(OUTPUTS)]]
        return read(regions)

    def states(self):
        """The states after the last step, brought to the host."""
        if self.first:
            return self.first
        # SambaFlow API unverified
        regions = [self.inputs[name].sn_region_name for name in self.kept]
        return read(regions)


def read(regions):
    """The tensors that lie in regions of the device's memory."""
    # SambaFlow API unverified
    return [samba.session.get_tensors_by_name([region])[0].data for region in regions]
