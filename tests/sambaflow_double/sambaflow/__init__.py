"""A double of the vendor's package, for tests alone: put the folder that holds it on PYTHONPATH.

It is written from what the vendor documents and publishes (docs/rdu-sambaflow.md), knows no RDU, and runs a module's
traced graph on the host. What is documented holds; what breaks the contract fails with a `ContractError` that says so:

- a buffer or a shared weight in the module, an operator that the vendor neither documents nor uses (`operators`)
- a write in place, an assignment to an index, a decision on a tensor's value, in what is traced
- an input without a name, or with another name, order, dtype or shape at run than at compile; a dtype in no row
- a second input in a region, a region given from an output to an input, connected after its graph was added or given no
  value; calls out of their published order

`session.compile` writes `<output folder>/<pef name>/<pef name>.pef`, a JSON file that the run of another process reads.

The environment variable SAMBAFLOW_DOUBLE, JSON, sets its modes:

    {"fallback": ["aten.softmax.int"],      compiles, and says on standard error that it falls back to CPU
     "bfloat16": true,                      every result is rounded to bfloat16, but with --graphamp-preset mp0
     "wrong": {"aten.silu.default": 0.01},  the operator's result times 1.01; of integers, plus 1
     "fail": ["aten.cumsum.default"],       compile raises RuntimeError naming the operator
     "known": ["aten.sigmoid.default"],     taken beside the listed operators
     "log": "calls.jsonl"}                  every call of the interface is added to the file, one JSON list a line

Operators bear the names of torch.export's undecomposed graph. A fallback, a wrong and a failing operator is listed.
"""
