"""tandem.torch.explain: which calls of a model Tandem compiles, and why not the others."""
import collections
import copy

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from .. import _core
from ._aot import decompositions
from ._backend import compile_whole
from ._emit import Unsupported
from ._pieces import Split, is_size
from ._trace import NothingToDo, operators_of


class Graph:
    """One graph of TorchDynamo.

    Attributes:
        backend   "tandem" or "tandem_aot"
        why       the reason for tandem_aot; "" for tandem
        ops       number of ATen calls
        in_torch  Counter of {reason: calls} that run in PyTorch
    """

    def __init__(self, nr):
        self.nr, self.backend, self.why = nr, "tandem", ""
        self.ops, self.in_torch = 0, collections.Counter()

    @property
    def coverage(self):
        """The share of calls that Tandem compiles, 0 to 1."""
        return 1 - sum(self.in_torch.values()) / max(self.ops, 1)

    def __str__(self):
        text = f"graph {self.nr}: {self.backend}, {self.ops} ops, {self.coverage:.1%} compiled"
        if self.why:
            text += f"\n  not tandem: {self.why}"
        for why, n in self.in_torch.most_common():
            text += f"\n  in PyTorch: {n} x {why}"
        return text


class Explanation:
    """The graphs of a call; str() is the report."""

    def __init__(self):
        self.graphs = []

    @property
    def coverage(self):
        ops = sum(g.ops for g in self.graphs)
        return 1 - sum(sum(g.in_torch.values()) for g in self.graphs) / max(ops, 1)

    def __str__(self):
        return "\n".join(map(str, self.graphs)) or "no graphs"

    # ---- backends that only look -----------------------------------------------

    def look(self, gm, example_inputs):
        graph = Graph(len(self.graphs))
        self.graphs.append(graph)
        try:
            run = compile_whole(gm, example_inputs, f"explain{graph.nr}")
            graph.ops = len(operators_of(run.traced.graph.graph))
            return gm.forward
        except NothingToDo:
            return gm.forward
        except (Unsupported, _core.Error) as e:
            graph.backend, graph.why = "tandem_aot", str(e)
        return self.look_at_halves(graph)(gm, example_inputs)

    @staticmethod
    def look_at_halves(graph):
        def look(gm, example_inputs):
            split = Split(gm.graph)
            graph.ops += sum(not is_size(n) for n in split.rank)
            graph.in_torch.update(split.reasons.values())

            def run(args):
                return gm(*args)

            run._boxed_call = True
            return run
        return aot_autograd(fw_compiler=look, decompositions=decompositions,
                            partition_fn=min_cut_rematerialization_partition)


def explain(model, *args, **kwargs):
    """Runs a copy of the model once, and its backward if it has one, and returns an
    Explanation: for each graph the backend that would compile it, and the calls that run
    in PyTorch with their reasons. Nothing is compiled to native code, and neither the
    model nor the gradients change."""
    if isinstance(model, torch.nn.Module):
        model = copy.deepcopy(model)
    found = Explanation()
    torch._dynamo.reset()
    out = torch.compile(model, backend=found.look)(*args, **kwargs)
    leaves = [t for t in torch.utils._pytree.tree_leaves(out)
              if isinstance(t, torch.Tensor) and t.requires_grad]
    inputs = [t for t in torch.utils._pytree.tree_leaves((args, kwargs))
              if isinstance(t, torch.Tensor) and t.requires_grad and t.is_leaf]
    if isinstance(model, torch.nn.Module):
        inputs += [p for p in model.parameters() if p.requires_grad]
    if leaves and inputs:
        torch.autograd.grad(leaves, inputs, list(map(torch.ones_like, leaves)),
                            allow_unused=True)
    torch._dynamo.reset()
    return found
