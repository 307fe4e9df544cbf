"""Runs the left column of docs/from-pytorch.md in PyTorch and compares each result `r`
with what the right column gave.

    python tools/oracle/from_pytorch.py [build/docs/from_pytorch]

Fails when a line of the left column raises, or when dtype, sizes or values differ.
"""
import math
import re
import subprocess
import sys
import tempfile
import types

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

PAGE = "docs/from-pytorch.md"
DTYPES = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16",
          torch.int64: "i64", torch.bool: "bool", torch.complex64: "c64"}


def waves(*shape, shift=0.0):
    """The same numbers as waves() of tests/docs/from_pytorch.c."""
    j = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(j * 0.7 + shift).float().reshape(shape)


def names():
    x = waves(4, 3)
    net = nn.Linear(3, 2)
    state = {}

    def save_file(tensors, path):
        state.update({name: t.clone() for name, t in tensors.items()})

    files = types.SimpleNamespace(torch=types.SimpleNamespace(
        save_file=save_file, load_file=lambda path: state))
    return dict(
        torch=torch, F=F, nn=nn, np=np, safetensors=files,
        path=tempfile.mktemp(), npy=tempfile.mktemp(suffix=".npy"), x=x, y=waves(4, 3, shift=1.0),
        p=waves(4, 3, shift=2.0).abs() + 0.1, w=waves(3, 3, shift=3.0),
        b=waves(3, shift=4.0), i=torch.tensor([0, 2]), t=torch.tensor([0, 2, 1, 2]),
        mask=x > 0, seq=waves(2, 5, 3, shift=5.0), q=waves(2, 2, 5, 4, shift=6.0),
        img=waves(2, 3, 8, 8, shift=7.0), k=waves(5, 3, 3, 3, shift=8.0),
        leaf=waves(3, shift=9.0).requires_grad_(), net=net,
        opt=torch.optim.AdamW(net.parameters(), 1e-3))


def rows():
    inside = False
    for number, line in enumerate(open(PAGE), 1):
        if line.startswith("| PyTorch | Tandem |"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and line.startswith("| `"):
            yield number, line[3:line.index("` | `")].replace("\\|", "|")


def summary(r):
    parts = torch.view_as_real(r.detach().resolve_conj()) if r.is_complex() else r.detach()
    flat = parts.double().reshape(-1)
    weight = torch.arange(1, flat.numel() + 1, dtype=torch.float64)
    return DTYPES[r.dtype], list(r.shape), flat.sum().item(), (flat * weight).sum().item()


def theirs():
    """Row number -> summary of what the C line computed."""
    program = sys.argv[1] if len(sys.argv) > 1 else "build/docs/from_pytorch"
    out = subprocess.run([program, "--values"], capture_output=True, text=True).stdout
    found = {}
    for m in re.finditer(r"^row (\d+) (\w+) \[(.*)\] (\S+) (\S+)$", out, re.M):
        sizes = [int(n) for n in m[3].split(",") if n.strip()]
        found[int(m[1])] = m[2], sizes, float(m[4]), float(m[5])
    return found


def same(a, b):
    near = all(math.isclose(u, v, rel_tol=1e-4, abs_tol=1e-4) for u, v in zip(a[2:], b[2:]))
    return a[:2] == b[:2] and near


def main():
    got, v, bad, compared = theirs(), names(), 0, 0
    for number, code in rows():
        v.pop("r", None)
        try:
            exec(code, v)
        except Exception as e:  # the page is wrong about PyTorch
            print(f"{PAGE}:{number}: {code}\n    raises {e}")
            bad += 1
            continue
        v["leaf"].grad = None
        if "r" not in v:
            continue
        compared += 1
        want = summary(v["r"])
        if number not in got or not same(want, got[number]):
            print(f"{PAGE}:{number}: {code}\n    PyTorch {want}\n    Tandem  {got.get(number)}")
            bad += 1
    print(f"{compared} lines compared, {bad} differ")
    return bad != 0 or compared == 0


if __name__ == "__main__":
    sys.exit(main())
