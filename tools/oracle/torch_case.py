"""Runs one case of a .td file in PyTorch and reports it as `tandem run --json` does.

Tandem's report of the same case is read for the numbers it drew and for random
tangents, which PyTorch is given; nothing else of it is used.
"""
import contextlib
import itertools
import json
import math
import re
import warnings

import numpy
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from case_compare import is_done
from td_text import Dtype, Ref, Size
from torch_code import (DRAWS, DT, UNSET, Code, Draws, Unsupported, as_list, constant, on_grad,
                        is_closed_over, is_float, is_own_grad, is_zeroed)
from torch_watch import Watch

DT_NAME = {v: k for k, v in DT.items()}
REGIONS = {"no_grad": torch.no_grad, "enable_grad": torch.enable_grad,
           "inference": torch.inference_mode,
           "plain": lambda: torch.inference_mode(False),
           "autocast_bf16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
           "autocast_f16": lambda: torch.autocast("cpu", dtype=torch.float16),
           "autocast_off": lambda: torch.autocast("cpu", enabled=False)}
# Mistakes of this tool, or programs it cannot express: not PyTorch's errors.
OURS = (KeyError, TypeError, AttributeError, NameError)


def number(t, v):
    """A JSON number that reads back exactly, with few digits."""
    if isinstance(v, (bool, int)):
        return v
    if math.isnan(v) or math.isinf(v):
        return "nan" if math.isnan(v) else "inf" if v > 0 else "-inf"
    if t.dtype in (torch.float32, torch.complex64):
        return float(str(numpy.float32(v)))
    return v


def as_tensor(report):
    """The tensor of a report, row-major."""
    dt = DT[report["dtype"]]
    if dt.is_complex:
        pairs = as_tensor(dict(report, dtype=DT_NAME[dt.to_real()], sizes=[*report["sizes"], 2]))
        return torch.view_as_complex(pairs)
    exact = torch.float64 if dt.is_floating_point else torch.int64
    convert = float if dt.is_floating_point else int
    values = [convert(v) for v in report["elements"]]
    return torch.tensor(values, dtype=exact).to(dt).reshape(report["sizes"])


def fn_name(fn):
    """MulBackward0 is mul, CopySlices copy_slices."""
    if fn is None:
        return ""
    name = re.sub(r"Backward\w*$", "", fn.name().split("::")[-1])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


# Pairs of pack and unpack by the words of hooks=.
HOOKS = {"clone": (torch.clone, lambda t: t),
         "bf16": (lambda t: (t.bfloat16() if t.is_floating_point() else t, t.dtype),
                  lambda packed: packed[0].to(packed[1])),
         "twice": (lambda t: t * 2 if t.is_floating_point() else t, lambda t: t)}


@contextlib.contextmanager
def surroundings(kwargs):
    """autocast= and hooks= of a call or backward."""
    with contextlib.ExitStack() as stack:
        if "autocast" in kwargs:
            stack.enter_context(torch.autocast("cpu", dtype=DT[kwargs["autocast"]]))
        if "hooks" in kwargs:
            stack.enter_context(saved_tensors_hooks(*HOOKS[kwargs["hooks"]]))
        yield


@contextlib.contextmanager
def named_failures():
    """A backward that misses a saved value, or an autocast in it, says in which node."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            try:
                yield
            except RuntimeError as e:
                found = re.findall(r"Error detected in ([\w:]+)",
                                   " ".join(str(w.message) for w in heard))
                said = ("modified by an inplace", "through the graph a second time",
                        "at::autocast::prioritize")
                if not found or not any(s in str(e) for s in said):
                    raise
                raise RuntimeError(f"{found[0]}: {e}") from e


def wants_grad(v):
    """Integers never do: PyTorch may track one, or refuse to bring its history up to date."""
    return isinstance(v, torch.Tensor) and is_float(v) and v.requires_grad


def take_grads(out, args):
    """grads=true: the gradient of each argument, or None."""
    roots = [v for v in out if wants_grad(v)]
    by = [v for v in args if wants_grad(v)]
    if not roots or not by:
        return [None] * len(args)
    with named_failures():
        found = iter(torch.autograd.grad(roots, by, [torch.ones_like(r) for r in roots],
                                         create_graph=True, allow_unused=True))
    return [next(found) if wants_grad(v) else None for v in args]


class Case:
    """theirs: Tandem's report of the case. draws: see drawn_inputs. wrap: applied to
    each function, torch.compile for instance; then no op is watched. uncounted: ops
    after which versions are not reported. run: see torch_watch.py. order: of
    gradients, see torch_ops.FORMULAS. by_value: nodes save copies, which no write changes.
    retain: every backward leaves the graph to the next."""

    def __init__(self, funcs, stmts, theirs, draws, wrap=None, uncounted=(), run=None,
                 order=1, by_value=False, retain=False):
        self.stmts, self.theirs, self.drawn = stmts, theirs, draws
        self.draws = Draws()
        self.watch = Watch(run)
        self.by_value, self.retain = by_value, retain
        self.overwritten = set()  # by_value: steps that read a value which was written since
        self.code = Code(self.draws, None if wrap else self.watch)
        self.code.order = order
        self.funcs, self.compiled, self.wrap = funcs, {}, wrap
        self.env, self.leaves, self.last = {}, [], []
        self.kept, self.storages, self.steps = [], [], []
        self.train = False  # mode of the module of module=
        self.op, self.uncounted, self.taken = "", set(uncounted), -1

    # ---- reports ----

    def storage(self, t):
        key = t.untyped_storage()._cdata
        self.kept.append(t.untyped_storage())
        if key not in self.storages:
            self.storages.append(key)
        return self.storages.index(key)

    def tensor(self, t):
        r = {"dtype": DT_NAME[t.dtype], "sizes": list(t.size()),
             "strides": list(t.stride()), "offset": t.storage_offset(),
             "storage": self.storage(t)}
        version = self.watch.version(t)
        if version is not None and not self.code.ops & self.uncounted:
            r["version"] = version
        try:  # PyTorch brings a stale view up to date here, or refuses
            r.update(grad_fn=fn_name(t.grad_fn), requires_grad=t.requires_grad,
                     is_leaf=t.is_leaf)
        except RuntimeError:
            pass
        r.update(is_view=t._is_view(), is_inference=t.is_inference())
        flat = t.detach().reshape(-1)
        flat = torch.zeros_like(flat) if t._is_zerotensor() else flat
        flat = flat.double() if flat.dtype == torch.bfloat16 else flat
        if flat.is_complex():  # pairs
            flat = torch.view_as_real(flat.resolve_conj()).reshape(-1)
        r["elements"] = [number(t, v) for v in flat.tolist()]
        why = self.watch.why(t)
        return dict(r, why=why) if why else r

    def value(self, v, name=None):
        r = {} if name is None else {"name": name}
        if isinstance(v, torch.Tensor):
            r.update(self.tensor(v))
        elif isinstance(v, bool):
            r["bool"] = v
        elif isinstance(v, int):
            r["int"] = v
        elif isinstance(v, float):
            r["float"] = v
        else:
            r["none"] = True
        return r

    def aliases(self, named):
        out = []
        for i, (x, a) in enumerate(named):
            for y, b in named[:i]:
                if (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and
                        a.untyped_storage()._cdata == b.untyped_storage()._cdata):
                    out.append({"values": [y, x], "same_tensor": a is b})
        return out

    # ---- statements ----

    def arg(self, a):
        if isinstance(a, Ref):
            return self.env[a.name]
        if isinstance(a, Dtype):
            return DT[a.name]
        if isinstance(a, Size):
            raise Unsupported("a size expression in a case")
        return [self.arg(x) for x in a] if isinstance(a, list) else a

    def named(self, s, args):
        names = [a.name if isinstance(a, Ref) else None for a in s.args]
        return [self.value(v, n) for n, v in zip(names, args)]

    def function(self, name, control=False):
        key = name, control
        if key not in self.compiled:
            self.compiled[key] = self.code.function(self.funcs[name], control)
            if self.wrap:
                self.compiled[key] = self.wrap(self.compiled[key])
        return self.compiled[key]

    def their_step(self):
        """Tandem's report of the step to come; empty: it has none."""
        steps = self.theirs["steps"]
        return steps[len(self.steps)] if len(self.steps) < len(steps) else {}

    def take_draws(self):
        """Fills the queue with what Tandem drew up to the end of the call to come."""
        if self.taken < len(self.steps):
            self.draws.queue = [(d["op"], as_tensor(d))
                                for d in self.their_step().get("draws", [])]
        self.taken = len(self.steps)

    def invoke(self, s, fn, args):
        """The function with what the options of the call put inside and around it."""
        if "module" in s.kwargs:  # a checkpoint finds the mode of the last call
            self.train = s.kwargs["module"] == "train"

        def body(*xs):
            out = fn(*xs)
            if "module" in s.kwargs:
                dropout = self.code.space[self.code.op("dropout")]
                out = [dropout(v, 0.5, self.train)
                       if isinstance(v, torch.Tensor) and v.is_floating_point() else v
                       for v in out]
            if not s.kwargs.get("grads"):
                return out
            grads = take_grads(out, xs)
            for g in grads:
                if g is not None:
                    self.watch.fresh(g)
            return out + grads

        with surroundings(s.kwargs):
            if s.kwargs.get("checkpoint"):
                return self.checkpointed(s, body, args)
            return body(*args)

    def checkpointed(self, s, body, args):
        """A checkpoint saves its arguments, and not the tensors that the function closes over."""
        closed = [is_closed_over(i.desc) for i in self.funcs[s.op].inputs if not is_own_grad(i.desc)]

        drawn, again = list(self.draws.queue), []

        def region(*given):
            """Recomputed, it draws what it drew first."""
            rest, queue = iter(given), self.draws.queue
            self.draws.queue = list(drawn) if again else queue
            self.watch.checkpointed = True
            try:
                return body(*[a if c else next(rest) for a, c in zip(args, closed)])
            finally:
                self.watch.checkpointed = False
                self.draws.queue = queue if again else self.draws.queue
                again.append(True)

        return checkpoint(region, *[a for a, c in zip(args, closed) if not c], use_reentrant=False)

    def call(self, s):
        args = [self.arg(a) for a in s.args]
        step = {"call": s.op, "inputs": self.named(s, args)}
        fn = self.function(s.op, bool(s.kwargs.get("control")))
        self.take_draws()
        self.steps.append(step)
        out = [] if s.kwargs.get("rehearse") else self.invoke(s, fn, args)
        names = s.names if s.names and not s.more else [
            f"{s.names[0] if s.more else 'out'}.{i}" for i in range(len(out))]
        self.env.update(zip(names, out))
        self.last = self.last if s.kwargs.get("rehearse") else out
        step["outputs"] = [self.value(v, n) for n, v in zip(names, out)]
        step["aliases"] = self.aliases(
            [(a.name, v) for a, v in zip(s.args, args) if isinstance(a, Ref)] +
            list(zip(names, out)))
        step["grad_enabled"] = torch.is_grad_enabled()
        step["inference"] = torch.is_inference_mode_enabled()
        step["inputs_after"] = self.named(s, args)

    def tangents(self, s, roots, given):
        theirs = self.their_step().get("tangents", [])
        out = []
        for i, r in enumerate(roots):
            if given:
                out.append(given[i])
                continue
            t = torch.ones_like(r.detach())
            if "seed" in s.kwargs and i < len(theirs):
                if t.is_complex():  # drawn as pairs, row by row
                    t = torch.empty_strided(t.shape, theirs[i]["strides"], dtype=t.dtype)
                t.copy_(as_tensor(theirs[i]))
                self.watch.nudge(t)
            out.append(t)
        return out

    def backward(self, s):
        named, given = ([self.arg(a) for a in part] for part in s.args)
        reached = [wants_grad(r) for r in named or self.last]
        roots, given = (list(itertools.compress(part, reached)) for part in (named or self.last, given))
        if not roots:
            raise RuntimeError("nothing requires grad")
        tangents = self.tangents(s, roots, given)
        before = [self.value(g) for g in tangents]  # a custom backward may write them
        step = {"backward": len(roots)}
        with surroundings(s.kwargs), named_failures():
            torch.autograd.backward(roots, tangents,
                                    retain_graph=self.retain or s.kwargs.get("retain_graph"),
                                    create_graph=s.kwargs.get("create_graph", False))
        for _, t in self.leaves:
            if t.grad is not None:
                self.watch.gradient(t.grad)
        step["tangents"] = before
        step["gradients"] = [self.value(t.grad, n) for n, t in self.leaves]
        for t in step["tangents"] + step["gradients"]:  # how they were made is free
            t.pop("version", None)
            t.pop("is_view", None)
        self.steps.append(step)

    def build(self, s):
        """An op of the case itself: what its inputs are made with."""
        kwargs = dict(s.kwargs)
        leaf, seed = kwargs.pop("requires_grad", False), kwargs.pop("seed", None)
        if s.op in DRAWS and seed is not None:
            out = self.drawn.get(draw_text(s))
            if out is None:
                raise Unsupported(f"a draw of {s.op} from other tensors")
            out = out.clone()
            self.watch.nudge(out)
        elif s.op == "tensor":
            out = constant(*[self.arg(a) for a in s.args])
        elif s.op == "load":
            raise Unsupported("load")
        elif s.op == "on_grad":
            x, hook, fixed = s.args[:3]
            on_grad(self.arg(x), self.code.function(hook), self.arg(fixed), *s.args[3:])
            return
        else:
            self.take_draws()
            args = [self.arg(a) for a in s.args]
            fn = self.code.space[self.code.op(s.op)]
            out = fn(*args, **{k: self.arg(v) for k, v in kwargs.items()})
        if leaf:
            for i, t in enumerate(as_list(out)):
                t.requires_grad_(True)
                self.leaves.append((s.names[i], t))
        self.bind(s, out)

    def bind(self, s, out):
        if s.more:
            self.env.update({f"{s.names[0]}.{i}": v for i, v in enumerate(out)})
        elif s.names:
            self.env.update(zip(s.names, as_list(out)))

    def statement(self, s):
        self.op = s.op if s.kind == "op" else s.kind
        if s.kind == "call":
            self.call(s)
        elif s.kind == "backward":
            self.backward(s)
        elif s.kind == "grad":
            self.env[s.names[0]] = self.arg(s.args[0]).grad
            if self.env[s.names[0]] is None:
                raise RuntimeError("grad: there is none")
        elif s.kind == "region":
            with REGIONS[s.op]():
                self.block(s.body)
        else:
            self.build(s)

    def block(self, stmts):
        for s, after in zip(stmts, stmts[1:] + [None]):
            self.code.unset |= s.op in UNSET and not is_zeroed(s, after)
            self.statement(s)

    def failed_op(self, error):
        return self.code.failed_op(error) or self.op

    def copied(self, t):
        return t.clone(), t.detach(), None if t.is_inference() else t._version

    def read_copy(self, packed):
        copy, t, version = packed
        if version is not None and t._version != version:
            self.overwritten.add(sum(map(is_done, self.steps)))
        return copy

    def run(self):
        """The report. `loose` says that values mean nothing: drawn or unset."""
        error = None
        try:
            copies = saved_tensors_hooks(self.copied, self.read_copy)
            with copies if self.by_value else contextlib.nullcontext():
                self.block(self.stmts)
        except Unsupported:
            raise
        except OURS as e:
            raise Unsupported(f"{self.failed_op(e)}: {type(e).__name__}: {e}") from e
        except Exception as e:
            op = self.failed_op(e)
            if "failed to match any schema" in str(e):
                raise Unsupported(f"{op}: no schema of PyTorch's takes this") from e
            error = f"{op}: {str(e).strip()}".split("\n")[0].replace(
                "CopySlices:", f"CopySlices({','.join(sorted(self.watch.slices))}):")
        r = {"steps": self.steps, "ok": error is None, "overwritten": self.overwritten}
        if error is not None:
            r["torch_says"] = error[:160]
        unset = self.code.unset or self.watch.unset
        r["loose"] = self.draws.missing or unset
        r["notes"] = sorted(self.watch.notes | {name for name, holds in (
            ("unset-elements", unset),
            ("counts-of-tangents", self.watch.notes & {"inference-leaves",
                                                       "functions-in-inference-mode"}), ("uncompared-probabilities", r["loose"]),
            ("uncompared-sizes", r["loose"] and self.watch.counts)) if holds})
        return r


# ---- numbers drawn for inputs ----

def draw_text(s):
    """A draw of an input as text, the same for the same numbers."""
    if s.kind != "op" or s.op not in DRAWS or "seed" not in s.kwargs:
        return None
    if any(isinstance(a, Ref) for a in s.args):
        return None
    args = ", ".join(json.dumps(a) if not isinstance(a, Dtype) else a.name for a in s.args)
    return f"{s.op}({args}, seed={s.kwargs['seed']})"


def all_draws(stmts):
    for s in stmts:
        if s.kind == "region":
            yield from all_draws(s.body)
        elif draw_text(s):
            yield draw_text(s)


def drawn_inputs(cases, run_text):
    """What Tandem draws for the inputs of cases, by text; run_text runs a program."""
    texts = sorted({t for _, stmts in cases for t in all_draws(stmts)})
    if not texts:
        return {}
    program = "func @same(%x) {\n  return %x\n}\n" + "".join(
        f'case "{i}" {{\n  %x = {t}\n  call @same(%x)\n}}\n' for i, t in enumerate(texts))
    report = run_text(program)
    return {t: as_tensor(c["steps"][0]["outputs"][0])
            for t, c in zip(texts, report["cases"])}
