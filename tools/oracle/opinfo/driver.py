"""libtandem.so through ctypes: ops by schema (docs/ops.md) and prototype (tandem/ops.h),
gradients and compiled functions, with torch tensors as arguments."""
import ctypes as C
import math
import os
import re
import struct

import torch

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64,
          torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64,
          torch.complex128, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn,
          torch.float8_e5m2]
NUMBER_OF = {d: i for i, d in enumerate(DTYPES)}
NO_DTYPE = 255
MAX_RESULTS = 256
MOST_READ = 1 << 24


class Ints(C.Structure):
    _fields_ = [("v", C.c_void_p), ("n", C.c_int)]


class Value(C.Structure):
    _fields_ = [("kind", C.c_uint32), ("n", C.c_uint32), ("u", C.c_int64)]


class GradOpts(C.Structure):
    _fields_ = [("size", C.c_size_t), ("retain_graph", C.c_bool), ("create_graph", C.c_bool),
                ("allow_unused", C.c_bool), ("materialize", C.c_bool), ("grads", Ints)]


BODY = C.CFUNCTYPE(C.c_bool, C.c_void_p)
C_TYPES = {"td_ctx *": C.c_void_p, "td_tensor *": C.c_void_p, "td_tensor **": C.c_void_p,
           "td_dtype": C.c_uint, "td_ints": Ints, "td_tensors": Ints, "td_value": Value,
           "int64_t": C.c_int64, "double": C.c_double, "bool": C.c_bool, "int": C.c_int,
           "const char *": C.c_char_p}
FUNCTIONS = """td_open:p td_close:-p td_ok:bp td_error:ip td_message:sp td_clear:-p td_is_nil:bp
td_dtype_of:up td_rank:ip td_sizes:Lp td_strides:Lp td_numel:lp td_read:bpupz
td_wrap:ppuLLppp td_same_storage:bpp td_set_requires_grad:ppb td_requires_grad:bp
td_grad:bLLpp td_seed:-pU td_aot_function:ppBpp td_fn_drop:-p td_invoke:bpLpi td_arg:ppi
td_return_values:bpL td_config_set:bpss td_scope_begin:-ps
td_scope_end:ppsp"""
LETTERS = {"p": C.c_void_p, "b": C.c_bool, "i": C.c_int, "s": C.c_char_p, "u": C.c_uint,
           "L": Ints, "l": C.c_int64, "z": C.c_size_t, "U": C.c_uint64, "-": None, "B": BODY}


class Unsupported(Exception):
    """Tandem has no such op or argument: nothing to compare."""


class TandemError(Exception):
    pass


def split_arguments(text):
    """Splits at commas outside of brackets and quotes."""
    parts, depth, quote, part = [], 0, None, ""
    for ch in text:
        if quote:
            quote = None if ch == quote else quote
        elif ch in "'\"":
            quote = ch
        depth += (ch in "([") - (ch in ")]")
        if ch == "," and depth == 0 and not quote:
            parts.append(part.strip())
            part = ""
        else:
            part += ch
    return parts + [part.strip()] if part.strip() else parts


def default_value(text):
    words = {"None": None, "none": None, "True": True, "true": True, "False": False,
             "false": False}
    if text in words:
        return words[text]
    if text[0] in "'\"":
        return text[1:-1]
    if text[0] == "[":
        return [int(x) for x in text[1:-1].split(",") if x.strip()]
    return float(text) if re.search(r"[.e]", text) else int(text)


def read_schemas(path):
    """name -> [(argument, type, default or ...)] of the tables in docs/ops.md."""
    schemas = {}
    for line in open(path):
        m = re.match(r"\| `(\w+)\((.*?)\) -> (.*?)` \|", line)
        if not m:
            continue
        arguments = []
        for a in split_arguments(m.group(2)):
            a, _, default = a.partition("=")
            kind, name = a.rsplit(" ", 1)
            kind = re.sub(r"\([a-z]!?\)", "", kind)
            arguments.append((name, kind, default_value(default) if default else ...))
        schemas[m.group(1)] = arguments
    return schemas


def read_prototypes(path):
    """name -> (result type, [(C type, argument)]) of every td_op_NAME in the header."""
    prototypes = {}
    text = open(path).read()
    for m in re.finditer(r"TD_API (.*?)td_op_(\w+)\((.*?)\);", text, re.S):
        arguments = []
        for a in m.group(3).split(","):
            ctype, name = re.match(r"(.*?)(\w+)$", " ".join(a.split())).groups()
            arguments.append((ctype.strip(), name))
        prototypes[m.group(2)] = (m.group(1).strip(), arguments)
    return prototypes


class Library:
    def __init__(self, root):
        self.so = C.CDLL(os.path.join(root, "build/libtandem.so"))
        self.schemas = read_schemas(os.path.join(root, "docs/ops.md"))
        self.prototypes = read_prototypes(os.path.join(root, "include/tandem/ops.h"))
        for name in self.prototypes:
            if name not in self.schemas and name[:-1] in self.schemas:
                self.schemas[name] = self.schemas[name[:-1]]
        for entry in FUNCTIONS.split():
            name, letters = entry.split(":")
            f = getattr(self.so, name)
            f.restype = LETTERS[letters[0]]
            f.argtypes = [LETTERS[x] for x in letters[1:]]
        self.functions = {}

    def function(self, name):
        if name not in self.functions:
            result, arguments = self.prototypes[name]
            f = getattr(self.so, "td_op_" + name)
            f.restype = {"td_tensor *": C.c_void_p, "int": C.c_int, "bool": C.c_bool}[result]
            f.argtypes = [C_TYPES[t] for t, _ in arguments]
            self.functions[name] = f
        return self.functions[name]


class Handle:
    """A td_tensor."""
    __slots__ = ("p",)

    def __init__(self, p):
        self.p = p


def pack(items, ctype, keep):
    array = (ctype * max(1, len(items)))(*items)
    keep.append(array)
    return Ints(C.cast(array, C.c_void_p), len(items))


def as_value(x):
    if x is None:
        return Value(0, 0, 0)
    if isinstance(x, Handle):
        return Value(1, 0, x.p)
    if isinstance(x, bool):
        return Value(4, 0, int(x))
    if isinstance(x, int):
        if not -2**63 <= x < 2**63:
            raise Unsupported("a number beyond i64")
        return Value(2, 0, x)
    if isinstance(x, float):
        return Value(3, 0, struct.unpack("q", struct.pack("d", x))[0])
    raise Unsupported(f"a number of type {type(x).__name__}")


class Context:
    """One td_ctx. Torch tensors become tensors of their own storage, once each."""

    def __init__(self, library, whole_storage=False):
        self.library, self.so = library, library.so
        self.cx = self.so.td_open()
        self.keep, self.functions, self.known = [], [], {}
        self.whole_storage = whole_storage  # arguments are views of their whole storage

    def close(self):
        for f in self.functions:
            self.so.td_fn_drop(f)
        self.so.td_close(self.cx)
        self.keep, self.known = [], {}

    def check(self):
        if not self.so.td_ok(self.cx):
            message = self.so.td_message(self.cx).decode(errors="replace")
            self.so.td_clear(self.cx)
            raise TandemError(message)

    # ---- tensors

    def wrap(self, t):
        if t.layout != torch.strided or t.dtype not in NUMBER_OF:
            raise Unsupported(f"{t.layout} {t.dtype}")
        d = t.detach()
        if d.is_conj() or d.is_neg():
            d = d.clone()
        storage, keep = d.untyped_storage(), []
        buffer = (C.c_uint8 * max(16, storage.nbytes()))()
        if storage.nbytes():
            C.memmove(buffer, storage.data_ptr(), storage.nbytes())
        self.keep.append(buffer)
        sizes, strides, offset = list(d.shape), list(d.stride()), d.storage_offset()
        if self.whole_storage:
            sizes, strides, offset = [storage.nbytes() // d.element_size()], [1], 0
        p = self.so.td_wrap(self.cx, NUMBER_OF[t.dtype], pack(sizes, C.c_int64, keep),
                            pack(strides, C.c_int64, keep),
                            C.addressof(buffer) + offset * d.element_size(), None, None)
        self.check()
        h = Handle(p)
        if self.whole_storage:
            h = self.call("as_strided", h, list(d.shape), list(d.stride()), d.storage_offset())
        if t.requires_grad:
            self.so.td_set_requires_grad(h.p, True)
            self.check()
        return h

    def get(self, t):
        if isinstance(t, Handle):
            return t
        if id(t) not in self.known:
            self.known[id(t)] = (self.wrap(t), t)
        return self.known[id(t)][0]

    def read(self, h):
        """The elements as a contiguous torch tensor, and the strides; of a huge result (an
        expanded one) only the sizes."""
        dtype, rank = DTYPES[self.so.td_dtype_of(h.p)], self.so.td_rank(h.p)
        lists = [C.cast(f(h.p).v, C.POINTER(C.c_int64))
                 for f in (self.so.td_sizes, self.so.td_strides)]
        size, stride = [[v[i] for i in range(rank)] for v in lists]
        if math.prod(size) > MOST_READ:
            return torch.empty(1, dtype=dtype).expand(size), stride
        out = torch.empty(size, dtype=dtype)
        bytes = out.numel() * out.element_size()
        if bytes and not self.so.td_read(h.p, NUMBER_OF[dtype], out.data_ptr(), bytes):
            self.check()
        return out, stride

    # ---- calls

    def bind(self, op, *args, **kw):
        """The function of an op, its arguments, a function that reads what it returned, and
        what has to live until it has run."""
        if op not in self.library.prototypes:
            raise Unsupported("no op " + op)
        schema = self.library.schemas[op]
        given = dict(zip([name for name, _, _ in schema], args))
        names = {name for name, _, _ in schema}
        if len(args) > len(schema) or not set(kw) <= names:
            raise Unsupported(f"{op}: more or other arguments than it has")
        given.update(kw)
        values = []
        for name, kind, default in schema:
            if name not in given and default is ...:
                raise Unsupported(f"{op}: {name} is not given")
            values.append((name, kind, given.get(name, default)))
        result, arguments = self.library.prototypes[op]
        if arguments[0][0] != "td_ctx *" and not any(
                isinstance(v, (torch.Tensor, Handle, list, tuple)) for _, _, v in values):
            raise Unsupported(f"{op}: no tensor")
        keep, outs, c_args, rest = [], [], [], iter(values)
        for ctype, _ in arguments:
            if ctype == "td_ctx *":
                c_args.append(self.cx)
            elif ctype == "td_tensor **":
                outs.append((C.c_void_p * MAX_RESULTS)())
                c_args.append(C.cast(outs[-1], C.c_void_p))
            elif ctype == "int":
                c_args.append(MAX_RESULTS)
            else:
                c_args.append(self.convert(op, ctype, *next(rest), keep))

        def read(r):
            if result == "int":
                return [Handle(outs[0][i]) for i in range(r)]
            if outs:
                return (Handle(r),) + tuple(Handle(o[0]) for o in outs)
            return Handle(r) if result == "td_tensor *" else None
        return self.library.function(op), c_args, read, keep

    def call(self, op, *args, **kw):
        function, c_args, read, _keep = self.bind(op, *args, **kw)
        r = function(*c_args)
        self.check()
        return read(r)

    def convert(self, op, ctype, name, kind, v, keep):
        def is_a(*types):
            if not isinstance(v, types) or isinstance(v, bool) and bool not in types:
                raise Unsupported(f"{op}: {name} is a {type(v).__name__}")
            return v
        if ctype == "td_tensor *":
            return None if v is None and kind.endswith("?") else self.get(
                is_a(torch.Tensor, Handle)).p
        if ctype == "td_tensors":
            return pack([None if t is None else self.get(t).p for t in is_a(list, tuple)],
                        C.c_void_p, keep)
        if ctype == "td_ints":
            if v is None:
                return Ints(None, 0)
            v = [v] if isinstance(v, int) and not isinstance(v, bool) else is_a(list, tuple)
            if not all(isinstance(x, int) for x in v):
                raise Unsupported(f"{op}: {name} is no list of integers")
            return pack([int(x) for x in v], C.c_int64, keep)
        if ctype == "td_value":
            if isinstance(v, torch.Tensor):
                if not kind.startswith("Operand"):
                    raise Unsupported(f"{op}: {name} is a tensor")
                v = self.get(v)
            if kind.startswith("int") and isinstance(v, float):
                raise Unsupported(f"{op}: {name} is a float")
            return as_value(float(v) if kind.startswith("float") and isinstance(v, int) else v)
        if ctype == "td_dtype":
            if v is not None and v not in NUMBER_OF:
                raise Unsupported(f"dtype {v}")
            return NO_DTYPE if v is None else NUMBER_OF[v]
        if ctype == "const char *":
            return is_a(str).encode()
        if ctype == "bool":
            return bool(is_a(bool, int))
        return is_a(int) if ctype == "int64_t" else float(is_a(int, float))

    def grad(self, outs, inputs, tangents, retain_graph=False):
        """Gradients of outs with respect to inputs; None where there is none."""
        keep, found = [], (C.c_void_p * max(1, len(inputs)))()
        o = GradOpts(C.sizeof(GradOpts), retain_graph, False, True, False,
                     pack([t.p for t in tangents], C.c_void_p, keep))
        self.so.td_grad(pack([t.p for t in outs], C.c_void_p, keep),
                        pack([t.p for t in inputs], C.c_void_p, keep),
                        C.cast(found, C.c_void_p), C.addressof(o))
        self.check()
        return [Handle(x) if x and not self.so.td_is_nil(x) else None
                for x in found[:len(inputs)]]

    def compiled(self, body, tensors, n):
        """The n results of body() as a function compiled for these torch tensors."""
        state, keep = {}, []
        inputs = [self.get(t) for t in tensors]

        def run(call):
            known = dict(self.known)
            for i, t in enumerate(tensors):
                self.known[id(t)] = (Handle(self.so.td_arg(call, i)), t)
            try:
                results = body()
                return self.so.td_return_values(
                    call, pack([as_value(h) for h in results], Value, keep))
            except (Unsupported, TandemError) as e:
                state["raised"] = e
                return False
            finally:
                self.known = known
        callback = BODY(run)
        self.keep.append(callback)
        f = self.so.td_aot_function(self.cx, callback, None, None)
        self.check()
        self.functions.append(f)
        out = (C.c_void_p * MAX_RESULTS)()
        self.so.td_invoke(f, pack([as_value(h) for h in inputs], Value, keep),
                          C.cast(out, C.c_void_p), n)
        if "raised" in state:
            self.so.td_clear(self.cx)
            raise state["raised"]
        self.check()
        return [Handle(out[i]) for i in range(n)]
