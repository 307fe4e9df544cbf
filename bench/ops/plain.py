"""The call of PyTorch that stands beside an op: tools/oracle/torch_ops.py without its
corrections of values, which cost time."""
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tools", "oracle"))
import torch_ops  # noqa: E402
from torch_ops import alone, aten  # noqa: E402

# Corrected there, and called by the same name and arguments.
SAME = """erf sqrt i0 log1p pow hardsigmoid logit special_bessel_j0 special_bessel_j1
special_bessel_y0 special_bessel_y1 special_airy_ai polygamma igamma igammac special_erfcx
special_zeta native_batch_norm max_pool1d max_pool1d_with_indices max_pool2d
max_pool2d_with_indices index index_put native_dropout cumprod kthvalue mode
as_strided_scatter narrow_copy""".split()
FUNCTIONAL = """l1_loss mse_loss smooth_l1_loss huber_loss conv1d conv2d conv3d""".split()


def convolution_backward(g, x, w, mask, stride, padding, dilation, groups):
    return aten.convolution_backward(g, x, w, None, stride, padding, dilation, False,
                                     [0] * len(stride), groups, mask)


def data_grad(g, w, size, *rest):
    return convolution_backward(g, g.new_empty(1).expand(size), w, [True, False, False], *rest)[0]


def weight_grad(g, x, size, *rest):
    return convolution_backward(g, x, g.new_empty(1).expand(size), [False, True, False], *rest)[1]


def batch_norm(x, w, b, mean, var, training, momentum=0.1, eps=1e-5):
    return F.batch_norm(x, mean, var, w, b, training, momentum, eps)


def by_norm(name, n):
    f = getattr(aten, name)
    return lambda x, *how: f(x, *how, *[torch_ops.internal_ops.REDUCTION["mean"]][:n])


def sort(f):
    return lambda x, dim=-1, descending=False, stable=False: f(
        x, dim=dim, descending=descending, stable=stable)


def linear_scan(*args):
    raise TypeError("no such op in PyTorch")


OPS = {
    **{n: getattr(aten, n) for n in SAME},
    **{n: getattr(F, n) for n in FUNCTIONAL},
    **{n: torch_ops.scaled_sum(n) for n in ("addmm", "addmv", "addbmm", "baddbmm")},
    **{n: torch_ops.moments(n) for n in ("var_mean", "std_mean")},
    **{n: (lambda x, y, reduction="mean", *rest, f=getattr(F, n): f(x, y, reduction=reduction))
       for n in ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss")},
    "pow": torch.pow, "index": lambda x, i: aten.index(x, i),
    "gelu": lambda x, approximate="none": F.gelu(x, approximate=approximate),
    "gelu_backward": lambda g, x, approximate="none": aten.gelu_backward(
        g, x, approximate=approximate),
    "topk": torch.topk, "median": torch.median, "median_dim": torch.median,
    "cumprod": lambda x, dim, dtype=None: aten.cumprod(x, dim, dtype=dtype),
    "log_softmax": torch_ops.softmax_dtype("log_softmax"),
    "sort": sort(torch.sort), "argsort": sort(torch.argsort),
    "unique": lambda x, inverse=False, counts=False: torch.unique(
        x, return_inverse=inverse, return_counts=counts),
    "cdist": lambda a, b, p=2, mode=None: aten.cdist(a, b, float(p), mode),
    "cross_entropy": lambda x, y, w=None, reduction="mean", ignore=-100, smooth=0.0:
        F.cross_entropy(x, y, w, None, ignore, None, reduction, smooth),
    "nll_loss_forward": lambda x, y, w, reduction, ignore: aten.nll_loss_forward(
        x, y, w, torch_ops.internal_ops.REDUCTION[reduction], ignore),
    "nll_loss_backward": lambda g, y, w, total, size, reduction, ignore: aten.nll_loss_backward(
        g, g.new_empty(1).expand(size).contiguous(), y, w,
        torch_ops.internal_ops.REDUCTION[reduction], ignore, total),
    "native_layer_norm_backward": lambda g, x, shape, mean, rstd, w, mask:
        aten.native_layer_norm_backward(g, x, shape, mean, rstd, w, w, [bool(m) for m in mask]),
    "native_group_norm_backward": lambda g, x, mean, rstd, w, n, c, hw, group, mask:
        aten.native_group_norm_backward(g, x, mean, rstd, w, n, c, hw, group,
                                        [bool(m) for m in mask]),
    "batch_norm": batch_norm, "native_batch_norm": torch.native_batch_norm,
    "conv_data_grad": data_grad, "conv_weight_grad": weight_grad,
    "hardsigmoid_backward": aten.hardsigmoid_backward,
    "log_sigmoid_backward": lambda g, x: aten.log_sigmoid_backward(g, x, x),
    "masked_scatter_backward": lambda g, mask, sizes: aten.masked_scatter_backward(g, mask, sizes),
    "_upsample_bilinear2d_aa": aten._upsample_bilinear2d_aa,
    "_upsample_bicubic2d_aa": aten._upsample_bicubic2d_aa,
    "normal_": lambda x, mean=0, std=1: x.normal_(mean, std),
    **{n + "_": (lambda x, *how, n=n: getattr(x, n + "_")(*how)) for n in (
        "uniform", "exponential", "log_normal", "cauchy", "geometric", "random")},
    "fft_hfft": aten.fft_hfft,
}


def find(op):
    return OPS[op] if op in OPS else torch_ops.find(op)


__all__ = ["find", "alone"]
