"""PyTorch's OpInfo samples through libtandem.so: values, dtypes, strides, sharing, errors,
gradients, in-place forms, changed arguments, compiled functions.

    python tools/oracle/opinfo/run.py [--seconds N] [--samples N] [OPINFO...]

Differences are sorted into the documented classes of classes.txt; any other is printed, and
the exit status is 1. An op runs in a child process, so that a crash is a difference like others.

Developer-only: needs a Python with torch (its testing modules), and build/libtandem.so.
"""
import argparse
import collections
import fnmatch
import json
import os
import random
import signal
import sys
import tempfile
import time
import types
import unittest
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, HERE)
os.environ.setdefault("TD_NUM_THREADS", "1")
warnings.simplefilter("ignore")
# torch's testing modules import it for a base class of tests that is not needed here.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))

import torch  # noqa: E402

torch.set_num_threads(1)
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.opinfo.core import SampleInput  # noqa: E402

from driver import Library, Unsupported  # noqa: E402
from judge import Difference, Run, tensors_of  # noqa: E402
from mapping import OPS  # noqa: E402

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64, "bool": torch.bool,
          "u8": torch.uint8}
KINDS = ("sample", "noncontiguous", "inplace", "error", "changed", "compiled")
ALARM = 20          # seconds for one sample
MOST_ELEMENTS = 200000
NUMBERS = [-100, -5, -2, -1, 0, 1, 2, 3, 7, 100, 2**40, 2**62, 2**63 - 1, -2**63]
FLOATS = [float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e308, 0.5, 2.0, -0.0]


# ---- samples

def changed_tensor(t, rng):
    t = t.detach()
    way = rng.randrange(9)
    if way == 0:
        return t.to(rng.choice(list(DTYPES.values()) + [torch.float64, torch.int32]))
    if way == 1:
        return t.unsqueeze(0)
    if way == 2:
        return t.flatten()
    if way == 3:
        return t.new_zeros([0] + list(t.shape)[1:])
    if way == 4:
        return t.unsqueeze(-1).expand(*t.shape, 3)
    if way == 5 and t.dim():
        return t.transpose(0, -1)
    if way == 6 and t.dim() and t.shape[0]:
        return t.select(0, 0)
    if way == 7 and t.dim():
        return torch.cat([t, t])
    if t.numel() and t.is_floating_point():
        t = t.clone(memory_format=torch.contiguous_format)
        t.view(-1)[rng.randrange(t.numel())] = rng.choice(FLOATS)
    return t


def changed_value(x, rng):
    if isinstance(x, torch.Tensor):
        return changed_tensor(x, rng)
    if isinstance(x, bool):
        return not x
    if isinstance(x, int):
        return rng.choice(NUMBERS)
    if isinstance(x, float):
        return rng.choice(FLOATS)
    if isinstance(x, str):
        return rng.choice(["bogus", "", x.upper()])
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields") and x:
        i = rng.randrange(len(x))
        return type(x)([*x[:i], changed_value(x[i], rng), *x[i + 1:]])
    return x


def changed(sample, rng):
    """The sample with one argument changed."""
    args, kwargs = [sample.input, *sample.args], dict(sample.kwargs)
    i = rng.randrange(len(args) + len(kwargs))
    if i < len(args):
        args[i] = changed_value(args[i], rng)
    else:
        k = list(kwargs)[i - len(args)]
        kwargs[k] = changed_value(kwargs[k], rng)
    return SampleInput(args[0], args=tuple(args[1:]), kwargs=kwargs)


def samples(op, dtype, kind, most):
    torch.manual_seed(0)
    random.seed(0)
    rng = random.Random(1)
    grads = bool(dtype.is_floating_point and op.supports_autograd
                 and dtype in op.supported_backward_dtypes("cpu"))
    if kind == "error":
        if op.error_inputs_func is None or dtype != torch.float32:
            return []
        found = [e.sample_input for e in op.error_inputs("cpu")]
    else:
        found = list(op.sample_inputs("cpu", dtype, requires_grad=grads and kind != "changed"))
    if kind == "noncontiguous":
        found = [s.noncontiguous() for s in found]
    step = max(1, len(found) // most)
    found = found[::step][:most]
    if kind == "changed":
        found = [changed(s, rng) for s in found for _ in range(3)]
    small = lambda s: sum(t.numel() for t in tensors_of(s.input, s.args, s.kwargs))  # noqa: E731
    return [s for s in found if kind == "error" or small(s) < MOST_ELEMENTS]


def describe(x):
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype)[6:]}{list(x.shape)}"
    if isinstance(x, dict):
        return ", ".join(f"{k}={describe(v)}" for k, v in x.items())
    if isinstance(x, (list, tuple)):
        return "[" + ", ".join(map(describe, x)) + "]"
    return repr(x)


# ---- one op, in a child process

def judge_sample(library, op, name, kind, sample, note):
    try:
        with Run(library, op, name, OPS[name], sample, note) as run:
            if kind == "inplace":
                return run.inplace()
            if kind == "compiled":
                return run.compiled()
            return run.plain(kind in ("sample", "noncontiguous"))
    except Unsupported as e:
        return "unsupported", str(e)
    except Difference as e:
        return e.outcome, e.text


def run_op(library, op, name, options, done, log):
    def write(**line):
        log.write(json.dumps(line) + "\n")
        log.flush()
    deadline = time.time() + options.seconds
    for word, dtype in DTYPES.items():
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for kind in KINDS:
            try:
                found = samples(op, dtype, kind, options.samples)
            except Exception:
                continue
            for i, s in enumerate(found):
                key = f"{word} {kind} {i}"
                if key in done or time.time() > deadline:
                    continue
                text = describe([s.input, *s.args, s.kwargs])[:200]
                write(start=key, text=text)
                signal.alarm(ALARM)
                outcome, why = judge_sample(library, op, name, kind, s,
                                            lambda stage: write(stage=stage))
                signal.alarm(0)
                write(key=key, outcome=outcome, why=why[:300], text=text)


def read_log(path):
    """Finished samples, and the one that was under way: (key, text, stage)."""
    lines, under_way = [], None
    for line in open(path):
        r = json.loads(line)
        if "start" in r:
            under_way = [r["start"], r["text"], "Tandem"]
        elif "stage" in r:
            under_way[2] = r["stage"]
        else:
            lines.append(r)
            under_way = None
    return lines, under_way


def outcomes(library, op, name, options):
    """All samples of one op; a child that dies is started again after the sample it died of."""
    path = tempfile.mktemp(prefix="opinfo")
    try:
        while True:
            done = {r["key"] for r in read_log(path)[0]} if os.path.exists(path) else set()
            child = os.fork()
            if child == 0:
                with open(path, "a") as log:
                    run_op(library, op, name, options, done, log)
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            lines, under_way = read_log(path)
            if under_way is None:
                return lines
            key, text, stage = under_way
            outcome = "unsupported" if stage == "torch" else (
                "hang" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
                else "crash")
            with open(path, "a") as log:
                log.write(json.dumps(dict(key=key, outcome=outcome, why=f"status {status} in "
                                          + stage, text=text)) + "\n")
    finally:
        if os.path.exists(path):
            os.unlink(path)


# ---- the report

def read_classes():
    """[(op, kind, outcome, message, reason)] of classes.txt, the first four as patterns."""
    rows = []
    for line in open(os.path.join(HERE, "classes.txt")):
        if line.strip() and not line.startswith("#"):
            rows.append([c.strip() for c in line.split("|")])
    return rows


def class_of(rows, name, kind, r):
    for op, k, outcome, message, reason in rows:
        if (fnmatch.fnmatch(name, op) and fnmatch.fnmatch(kind, k)
                and fnmatch.fnmatch(r["outcome"], outcome)
                and (message == "*" or message in r["why"])):
            return reason
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30, help="for one op")
    parser.add_argument("--samples", type=int, default=12, help="of an op, dtype and kind")
    parser.add_argument("ops", nargs="*")
    options = parser.parse_args()
    library, rows = Library(ROOT), read_classes()
    counts, classes, unexplained, ran = collections.Counter(), collections.Counter(), 0, 0
    for op in op_db:
        name = op.name + ("::" + op.variant_test_name if op.variant_test_name else "")
        if name not in OPS or options.ops and name not in options.ops:
            continue
        ran += 1
        for r in outcomes(library, op, name, options):
            kind = r["key"].split()[1]
            counts[kind, r["outcome"]] += 1
            if r["outcome"] in ("agree", "rounding", "unsupported"):
                continue
            reason = class_of(rows, name, kind, r)
            if reason is not None:
                classes[reason] += 1
            else:
                unexplained += 1
                print(f"{name} [{r['key']}] {r['outcome']}: {r['why']}\n     {r['text']}")
                sys.stdout.flush()
    for kind in KINDS:
        row = {o: n for (k, o), n in counts.items() if k == kind}
        compared = sum(row.values()) - row.get("unsupported", 0)
        print(f"{kind}: {compared} compared; " + ", ".join(
            f"{o} {n}" for o, n in sorted(row.items(), key=lambda x: -x[1])))
    for reason, n in classes.most_common():
        print(f"{n} differences: {reason}")
    print(f"{ran} OpInfos, {unexplained} unexplained differences")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
