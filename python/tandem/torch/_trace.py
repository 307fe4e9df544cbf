"""The graph that TorchDynamo hands over, as one Tandem program with writes, views and grad
modes: pre-dispatch ATen, before PyTorch's autograd and functionalization."""
import operator

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from ._emit import Unsupported, check_types, name_of
from ._pieces import Piece, is_size, reason_against


def fake_copies(gm, example_inputs):
    """Fake tensors like the example inputs, with the symbolic sizes of Dynamo's. Tracing
    writes their metadata, so they are new, and each has a storage of its own."""
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    known = [n.meta.get("example_value", x) for n, x in zip(places, example_inputs)]
    mode = detect_fake_mode(known) or FakeTensorMode()
    copies = []
    for x in known:
        if isinstance(x, torch.Tensor):
            if type(x) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor):
                raise Unsupported(f"an argument of type {type(x).__name__}")
            x = fake_like(mode, x)
        copies.append(x)
    return mode, copies


def fake_like(mode, x):
    """A fake tensor of x's type. A tensor with history gets one, so that a write to it is
    allowed where a write to a leaf is not."""
    if x.layout is not torch.strided:
        raise Unsupported(f"an argument with layout {x.layout}")
    with mode, torch.enable_grad():
        y = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
        if x.requires_grad:
            y.requires_grad_()
            if not x.is_leaf:
                y = torch.as_strided(y.clone(), x.size(), x.stride())
    return y


class Traced:
    """An ATen graph, and what it does to its inputs.

    Attributes:
        graph     torch.fx.GraphModule of ATen calls
        written   indexes of inputs whose elements change
        outputs   fake tensors, numbers or None
        source    for each output the index of the input it shares memory with, or None
    """

    def __init__(self, gm, example_inputs):
        mode, fakes = fake_copies(gm, example_inputs)
        before = [(t._version, t.size(), t.stride(), t.storage_offset(), storage_of(t))
                  if isinstance(t, torch.Tensor) else None for t in fakes]
        seen = []

        def run(*args):
            out = gm(*args)
            seen.append(out)
            return out

        with mode:
            self.graph = make_fx(run, tracing_mode="real", pre_dispatch=True,
                                 _allow_non_fake_inputs=True)(*fakes)
        self.inputs = fakes
        self.outputs = list(seen[0])
        self.written = []
        for i, (t, was) in enumerate(zip(fakes, before)):
            if was is None:
                continue
            if (t.size(), t.stride(), t.storage_offset(), storage_of(t)) != was[1:]:
                raise Unsupported(f"argument {i} changes its sizes, strides or storage")
            if t._version != was[0]:
                self.written.append(i)
                if t.requires_grad:
                    raise Unsupported(f"argument {i} is written and has a gradient")
        self.find_aliases()

    def find_aliases(self):
        of = {storage_of(t): i for i, t in enumerate(self.inputs)
              if isinstance(t, torch.Tensor)}
        self.source, made = [], {}
        for i, t in enumerate(self.outputs):
            if not isinstance(t, torch.Tensor):
                self.source.append(None)
                continue
            self.source.append(of.get(storage_of(t)))
            if self.source[-1] is None and made.setdefault(storage_of(t), t) is not t:
                raise Unsupported(f"result {i} shares memory with another result")


def storage_of(t):
    return t.untyped_storage()._cdata


# ---- the program -------------------------------------------------------------

class GradMode:
    """Grad-mode calls of a graph as regions of the text."""

    def __init__(self):
        self.stack = [torch.is_grad_enabled()]

    def switch(self, on):
        """The line for set_grad_enabled(on); None: nothing changes."""
        if on == self.stack[-1]:
            return None
        if len(self.stack) > 1 and self.stack[-2] == on:
            self.stack.pop()
            return "}"
        self.stack.append(on)
        return "enable_grad {" if on else "no_grad {"


class TracedPiece(Piece):
    """A whole traced graph as one program."""

    def write(self, outputs, name, functional):
        self.modes = GradMode()
        text = super().write(outputs, name, functional)
        if len(self.modes.stack) > 1:
            raise Unsupported("the grad mode after the call differs from that before it")
        return text

    def add(self, e, node):
        if node.target is torch._C._set_grad_enabled:
            line = self.modes.switch(node.args[0])
            if line:
                e.lines.append(line)
        else:
            e.add(node)


def is_mode(node):
    return node.target is torch._C._set_grad_enabled


def reasons_against(graph):
    """[(node, why)] of the calls that Tandem has no op for."""
    found = []
    for node in graph.nodes:
        if node.op == "call_function" and not is_size(node) and not is_mode(node):
            why = reason_against(node, functional=False)
            if why:
                found.append((node, why))
        elif node.op not in ("placeholder", "output", "get_attr", "call_function"):
            found.append((node, f"{node.op} {node.target}"))
    return found


def constants_of(traced):
    """Tensors that the graph closes over: {node: tensor}."""
    graph = traced.graph
    found = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value = operator.attrgetter(node.target)(graph)
            if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
                raise Unsupported(f"the constant {node.target}")
            found[node] = value
    return found


def program_of(traced, name):
    """The program of a traced graph. Returns it with the indexes of the arguments that it
    takes, its constants, and the indexes of the results that it returns."""
    graph = traced.graph.graph
    against = reasons_against(graph)
    if against:
        raise Unsupported("; ".join(sorted({why for _, why in against})))
    nodes = [n for n in graph.nodes if n.op == "call_function" and not is_size(n)]
    output = next(n for n in graph.nodes if n.op == "output")
    results = output.args[0]
    computed = [i for i, s in enumerate(traced.source)
                if s is None and isinstance(results[i], torch.fx.Node)
                and isinstance(traced.outputs[i], torch.Tensor)]
    places = [n for n in graph.nodes if n.op == "placeholder"]
    constants = constants_of(traced)
    inputs = inputs_of(nodes, [*places, *constants])
    if not inputs or not (computed or traced.written):
        raise Unsupported("the graph computes nothing")
    for node in inputs:
        check_types(node)
    piece = TracedPiece(nodes, inputs, [results[i] for i in computed], name,
                        functional=False)
    take = [places.index(n) if n in places else constants[n] for n in piece.inputs]
    return piece, take, computed


def inputs_of(nodes, candidates):
    """Those candidates, tensors, that the nodes read."""
    read = {n for node in nodes for n in node.all_input_nodes}
    return [n for n in candidates if n in read and not is_size(n)]


def operators_of(graph):
    """The ATen calls of a graph by name, for explain."""
    return [name_of(n.target) or str(n.target) for n in graph.nodes
            if n.op == "call_function" and not is_size(n) and not is_mode(n)
            and n.target is not operator.getitem]
