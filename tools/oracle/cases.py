"""Runs the cases of .td files in PyTorch and compares with `tandem run --json`.

    python tools/oracle/cases.py                     all of tests/cases/sem
    python tools/oracle/cases.py FILE.td...          these
    python tools/oracle/cases.py --look FILE.td...   compare, store nothing

Every case is executed with real torch ops on the same numbers: values, dtype,
geometry, sharing, versions, flags, grad_fn, gradients, error or not. What both
say is stored as expected/NAME.json beside the file, which `make test` compares
with Tandem alone. A difference is printed and the file is not stored.

Developer-only: needs a Python with torch, and build/tandem.
"""
import glob
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch

import td_text
from case_compare import DT, NAMES, differences, save, settle_names
from td_text import Dtype, Ref, Size
from torch_ops import call

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
TANDEM = os.environ.get("TANDEM", os.path.join(ROOT, "build", "tandem"))

DT_NAME = {v: k for k, v in DT.items()}

DRAWS = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "dropout",
         "randint_like", "uniform_", "normal_", "bernoulli_", "dropout_", "random_"}
# Ops whose last bits are a library's own affair; in-place forms too.
CLOSE = {"sin", "cos", "tanh", "exp", "log", "sigmoid", "matmul", "mm", "mv", "linear",
         "addmm", "sum", "mean", "softmax", "gelu", "batch_norm", "layer_norm",
         "rms_norm", "native_layer_norm", "expand", "conv2d", "rsqrt", "bmm",
         "log_softmax", "cross_entropy"}

# Versions differ after these, on purpose: docs/testing.md says how.
UNCOUNTED = {"set_", "batch_norm"}

# Tandem's ops that PyTorch has as methods.
METHODS = {"requires_grad_": lambda t, on=True: t.requires_grad_(on),
           "detach_": lambda t: t.detach_()}


def number(t, v):
    """A JSON number that reads back exactly, with few digits."""
    if isinstance(v, (bool, int)):
        return v
    if math.isnan(v) or math.isinf(v):
        return "nan" if math.isnan(v) else "inf" if v > 0 else "-inf"
    if t.dtype == torch.float32:
        return float(str(numpy.float32(v)))
    return v


def fn_name(t):
    """MulBackward0 is mul, CopySlices copy_slices."""
    fn = t.grad_fn
    if fn is None:
        return ""
    name = re.sub(r"Backward\w*$", "", fn.name().split("::")[-1])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Case:
    """One case in PyTorch; `theirs` is Tandem's report, asked only for tangents."""

    def __init__(self, funcs, stmts, theirs, draws):
        self.funcs, self.stmts, self.theirs, self.draws = funcs, stmts, theirs, draws
        self.env, self.leaves, self.last = {}, [], []
        self.kept, self.storages = [], []
        self.steps, self.random, self.close = [], False, False
        self.counts = True

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
        if self.counts and not t.is_inference():
            r["version"] = t._version
        r.update(requires_grad=t.requires_grad, is_leaf=t.is_leaf, is_view=t._is_view(),
                 is_inference=t.is_inference(), grad_fn=fn_name(t))
        if not self.random:
            flat = t.detach().reshape(-1)
            flat = flat.double() if flat.dtype == torch.bfloat16 else flat
            r["elements"] = [number(t, v) for v in flat.tolist()]
        return r

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

    def arg(self, a, env, symbols=None):
        if isinstance(a, Ref):
            return env[a.name]
        if isinstance(a, Dtype):
            return DT[a.name]
        if isinstance(a, Size):
            return eval(a.text, {"min": min, "max": max}, symbols or {})
        if isinstance(a, list):
            return [self.arg(x, env, symbols) for x in a]
        return a

    def bind(self, s, out, env):
        if s.more:
            env.update({f"{s.names[0]}.{i}": v for i, v in enumerate(out)})
        elif len(s.names) == 1 and not isinstance(out, (list, tuple)):
            env[s.names[0]] = out
        else:
            env.update(zip(s.names, out if isinstance(out, (list, tuple)) else [out]))

    def op(self, s, env, symbols=None):
        self.counts &= s.op not in UNCOUNTED
        self.close |= s.op.rstrip("_") in CLOSE
        args = [self.arg(a, env, symbols) for a in s.args]
        if s.op == "tensor":
            dt = args[1] if len(args) > 1 else None
            t = torch.tensor(args[0], dtype=dt)
            return t.reshape(args[2]) if len(args) > 2 else t
        if s.op in METHODS:
            return METHODS[s.op](*args)
        self.random |= s.op in DRAWS
        return call(s.op, args, {k: self.arg(v, env, symbols)
                                 for k, v in s.kwargs.items()})

    def region(self, word):
        return {"no_grad": torch.no_grad, "enable_grad": torch.enable_grad,
                "inference": torch.inference_mode,
                "plain": lambda: torch.inference_mode(False)}[word]()

    def body(self, stmts, env, symbols):
        for s in stmts:
            if s.kind == "region":
                with self.region(s.op):
                    out = self.body(s.body, env, symbols)
                if out is not None:
                    return out
            elif s.kind == "return":
                return [self.arg(a, env, symbols) for a in s.args]
            else:
                self.bind(s, self.op(s, env, symbols), env)
        return None

    def symbols(self, fn, args):
        out = {}
        for i, a in zip(fn.inputs, args):
            for d, size in enumerate(i.sizes or []):
                if isinstance(size, Size) and re.fullmatch(r"[su]\d+", size.text):
                    out.setdefault(size.text, a.size(d))
        return out

    def named(self, s, args):
        names = [a.name if isinstance(a, Ref) else None for a in s.args]
        return [self.value(v, n) for n, v in zip(names, args)]

    def call(self, s):
        fn = self.funcs[s.op]
        args = [self.arg(a, self.env) for a in s.args]
        step = {"call": s.op, "inputs": self.named(s, args)}
        self.steps.append(step)
        env = dict(zip((i.name for i in fn.inputs), args))
        out = self.body(fn.body, env, self.symbols(fn, args)) or []
        names = s.names if s.names and not s.more else [
            f"{s.names[0] if s.more else 'out'}.{i}" for i in range(len(out))]
        self.env.update(zip(names, out))
        self.last = out
        step["outputs"] = [self.value(v, n) for n, v in zip(names, out)]
        step["aliases"] = self.aliases(
            [(a.name, v) for a, v in zip(s.args, args) if isinstance(a, Ref)] +
            list(zip(names, out)))
        step["inputs_after"] = self.named(s, args)

    def backward(self, s):
        roots = [self.arg(a, self.env) for a in s.args] or self.last
        roots = [r for r in roots if isinstance(r, torch.Tensor) and r.requires_grad]
        if not roots:
            raise RuntimeError("nothing requires grad")
        step = {"backward": len(roots)}
        done = len(self.steps)
        theirs = self.theirs["steps"]
        tangents = theirs[done].get("tangents", []) if done < len(theirs) else []
        grads = []
        for i, r in enumerate(roots):
            flat = torch.ones_like(r)
            if i < len(tangents) and "seed" in s.kwargs:
                with torch.no_grad():
                    values = [float(v) for v in tangents[i]["elements"]]
                    flat.copy_(torch.tensor(values, dtype=torch.float64).view(r.size()))
            grads.append(flat)
        torch.autograd.backward(roots, grads,
                                retain_graph=s.kwargs.get("retain_graph"),
                                create_graph=s.kwargs.get("create_graph", False))
        step["tangents"] = [self.value(g) for g in grads]
        step["gradients"] = [self.value(t.grad, n) for n, t in self.leaves]
        for t in step["tangents"] + step["gradients"]:  # how they were made is free
            t.pop("version", None)
            t.pop("is_view", None)
        self.steps.append(step)

    def statement(self, s):
        if s.kind == "call":
            return self.call(s)
        if s.kind == "backward":
            return self.backward(s)
        if s.kind == "grad":
            self.env[s.names[0]] = self.arg(s.args[0], self.env).grad
            return None
        if s.kind == "region":
            with self.region(s.op):
                for x in s.body:
                    self.statement(x)
            return None
        kwargs = dict(s.kwargs)
        leaf = kwargs.pop("requires_grad", False)
        out = self.draws.get(draw_text(s))
        if out is None:
            kwargs.pop("seed", None)
            out = self.op(s._replace(kwargs=kwargs), self.env)
        else:
            out = out.clone()
        if leaf:
            out.requires_grad_(True)
            self.leaves.append((s.names[0], out))
        return self.bind(s, out, self.env)

    def run(self):
        error = None
        try:
            for s in self.stmts:
                self.statement(s)
        except Exception as e:
            if isinstance(e, (KeyError, TypeError, AttributeError, NameError)):
                raise
            error = str(e).split("\n")[0]
        r = {"steps": self.steps, "ok": error is None}
        if error:
            r["torch_says"] = error[:160]
        if self.close:
            r["close"] = True
        return r


# ---- numbers drawn for inputs ----

def draw_text(s):
    """A draw of an input as text, the same for the same numbers."""
    if s.op not in DRAWS or "seed" not in s.kwargs:
        return None
    args = ", ".join(json.dumps(a) if not isinstance(a, Dtype) else a.name for a in s.args)
    return f"{s.op}({args}, seed={s.kwargs['seed']})"


def all_draws(stmts):
    for s in stmts:
        if s.kind == "region":
            yield from all_draws(s.body)
        elif draw_text(s):
            yield draw_text(s)


def run_tandem(path):
    r = subprocess.run([TANDEM, "run", "--json", path], capture_output=True, text=True)
    if r.returncode > 1:
        raise SystemExit(r.stderr)
    return json.loads(r.stdout)


def drawn(cases):
    """What Tandem draws for the inputs, by text."""
    texts = sorted({t for _, stmts in cases for t in all_draws(stmts)})
    if not texts:
        return {}
    with tempfile.NamedTemporaryFile("w", suffix=".td") as f:
        f.write("func @same(%x) {\n  return %x\n}\n")
        for i, t in enumerate(texts):
            f.write(f'case "{i}" {{\n  %x = {t}\n  call @same(%x)\n}}\n')
        f.flush()
        report = run_tandem(f.name)
    out = {}
    for t, c in zip(texts, report["cases"]):
        x = c["steps"][0]["outputs"][0]
        out[t] = torch.tensor([float(v) for v in x["elements"]], dtype=torch.float64).to(
            DT[x["dtype"]]).reshape(x["sizes"])
    return out


def run_file(path, store):
    with open(path) as f:
        funcs, cases = td_text.parse(f.read())
    report = run_tandem(path)
    draws, bad, out = drawn(cases), 0, []
    for (name, stmts), theirs in zip(cases, report["cases"]):
        got = Case(funcs, stmts, theirs, draws).run()
        found = list(differences(got, theirs, "", got.get("close", False)))
        found += list(settle_names(got, theirs))
        if found:
            bad += 1
            print(f"{path}: {name}")
            for line in found[:8]:
                print(f"    {line}")
            for who, r in (("torch", got.get("torch_says")), ("Tandem", theirs.get("error"))):
                if r:
                    print(f"    {who} says {r}")
        out.append({"case": name, **got})
    print(f"{os.path.basename(path)}: {len(cases)} cases, {bad} differ")
    if store and not bad:
        save(path, out)
    return bad


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    args = sys.argv[1:]
    look = "--look" in args
    files = [a for a in args if not a.startswith("--")]
    files = files or sorted(glob.glob(os.path.join(ROOT, "tests", "cases", "sem", "*.td")))
    bad = sum(run_file(f, not look) for f in files)
    for mine, theirs in sorted(NAMES):
        print(f"grad_fn {mine} is {theirs} here")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
