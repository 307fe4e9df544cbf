"""The backend tandem_aot: forward and backward graphs of PyTorch's AOTAutograd, compiled
by Tandem."""
import itertools

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from ._pieces import compile_functional
from ._derive import row_of
from ._rows import MANY

numbers = itertools.count()


def decompositions():
    """PyTorch's decompositions to core ATen, without the ops that have a row."""
    from torch._decomp import core_aten_decompositions
    table = {}
    for op, f in core_aten_decompositions().items():
        name = f"{op._opname}.{op._overloadname}" if op.namespace == "aten" else None
        if row_of(name) is None and name not in MANY:
            table[op] = f
    return table


def compiler(half):
    def compile_graph(gm, example_inputs):
        return compile_functional(gm, f"{half}{next(numbers)}")
    return compile_graph


tandem_aot = aot_autograd(
    fw_compiler=compiler("forward"),
    bw_compiler=compiler("backward"),
    inference_compiler=compiler("inference"),
    decompositions=decompositions,
    partition_fn=min_cut_rematerialization_partition,
)
