"""Compares PyTorch's report of a case with Tandem's, and stores what both say."""
import json
import os

import torch

DT = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
      "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
      "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
EPS = {"f64": 2.0 ** -52, "f32": 2.0 ** -23, "f16": 2.0 ** -10, "bf16": 2.0 ** -7}

NAMES = set()  # grad_fn names that differ: PyTorch's, Tandem's


def near(a, b, dtype, close):
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    if dtype in EPS:
        a, b = (torch.tensor(v, dtype=DT[dtype]).item() for v in (a, b))
    return a == b or close and abs(a - b) <= 64 * EPS.get(dtype, 0) * max(1, abs(a), abs(b))


def strides_differ(a, b):
    return any(s != 1 and 0 not in a["sizes"] and x != y
               for s, x, y in zip(a["sizes"], a["strides"], b["strides"]))


def differences(want, got, where, close):
    """What PyTorch says and Tandem does not; grad_fn apart."""
    if isinstance(want, dict):
        for k, v in want.items():
            if k in ("grad_fn", "torch_says", "close"):
                continue
            if k == "elements" and k in got:
                for i, (x, y) in enumerate(zip(v, got[k])):
                    if not near(x, y, want["dtype"], close):
                        yield f"{where} element {i}: {x}, Tandem {y}"
                        break
            elif k == "strides":
                if strides_differ(want, got):
                    yield f"{where} strides: {v}, Tandem {got[k]}"
            elif k not in got:
                yield f"{where}: Tandem has no {k}"
            else:
                name = v.get("name", "") if isinstance(v, dict) else ""
                yield from differences(v, got[k], f"{where} {k}{name}", close)
    elif isinstance(want, list):
        if len(want) != len(got):
            yield f"{where}: {len(want)} of them, Tandem {len(got)}"
            return
        for i, (x, y) in enumerate(zip(want, got)):
            yield from differences(x, y, f"{where}[{i}]", close)
    elif want != got:
        yield f"{where}: {want}, Tandem {got}"


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
