"""The graph that TorchDynamo hands over, as one Tandem program with writes, views and grad
modes: pre-dispatch ATen, before PyTorch's autograd and functionalization."""
import contextlib
import functools
import operator

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from ._derive import row_of
from ._emit import Unsupported, check_types, name_of
from ._rows import MANY
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


@contextlib.contextmanager
def without_mkldnn():
    """Composite ops then have definitions of ATen calls alone."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def has_kernel(op, key):
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)


@functools.lru_cache(maxsize=None)
def composites(autocast):
    """PyTorch's own definitions of composite ops that have no row: {op: function}. Eager runs
    and differentiates the same calls, so their results and gradients are eager's. With
    `autocast`, not those whose arguments autocast converts."""
    key, found = "CompositeImplicitAutograd", {}
    dispatch_key = torch._C.DispatchKey.CompositeImplicitAutograd
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
        space, op = name.split("::")
        op, _, overload = op.partition(".")
        short = f"{op}.{overload or 'default'}"
        if space == "aten" and row_of(short) is None and short not in MANY:
            op = getattr(getattr(torch.ops.aten, op), overload or "default")
            if any("Tensor" in str(r.type) for r in op._schema.returns) and not (
                    autocast and has_kernel(op, "AutocastCPU")):
                found[op] = functools.partial(op._op_dk, dispatch_key)
    return found


def enters_autocast(node):
    return node.target is torch.amp.autocast_mode._enter_autocast


def leaves_autocast(node):
    return node.target is torch.amp.autocast_mode._exit_autocast


class WithAutocast(torch.fx.Interpreter):
    """Runs a graph with its regions of autocast: PyTorch's tracing records them, but does not
    enter them."""

    def run_node(self, node):
        if enters_autocast(node):
            region = torch.amp.autocast(*node.args)
            region.__enter__()
            return region
        if leaves_autocast(node):
            return self.env[node.args[0]].__exit__(None, None, None)
        return super().run_node(node)


class NothingToDo(Exception):
    """The results of a graph are its arguments, views of them, and constants."""


def check_calls(gm):
    """Functions with an autograd, a memory plan or a batching of their own: a trace would
    lose it."""
    for node in gm.graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            raise Unsupported(f"the operator {node.target}")


class Traced:
    """An ATen graph, and what it does to its inputs.

    Attributes:
        graph     torch.fx.GraphModule of ATen calls
        written   indexes of inputs whose elements change
        outputs   fake tensors, numbers or None
        source    for each output the index of the input it shares memory with, or None
        base      for each output that shares memory with other outputs the node whose
                  value it is a view of
    """

    def __init__(self, gm, example_inputs):
        check_calls(gm)
        mode, fakes = fake_copies(gm, example_inputs)
        before = [(t._version, t.size(), t.stride(), t.storage_offset(), storage_of(t))
                  if isinstance(t, torch.Tensor) else None for t in fakes]
        seen = []
        regions = any(map(enters_autocast, gm.graph.nodes))
        casts = regions or torch.is_autocast_enabled("cpu")
        call = WithAutocast(gm).run if regions else gm

        def run(*args):
            out = call(*args)
            seen.append(out)
            return out

        with mode, without_mkldnn():
            self.graph = make_fx(run, composites(casts), tracing_mode="real", pre_dispatch=True,
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
        self.source, sharing = [], {}
        for t in self.outputs:
            tensor = isinstance(t, torch.Tensor)
            self.source.append(of.get(storage_of(t)) if tensor else None)
            if tensor and self.source[-1] is None:
                sharing.setdefault(storage_of(t), {})[id(t)] = t
        shared = {storage for storage, group in sharing.items() if len(group) > 1}
        owners = self.owners_of(shared) if shared else {}
        output = next(n for n in self.graph.graph.nodes if n.op == "output")
        self.base = {}
        for i, (node, t) in enumerate(zip(output.args[0], self.outputs)):
            if isinstance(t, torch.Tensor) and self.source[i] is None and \
                    storage_of(t) in shared and owners[storage_of(t)] is not node:
                self.base[i] = owners[storage_of(t)]

    def owners_of(self, storages):
        """The first node whose value is in each of the storages."""
        found = {}
        for node in self.graph.graph.nodes:
            val = node.meta.get("val")
            if isinstance(val, torch.Tensor) and storage_of(val) in storages:
                found.setdefault(storage_of(val), node)
        if len(found) < len(storages):
            raise Unsupported("results share memory that no value of the graph owns")
        return found


def storage_of(t):
    return t.untyped_storage()._cdata


# ---- the program -------------------------------------------------------------

AUTOCAST = {torch.bfloat16: "autocast_bf16 {", torch.float16: "autocast_f16 {"}


def autocast_line(device, dtype=None, enabled=True, cache=None):
    """The line that begins a region; None: one that does nothing for tensors of the CPU."""
    if device != "cpu":
        return None
    if not enabled:
        return "autocast_off {"
    dtype = dtype or torch.get_autocast_dtype("cpu")
    if dtype not in AUTOCAST:
        raise Unsupported(f"autocast to {dtype}")
    return AUTOCAST[dtype]


class Modes:
    """Grad modes and autocast of a graph as regions of the text, which nest. `stack` has a
    grad mode for each region that changes it, and a line or None for each of autocast."""

    def __init__(self):
        self.stack = [torch.is_grad_enabled()]

    def switch(self, on):
        """The line for set_grad_enabled(on); None: nothing changes."""
        grads = [m for m in self.stack if isinstance(m, bool)]
        if on == grads[-1]:
            return None
        if isinstance(self.stack[-1], bool) and grads[-2:-1] == [on]:
            self.stack.pop()
            return "}"
        self.stack.append(on)
        return "enable_grad {" if on else "no_grad {"

    def enter(self, line):
        self.stack.append(line)
        return line

    def leave(self):
        """The line at the end of a region of autocast."""
        if isinstance(self.stack[-1], bool):
            raise Unsupported("regions of autocast and grad modes that do not nest")
        return "}" if self.stack.pop() else None

    def line(self, node):
        if enters_autocast(node):
            return self.enter(autocast_line(*node.args))
        return self.leave() if leaves_autocast(node) else self.switch(node.args[0])


class TracedPiece(Piece):
    """A whole traced graph as one program."""

    def write(self, outputs, name, functional):
        self.modes = Modes()
        text = super().write(outputs, name, functional)
        if len(self.modes.stack) > 1:
            raise Unsupported("the grad mode after the call differs from that before it")
        return text

    def add(self, e, node):
        if is_mode(node):
            line = self.modes.line(node)
            if line:
                e.lines.append(line)
        else:
            e.add(node)

    def begin(self, e):
        """Autocast that is on at the call is a region around all of the text."""
        if torch.is_autocast_enabled("cpu"):
            e.lines.append(self.modes.enter(autocast_line("cpu")))

    def end(self, e):
        if torch.is_autocast_enabled("cpu"):
            e.lines.append(self.modes.leave())


def is_mode(node):
    return node.target is torch._C._set_grad_enabled or enters_autocast(node) or \
        leaves_autocast(node)


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
            if isinstance(value, torch.Tensor) and \
                    torch._C._functorch.is_functorch_wrapped_tensor(value):
                raise Unsupported("a transform of torch.func")
            if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
                raise Unsupported(f"the constant {node.target}")
            found[node] = value
    return found


def program_of(traced, name):
    """The program of a traced graph. Returns it with the indexes of the arguments that it
    takes, its constants, and what it returns: indexes of results, then nodes of which
    results are views."""
    graph = traced.graph.graph
    against = reasons_against(graph)
    if against:
        raise Unsupported("; ".join(sorted({why for _, why in against})))
    nodes = [n for n in graph.nodes if n.op == "call_function" and not is_size(n)]
    output = next(n for n in graph.nodes if n.op == "output")
    results = output.args[0]
    computed = [i for i, s in enumerate(traced.source)
                if s is None and i not in traced.base
                and isinstance(results[i], torch.fx.Node)
                and isinstance(traced.outputs[i], torch.Tensor)]
    known = [results[i] for i in computed]
    bases = [n for n in dict.fromkeys(traced.base.values()) if n not in known]
    places = [n for n in graph.nodes if n.op == "placeholder"]
    constants = constants_of(traced)
    inputs = inputs_of(nodes, [*places, *constants])
    if not inputs or not (computed or bases or traced.written):
        raise NothingToDo
    for node in inputs:
        check_types(node)
    piece = TracedPiece(nodes, inputs, [*known, *bases], name, functional=False)
    take = [places.index(n) if n in places else constants[n] for n in piece.inputs]
    return piece, take, [*computed, *bases]


def inputs_of(nodes, candidates):
    """Those candidates, tensors, that the nodes read."""
    read = {n for node in nodes for n in node.all_input_nodes}
    return [n for n in candidates if n in read and not is_size(n)]


def operators_of(graph):
    """The ATen calls of a graph by name, for explain."""
    return [name_of(n.target) or str(n.target) for n in graph.nodes
            if n.op == "call_function" and not is_size(n) and not is_mode(n)
            and n.target is not operator.getitem]
