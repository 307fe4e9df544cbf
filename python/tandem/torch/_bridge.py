"""A Tandem program as a function with autograd for PyTorch: forward and backward are
compiled by Tandem, and PyTorch sees one node: that of tandem._node, or where that was
not built, a torch.autograd.Function."""
import logging

import torch
from torch.autograd.graph import increment_version

from .. import _core
from ._pieces import draw_seed

try:
    from .. import _node
except ImportError:  # built only where PyTorch is when the package is built
    _node = None

log = logging.getLogger("tandem")
# A call with a node in C++, or None: Call, a torch.autograd.Function, does the same.
record = _node.record if _node and _node.built_for == torch.__version__ else None
keeps_graph = torch._C._autograd._get_current_graph_task_keep_graph


def version(t):
    """PyTorch's version counter; inference tensors and numbers have none."""
    return t._version if isinstance(t, torch.Tensor) and not t.is_inference() else 0


def versions_of(tensors):
    try:
        return [t._version for t in tensors]
    except (AttributeError, RuntimeError):
        return [version(t) for t in tensors]


def note_writes(ctx):
    """Tells Tandem which arguments and results were written since forward: a backward that
    reads the old elements fails, as in eager."""
    tensors, versions = ctx.tensors
    now = versions_of(tensors)
    if now != versions:
        for i, (a, b) in enumerate(zip(now, versions)):
            if a != b:
                ctx.history.written(i)


def differentiate(ctx, tangents, skip):
    """The backward of Call and Gradient. `skip`: arguments of forward before the tensors."""
    if ctx.history is None:
        raise RuntimeError("Trying to backward through the graph a second time, but the "
                           "saved values were freed; pass retain_graph=True to the first "
                           "backward")
    note_writes(ctx)
    wanted = bytes(ctx.needs_input_grad[skip:])
    if torch.is_grad_enabled():
        grads = Run.gradient(ctx.history, wanted, tangents, ctx.tensors[0][:len(wanted)])
    else:
        keep = keeps_graph()
        grads = ctx.history.backward(tangents, wanted, torch.Tensor, keep)
        if not keep:
            ctx.history = ctx.tensors = None
    return (None,) * skip + tuple(grads)


class Call(torch.autograd.Function):
    """One call of a program. Its results are those that the program computes; views of
    arguments are made outside."""

    @staticmethod
    def forward(ctx, run, made, *args):
        """`made`: the results and history of a call that was made already, or None."""
        outs, history = made or run.record(args, torch.Tensor, run.seed(), run.dims,
                                           run.flags)
        if run.written:
            increment_version([args[i] for i in run.written])
        ctx.set_materialize_grads(False)
        if run.differentiable is None:  # the same for every call: Dynamo guards the flags
            run.differentiable = history.differentiable()
        if not all(run.differentiable):
            ctx.mark_non_differentiable(
                *[o for o, d in zip(outs, run.differentiable) if not d])
        ctx.history = history
        both = [*args, *[o.detach() for o in outs]]
        ctx.tensors = both, versions_of(both)
        return tuple(outs)

    @staticmethod
    def backward(ctx, *tangents):
        return differentiate(ctx, tangents, 2)


class Gradient(torch.autograd.Function):
    """The backward of a call with create_graph: a function of the tangents and of the
    call's arguments, with a history of its own."""

    @staticmethod
    def forward(ctx, history, wanted, flags, n, *tensors):
        grads, ctx.history = history.backward_graph(tensors[:n], wanted, torch.Tensor, flags)
        ctx.set_materialize_grads(False)
        plain = [g for g, d in zip(grads, ctx.history.differentiable())
                 if g is not None and not d]
        if plain:
            ctx.mark_non_differentiable(*plain)
        ctx.tensors = list(tensors), versions_of(tensors)
        return tuple(grads)

    @staticmethod
    def backward(ctx, *tangents):
        return differentiate(ctx, tangents, 4)


class Run:
    """A compiled graph of Dynamo as a callable of its arguments.

        piece     the program
        take      for each input of the program the index of an argument, or a tensor
        computed  what the program computes: indexes of results, then nodes of which
                  results are views
        traced    the graph, for results that are views
        eager     the original graph: runs calls whose arguments share memory
    """

    def __init__(self, piece, take, computed, traced, eager):
        self.piece, self.eager, self.traced = piece, eager, traced
        self.take = take
        self.random, self.dims = piece.random, piece.dims
        self.record, self.call = piece.function.record, piece.function.call
        self.computed = computed
        self.whole = computed == list(range(len(traced.outputs)))
        self.others = [] if self.whole else other_results(traced, computed)
        inputs = [traced.inputs[i] if isinstance(i, int) else i for i in take]
        self.flags = bytes([isinstance(t, torch.Tensor) and t.requires_grad
                            for t in inputs])
        self.trains = torch.is_grad_enabled() and any(self.flags)
        self.written = [k for k, i in enumerate(take)
                        if isinstance(i, int) and i in traced.written]
        self.apart = None  # addresses of arguments that were found not to overlap
        self.count = len(traced.outputs)
        self.gave_up = False
        self.differentiable = None  # which computed results; known after the first call
        self.plain = take == list(range(len(traced.inputs)))

    def __call__(self, *args):
        given = args if self.plain else \
            tuple([args[i] if isinstance(i, int) else i for i in self.take])
        if self.written and not self.are_apart(given):
            log.warning("%s runs in PyTorch: it writes an argument that shares memory with "
                        "another", self.piece.name)
            return self.eager(*args)
        if self.gave_up:
            return self.eager(*args)
        try:
            outs = self.compiled(given)
        except _core.Error as e:
            return self.give_up(e, args)
        return outs if self.whole else self.assemble(outs, args)

    def compiled(self, given):
        if self.trains:
            return record(self, given) if record else Call.apply(self, None, *given)
        outs = self.call(given, torch.Tensor, self.seed(), self.dims)
        if self.written:
            increment_version([given[i] for i in self.written])
        return outs

    def seed(self):
        return draw_seed() if self.random else None

    def aliased(self, made, args):
        """For tandem._node: results that are arguments or views of them, or arguments with
        forward-mode tangents."""
        return Call.apply(self, made, *args)

    @staticmethod
    def gradient(history, wanted, tangents, args):
        """For tandem._node: a backward with create_graph."""
        flags = bytes([t is not None and t.requires_grad for t in tangents])
        return Gradient.apply(history, wanted, flags, len(tangents), *tangents, *args)

    def give_up(self, error, args):
        """Tandem reports an error before it writes anything. If the call is wrong, PyTorch
        raises its own error; else PyTorch runs this graph from now on."""
        out = self.eager(*args)
        log.warning("%s runs in PyTorch: %s", self.piece.name, error)
        self.gave_up = True
        return out

    def are_apart(self, given):
        """Do the arguments that are written have memory of their own?"""
        at = [t.data_ptr() if isinstance(t, torch.Tensor) else 0 for t in given]
        if at == self.apart:
            return True
        storages = [t.untyped_storage()._cdata if isinstance(t, torch.Tensor) else 0
                    for t in given]
        for i in self.written:
            if storages.count(storages[i]) > 1:
                return False
        self.apart = at
        return True

    def assemble(self, outs, args):
        """All results, from the computed ones and from the arguments."""
        results = [None] * self.count
        for i, o in zip(self.computed, outs):
            if isinstance(i, int):
                results[i] = o
        for i, make in self.others:
            results[i] = make(args, outs, results)
        return tuple(results)


def other_results(traced, computed):
    """[(index, function of arguments, computed values and results before it)] of results
    that the program does not compute."""
    output = next(n for n in traced.graph.graph.nodes if n.op == "output")
    at = {output.args[0][i] if isinstance(i, int) else i: k for k, i in enumerate(computed)}
    made = []
    for i, value in enumerate(traced.outputs):
        if i in computed:
            continue
        source = traced.source[i]
        same = [j for j in range(i) if traced.outputs[j] is value and j not in computed]
        if same and isinstance(value, torch.Tensor):
            make = lambda args, outs, results, j=same[0]: results[j]  # noqa: E731
        elif i in traced.base:
            node = traced.base[i]
            make = view_of_value(node.meta["val"], value, at[node])
        elif source is None:
            make = constant(value)
        elif value is traced.inputs[source]:
            make = lambda args, outs, results, k=source: args[k]  # noqa: E731
        else:
            make = view_of_argument(traced.inputs[source], value, source)
        made.append((i, make))
    return made


def constant(value):
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise_unsupported("a result that is a size")
    return lambda args, outs, results: value


def raise_unsupported(why):
    from ._emit import Unsupported
    raise Unsupported(why)


def view_maker(base, value):
    """A function from a tensor like base to the view of it that value is."""
    numbers = [*value.size(), *value.stride(), value.storage_offset(), base.storage_offset()]
    if not all(isinstance(n, int) for n in numbers) or value.dtype != base.dtype:
        raise_unsupported("a result that is a view, with symbolic sizes or another dtype")
    sizes, strides = tuple(value.size()), tuple(value.stride())
    offset = value.storage_offset() - base.storage_offset()

    def make(t):
        if t.requires_grad and not value.requires_grad:
            t = t.detach()
        return torch.as_strided(t, sizes, strides, t.storage_offset() + offset)
    return make


def view_of_argument(base, value, source):
    make = view_maker(base, value)
    return lambda args, outs, results: make(args[source])


def view_of_value(base, value, k):
    """The result is a view of the computed value k, as is another result."""
    make, sizes, strides = view_maker(base, value), base.size(), base.stride()

    def from_value(args, outs, results):
        if outs[k].stride() != strides:
            raise RuntimeError(f"tandem: a value has strides {outs[k].stride()}, and "
                               f"{strides} in eager; sizes {sizes}")
        return make(outs[k])
    return from_value
