"""Calls PyTorch for a Tandem op.

The rule is torch.ops.aten.NAME with the same arguments in the same order; the
tables below list the ops whose name or arguments differ.
"""
import torch
import torch.nn.functional as F

import internal_ops

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
    return lambda a, b, mode=None: f(a, b) if not mode else f(a, b, rounding_mode=mode)


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


def reduce_to(name):
    """sum, mean: dim, keepdim and dtype by position."""
    f = getattr(torch, name)
    return lambda x, dim=None, keepdim=False, dtype=None: f(x, dim, keepdim, dtype=dtype)


def all_any(name):
    f = getattr(aten, name)

    def run(x, dim=None, keepdim=False):
        return f.dims(x, dim, keepdim) if dim is not None else f.dims(x, None, keepdim)
    return run


def moments(name):
    f = getattr(torch, name)
    return lambda x, dim=None, correction=1, keepdim=False: f(
        x, dim, correction=correction, keepdim=keepdim)


def vector_norm(x, p=2, dim=None, keepdim=False, dtype=None):
    return torch.linalg.vector_norm(x, p, dim, keepdim, dtype=dtype)


def norm(x, p=2, dim=None, keepdim=False, dtype=None):
    if dtype is not None:
        return aten.norm.ScalarOpt_dim_dtype(x, p, dim or [], keepdim, dtype=dtype)
    return aten.norm.ScalarOpt_dim(x, p, dim or [], keepdim)


def typed(name, most):
    """A creation op whose last argument, at position `most`, is a dtype."""
    f = getattr(torch, name, None) or getattr(torch.Tensor, name)
    return lambda *a: f(*a[:most], dtype=a[most]) if len(a) > most else f(*a)


def eye(n, m=None, dtype=None):
    return torch.eye(n, dtype=dtype) if m is None else torch.eye(n, m, dtype=dtype)


def arange(start, end, step=1, dtype=None):
    return torch.arange(start, end, step, dtype=dtype)


def bce_with_logits(x, y, weight=None, pos_weight=None, reduction="mean"):
    return F.binary_cross_entropy_with_logits(x, y, weight, pos_weight=pos_weight,
                                              reduction=reduction)


def nll_loss(x, y, weight=None, reduction="mean", ignore=-100):
    return F.nll_loss(x, y, weight, ignore_index=ignore, reduction=reduction)


def cross_entropy(x, y, weight=None, reduction="mean", ignore=-100, smooth=0.0):
    return F.cross_entropy(x, y, weight, ignore_index=ignore, reduction=reduction,
                           label_smoothing=smooth)


def batch_norm(x, w, b, mean, var, training, momentum=0.1, eps=1e-5):
    return torch.batch_norm(x, w, b, mean, var, training, momentum, eps, False)


def instance_norm(x, w=None, b=None, mean=None, var=None, use=True, momentum=0.1, eps=1e-5):
    return torch.instance_norm(x, w, b, mean, var, use, momentum, eps, False)


def attention(q, k, v, mask=None, p=0.0, causal=False, scale=None):
    return F.scaled_dot_product_attention(q, k, v, mask, p, causal, scale=scale)


def flash_scores(q, k, mask, causal, scale):
    s = q @ k.transpose(-2, -1) * scale
    if mask is not None:
        s = s + mask
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return s


def flash(q, k, v, mask, causal, scale):
    dt, wide = q.dtype, torch.float64 if q.dtype == torch.float64 else torch.float32
    q, k, v, mask = (None if t is None else t.to(wide) for t in (q, k, v, mask))
    s = flash_scores(q, k, mask, causal, scale)
    lse = s.detach().logsumexp(-1)
    lse = lse.masked_fill(lse == -torch.inf, 0)
    return (aten._safe_softmax(s, -1) @ v).to(dt), lse


def flash_backward(g, q, k, v, mask, out, lse, g_lse, causal, scale):
    p = (flash_scores(q, k, mask, causal, scale) - lse.unsqueeze(-1)).exp()
    delta = (g * out).sum(-1)
    if g_lse is not None:
        delta = delta - g_lse
    d = p * (g @ v.transpose(-2, -1) - delta.unsqueeze(-1))
    return d @ k * scale, d.transpose(-2, -1) @ q * scale, p.transpose(-2, -1) @ g


def interpolate(x, size=None, scale=None, mode="nearest"):
    return F.interpolate(x, size, scale, mode)


def softmax_dtype(name):
    f = getattr(torch, name)
    return lambda x, dim, dtype=None: f(x, dim, dtype=dtype)


def scan_dtype(name):
    f = getattr(aten, name)
    return lambda x, dim, dtype=None: f(x, dim, dtype=dtype)


def scatter_reduce(name):
    return lambda x, *a: getattr(x, name)(*a[:4], include_self=a[4] if len(a) > 4 else True)


def where(c, a, b):
    return torch.where(c, a, b)


def log_sigmoid_backward(g, x):
    _, buffer = aten.log_sigmoid_forward(x)
    return aten.log_sigmoid_backward(g, x, buffer)


OPS = {
    "round": lambda x, d=0: torch.round(x, decimals=d) if d else torch.round(x),
    "round_": lambda x, d=0: aten.round_.decimals(x, decimals=d) if d else aten.round_(x),
    "round_decimals": lambda x, s: torch.round(x * s) / s,
    "round_tens": lambda x, s: torch.round(x / s) * s,
    "pow_3": lambda x: x.pow(3),
    "pow_minus_2": lambda x: x.pow(-2),
    "not_bool": lambda x: ~x,
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "clamp_tensor": lambda x, lo=None, hi=None: aten.clamp.Tensor(x, lo, hi),
    "clamp_tensor_": lambda x, lo=None, hi=None: aten.clamp_.Tensor(x, lo, hi),
    "gelu_backward": lambda g, x, a="none": aten.gelu_backward(g, x, approximate=a),
    "gelu_erf": lambda x: F.gelu(x),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_erf_backward": lambda g, x: aten.gelu_backward(g, x),
    "gelu_tanh_backward": lambda g, x: aten.gelu_backward(g, x, approximate="tanh"),
    "log_sigmoid": F.logsigmoid,
    "log_sigmoid_backward": log_sigmoid_backward,
    "relu6": F.relu6, "relu6_": lambda x: F.relu6(x, inplace=True),
    "softsign": F.softsign, "tanhshrink": F.tanhshrink,
    "softshrink_backward": lambda g, x, l: aten.softshrink_backward(g, x, l),
    **internal_ops.OPS,
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
    # reductions
    **{n: reduce_to(n) for n in ("sum", "mean", "nansum")},
    "prod": lambda x, dtype=None: torch.prod(x, dtype=dtype),
    "prod_dim": lambda x, d, k=False, dtype=None: torch.prod(x, d, k, dtype=dtype),
    "count_nonzero": lambda x, dim=None: torch.count_nonzero(x, dim),
    "all": all_any("all"), "any": all_any("any"),
    "max_dim": lambda x, d, k=False: torch.max(x, d, k),
    "min_dim": lambda x, d, k=False: torch.min(x, d, k),
    "median_dim": lambda x, d=-1, k=False: torch.median(x, d, k),
    "aminmax": lambda x, d=None, k=False: torch.aminmax(x, dim=d, keepdim=k),
    **{n: moments(n) for n in ("var", "std", "var_mean", "std_mean")},
    "norm": norm, "linalg_vector_norm": vector_norm,
    **{n: scan_dtype(n) for n in ("cumsum", "cumprod", "cumsum_", "cumprod_")},
    "sort": lambda x, d=-1, desc=False, stable=False: torch.sort(
        x, dim=d, descending=desc, stable=stable),
    "argsort": lambda x, d=-1, desc=False, stable=False: torch.argsort(
        x, dim=d, descending=desc, stable=stable),
    "sum_to_size": lambda x, s: x.sum_to_size(s),
    "softmax": softmax_dtype("softmax"), "log_softmax": softmax_dtype("log_softmax"),
    # indexing
    "scatter_value": lambda x, d, i, v: aten.scatter.value(x, d, i, v),
    "scatter_value_": lambda x, d, i, v: aten.scatter_.value(x, d, i, v),
    "scatter_reduce": scatter_reduce("scatter_reduce"),
    "scatter_reduce_": scatter_reduce("scatter_reduce_"),
    "index_add": lambda x, d, i, s, alpha=1: torch.index_add(x, d, i, s, alpha=alpha),
    "index_add_": lambda x, d, i, s, alpha=1: x.index_add_(d, i, s, alpha=alpha),
    "_index": lambda x, i: aten.index(x, i),
    "_index_put": lambda x, i, v, a=False: aten.index_put(x, i, v, a),
    "_index_put_": lambda x, i, v, a=False: aten.index_put_(x, i, v, a),
    "one_hot": lambda x, n=-1: F.one_hot(x, n),
    "embedding": lambda w, i, pad=-1, freq=False: aten.embedding(w, i, pad, freq),
    # creation
    **{n: typed(n, k) for n, k in (
        ("empty", 1), ("empty_strided", 2), ("zeros", 1), ("ones", 1), ("full", 2),
        ("scalar_tensor", 1), ("linspace", 3), ("tril_indices", 3), ("triu_indices", 3),
        ("empty_like", 1), ("zeros_like", 1), ("ones_like", 1), ("full_like", 2),
        ("new_empty", 2), ("new_empty_strided", 3), ("new_zeros", 2), ("new_ones", 2),
        ("new_full", 3))},
    "eye": eye, "arange": arange,
    # random
    **{n: typed(n, k) for n, k in (
        ("rand", 1), ("randn", 1), ("randint", 3), ("randperm", 1), ("rand_like", 1),
        ("randn_like", 1), ("randint_like", 3))},
    "bernoulli_p": lambda x, p=0.5: aten.bernoulli.p(x, p),
    "bernoulli_": lambda x, p=0.5: x.bernoulli_(p),
    "normal": lambda x, mean=0, std=1: aten.normal_functional(x, mean, std),
    "random_": lambda x, *a: x.random_(*a),
    "dropout": lambda x, p=0.5, train=True: F.dropout(x, p, train),
    "dropout_": lambda x, p=0.5, train=True: F.dropout(x, p, train, inplace=True),
    # networks
    "interpolate": interpolate,
    "conv1d": F.conv1d, "conv2d": F.conv2d,
    "l1_loss": lambda x, y, r="mean": F.l1_loss(x, y, reduction=r),
    "mse_loss": lambda x, y, r="mean": F.mse_loss(x, y, reduction=r),
    "smooth_l1_loss": lambda x, y, r="mean", b=1.0: F.smooth_l1_loss(x, y, reduction=r, beta=b),
    "huber_loss": lambda x, y, r="mean", d=1.0: F.huber_loss(x, y, reduction=r, delta=d),
    "bce_with_logits": bce_with_logits,
    "kl_div": lambda x, y, r="mean", log=False: F.kl_div(x, y, reduction=r, log_target=log),
    "nll_loss": nll_loss, "cross_entropy": cross_entropy,
    "scaled_dot_product_attention": attention,
    "_flash_attention": flash, "_flash_attention_backward": flash_backward,
    "layer_norm": F.layer_norm, "rms_norm": F.rms_norm, "group_norm": F.group_norm,
    "batch_norm": batch_norm, "instance_norm": instance_norm,
    "pad": lambda x, p, mode="constant", value=None: F.pad(x, p, mode, value),
}


def call(op, args, kwargs):
    if op in OPS:
        return OPS[op](*args, **kwargs)
    if not hasattr(aten, op):
        raise TypeError(f"no aten op {op}: add it to torch_ops.py")
    return getattr(aten, op)(*args, **kwargs)
