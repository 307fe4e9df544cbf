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
from torch_control import Control, with_gradient

DT = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
      "bf16": torch.bfloat16, "c64": torch.complex64, "c128": torch.complex128,
      "i64": torch.int64, "i32": torch.int32,
      "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
      "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
      "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}

CHANNELS = {"dropout1d", "dropout2d", "dropout3d", "feature_dropout"}
ALPHAS = {"alpha_dropout", "feature_alpha_dropout"}
DROPOUTS = {"dropout", "dropout_", "native_dropout", *CHANNELS, *ALPHAS}
DRAWS_IN_PLACE = {"bernoulli_", "normal_", "uniform_", "exponential_", "random_",
                  "log_normal_", "cauchy_", "geometric_"}
DRAWS = DROPOUTS | DRAWS_IN_PLACE | {
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like",
    "bernoulli", "bernoulli_p", "normal", "uniform", "exponential", "random",
    "multinomial", "log_normal", "cauchy", "geometric", "poisson", "binomial",
    "standard_gamma"}
# Ops that leave elements unset, unless zero_ follows: their values mean nothing.
UNSET = {"resize_", "resize_as_", "empty", "new_empty", "empty_like", "empty_strided",
         "new_empty_strided", "empty_permuted"}
REGIONS = {"no_grad": "torch.no_grad()", "enable_grad": "torch.enable_grad()",
           "inference": "torch.inference_mode()", "plain": "torch.inference_mode(False)",
           "autocast_bf16": "torch.autocast('cpu', dtype=torch.bfloat16)",
           "autocast_f16": "torch.autocast('cpu', dtype=torch.float16)",
           "autocast_off": "torch.autocast('cpu', enabled=False)"}
# These return a list, of which a statement may name only the first results.
LISTS = ("split", "chunk", "unbind", "split_with_sizes", "cond", "while_loop", "custom",
         "region")


class Unsupported(Exception):
    """This tool cannot express the program in PyTorch."""


class Draws:
    """The numbers Tandem drew during one call, handed to PyTorch's random ops."""

    def __init__(self):
        self.queue = []       # (op, tensor), in the order of the draws
        self.missing = False  # a draw found none: values are not comparable

    def next(self, op, shape, dtype=None):
        """The next draw of the op, with what was drawn before it; a dropout may be
        reported as the dropout it is made of."""
        alike = DROPOUTS if op in DROPOUTS else {op}
        at = next((i for i, d in enumerate(self.queue) if d[0] in alike), None)
        t = None if at is None else self.queue[at][1]
        del self.queue[:0 if at is None else at + 1]
        if t is None or tuple(t.shape) != tuple(shape) or t.dtype != (dtype or t.dtype):
            self.missing = True
            return None
        return t

    def skip(self, out):
        """Passes over the result of an op that drew nothing, where one is reported."""
        at = next((i for i, d in enumerate(self.queue) if d[0] in DROPOUTS), None)
        if (at is not None and self.queue[at][1].shape == out.shape and
                self.queue[at][1].dtype == out.dtype and
                torch.allclose(self.queue[at][1], out.detach(), equal_nan=True)):
            del self.queue[:at + 1]

    def call(self, op, args, kwargs):
        if op in DROPOUTS:
            return self.dropout(op, *args)
        out = torch_ops.call(op, args, kwargs)
        values = self.next(op, out.shape)
        if values is not None:
            with torch.no_grad():
                out.data.copy_(values)  # .data: neither a version nor a history
        return out

    def dropout(self, op, x, p=0.5, train=None):
        """Multiplies by the mask of Tandem's result; one at 0 or NaN shows no mask."""
        train = op not in ALPHAS if train is None else train
        if op == "native_dropout" and train and x.numel() == 0:
            return NativeDropout.apply(x, torch.ones_like(x))
        if not train or p in (0, 1) or x.numel() == 0:
            out = torch_ops.call(op, [x, p, train], {})
            self.skip(as_list(out)[0])
            return out
        if op in CHANNELS | ALPHAS:  # may refuse
            torch_ops.call(op, [x.detach(), p, train], {})
        values = self.next(op, x.shape, x.dtype)
        if values is None:
            return torch_ops.call(op, [x, p, train], {})
        if op in CHANNELS | ALPHAS:
            return self.dropout_of(op, x, p, values)
        with torch.no_grad():
            self.missing |= bool(((x == 0) | x.isnan() | values.isnan()).any())
            mask = torch.empty_like(x).copy_((values != 0).to(x.dtype)).div_(1 - p)
        if op == "native_dropout":
            return NativeDropout.apply(x, mask)
        return x.mul_(mask) if op == "dropout_" else x * mask


    def dropout_of(self, op, x, p, values):
        """Of whole channels, or alpha dropout: by a mask that Tandem's result shows, in the steps
        of PyTorch. An element at 0 shows none, but others of its channel may."""
        alpha = 1.7580993408473766
        scale = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
        one = op in ("dropout1d", "dropout3d") and x.dim() == {"dropout1d": 2, "dropout3d": 4}[op]
        with torch.no_grad():
            dropped = torch.full_like(x, -alpha * scale * (1 - p) if op in ALPHAS else 0)
            kept = ~torch.isclose(values, dropped, rtol=64 * torch.finfo(x.dtype).eps, atol=0)
            kept &= ~values.isnan()  # infinity times 0
            odd = x.isnan() if op in ALPHAS else x.isnan() | (x == 0)
            if op != "alpha_dropout":
                dims = list(range(1 if one else 2, x.dim()))
                odd = odd.all(dims, keepdim=True) if dims else odd
                kept = kept.any(dims, keepdim=True) if dims else kept
            self.missing |= bool(odd.any())
            noise = kept.to(x.dtype)
        if op in CHANNELS:
            y = (x.unsqueeze(0) if one else x) * (noise.unsqueeze(0) if one else noise).div(1 - p)
            return y.squeeze(0) if one else y
        shift = (noise - 1) * (alpha * scale) + alpha * scale * p
        return x * (noise * scale) + shift


class NativeDropout(torch.autograd.Function):
    """Its backward reads the mask that it returns, which then may not be written."""

    @staticmethod
    def forward(ctx, x, scaled):
        mask = scaled != 0
        ctx.scale = scaled.max() if scaled.numel() else 1
        ctx.save_for_backward(mask)
        ctx.mark_non_differentiable(mask)
        return x * scaled, mask

    @staticmethod
    def backward(ctx, g, _):
        mask, = ctx.saved_tensors
        return g * mask * ctx.scale, None


# ---- what the text's own ops do ----

def is_float(t):
    """Of real or complex numbers, which may require grad?"""
    return t.is_floating_point() or t.is_complex()


def constant(data, dtype=None, size=None):
    """tensor(...): a row-major tensor of these numbers; complex ones are pairs."""
    if dtype is not None and dtype.is_complex:
        numbers = torch.view_as_complex(constant(data, dtype.to_real())).clone()
        return numbers if size is None else numbers.reshape(size)
    t = torch.tensor(data, dtype=dtype)
    if size is None:
        return t
    out = torch.empty(size, dtype=t.dtype)
    out.data.copy_(t.reshape(size))
    return out


def as_list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def custom(forward, backward, roles, args, fixed, options, watch=None):
    """A torch.autograd.Function; roles are the descriptors of both functions. The list
    that forward returned: results, and saved values as they are inside."""
    results, given, grads = roles
    options, inside = dict(options), []
    if watch and torch.is_inference_mode_enabled() and torch.is_grad_enabled():
        watch.notes.add("functions-in-inference-mode")
    for i in options.get("dirty", []) if watch else []:
        watch.note_versions(args[i], "dirty-version")
    n_fixed = options.pop("fixed")

    class Fn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.set_materialize_grads(options.get("materialize", True))
            out, saved = [], {}
            inside[:] = forward(*xs, *fixed[:n_fixed])
            for v, desc in zip(inside, results):
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

    out = iter(as_list(Fn.apply(*args)))
    made = [None if d and d[0] == "saved" else next(out) for d in results]
    return [m if m is not None else same(v, inside, made) for v, m in zip(inside, made)]


def same(v, inside, made):
    """A saved value outside: the result that it is, or itself."""
    return next((m for w, m in zip(inside, made) if w is v and m is not None), v)


def on_grad(x, hook, fixed, error="", code=0):
    """A gradient hook; a tensor that does not require grad takes none. See the class
    hooks-without-gradients."""
    def call(g):
        if g is None:
            return None
        if error:
            raise RuntimeError(error)
        out = hook(g, *fixed)
        return out[0] if out else None
    if x.requires_grad:
        x.register_hook(call)


def leave_grad(t, grad):
    t.grad = grad


def is_own_grad(desc):
    return bool(desc) and desc[0] == "own_grad"


def is_closed_over(desc):
    return bool(desc) and desc[0] == "const"


def draws_inside(body):
    """Does a nested function draw?"""
    return any(s.op in DRAWS or s.kind == "region" and draws_inside(s.body) or
               any(isinstance(a, Func) and draws_inside(a.body) for a in s.args or [])
               for s in body)


def is_zeroed(s, after):
    """Is the result of s set to zero by the next statement?"""
    return bool(after and s.names and after.op == "zero_" and
                after.args == [Ref(s.names[0])])


# ---- source text ----

def uncast(f, *args):
    with torch.autocast("cpu", enabled=False):
        return f(*args)


class Code:
    def __init__(self, draws, watch=None):
        self.ops, self.draws, self.unset = set(), draws, False
        self.order = 1  # of gradients, see torch_ops.FORMULAS
        self.watch = watch
        self.sources = {}  # lines of text by function name
        self.control = False   # of the functions to come: control=true of their call
        self.space = {"torch": torch, "as_list": as_list, "custom": custom,
                      "min": min, "max": max, "watch": watch, "leave_grad": leave_grad,
                      "on_grad": on_grad, "uncast": uncast,
                      "cast": lambda f, *args: f(*args)}

    def function(self, fn, control=False):
        """Compiles fn; its nested functions and literals become globals. control: see
        torch_control.py."""
        self.control = control
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
            self.space[key] = torch_ops.find(name, self.order)
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
        args = [self.name(i.name) for i in fn.inputs if not is_own_grad(i.desc)]
        lines = [f"def {name}({', '.join(args)}):"] + self.symbols(fn)
        lines += [f"  {self.name(i.name)} = {args[int(i.desc[1])]}.grad"
                  for i in fn.inputs if is_own_grad(i.desc)]
        self.inputs = args
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
            return self.body(a)
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
                self.leave(s, indent, lines)
            elif s.kind == "op":
                lines.append(indent + self.statement(s))
            else:
                lines.append(indent + "pass")

    def leave(self, s, indent, lines):
        """Returns the results; gradients of inputs stay at the inputs."""
        out = []
        for a, d in zip(s.args, s.descs):
            if is_own_grad(d):
                lines.append(f"{indent}leave_grad({self.inputs[int(d[1])]}, {self.expr(a)})")
            else:
                out.append(a)
        lines.append(indent + "return " + self.expr(out))

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
        if s.op in ("region", "cond", "while_loop") and not self.code.control and any(
                isinstance(a, Func) and draws_inside(a.body) for a in s.args):
            self.code.draws.missing = True  # an op with a graph does not report what that draws
        args = [self.expr(a) for a in s.args]
        if s.op in ("cond", "while_loop"):
            return self.nested(s, args)
        if s.op == "on_grad":
            return f"on_grad({', '.join(args)})"
        if s.op == "region":  # eagerly, the ops of its body
            return f"{self.caller()}({args[0]}, *{args[1]})"
        if s.op == "scaled_dot_product_attention" and (s.args + [0] * 5)[4]:
            self.code.draws.missing = True  # dropout of its weights
        if s.op == "gumbel_softmax" or s.op == "rrelu" and (s.args + [0] * 4)[3]:
            self.code.draws.missing = True
        args += [f"{k}={self.expr(v)}" for k, v in s.kwargs.items()]
        return f"{self.code.op(s.op)}({', '.join(args)})"

    def nested(self, s, args):
        control = self.code.fresh("control", Control(self.code.watch, self.code.control))
        if s.op == "cond":
            closed = [i for i, given in enumerate(s.args[1].inputs) if is_closed_over(given.desc)]
            args.append(repr(closed if self.code.control else []))
        return f"{self.caller()}({control}.{s.op}, {', '.join(args)})"

    def caller(self):
        """td_cond, td_while and td_call_region run their bodies under the autocast of the call;
        the bodies of the ops are graphs, which have all of their casts already."""
        return "cast" if self.code.control else "uncast"

    def body(self, fn):
        """A nested function. Under control=true one with `grad` in its name takes a gradient."""
        name = self.code.define("nested", fn)
        if not (self.code.control and "grad" in fn.name and fn.inputs):
            return name
        add, total = (self.code.space[self.code.op(op)] for op in ("add", "sum"))
        return self.code.fresh("graded", with_gradient(self.code.space[name], add, total,
                                                       self.code.watch))

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
        return f"custom({', '.join(parts)})"
