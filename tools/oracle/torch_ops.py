"""Calls PyTorch for a Tandem op.

The rule is torch.ops.aten.NAME with the same arguments in the same order; the
tables below list the ops whose name or arguments differ.
"""
import torch
import torch.nn.functional as F

aten = torch.ops.aten


def slice_view(t, dim=0, start=None, end=None, step=1):
    return aten.slice.Tensor(t, dim, start, end, step)


VIEWS = {
    "slice": slice_view,
    "view_dtype": lambda t, d: t.view(d),
}


def with_alpha(name):
    f = getattr(aten, name)
    return lambda a, b, alpha=1: f(a, b, alpha=alpha)


def with_value(name):
    f = getattr(aten, name)
    return lambda a, b, c, value=1: f(a, b, c, value=value)


def divide(name):
    f = getattr(aten, name)
    return lambda a, b, mode=None: f(a, b) if mode is None else f(a, b, rounding_mode=mode)


def scaled_sum(name):
    """addmm and its kin: beta and alpha by position."""
    f = getattr(aten, name)
    return lambda s, a, b, beta=1, alpha=1: f(s, a, b, beta=beta, alpha=alpha)


def clone(x, contiguous=False):
    return x.clone(memory_format=torch.contiguous_format) if contiguous else x.clone()


def set_(x, source, offset=None, size=None, stride=None):
    if size is None:
        return x.set_(source)
    if stride is None:
        stride = torch.empty(size).stride()
    return x.set_(source, offset or 0, size, stride)


def where(c, a, b):
    return torch.where(c, a, b)


OPS = {
    "gelu": lambda x, a="none": aten.gelu(x, approximate=a),
    "gelu_": lambda x, a="none": aten.gelu_(x, approximate=a),
    "where": where,
    **{n: with_alpha(n) for n in ("add", "add_", "sub", "sub_")},
    "rsub": lambda a, b, alpha=1: torch.rsub(a, b, alpha=alpha),
    **{n: with_value(n) for n in ("addcmul", "addcmul_", "addcdiv", "addcdiv_")},
    "div": divide("div"), "div_": divide("div_"),
    # views
    "slice": slice_view,
    "view_dtype": lambda x, d: x.view(d),
    "squeeze_dim": lambda x, d: x.squeeze(d),
    "squeeze_dim_": lambda x, d: x.squeeze_(d),
    "squeeze_dims": lambda x, d: aten.squeeze.dims(x, d),
    "squeeze_dims_": lambda x, d: aten.squeeze_.dims(x, d),
    "set_": set_,
    # copies
    "clone": clone,
    "_to_copy": lambda x, d=None: aten._to_copy(x, dtype=d),
    "to": lambda x, d, copy=False: x.to(d, copy=copy),
    "copy": lambda x, y: aten.copy(x, y),
    "zero": lambda x: aten.zero(x),
    # products
    **{n: scaled_sum(n) for n in ("addmm", "addmm_", "addmv", "addmv_", "baddbmm", "baddbmm_")},
    "einsum": lambda eq, ts: torch.einsum(eq, ts),
    "pad": lambda x, p, mode="constant", value=None: F.pad(x, p, mode, value),
}


def call(op, args, kwargs):
    if op in OPS:
        return OPS[op](*args, **kwargs)
    if not hasattr(aten, op):
        raise TypeError(f"no aten op {op}: add it to torch_ops.py")
    return getattr(aten, op)(*args, **kwargs)
