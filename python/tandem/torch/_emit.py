"""FX nodes of ATen calls as the text of a Tandem function (docs/text-format.md)."""
import math
import operator
import re

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod

from ._derive import is_random_op, row_of
from ._rows import MANY, RANDOM

DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16",
    torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32", torch.int16: "i16",
    torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
    torch.complex64: "c64", torch.complex128: "c128",
}
# Defaults of schemas are numbers.
CONTIGUOUS = (torch.contiguous_format, 0)
CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)
# Without writes and autograd these are their argument, which a result then is too.
SAME_VALUE = ("detach.default", "alias.default")
REDUCTIONS = {0: '"none"', 1: '"mean"', 2: '"sum"'}
PLACEHOLDER = re.compile(r"\{(\w+)(?::(\w+))?\}")


class Unsupported(Exception):
    """Why a node is not part of a Tandem program."""


def name_of(target):
    """"add.Tensor" of aten.add.Tensor; None for anything that is no ATen op."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    return f"{target._opname}.{target._overloadname}"


def is_random(node):
    name = name_of(node.target)
    if name is None:
        return False
    op = name.split(".")[0]
    return op in RANDOM or is_random_op(op)


def bind(node):
    """The arguments of a node by the names of the op's schema, with defaults."""
    bound = dict(node.kwargs)
    schema = node.target._schema
    for i, arg in enumerate(schema.arguments):
        if i < len(node.args):
            bound[arg.name] = node.args[i]
        elif arg.name not in bound:
            bound[arg.name] = arg.default_value
    return bound


class Name(str):
    """A value of the text: %name. A string in an argument is a Tandem string."""


class Symbols:
    """Symbols of PyTorch's sizes, as those of one text."""

    def __init__(self):
        self.names = {}

    def text(self, expr):
        """A size as text. A symbol is written s0, s1, ... in order of appearance."""
        if expr.is_Integer:
            return str(int(expr))
        if expr.is_Symbol:
            return self.names.setdefault(expr, f"s{len(self.names)}")
        parts = [self.text(a) for a in expr.args]
        if expr.is_Add:
            return "(" + "+".join(parts) + ")"
        if expr.is_Mul:
            return "(" + "*".join(parts) + ")"
        if expr.is_Pow and expr.exp.is_Integer and 0 < int(expr.exp) < 5:
            return "(" + "*".join([parts[0]] * int(expr.exp)) + ")"
        if isinstance(expr, FloorDiv):
            return f"({parts[0]}//{parts[1]})"
        if isinstance(expr, (Mod, PythonMod)):
            return f"({parts[0]} % {parts[1]})"
        if isinstance(expr, (Max, Min, sympy.Max, sympy.Min)) and len(parts) == 2:
            word = "max" if isinstance(expr, (Max, sympy.Max)) else "min"
            return f"{word}({parts[0]},{parts[1]})"
        raise Unsupported(f"the size {expr}")


class Emitter:
    """Collects statements. `value` maps FX nodes to names, or to lists of them."""

    Unsupported = Unsupported

    def __init__(self, functional):
        self.functional = functional
        self.symbols = Symbols()
        self.value = {}
        self.meta = {}  # name of a value -> its fake tensor, where it is a node's
        self.lines = []
        self.count = 0

    # ---- literals ----------------------------------------------------------

    def size(self, n):
        if isinstance(n, torch.SymInt):
            if n.node.maybe_as_int() is not None:
                return str(n.node.maybe_as_int())
            return self.symbols.text(n.node.expr)
        if isinstance(n, sympy.Basic):
            return self.symbols.text(n)
        return str(int(n))

    def literal(self, x):
        """An argument as text."""
        if x is None:
            return "none"
        if isinstance(x, torch.fx.Node):
            return self.node_text(x)
        if isinstance(x, Name):
            return str(x)
        if isinstance(x, bool):
            return "true" if x else "false"
        if isinstance(x, (int, torch.SymInt, sympy.Basic)):
            return self.size(x)
        if isinstance(x, float):
            return self.float_text(x)
        if isinstance(x, str):
            return '"' + x + '"'
        if isinstance(x, torch.dtype):
            if x not in DTYPES:
                raise Unsupported(f"the dtype {x}")
            return DTYPES[x]
        if isinstance(x, (list, tuple)):
            return "[" + ", ".join(map(self.literal, x)) + "]"
        raise Unsupported(f"an argument of type {type(x).__name__}")

    @staticmethod
    def float_text(x):
        if math.isnan(x):
            return "nan"
        if math.isinf(x):
            return "inf" if x > 0 else "-inf"
        return repr(x)

    def node_text(self, node):
        val = node.meta.get("val")
        if isinstance(val, (torch.SymInt, int)) and not isinstance(val, bool):
            return self.size(val)
        if isinstance(val, float):
            return self.float_text(val)
        if isinstance(val, torch.SymFloat) and val.node.maybe_as_float() is not None:
            return self.float_text(val.node.maybe_as_float())
        if isinstance(val, (torch.SymFloat, torch.SymBool)):
            raise Unsupported("a number that is computed from sizes or values")
        if node not in self.value:
            raise Unsupported(f"the value of {node}")
        return str(self.value[node])

    def sizes(self, x):
        """The sizes of a node or of a value that a row has made."""
        if isinstance(x, torch.fx.Node):
            return list(x.meta["val"].shape)
        return list(self.meta[x].shape)

    # ---- writers of rows: {argument:writer} ----------------------------------

    def write(self, how, x, bound):
        if how == "reduction":
            return REDUCTIONS[x]
        if how == "norm":
            return f'"{x or "backward"}"'
        if how == "mode":
            return '""' if x is None else f'"{x}"'
        if how == "flag":
            return "true" if x or x is None else "false"
        if how == "ints":
            return self.literal([int(i) for i in x])
        if how == "dims":
            return "none" if x is None or x == [] else self.literal(x)
        if how == "dtype_of":
            return self.literal(x.meta["val"].dtype)
        if how == "own_dtype":
            return self.literal(x if x is not None else bound["self"].meta["val"].dtype)
        if how == "integers":  # the schema's default, int64, is a number
            return self.literal(x if isinstance(x, torch.dtype) else torch.int64)
        if how == "nothing":  # no effect on the results
            return ""
        if how == "sizes_of":
            return self.literal(self.sizes(x))
        if how == "contiguous":
            return ", true" if x in CONTIGUOUS else ""
        raise KeyError(how)

    # ---- statements ----------------------------------------------------------

    def fresh(self):
        self.count += 1
        return Name(f"%v{self.count}")

    def call(self, op, *args, results=1):
        """Adds a call; returns its name, or the list of names of its results."""
        names = [self.fresh() for _ in range(results)]
        self.lines.append(f"{', '.join(names)} = {op}({', '.join(map(self.literal, args))})")
        return names[0] if results == 1 else names

    def add(self, node):
        """Adds the calls of a node. Raises Unsupported, and then adds nothing."""
        lines, count = len(self.lines), self.count
        try:
            self.add_call(node)
        except Unsupported:
            del self.lines[lines:]
            self.count = count
            raise

    def add_call(self, node):
        if node.target is operator.getitem:
            self.value[node] = self.value[node.args[0]][node.args[1]]
            return
        name = name_of(node.target)
        bound = bind(node)
        back = self.to_channels_last(bound)
        check_options(bound)
        if self.functional and name in SAME_VALUE:
            self.value[node] = self.value[bound["self"]]
            return
        if name in MANY:
            self.value[node] = MANY[name](self, bound)
            return
        row = row_of(name)
        if row is None:
            raise Unsupported(f"{node.target}: no row for it")
        if self.functional and row.startswith(("view(", "_unsafe_view(")):
            row = "reshape(" + row.split("(", 1)[1]
        check_all_written(node, row, bound)
        text = PLACEHOLDER.sub(lambda m: self.write(m[2], bound[m[1]], bound) if m[2]
                               else self.literal(bound[m[1]]), row)
        val = node.meta.get("val")
        many = isinstance(val, (list, tuple))
        names = [self.fresh() for _ in val] if many else [self.fresh()]
        self.lines.append(f"{', '.join(names)} = {text}")
        self.value[node] = names if many else names[0]
        if back:
            self.value[node] = self.call("permute", names[0], back)

    def to_channels_last(self, bound):
        """A copy in the layout with channels last is a contiguous copy of its argument with
        the channels as the last dim. Permutes the argument, and returns the dims that
        permute the result back; None for other layouts."""
        if bound.get("memory_format") not in CHANNELS_LAST or "self" not in bound:
            return None
        n = len(self.sizes(bound["self"]))
        bound["self"] = self.call("permute", bound["self"], [0, *range(2, n), 1])
        bound["memory_format"] = torch.contiguous_format
        return [0, n - 1, *range(1, n - 1)]


# Arguments without a meaning here, or that check_options has looked at.
IGNORED = {"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator",
           "sparse", "cudnn_enable", "cudnn_enabled", "implicit", "requires_grad", "unsafe"}


def check_all_written(node, row, bound):
    """An argument that the row does not write must have its default value."""
    written = {m[1] for m in PLACEHOLDER.finditer(row)}
    for arg in node.target._schema.arguments:
        if arg.name in written or arg.name in IGNORED:
            continue
        if bound[arg.name] is not arg.default_value and bound[arg.name] != arg.default_value:
            raise Unsupported(f"{node.target}: the argument {arg.name}")


def check_options(bound):
    """Options of makers and copies that Tandem does not have."""
    device = bound.get("device")
    if device is not None and torch.device(device).type != "cpu":
        raise Unsupported(f"the device {device}")
    if bound.get("layout") not in (None, 0, torch.strided):
        raise Unsupported(f"the layout {bound['layout']}")
    if bound.get("memory_format") not in (None, torch.preserve_format, *CONTIGUOUS):
        raise Unsupported(f"the memory format {bound['memory_format']}")
    if bound.get("generator") is not None:
        raise Unsupported("a generator of its own")
    if bound.get("sparse"):
        raise Unsupported("sparse gradients")


def check_types(node):
    """Every tensor that the node reads or makes must have a dtype of Tandem, be dense and
    on the CPU."""
    for at in (node, *node.all_input_nodes):
        vals = at.meta.get("val")
        for val in vals if isinstance(vals, (list, tuple)) else [vals]:
            if not isinstance(val, torch.Tensor):
                continue
            if val.dtype not in DTYPES:
                raise Unsupported(f"the dtype {val.dtype}")
            if val.device.type != "cpu" or val.layout is not torch.strided:
                raise Unsupported(f"a tensor on {val.device} with layout {val.layout}")
            if val.is_conj() or val.is_neg():
                raise Unsupported("a tensor with the conjugate or negative bit")
