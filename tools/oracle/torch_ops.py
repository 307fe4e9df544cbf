"""Calls PyTorch for a Tandem op.

The rule is torch.ops.aten.NAME with the same arguments in the same order; the
tables below list the ops whose name or arguments differ.
"""
import torch
import torch.nn.functional as F

aten = torch.ops.aten

VIEWS = {
    "slice": lambda t, dim=0, start=None, end=None, step=1:
        aten.slice.Tensor(t, dim, start, end, step),
    "view_dtype": lambda t, d: t.view(d),
}

OPS = {}


def call(op, args, kwargs):
    if op in OPS:
        return OPS[op](*args, **kwargs)
    if not hasattr(aten, op):
        raise TypeError(f"no aten op {op}: add it to torch_ops.py")
    return getattr(aten, op)(*args, **kwargs)
