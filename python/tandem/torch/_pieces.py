"""An FX graph of ATen calls as pieces that Tandem compiles, and calls in between that run
in PyTorch."""
import logging
import operator

import torch

from .. import _core
from ._emit import DTYPES, Emitter, Name, Unsupported, check_types, is_random, name_of
from ._rows import VIEWS

log = logging.getLogger("tandem")


def view(tensor, sizes, strides, offset):
    """What _core calls for a result that shares memory with a tensor of PyTorch."""
    return torch.as_strided(tensor, sizes, strides, tensor.storage_offset() + offset)


_core.register(torch.Tensor, view)
_core.register(torch.nn.Parameter, view)
_core.register(torch.nn.Buffer, view)


def draw_seed():
    """A seed for Tandem's generator, from PyTorch's."""
    return int(torch.empty((), dtype=torch.int64).random_())


# ---- which nodes -------------------------------------------------------------

class AnyValue(dict):
    """The values of a trial: every node has one."""

    def __contains__(self, node):
        return True

    def __missing__(self, node):
        val = node.meta.get("val")
        many = isinstance(val, (list, tuple))
        return [Name("%x")] * len(val) if many else Name("%x")


def reason_against(node, functional=True):
    """Why a call cannot be part of a piece, as text; None: it can."""
    if node.op != "call_function":
        return f"{node.op} {node.target}"
    try:
        if node.target is not operator.getitem:
            if name_of(node.target) is None:
                return f"{node.target}: no ATen op"
            if functional and node.target._schema.is_mutable:
                return f"{node.target}: it writes an argument"
            check_types(node)
        trial = Emitter(functional)
        trial.value = AnyValue()
        trial.add(node)
    except Unsupported as e:
        return f"{node.target}: {e}" if str(node.target) not in str(e) else str(e)
    return None


# They read a tensor's dtype and device, not its values, and the trace has the answer.
QUERIES = {"cudnn_is_acceptable.default"}


def is_size(node):
    """Is it a number, not a tensor? Texts have the expression itself."""
    if node.op == "call_function" and name_of(node.target) in QUERIES:
        return True
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool,
                                             int, float, bool))


def is_view(node):
    name = name_of(node.target)
    return node.target is operator.getitem or name is not None and \
        name.split(".")[0] in VIEWS


# ---- one piece ---------------------------------------------------------------

class Piece:
    """Nodes as one compiled function. `inputs` are the nodes whose values a call passes,
    in order; `outputs` are the nodes whose values it returns."""

    def __init__(self, nodes, inputs, outputs, name, functional=True):
        self.nodes, self.name = nodes, name
        self.__name__ = name  # for the code of an FX graph that calls it
        self.inputs = list(inputs)
        self.random = any(map(is_random, nodes))
        self.text = self.write(outputs, name, functional)
        self.program = _core.Program(self.text, name)
        self.program.config("dynamic", "marked" if self.symbolic else "off")
        self.function = self.program.compile()

    def write(self, outputs, name, functional):
        """The text of the function. Sizes that no input has as its own become inputs."""
        e = Emitter(functional)
        types, dims, bound = [], bytearray(), set()
        for i, node in enumerate(self.inputs):
            val = node.meta["val"]
            e.value[node] = Name(f"%x{i}")
            sizes = [e.size(n) for n in val.shape]
            types.append(f"%x{i}: {DTYPES[val.dtype]}[{','.join(sizes)}]")
            symbolic = [not n.isdigit() for n in sizes]
            bound.update(n for n in sizes if n in e.symbols.names.values())
            dims.append(sum(1 << d for d, s in enumerate(symbolic[:8]) if s))
        self.begin(e)
        for node in self.nodes:
            self.add(e, node)
        self.end(e)
        returns = ", ".join(e.literal(o) for o in outputs)
        for symbol, word in list(e.symbols.names.items()):
            if word not in bound:
                self.inputs.append(node_of_symbol(self.nodes, symbol))
                types.append(f"%{word}: int={word}")
        self.symbolic = bool(e.symbols.names)
        self.dims = bytes(dims) if self.symbolic else None
        body = "".join(f"  {line}\n" for line in e.lines)
        return f"func @{name}({', '.join(types)}) {{\n{body}  return {returns}\n}}\n"

    def begin(self, e):
        """Adds what comes before all calls."""

    def add(self, e, node):
        e.add(node)

    def end(self, e):
        """Adds what comes after all calls."""

    def __call__(self, *args):
        return self.function.call(args, torch.Tensor,
                                  draw_seed() if self.random else None, self.dims)


def node_of_symbol(nodes, symbol):
    """The node of the graph whose value is that symbol."""
    for node in nodes[0].graph.nodes:
        val = node.meta.get("val")
        if isinstance(val, torch.SymInt) and val.node.expr == symbol:
            return node
    raise Unsupported(f"the size {symbol}, which no input has")


# ---- a graph as pieces -------------------------------------------------------

class Split:
    """Assigns every call of a functional graph to a piece or to PyTorch. Piece r runs
    before PyTorch's calls of rank r, and those before piece r + 1."""

    def __init__(self, graph):
        self.rank, self.ours, self.reasons = {}, {}, {}
        floor = 0  # the least rank for calls after one that writes
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            why = None if is_size(node) else reason_against(node)
            if node.target is operator.getitem:
                ours = self.ours.get(node.args[0], False)
            else:
                ours = why is None and not is_size(node)
                if why is not None:
                    self.reasons[node] = why
            before = [self.rank[n] + (ours and not self.ours[n])
                      for n in node.all_input_nodes if n in self.rank]
            self.rank[node] = max([floor, *before])
            self.ours[node] = ours
            if not ours and self.writes(node):
                self.rank[node] = max(self.rank.values())
                floor = self.rank[node] + 1
        self.leave_lone_views()

    @staticmethod
    def writes(node):
        return isinstance(node.target, torch._ops.OpOverload) and \
            node.target._schema.is_mutable

    def leave_lone_views(self):
        """A piece of views alone computes nothing: PyTorch makes them."""
        for r in set(self.rank.values()):
            piece = self.piece(r)
            if all(map(is_view, piece)):
                for node in piece:
                    self.ours[node] = False

    def piece(self, r):
        return [n for n, at in self.rank.items() if at == r and self.ours[n]]

    def calls(self, r):
        return [n for n, at in self.rank.items() if at == r and not self.ours[n]]


def tensors_into(nodes):
    """Tensors from outside that the nodes read, in order."""
    inside, seen = set(nodes), {}
    for node in nodes:
        for n in node.all_input_nodes:
            if n not in inside and not is_size(n):
                seen[n] = None
    return list(seen)


def results_of(nodes):
    """Values that are read outside of the piece. A node with several results is read
    through getitem."""
    inside = set(nodes)
    return [n for n in nodes if not isinstance(n.meta.get("val"), (list, tuple))
            and any(u not in inside for u in n.users)]


class Pieces:
    """A compiled FX graph: a callable of the graph's inputs."""

    def __init__(self, gm, name):
        self.gm, self.name = gm, name
        self.split = Split(gm.graph)
        ranks = sorted(set(self.split.rank.values()))
        self.pieces = []
        for node, why in self.split.reasons.items():
            log.info("%s: %s runs in PyTorch (%s)", name, node.name, why)
        self.graph = torch.fx.Graph()
        self.env = {}
        for node in gm.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.copy(node)
        for r in ranks:
            self.add_piece(self.split.piece(r))
            for node in self.split.calls(r):
                self.copy(node)
        self.copy(next(n for n in gm.graph.nodes if n.op == "output"))
        self.graph.eliminate_dead_code()
        self.module = torch.fx.GraphModule(gm, self.graph)

    def copy(self, node):
        self.env[node] = self.graph.node_copy(node, lambda n: self.env[n])

    def add_piece(self, nodes):
        outputs = results_of(nodes)
        if not outputs:
            return
        piece = Piece(nodes, tensors_into(nodes), outputs, f"{self.name}_{len(self.pieces)}")
        self.pieces.append(piece)
        call = self.graph.call_function(piece, tuple(self.env[n] for n in piece.inputs))
        for i, node in enumerate(outputs):
            self.env[node] = self.graph.call_function(operator.getitem, (call, i))


def compile_functional(gm, name):
    """A boxed function, list of arguments to results, for a graph without writes."""
    try:
        return compile_pieces(gm, name)
    except (_core.Error, Unsupported) as e:
        log.warning("%s runs in PyTorch: %s", name, e)
        log_coverage(name, gm, 0)
        return boxed(lambda args: gm(*args), None, name, None)


def log_coverage(name, gm, compiled):
    """How many of the graph's calls Tandem compiles."""
    calls = sum(n.op == "call_function" and not is_size(n) for n in gm.graph.nodes)
    log.info("%s: tandem_aot compiles %d of %d ops", name,
             calls if compiled is None else compiled, calls)


def compile_pieces(gm, name):
    whole = whole_graph(gm, name)
    if whole is not None:
        log_coverage(name, gm, None)
        return whole
    pieces = Pieces(gm, name)
    log_coverage(name, gm, sum(len(p.nodes) for p in pieces.pieces))
    module = pieces.module
    repeatable = not any(map(Split.writes, gm.graph.nodes))

    def run(args):
        return module(*args)

    return boxed(run, gm if repeatable else None, name, pieces)


def boxed(run, eager, name, made):
    """run as a function of a list, which it empties. Where Tandem reports an error, eager
    runs from then on: its own error, if the call is wrong, is PyTorch's."""
    chosen = [run]

    def call(args):
        try:
            out = chosen[0](args)
        except _core.Error as e:
            if eager is None or chosen[0] is not run:
                raise
            out = eager(*args)
            log.warning("%s runs in PyTorch: %s", name, e)
            chosen[0] = lambda args: eager(*args)
        args.clear()
        return out

    call._boxed_call = True
    call.tandem = made
    return call


def whole_graph(gm, name):
    """The same for a graph that is one piece, without code in between; else None."""
    nodes = [n for n in gm.graph.nodes if n.op == "call_function" and not is_size(n)]
    if not nodes or any(reason_against(n) for n in nodes) or all(map(is_view, nodes)):
        return None
    output = next(n for n in gm.graph.nodes if n.op == "output")
    results = output.args[0]
    if not all(r is None or isinstance(r, (int, float, torch.fx.Node)) for r in results):
        return None
    inputs = tensors_into([*nodes, output])
    places = {n: i for i, n in
              enumerate(n for n in gm.graph.nodes if n.op == "placeholder")}
    if any(n not in places for n in inputs):
        return None
    piece = Piece(nodes, inputs, results, name)
    take = [places[n] for n in piece.inputs]
    call, dims, tensor = piece.function.call, piece.dims, torch.Tensor
    every = take == list(range(len(places)))

    def run(args):
        given = tuple(args) if every else tuple([args[i] for i in take])
        return call(given, tensor, None, dims)

    def run_random(args):
        return call(tuple([args[i] for i in take]), tensor, draw_seed(), dims)

    return boxed(run_random if piece.random else run, gm, name, piece)
