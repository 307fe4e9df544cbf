"""PyTorch's OpInfo samples through libtandem.so: values, dtypes, strides, sharing, errors,
gradients, in-place forms, changed arguments, compiled functions.

    python tools/oracle/opinfo/run.py [--samples N] [--jobs N] [--resume] [--beside LOGS]
                                      [OPINFO...]

Differences are sorted into the documented classes of classes.txt; any other is printed, and
the exit status is 1. An op runs in a child process with a bound on its memory, so that a crash is
a difference like others. Each op has a log under build/opinfo; --resume goes on behind what is there.

Developer-only: needs a Python with torch (its testing modules), and build/libtandem.so.
"""
import argparse
import collections
import fnmatch
import json
import os
import random
import re
import resource
import signal
import sys
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

from checks import numbers  # noqa: E402
from driver import Library, Unsupported  # noqa: E402
from judge import Difference, Run, tensors_of, tree_map  # noqa: E402
from mapping import OPS  # noqa: E402

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64, "bool": torch.bool,
          "u8": torch.uint8, "f64": torch.float64, "f16": torch.float16, "i32": torch.int32,
          "c64": torch.complex64, "c128": torch.complex128}
# For ops of these dtypes alone: Tandem moves and casts them.
STORED = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
KINDS = ("sample", "noncontiguous", "inplace", "error", "changed", "compiled", "dynamic")
SAMPLE_SECONDS = 20  # processor time of one sample
TORCH_SECONDS = 3    # processor time of PyTorch's call, or of its gradients
ENDED = {"PyTorch crash": "PyTorch crashes",
         "PyTorch hang": f"PyTorch takes more than {TORCH_SECONDS} s"}
NOT_COMPARED = ("unsupported", "no samples", *ENDED)
SAME = ("agree", "rounding", *NOT_COMPARED)
MOST_ELEMENTS = 200000
# Samples with a number beyond it are left out: each takes PyTorch, or both, seconds or gigabytes.
MOST_NUMBER = {"combinations": 10, "nn.functional.conv_transpose3d": 50}
NUMBERS = [-100, -5, -2, -1, 0, 1, 2, 3, 7, 100, 2**40, 2**62, 2**63 - 1, -2**63]
FLOATS = [float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e308, 0.5, 2.0, -0.0]


# ---- samples

def changed_tensor(t, rng):
    t = t.detach()
    way = rng.randrange(9)
    if way == 0:
        return t.to(rng.choice(list(DTYPES.values())))
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
        at = rng.randrange(t.numel())
        t.view(-1)[at] = torch.tensor(rng.choice(FLOATS), dtype=torch.float64).to(t.dtype)
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


def as_leaf(t):
    return t.detach().requires_grad_(True) if t._is_view() and t.requires_grad else t


def samples(op, dtype, kind, most):
    torch.manual_seed(0)
    random.seed(0)
    rng = random.Random(1)
    grads = bool((dtype.is_floating_point or dtype.is_complex) and op.supports_autograd
                 and dtype in op.supported_backward_dtypes("cpu"))
    if kind == "error":
        if op.error_inputs_func is None or dtype != torch.float32:
            return []
        found = [e.sample_input for e in op.error_inputs("cpu")]
    else:
        found = list(op.sample_inputs("cpu", dtype, requires_grad=grads and kind != "changed"))
    for s in found:  # a view that was made without gradients has no gradient in PyTorch
        s.kwargs = tree_map(s.kwargs, as_leaf)
    step = -(-len(found) // most)
    found = found[::max(1, step)]
    if kind == "noncontiguous":
        found = [s.noncontiguous() for s in found]
    if kind == "changed":
        found = [changed(s, rng) for s in found for _ in range(3)]
    small = lambda s: sum(t.numel() for t in tensors_of(s.input, s.args, s.kwargs))  # noqa: E731
    return [s for s in found if kind == "error" or small(s) < MOST_ELEMENTS]


def is_quick(name, sample):
    most = MOST_NUMBER.get(name)
    return most is None or all(
        abs(x) <= most for x in numbers(sample.args, sample.kwargs))


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
            if kind in ("compiled", "dynamic"):
                return run.compiled(kind == "dynamic")
            return run.plain(kind in ("sample", "noncontiguous"))
    except Unsupported as e:
        return "unsupported", str(e)
    except Difference as e:
        return e.outcome, e.text
    except Exception as e:
        return "tool error", repr(e)


def limit_memory(most):
    """Allocations beyond `most` bytes above what is mapped now fail."""
    mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + most, mapped + most))


def run_op(library, op, name, options, done, log):
    def write(**line):
        log.write(json.dumps(line) + "\n")
        log.flush()

    def note(stage):
        write(stage=stage)
        limit = TORCH_SECONDS if stage == "torch" else SAMPLE_SECONDS
        signal.setitimer(signal.ITIMER_PROF, limit)
    limit_memory(options.memory << 20)
    known = op.supported_dtypes("cpu")
    for word, dtype in (DTYPES if set(DTYPES.values()) & known else STORED).items():
        if dtype not in known:
            continue
        for kind in KINDS:
            try:
                found = samples(op, dtype, kind, options.samples)
            except Exception as e:
                write(key=f"{word} {kind} -", outcome="no samples", why=repr(e)[:300], text="")
                continue
            for i, s in enumerate(found):
                key = f"{word} {kind} {i}"
                if key in done or not is_quick(name, s) or options.only and key != options.only:
                    continue
                text = describe([s.input, *s.args, s.kwargs])[:200]
                write(start=key, text=text)
                signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS)
                outcome, why = judge_sample(library, op, name, kind, s, note)
                signal.setitimer(signal.ITIMER_PROF, 0)
                write(key=key, outcome=outcome, why=why[:300], text=text)
    write(end=name, memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)


def read_log(path):
    """Finished samples by key, the one that was under way (key, text, stage), the last line."""
    finished, under_way, end = {}, None, None
    for line in open(path) if os.path.exists(path) else []:
        r = json.loads(line)
        if "end" in r:
            end = r
        elif "start" in r:
            under_way = [r["start"], r["text"], "Tandem"]
        elif "stage" in r:
            under_way[2] = r["stage"]
        else:
            finished[r["key"]] = r
            under_way = None
    return finished, under_way, end


def judge_op(library, op, name, options, path):
    """Writes the log of all samples of one op. A child that dies is started again behind the
    sample it died of."""
    while True:
        finished, under_way, end = read_log(path)
        if end is not None:
            return
        child = os.fork()
        if child == 0:
            with open(path, "a") as log:
                run_op(library, op, name, options, finished, log)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        finished, under_way, end = read_log(path)
        if under_way is None:
            if end is None:
                raise SystemExit(f"{name}: the child ended between samples, status {status}")
            return
        key, text, stage = under_way
        hang = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF
        outcome = ("PyTorch " if stage == "torch" else "") + ("hang" if hang else "crash")
        with open(path, "a") as log:
            log.write(json.dumps(dict(key=key, outcome=outcome, why=f"status {status} in "
                                      + stage, text=text)) + "\n")


def judge_ops(library, chosen, options):
    """Every op's log, by `jobs` processes that each take every jobs-th op."""
    def work(part):
        for name, op in chosen[part::options.jobs]:
            began = time.time()
            path = log_path(options, name)
            judge_op(library, op, name, options, path)
            finished, _, end = read_log(path)
            odd = sum(r["outcome"] not in SAME for r in finished.values())
            print(f"{name}: {len(finished)} samples, {odd} differ, {time.time() - began:.0f} s, "
                  f"{end['memory']} MiB", file=sys.stderr, flush=True)
    children = []
    for part in range(options.jobs):
        child = os.fork()
        if child == 0:
            work(part)
            os._exit(0)
        children.append(child)
    if any([os.waitpid(c, 0)[1] for c in children]):
        raise SystemExit("a worker failed; --resume goes on")


# ---- the report

def read_classes():
    """[(op, kind, outcome, message, class)] of classes.txt, the first four as patterns; the page
    of differences has a heading for every class."""
    rows = []
    for line in open(os.path.join(HERE, "classes.txt")):
        if line.strip() and not line.startswith("#"):
            rows.append(tuple(c.strip() for c in line.split("|")))
    page = open(os.path.join(ROOT, "docs/differences.md")).read()
    documented = set(re.findall(r"^#### (\S+)$", page, re.M))
    if documented != {row[-1] for row in rows}:
        raise SystemExit(f"classes.txt and docs/differences.md name different classes: "
                         f"{sorted(documented ^ {row[-1] for row in rows})}")
    return rows


def row_of(rows, name, kind, r):
    for row in rows:
        op, k, outcome, message, _ = row
        if (any(fnmatch.fnmatch(name, o) for o in op.split()) and fnmatch.fnmatch(kind, k)
                and fnmatch.fnmatch(r["outcome"], outcome) and message in r["why"]):
            return row
    return None


def log_path(options, name):
    return os.path.join(options.logs, name.replace(":", "_") + ".jsonl")


def report(chosen, options):
    """Prints differences without a class and the tables; the number of such differences and of
    rows that a whole run did not need."""
    rows = read_classes()
    counts, used, unexplained = collections.Counter(), collections.Counter(), 0
    ended = collections.Counter()
    for name, _ in chosen:
        for r in read_log(log_path(options, name))[0].values():
            kind = r["key"].split()[1]
            counts[kind, r["outcome"]] += 1
            if r["outcome"] in SAME:
                ended[name, r["outcome"]] += r["outcome"] in ENDED
                continue
            row = row_of(rows, name, kind, r)
            if row is not None:
                used[row] += 1
                counts[kind, "class"] += 1
            else:
                unexplained += 1
                print(f"{name} [{r['key']}] {r['outcome']}: {r['why']}\n     {r['text']}")
    print("| kind | samples | compared | agree | rounding | classes | unexplained |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    for kind in KINDS:
        row = {o: n for (k, o), n in counts.items() if k == kind and o != "class"}
        same = sum(row.get(o, 0) for o in SAME)
        compared = sum(row.values()) - sum(row.get(o, 0) for o in NOT_COMPARED)
        print(f"| {kind} | {sum(row.values())} | {compared} | {row.get('agree', 0)} | "
              f"{row.get('rounding', 0)} | {counts[kind, 'class']} | "
              f"{sum(row.values()) - same - counts[kind, 'class']} |")
    print("\n| class | ops | differences |\n| --- | --- | --: |")
    for c in dict.fromkeys(row[-1] for row in rows if used[row]):
        mine = [row for row in rows if row[-1] == c and used[row]]
        ops = list(dict.fromkeys(f"`{o}`" for row in mine for o in row[0].split()))
        ops = ", ".join(ops if len(ops) <= 12 else ops[:12] + [f"{len(ops) - 12} more"])
        print(f"| {c} | {ops} | {sum(used[row] for row in mine)} |")
    for (name, outcome), n in sorted(ended.items()):
        if n:
            print(f"not compared: {n} samples of {name}: {ENDED[outcome]}")
    idle = [] if options.ops else [row for row in rows if not used[row]]
    for folder in options.beside:
        beside = argparse.Namespace(logs=folder)
        for name, _ in chosen:
            for r in read_log(log_path(beside, name))[0].values():
                kind = r["key"].split()[1]
                row = None if r["outcome"] in SAME else row_of(rows, name, kind, r)
                if row in idle:
                    idle.remove(row)
                if row is None and r["outcome"] not in SAME:
                    unexplained += 1
                    print(f"{name} [{r['key']}] {r['outcome']}: {r['why']}\n     {r['text']}")
    for row in idle:
        print("a row of classes.txt without a difference: " + " | ".join(row))
    print(f"{len(chosen)} OpInfos, {unexplained} unexplained differences")
    return unexplained + len(idle)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=200,
                        help="of an op, dtype and kind, at most")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--memory", type=int, default=4096, help="MiB for one process")
    parser.add_argument("--logs", default=os.path.join(ROOT, "build/opinfo"))
    parser.add_argument("--beside", action="append", default=[],
                        help="logs of a run with other samples, which may need classes too")
    parser.add_argument("--resume", action="store_true", help="go on with the logs that are there")
    parser.add_argument("--only", help="one sample, such as 'f32 sample 3'")
    parser.add_argument("ops", nargs="*")
    options = parser.parse_args()
    chosen = []
    for op in op_db:
        name = op.name + ("::" + op.variant_test_name if op.variant_test_name else "")
        if name in OPS and (not options.ops or name in options.ops):
            chosen.append((name, op))
    os.makedirs(options.logs, exist_ok=True)
    if not options.resume:
        for name, _ in chosen:
            if os.path.exists(log_path(options, name)):
                os.unlink(log_path(options, name))
    judge_ops(Library(ROOT), chosen, options)
    return 1 if report(chosen, options) else 0


if __name__ == "__main__":
    sys.exit(main())
