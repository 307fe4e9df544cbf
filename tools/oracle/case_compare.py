"""Compares PyTorch's report of a case with Tandem's, and stores what both say.

A difference has a kind, the words of which say where and what ("output.strides",
"gradient.elements", "tandem fails"), and a text for people.
"""
import json
import math
import os
import re
from collections import namedtuple

import torch

from torch_code import DT

PARTS = {"inputs": "input", "outputs": "output", "inputs_after": "argument",
         "tangents": "tangent", "gradients": "gradient"}

EPS = {"f64": 2.0 ** -52, "f32": 2.0 ** -23, "f16": 2.0 ** -10, "bf16": 2.0 ** -7,
       "c64": 2.0 ** -23, "c128": 2.0 ** -52}
# Elements of complex tensors are pairs.
REAL = {**DT, "c64": torch.float32, "c128": torch.float64}

NAMES = set()  # grad_fn names that differ: PyTorch's, Tandem's

# why: the class that PyTorch's report names for it (torch_watch.py)
Difference = namedtuple("Difference", "kind text step why", defaults=[""])


class Exactly:
    """Values agree to the last bit, or to 64 units when `close`."""

    def __init__(self, close):
        self.units = 64 if close else 0

    def near(self, a, b, dtype):
        if isinstance(a, str) or isinstance(b, str):
            return a == b
        if dtype in EPS:
            a, b = (torch.tensor(v, dtype=REAL[dtype]).item() for v in (a, b))
        return a == b or (self.units and abs(a - b) <= self.units * EPS.get(dtype, 0) *
                          max(1, abs(a), abs(b)))


class Loosely:
    """Values agree to some units of their own precision."""
    UNITS = {"f64": 64, "f32": 64, "f16": 8, "bf16": 4, "c64": 64, "c128": 64}

    def near(self, a, b, dtype):
        a, b = float(a) if isinstance(a, str) else a, float(b) if isinstance(b, str) else b
        if dtype in EPS and math.isfinite(a) and math.isfinite(b):
            a, b = (torch.tensor(v, dtype=REAL[dtype]).item() for v in (a, b))
        if a == b or dtype not in EPS:
            return a == b
        if not (math.isfinite(a) and math.isfinite(b)):
            return math.isnan(a) and math.isnan(b)
        return abs(a - b) <= self.UNITS[dtype] * EPS[dtype] * max(abs(a), abs(b))


class Within:
    """Values lie between those of several runs of PyTorch whose results were rounded
    otherwise, or not farther from them than they lie apart."""

    def __init__(self, runs):
        self.runs, self.used = runs, False

    def near(self, values, b):
        values, b = [float(v) for v in values], float(b)
        if any(v == b or (math.isnan(v) and math.isnan(b)) for v in values):
            return True
        finite = [v for v in values if math.isfinite(v)]
        if not math.isfinite(b):  # the logarithm of 0, beside that of a number below
            return 0 < len(finite) < len(values)
        if not finite:
            return False
        if any(map(math.isinf, values)) and abs(b) >= max(map(abs, finite)):
            return True  # the reciprocal of what rounding leaves
        room = max(finite) - min(finite)
        return min(finite) - 2 * room <= b <= max(finite) + 2 * room

    def settle(self, want, got):
        """Gives `want` the elements of `got` that the runs allow."""
        for step, theirs, others in zip(want["steps"], got["steps"],
                                        zip(*[r["steps"] for r in self.runs])):
            for part in PARTS:
                for i, v in enumerate(step.get(part, [])):
                    alike = [o[part][i] for o in others
                             if i < len(o.get(part, [])) and
                             o[part][i].get("sizes") == v.get("sizes")]
                    if len(alike) == len(self.runs) and i < len(theirs.get(part, [])):
                        self.settle_value(v, theirs[part][i], alike)

    def settle_value(self, v, theirs, alike):
        if v.get("sizes") != theirs.get("sizes"):
            return
        for i, y in enumerate(theirs.get("elements", [])):
            x = v.get("elements", [])[i:i + 1]
            if x and x[0] != y and self.near(x + [a["elements"][i] for a in alike], y):
                v["elements"][i], self.used = y, True


class Storages:
    """Storages correspond one to one, whatever their numbers."""

    def __init__(self):
        self.theirs, self.mine = {}, {}

    def same(self, mine, theirs):
        if mine in self.theirs or theirs in self.mine:
            return self.theirs.get(mine) == theirs and self.mine.get(theirs) == mine
        self.theirs[mine], self.mine[theirs] = theirs, mine
        return True


# What is compared of a tensor after its dtype and sizes; a key that PyTorch's report
# leaves out does not count.
FLAGS = ("offset", "requires_grad", "is_leaf", "is_inference", "is_view", "version")
NUMBERS = ("int", "float", "bool", "none")


def strides_differ(a, b):
    return any(s != 1 and 0 not in a["sizes"] and x != y
               for s, x, y in zip(a["sizes"], a["strides"], b["strides"]))


def value_differences(want, got, measure, storages):
    """(what, text) for one value; PyTorch's is `want`."""
    if any((k in want) != (k in got) for k in NUMBERS):
        yield "type", f"{short(want)}, Tandem {short(got)}"
    elif "dtype" not in want:
        for k in NUMBERS:
            if k in want and want[k] != got[k]:
                yield k, f"{want[k]}, Tandem {got[k]}"
    elif want["dtype"] != got["dtype"] or want["sizes"] != got["sizes"]:
        key = "sizes" if want["dtype"] == got["dtype"] else "dtype"
        yield key, f"{want[key]}, Tandem {got[key]}"
    else:
        yield from tensor_differences(want, got, measure, storages)


def tensor_differences(want, got, measure, storages):
    if strides_differ(want, got):
        yield "strides", f"{want['strides']} for {want['sizes']}, Tandem {got['strides']}"
    if storages and not storages.same(want["storage"], got["storage"]):
        yield "storage", "it shares its storage with other values"
    for k in FLAGS:
        if k in want and want[k] != got.get(k):
            yield k, f"{want[k]}, Tandem {got.get(k)}"
    if "grad_fn" in want and bool(want["grad_fn"]) != bool(got.get("grad_fn")):
        yield "grad_fn", f"{want['grad_fn']!r}, Tandem {got.get('grad_fn')!r}"
    for i, (x, y) in enumerate(zip(want.get("elements", []), got["elements"])):
        if not measure.near(x, y, want["dtype"]):
            yield "elements", f"element {i} is {x}, Tandem {y}"
            break


def short(v):
    return {k: x for k, x in v.items() if k in NUMBERS + ("dtype", "sizes")}


def step_differences(i, want, got, measure, storages):
    where = f"step {i}"
    for part, word in PARTS.items():
        if part not in want or part not in got:
            continue
        if len(want[part]) != len(got[part]):
            yield Difference(f"{word}.count", f"{where}: {len(want[part])} {part}, "
                             f"Tandem {len(got[part])}", i)
            continue
        shared = storages if word not in ("gradient", "tangent") else None
        for x, y in zip(want[part], got[part]):
            for what, text in value_differences(x, y, measure, shared):
                value = f"%{y.get('name')} {x.get('dtype', '')}".rstrip()
                yield Difference(f"{word}.{what}",
                                 f"{where}: {part} {value} {what}: {text}", i,
                                 x.get("why", {}).get(what, ""))
    if "aliases" in want and "aliases" in got:
        none = {v.get("name") for r in (want, got) for v in r.get("outputs", []) if "none" in v}
        pairs = [{(*a["values"], a["same_tensor"]) for a in r["aliases"]
                  if not none.intersection(a["values"])} for r in (want, got)]
        if pairs[0] != pairs[1]:
            yield Difference("aliases", f"{where}: {sorted(pairs[0] - pairs[1])}, Tandem "
                             f"{sorted(pairs[1] - pairs[0])}", i)
    for k in ("grad_enabled", "inference"):
        if k in want and k in got and want[k] != got[k]:
            yield Difference(k, f"{where}: {want[k]}, Tandem {got[k]}", i)


def is_done(step):
    return "outputs" in step or "gradients" in step


def is_stale(theirs, ours):
    """Do both fail because a saved value was modified? PyTorch names the call in which a
    gradient was taken, Tandem the op."""
    return (re.match(r"call: .* has been modified by an inplace operation", theirs) and
            re.search(r": its backward needs .* but it has been modified in place", ours))


def differences(want, got, measure):
    """What PyTorch says and Tandem does not, in the order of the steps."""
    storages = Storages()
    steps = [(a, b) for a, b in zip(want["steps"], got["steps"])]
    for i, (a, b) in enumerate(steps):
        yield from step_differences(i, a, b, measure, storages)
    done = [sum(map(is_done, r["steps"])) for r in (want, got)]
    error = got.get("error", {}).get("message", "")
    last = len(steps)
    if want["ok"] and not got["ok"]:
        yield Difference("tandem fails", error, last)
    elif got["ok"] and not want["ok"]:
        yield Difference("torch fails", want.get("torch_says", ""), last)
    elif done[0] != done[1] and not is_stale(want.get("torch_says", ""), error):
        yield Difference("fail elsewhere", f"{want.get('torch_says', '')} | Tandem: {error}",
                         last)


def settle_names(want, got):
    """Names of grad_fn are kept where both have one word for it."""
    if isinstance(want, dict) and isinstance(got, dict):
        if "grad_fn" in want:
            mine, theirs = want["grad_fn"], got.get("grad_fn", "")
            if mine.replace("_", "") != theirs.replace("_", ""):
                if not mine or not theirs:
                    yield f"grad_fn {mine!r}, Tandem {theirs!r}"
                else:
                    want["grad_fn"] = True  # some node, of another name
                    NAMES.add((mine, theirs))
            else:
                want["grad_fn"] = theirs
        for k in want:
            if k in got:
                yield from settle_names(want[k], got[k])
    elif isinstance(want, list) and isinstance(got, list):
        for x, y in zip(want, got):
            yield from settle_names(x, y)


# ---- storing ----

def save(path, cases):
    """One tensor a line, so that a change reads well."""
    folder = os.path.join(os.path.dirname(path), "expected")
    os.makedirs(folder, exist_ok=True)
    name = os.path.splitext(os.path.basename(path))[0]
    with open(os.path.join(folder, name + ".json"), "w") as f:
        f.write(f'{{"torch": "{torch.__version__.split("+")[0]}",\n "cases": [')
        f.write(",".join("\n" + case_text(c) for c in cases) + "]}\n")


def case_text(c):
    rest = {k: v for k, v in c.items() if k != "steps"}
    steps = ",\n".join(step_text(s) for s in c["steps"])
    return f'  {{{json.dumps(rest)[1:-1]},\n   "steps": [\n{steps}]}}'


def step_text(s):
    parts = []
    for k, v in s.items():
        if isinstance(v, list) and v:
            rows = ",\n     ".join(json.dumps(x) for x in v)
            parts.append(f'    "{k}": [\n     {rows}]')
        else:
            parts.append(f'    "{k}": {json.dumps(v)}')
    return "   {" + ",\n".join(parts).lstrip() + "}"
