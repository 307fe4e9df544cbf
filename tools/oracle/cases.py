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
import os
import sys
import warnings

import torch

import td_text
from case_compare import NAMES, Exactly, differences, save, settle_names
from tandem_run import ROOT, run_file as run_tandem, run_text
from torch_case import Case, drawn_inputs

# Ops whose last bits are a library's own affair; in-place forms too.
CLOSE = {"sin", "cos", "tanh", "exp", "log", "sigmoid", "matmul", "mm", "mv", "linear",
         "addmm", "sum", "mean", "softmax", "gelu", "batch_norm", "layer_norm",
         "rms_norm", "native_layer_norm", "embedding_bag", "expand", "conv2d", "rsqrt", "bmm",
         "log_softmax", "cross_entropy"}

# Versions differ after these, on purpose: docs/differences.md says how.
UNCOUNTED = {"set_", "batch_norm"}


def run_case(funcs, stmts, theirs, draws):
    """PyTorch's report; `close` says that a library decides the last bits."""
    case = Case(funcs, stmts, theirs, draws, uncounted=UNCOUNTED)
    got = case.run()
    got.pop("notes")
    got.pop("overwritten")
    dropped = {"why"} | ({"elements"} if got.pop("loose") else set())
    for step in got["steps"]:
        for values in step.values():
            for v in values if isinstance(values, list) else []:
                for key in dropped:
                    v.pop(key, None)
    if {op.rstrip("_") for op in case.code.ops} & CLOSE:
        got["close"] = True
    return got


def run_file(path, store):
    with open(path) as f:
        funcs, cases = td_text.parse(f.read())
    report = run_tandem(path)
    draws, bad, out = drawn_inputs(cases, run_text), 0, []
    for (name, stmts), theirs in zip(cases, report["cases"]):
        got = run_case(funcs, stmts, theirs, draws)
        found = [d.text for d in differences(got, theirs, Exactly(got.get("close", False)))]
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
