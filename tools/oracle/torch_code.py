"""Writes the functions of a .td file as Python functions that call PyTorch.

A function becomes source text and is compiled by Python, so that it runs at
PyTorch's own speed and torch.compile can trace it like a user's function.

    code = Code(draws, watch)
    fn = code.function(func)       # fn(*args) returns the list of results

`draws` gives the numbers of random ops (see Draws), `watch` hears all ops
(torch_watch.py; None: nobody does); `code.ops` has the name of
every op that the functions call, `code.unset` says that elements stay unset.
"""
import math
import re

import torch

import torch_ops
from td_text import Dtype, Func, Ref, Size

DT = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
      "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
      "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}

DROPOUTS = {"dropout", "dropout_"}
DRAWS_IN_PLACE = {"bernoulli_", "normal_", "uniform_", "exponential_", "random_"}
# The numbers drawn are no result: PyTorch cannot be given them.
DRAWS_INSIDE = {"native_dropout"}
DRAWS = DROPOUTS | DRAWS_IN_PLACE | {"native_dropout"} | {
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like",
    "bernoulli", "bernoulli_p", "normal", "uniform", "exponential", "random",
    "multinomial"}
# Ops that leave elements unset, unless zero_ follows: their values mean nothing.
UNSET = {"resize_", "empty", "new_empty", "empty_like", "empty_strided",
         "new_empty_strided"}
REGIONS = {"no_grad": "torch.no_grad()", "enable_grad": "torch.enable_grad()",
           "inference": "torch.inference_mode()", "plain": "torch.inference_mode(False)"}
# These return a list, of which a statement may name only the first results.
LISTS = ("split", "chunk", "unbind", "split_with_sizes", "cond", "custom")


class Unsupported(Exception):
    """This tool cannot express the program in PyTorch."""


class Draws:
    """The numbers Tandem drew during one call, handed to PyTorch's random ops."""

    def __init__(self):
        self.queue = []       # (op, tensor), in the order of the draws
        self.missing = False  # a draw found none: values are not comparable

    def next(self, op, shape):
        """The next draw of the op; ops that use drawn numbers only inside are passed."""
        while self.queue and self.queue[0][0] != op:
            self.queue.pop(0)
        t = self.queue.pop(0)[1] if self.queue else None
        if t is None or tuple(t.shape) != tuple(shape):
            self.missing = True
            return None
        return t

    def call(self, op, args, kwargs):
        if op in DROPOUTS:
            return self.dropout(op, *args)
        out = torch_ops.call(op, args, kwargs)
        if op in DRAWS_INSIDE:
            self.missing = True
            return out
        values = self.next(op, out.shape)
        if values is not None:
            with torch.no_grad():
                out.data.copy_(values)  # .data: neither a version nor a history
        return out

    def dropout(self, op, x, p=0.5, train=True):
        """Multiplies by the mask of Tandem's result; one at 0 or NaN shows no mask."""
        values = self.next(op, x.shape)
        if not train or p in (0, 1) or x.numel() == 0 or values is None:
            return torch_ops.call(op, [x, p, train], {})
        with torch.no_grad():
            self.missing |= bool(((x == 0) | x.isnan() | values.isnan()).any())
            mask = torch.empty_like(x).copy_((values != 0).to(x.dtype)).div_(1 - p)
        return x.mul_(mask) if op == "dropout_" else x * mask


# ---- what the text's own ops do ----

def constant(data, dtype=None, size=None):
    """tensor(...): a row-major tensor of these numbers."""
    t = torch.tensor(data, dtype=dtype)
    if size is None:
        return t
    out = torch.empty(size, dtype=t.dtype)
    out.data.copy_(t.reshape(size))
    return out


def as_list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def shares_storage(t, others):
    return any(isinstance(o, torch.Tensor) and
               o.untyped_storage()._cdata == t.untyped_storage()._cdata for o in others)


def own_results(results, operands):
    """Results that share storage with an operand or another result are copied."""
    out = []
    for t in results:
        if isinstance(t, torch.Tensor) and shares_storage(t, list(operands) + out):
            t = t.clone()
        out.append(t)
    return out


def cond(flag, yes, no, operands):
    return own_results((yes if bool(flag) else no)(*operands), operands)


def custom(forward, backward, roles, args, fixed, options, watch=None):
    """A torch.autograd.Function; roles are the descriptors of both functions."""
    results, given, grads = roles
    options = dict(options)
    for i in options.get("dirty", []) if watch else []:
        watch.note_versions(args[i], "dirty-version")
    n_fixed = options.pop("fixed")

    class Fn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.set_materialize_grads(options.get("materialize", True))
            out, saved = [], {}
            for v, desc in zip(forward(*xs, *fixed[:n_fixed]), results):
                if desc and desc[0] == "saved":
                    saved[int(desc[1])] = v
                else:
                    out.append(v)
            if options.get("dirty"):
                ctx.mark_dirty(*[xs[i] for i in options["dirty"]])
            plain = [out[i] for i in options.get("plain", [])]
            if plain:
                ctx.mark_non_differentiable(*plain)
            ctx.n_in, ctx.slots = len(xs), sorted(saved)
            ctx.save_for_backward(*[saved[k] for k in ctx.slots])
            return tuple(out) if len(out) > 1 else out[0]

        @staticmethod
        def backward(ctx, *tangents):
            saved, more = dict(zip(ctx.slots, ctx.saved_tensors)), iter(fixed[n_fixed:])
            values = {"saved": saved, "tangent": tangents}
            xs = [values[d[0]][int(d[1])] if d else next(more) for d in given]
            out = [None] * ctx.n_in
            for v, desc in zip(backward(*xs), grads):
                out[int(desc[1])] = v
            return tuple(out)

    return Fn.apply(*args)


def is_zeroed(s, after):
    """Is the result of s set to zero by the next statement?"""
    return bool(after and s.names and after.op == "zero_" and
                after.args == [Ref(s.names[0])])


# ---- source text ----

class Code:
    def __init__(self, draws, watch=None):
        self.ops, self.draws, self.unset = set(), draws, False
        self.watch = watch
        self.sources = {}  # lines of text by function name
        self.space = {"torch": torch, "as_list": as_list, "cond": cond, "custom": custom,
                      "min": min, "max": max, "watch": watch}

    def function(self, fn):
        """Compiles fn; its nested functions and literals become globals."""
        return self.space[self.define("fn", fn)]

    def define(self, kind, fn):
        name = self.fresh(kind, None)
        text = Source(self).text(fn, name)
        self.sources[name] = text.split("\n")
        exec(compile(text, name, "exec"), self.space)
        return name

    def failed_op(self, error):
        """The op whose call raised the error; "": none of a function."""
        at, op = error.__traceback__, ""
        while at:
            lines = self.sources.get(at.tb_frame.f_code.co_filename)
            m = lines and re.search(r"\bop_(\w+)\(", lines[at.tb_lineno - 1])
            op = m.group(1) if m else op
            at = at.tb_next
        return op

    def fresh(self, kind, value):
        name = f"{kind}_{len(self.space)}"
        self.space[name] = value
        return name

    def op(self, name):
        self.ops.add(name)
        key = "op_" + name
        if name in DRAWS:
            self.space[key] = lambda *a, **k: self.draws.call(name, a, k)
        else:
            self.space[key] = torch_ops.find(name)
            if self.space[key] is None:
                raise Unsupported(f"no PyTorch op {name}; torch_ops.py may map it")
        if self.watch:
            self.space[key] = self.watch.watched(name, self.space[key])
        return key


class Source:
    """The text of one function."""

    def __init__(self, code):
        self.code, self.lists = code, set()

    def text(self, fn, name):
        args = ", ".join(self.name(i.name) for i in fn.inputs)
        lines = [f"def {name}({args}):"] + self.symbols(fn)
        self.block(fn.body, "  ", lines)
        if not any(s.kind == "return" for s in fn.body):
            lines.append("  return []")
        return "\n".join(lines)

    def symbols(self, fn):
        """What s0, s1... of the input types stand for."""
        found = {}
        for i in fn.inputs:
            if i.symbol:
                found.setdefault(i.symbol, self.name(i.name))
            for d, size in enumerate(i.sizes or []):
                if isinstance(size, Size) and re.fullmatch(r"[su]\d+", size.text):
                    found.setdefault(size.text, f"{self.name(i.name)}.size({d})")
        return [f"  {s} = {v}" for s, v in found.items()]

    def name(self, n):
        base, _, index = n.rpartition(".")
        if base in self.lists:
            return f"v_{base.replace('.', '__')}[{index}]"
        return "v_" + n.replace(".", "__")

    def expr(self, a):
        if isinstance(a, Ref):
            return self.name(a.name)
        if isinstance(a, Dtype):
            return str(DT[a.name])
        if isinstance(a, Size):
            return f"({a.text})"
        if isinstance(a, Func):
            return self.code.define("nested", a)
        if isinstance(a, list):
            return "[" + ", ".join(self.expr(x) for x in a) + "]"
        if isinstance(a, float) and not math.isfinite(a):
            return f'float("{a}")'
        return repr(a)

    def block(self, stmts, indent, lines):
        if not stmts:
            lines.append(indent + "pass")
        for s, after in zip(stmts, stmts[1:] + [None]):
            self.code.unset |= s.op in UNSET and not is_zeroed(s, after)
            if s.kind == "region":
                lines.append(f"{indent}with {REGIONS[s.op]}:")
                self.block(s.body, indent + "  ", lines)
            elif s.kind == "return":
                lines.append(indent + "return " + self.expr(s.args))
            elif s.kind == "op":
                lines.append(indent + self.statement(s))
            else:
                lines.append(indent + "pass")

    def statement(self, s):
        value = self.value(s)
        if not s.names:
            return value
        if s.more:
            self.lists.add(s.names[0])
            return f"v_{s.names[0].replace('.', '__')} = as_list({value})"
        if len(s.names) > 1:
            names = ", ".join(self.name(n) for n in s.names)
            return f"{names}, *_ = as_list({value})"
        first = f"({value})[0]" if s.op in LISTS else value
        return f"{self.name(s.names[0])} = {first}"

    def value(self, s):
        if s.op == "tensor":
            data = [DT[a.name] if isinstance(a, Dtype) else a for a in s.args]
            return self.code.fresh("literal", constant(*data))
        if s.op == "custom":
            return self.custom(s)
        if s.op == "while_loop":
            raise Unsupported("while_loop: PyTorch's is no eager op with gradients")
        args = [self.expr(a) for a in s.args]
        if s.op == "scaled_dot_product_attention" and (s.args + [0] * 5)[4]:
            self.code.draws.missing = True  # dropout of its weights
        args += [f"{k}={self.expr(v)}" for k, v in s.kwargs.items()]
        name = "cond" if s.op == "cond" else self.code.op(s.op)
        return f"{name}({', '.join(args)})"

    def custom(self, s):
        forward, backward, args, fixed = (s.args + [[]])[1:5]
        if len(s.args) > 5 or "stash" in s.kwargs or None in args:
            raise Unsupported("custom with stash or without an input")
        roles = [next(x for x in f.body if x.kind == "return").descs
                 for f in (forward, backward)]
        roles.insert(1, [i.desc for i in backward.inputs])
        options = dict(s.kwargs, fixed=len(forward.inputs) - len(args))
        parts = [self.expr(a) for a in (forward, backward)] + [repr(roles)]
        parts += [self.expr(args), self.expr(fixed), repr(options), "watch"]
        # Tandem's op also returns the saved values; nobody else reads them
        return f"as_list(custom({', '.join(parts)})) + [None] * {len(s.names)}"
