"""Times the ops of bench/ops/cases.def through libtandem.so and PyTorch, in turn in one process.

    python bench/ops/run.py [--seconds S] [--threads N] [--grad] [--out FILE] [PART...]

Figures are processor time: of both sides the least call of rounds that alternate. One JSON line for each
call, then a table of families and the calls below 0.9 with the reasons of reasons.txt. PART:
only calls that contain one of the texts, or of a family of that name. --grad: forward and backward, of calls that have one.

Developer-only: needs a Python with torch, and build/libtandem.so.
"""
import argparse
import collections
import ctypes as C
import json
import os
import re
import sys
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tools", "oracle", "opinfo"),
                os.path.join(ROOT, "tools", "oracle")]
BAR = 0.9
# Ops whose calls are timed elsewhere, or have nothing to stand beside.
LEFT_OUT = {
    "expect": "no counterpart", "random_state": "no counterpart",
    "to_device": "one device", "requires_grad_": "a flag", "detach_": "a flag",
    "set_": "a flag", "resize_": "a flag", "resize_as_": "a flag",
    **dict.fromkeys("""cond cond_forward while_loop while_loop_backward
        while_loop_double_backward custom on_grad region call call_forward offload_store
        offload_fetch offload_wait""".split(), "runs programs"),
    **dict.fromkeys("""as_strided_backward not_bool pow_3 pow_minus_2 round_decimals round_tens
        div_trunc nextafter_f16 nextafter_bf16 gelu_erf gelu_tanh gelu_erf_backward
        gelu_tanh_backward""".split(), "timed as the op that uses it"),
}


def parse_arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=float, default=0.3, help="for each call, both sides")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--grad", action="store_true")
    p.add_argument("--out", default=os.path.join(ROOT, "build", "bench", "ops.jsonl"))
    p.add_argument("--resume", action="store_true", help="goes on behind what is in --out")
    p.add_argument("--table", action="store_true", help="prints the table of --out again")
    p.add_argument("parts", nargs="*")
    return p.parse_args()


OPTIONS = parse_arguments()
for _name in ("TD_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = str(OPTIONS.threads)
warnings.simplefilter("ignore")

import torch  # noqa: E402

import driver  # noqa: E402
import plain  # noqa: E402
import samples  # noqa: E402

torch.set_num_threads(OPTIONS.threads)
DT = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
      "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
      "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
      "c64": torch.complex64, "c128": torch.complex128}


# ---- operands

def positive_definite(t):
    n = t.size(-1)
    return t @ t.transpose(-1, -2) / n + 4 * torch.eye(n)


FLOATS = {
    None: lambda t: 4 * t, "pos": lambda t: 4 * t.abs(), "unit": lambda t: t.abs(),
    "sym": lambda t: t, "above": lambda t: 1 + 4 * t.abs(), "small": lambda t: t / 16,
    "order": lambda t: t.sort(-1).values, "rows": lambda t: t.log_softmax(-1),
    "half": lambda t: t.clamp_min(0), "ones": torch.ones_like, "zeros": torch.zeros_like,
    "distinct": lambda t: torch.randperm(t.numel()).float().view(t.shape),
    "mirror": lambda t: t + t.transpose(-1, -2), "spd": positive_definite,
    "lower": lambda t: torch.linalg.cholesky(positive_definite(t)),
    "ten": lambda t: torch.randint(1, 30, t.shape).float(),
}
INTEGERS = {"ones": 1, "zeros": 0, "twos": 2, "hundreds": 100, "twenties": 20}


def fill(leaf):
    """A tensor for a literal of a sample."""
    dt = DT[leaf.dtype]
    if leaf.values is not None:
        return torch.tensor(leaf.values, dtype=dt).view(leaf.size)
    if dt.is_complex:
        return torch.randn(leaf.size, dtype=dt)
    if dt.is_floating_point:
        return FLOATS[leaf.hint](torch.rand(leaf.size) * 2 - 1).to(dt)
    if leaf.mod is not None:
        return torch.randint(0, leaf.mod, leaf.size).to(dt)
    if leaf.hint in INTEGERS:
        return torch.full(leaf.size, INTEGERS[leaf.hint], dtype=dt)
    return torch.randint(*((0, 2) if leaf.dtype == "bool" else (-9, 10)), leaf.size).to(dt)


class Operands:
    def __init__(self, sample, grad):
        torch.manual_seed(0)
        self.leaves = [fill(x) for x in sample.leaves]
        for t, x in zip(self.leaves, sample.leaves):
            if grad and x.grad and t.is_floating_point():
                t.requires_grad_(True)
        self.made = {}
        self.args = [self.build(a, i) for i, a in enumerate(sample.args)]

    def build(self, v, position):
        if isinstance(v, list):
            return [self.build(x, None) for x in v]
        if isinstance(v, samples.Word):
            return DT[v.dtype]
        if not isinstance(v, samples.Tensor):
            return v
        t = self.made[v.ref] if v.ref is not None else self.leaves[v.leaf]
        for name, args in v.views:
            t = getattr(t, name)(*args)
        self.made[position] = t
        return t


class Context(driver.Context):
    """Reads the bytes of torch tensors where they are."""

    def wrap(self, t):
        d, keep = t.detach(), []
        p = self.so.td_wrap(self.cx, driver.NUMBER_OF[t.dtype],
                            driver.pack(list(d.shape), C.c_int64, keep),
                            driver.pack(list(d.stride()), C.c_int64, keep), d.data_ptr(), None, None)
        self.check()
        self.keep.append(d)
        if t.requires_grad:
            self.so.td_set_requires_grad(p, True)
        return driver.Handle(p)


# ---- the two sides

def tensors_of(out):
    if isinstance(out, torch.Tensor):
        return [out]
    if isinstance(out, (list, tuple)):
        return [t for o in out for t in tensors_of(o)]
    return []


def ours(cx, sample, operands):
    """A function that runs the call once and drops its results, and their geometries."""
    function, args, read, keep = cx.bind(sample.op, *operands.args)
    so, label = cx.so, b"bench"

    def run():
        so.td_scope_begin(cx.cx, label)
        function(*args)
        so.td_scope_end(cx.cx, label, None)

    def geometry():
        so.td_scope_begin(cx.cx, label)
        r = read(function(*args))
        cx.check()
        r = [] if r is None else [r] if isinstance(r, driver.Handle) else r
        found = [cx.read(h)[0].shape for h in r]
        so.td_scope_end(cx.cx, label, None)
        return found, keep
    return run, geometry


def theirs(sample, operands):
    f, args = plain.find(sample.op), operands.args

    def run():
        return f(*args)
    return run


def with_backward(cx, sample, operands, torch_run):
    """The same with gradients of ones, or None where there are none."""
    out = [t for t in tensors_of(torch_run()) if t.requires_grad][:1]
    inputs = [t for t in operands.leaves if t.requires_grad]
    if not out or not inputs:
        return None
    tangent = torch.ones(out[0].shape, dtype=out[0].dtype)
    function, args, read, keep = cx.bind(sample.op, *operands.args)
    mine, t = [cx.get(x) for x in inputs], cx.get(tangent)
    cx.keep.append(keep)

    def run():
        cx.so.td_scope_begin(cx.cx, b"bench")
        r = read(function(*args))
        cx.grad([r if isinstance(r, driver.Handle) else r[0]], mine, [t])
        cx.so.td_scope_end(cx.cx, b"bench", None)

    def torch_both():
        y = next(o for o in tensors_of(torch_run()) if o.requires_grad)
        torch.autograd.grad(y, inputs, tangent, allow_unused=True)
    return run, torch_both


def once(f, n):
    start = time.process_time()
    for _ in range(n):
        f()
    return (time.process_time() - start) / n


def least(f, g, seconds):
    """Seconds of each: batches of about 1 ms in turn, two of each at least; of calls that
    take longer than all that the first."""
    first = once(f, 1), once(g, 1)
    if sum(first) > 2 * seconds + 0.1:
        return *first, 1
    na, nb = (max(1, int(1e-3 / max(once(h, 1), 1e-7))) for h in (f, g))
    a, b, rounds, end = [], [], 0, time.process_time() + seconds
    while rounds < 2 or time.process_time() < end:
        a.append(once(f, na))
        b.append(once(g, nb))
        rounds += 1
    return min(a), min(b), rounds


def measure(library, sample):
    cx = Context(library)
    try:
        operands = Operands(sample, OPTIONS.grad)
        g = theirs(sample, operands)
        if OPTIONS.grad:
            both = with_backward(cx, sample, operands, g)
            if both is None:
                return None
            f, g = both
        else:
            f, geometry = ours(cx, sample, operands)
            want = [t.shape for t in tensors_of(g())]
            have = geometry()[0]
            if want and have and want[0] != have[0]:
                raise driver.TandemError(f"sizes differ: {have} and {want}")
        a, b, rounds = least(f, g, OPTIONS.seconds)
        return {"tandem": a, "torch": b, "ratio": b / a, "rounds": rounds}
    finally:
        cx.close()


# ---- tables

FAMILIES = {"pointwise_arith": "pointwise", "pointwise_unary": "pointwise",
            "pointwise_binary": "pointwise", "pointwise_nn": "activations",
            "special_bessel": "special", "linalg": "products", "linalg_products": "products",
            "linalg_factor": "factorizations", "linalg_solve": "factorizations",
            "copy": "copies", "view_copy": "copies", "stack": "copies", "create": "creation",
            "window": "creation", "sets": "index", "bag": "index", "norm": "norms",
            "nn": "convolutions", "patches": "resample", "reduce": "reductions",
            "statistics": "reductions", "distributions": "random", "view": "views",
            "loss": "losses", "pool": "pools"}
BY_NAME = (("fft_", "fft"), ("window", "creation"), ("_copy", "copies"), ("split", "views"))


def families():
    """op -> the family of its row: the .def file, some of them as one."""
    found = {}
    folder = os.path.join(ROOT, "src", "ops")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".def"):
            text = open(os.path.join(folder, name)).read()
            for m in re.finditer(r"^[A-Z_]+\((\w+)", text, re.M):
                found.setdefault(m.group(1), FAMILIES.get(name[:-4], name[:-4]))
    return found


def family_of(known, op):
    op = op if op in known else op.rstrip("_")
    return known.get(op) or next((f for part, f in BY_NAME if part in op), "others")


def reasons():
    """Patterns of calls and why they are below the bar, in order."""
    found = []
    for line in open(os.path.join(HERE, "reasons.txt")):
        if line.strip() and not line.startswith("#"):
            pattern, why = line.rstrip("\n").split("  ", 1)
            found.append((re.compile(pattern.strip()), why.strip()))
    return found


def reason(known, call):
    return next((why for p, why in known if p.fullmatch(call)), "")


def in_time(seconds):
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g} us"


def table(rows):
    known = reasons()
    steps = (0, 0.5, 0.9, 1.1, 2, 1e9)
    counts = collections.defaultdict(lambda: [0] * (len(steps) - 1))
    for r in rows:
        at = next(i for i in range(len(steps)) if r["ratio"] < steps[i + 1])
        counts[r["family"]][at] += 1
        counts["all"][at] += 1
    print("\n| rows of | calls | below 0.5 | to 0.9 | to 1.1 | to 2 | above |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    for family, n in sorted(counts.items(), key=lambda x: (x[0] == "all", x[0])):
        print("|", family, "|", " | ".join(str(k) for k in (sum(n), *n)), "|")
    print("\n| call | Tandem | PyTorch | ratio | reason |\n| --- | --: | --: | --: | --- |")
    for r in sorted(rows, key=lambda r: r["ratio"]):
        if r["ratio"] < BAR:
            print(f"| `{r['call']}` | {in_time(r['tandem'])} | {in_time(r['torch'])} "
                  f"| {r['ratio']:.2f} | {reason(known, r['call'])} |")


def main():
    if OPTIONS.table:
        return table([json.loads(x) for x in open(OPTIONS.out)])
    library = driver.Library(ROOT)
    family, cases = families(), samples.read(os.path.join(HERE, "cases.def"))
    have = {s.op.rstrip("_") for s in cases}
    missing = [n for n in library.schemas if n.rstrip("_") not in have and n not in LEFT_OUT
               and n[0] != "_" and not n.endswith("_inverse")]
    if missing:
        print("no case for:", *missing, file=sys.stderr)
    rows, failed = [], 0
    os.makedirs(os.path.dirname(OPTIONS.out), exist_ok=True)
    if OPTIONS.resume and os.path.exists(OPTIONS.out):
        rows = [json.loads(x) for x in open(OPTIONS.out)]
    done = {r["call"] for r in rows}
    with open(OPTIONS.out, "a" if rows else "w") as out:
        for s in cases:
            if s.text in done:
                continue
            of = family_of(family, s.op)
            if OPTIONS.parts and not any(p in s.text or p == of for p in OPTIONS.parts):
                continue
            try:
                got = measure(library, s)
            except Exception as e:
                if not OPTIONS.grad:
                    print(f"{s.text}: {type(e).__name__}: {str(e)[:300]}", file=sys.stderr)
                    failed += 1
                continue
            if got is not None:
                rows.append({"call": s.text, "family": of, **got})
                print(json.dumps(rows[-1]), file=out, flush=True)
                print(f"{got['ratio']:6.2f} {got['tandem']*1e3:9.3f} {got['torch']*1e3:9.3f} ms  {s.text}",
                      flush=True)
    table(rows)
    return failed > 0 or bool(missing)


if __name__ == "__main__":
    sys.exit(main())
