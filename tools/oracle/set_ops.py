"""Calls PyTorch for ops that join, split, count and look up values, where their names or
arguments differ from those of torch.ops.aten."""
import torch

aten = torch.ops.aten


def repeat_interleave(x, repeats, dim=None, output_size=None):
    return torch.repeat_interleave(x, repeats, dim, output_size=output_size)


def named_split(name):
    """The form that takes a list of indices."""
    f = getattr(torch, name)
    return lambda x, at, *dim: f(x, tuple(at), *dim)


def unravel_index(x, shape):
    if x.is_floating_point() or x.dtype == torch.bool:
        raise RuntimeError("indices are not integers")
    return torch.unravel_index(x, tuple(shape))


def searchsorted(seq, x, out_int32=False, right=False, side="", sorter=None):
    return torch.searchsorted(seq, x, out_int32=out_int32, right=right, side=side or None,
                              sorter=sorter)


def bucketize(x, edges, out_int32=False, right=False):
    return torch.bucketize(x, edges, out_int32=out_int32, right=right)


def isin(a, b, unique=False, invert=False):
    """With assume_unique PyTorch's result is wrong where elements are not unique."""
    return torch.isin(a, b, invert=invert)


def histogram(x, bins=100, low=None, high=None, weight=None, density=False):
    if isinstance(bins, torch.Tensor):
        return torch.histogram(x, bins, weight=weight, density=density)
    if (low is None) != (high is None):
        raise RuntimeError("min and max must both be given, or none")
    between = None if low is None else (float(low), float(high))
    return torch.histogram(x, bins, range=between, weight=weight, density=density)


def index_reduce(name):
    f = getattr(aten, name)
    return lambda x, d, i, s, how, include=True: f(x, d, i, s, how, include_self=include)


def segment_reduce(x, how, lengths=None, indices=None, offsets=None, axis=0, unsafe=False,
                   initial=None):
    return torch.segment_reduce(x, how, lengths=lengths, indices=indices, offsets=offsets,
                                axis=axis, unsafe=unsafe, initial=initial)


def sorted_at(x, dim, ranks):
    order = x.detach().sort(dim=dim, stable=True).indices.gather(dim, ranks)
    return x.gather(dim, order), order


def places_in_order(x):
    """For each element its place in the order of all; every NaN is one of its own, behind."""
    known = ~x.isnan()
    place = torch.empty(x.shape, dtype=torch.int64)
    values, of = x[known].unique(return_inverse=True)
    place[known] = of
    place[~known] = torch.arange(int((~known).sum())) + len(values)
    return place


def mode(x, dim=-1, keepdim=False):
    """The index of the last of equal elements, which PyTorch leaves open, as it does the order
    of NaNs."""
    values, index = torch.mode(x, dim, keepdim)
    if x.is_floating_point() and x.dim() and x.detach().isnan().any():
        index.data.copy_(mode(places_in_order(x.detach()), dim, keepdim)[1])
        values = x.gather(dim, index if keepdim else index.unsqueeze(dim))
        return values if keepdim else values.squeeze(dim), index
    if x.dim() and x.numel():
        have = (values if keepdim else values.unsqueeze(dim)).detach()
        at = torch.arange(x.size(dim)).view([-1 if d == dim % x.dim() else 1 for d in range(x.dim())])
        last = torch.where(x.detach() == have, at, -1).amax(dim, keepdim)
        index.data.copy_(torch.where(last < 0, index, last))
        values = x.gather(dim, index if keepdim else index.unsqueeze(dim))
        values = values if keepdim else values.squeeze(dim)
    return values, index


def samples(name):
    """trapezoid and its kin: x, or dx."""
    f = getattr(torch, name)
    return lambda y, x=None, dx=1, dim=-1: (
        f(y, dx=float(dx), dim=dim) if x is None else f(y, x, dim=dim))


def gradient(x, spacing=None, dim=None, edge_order=1):
    if isinstance(spacing, list) and any(t.dim() == 0 for t in spacing):
        dims = range(x.dim()) if dim is None else dim
        if len(dims) != len(spacing):
            raise RuntimeError("spacing has an entry for each dim")
        parts = [gradient(x, float(t) if t.dim() == 0 else [t], [d], edge_order)
                 for t, d in zip(spacing, dims)]
        return [g for p in parts for g in p]
    kw = {} if spacing is None else {"spacing": spacing}
    return torch.gradient(x, dim=dim, edge_order=edge_order, **kw)


def cov(x, correction=1, fweights=None, aweights=None):
    return torch.cov(x, correction=correction, fweights=fweights, aweights=aweights)


def window(name):
    """Windows of torch: all after the length by position, the dtype last."""
    f = getattr(torch, name)

    def run(n, *rest, dtype=None):
        if rest and (rest[-1] is None or isinstance(rest[-1], torch.dtype)):
            rest, dtype = rest[:-1], rest[-1]
        return f(n, *rest, dtype=dtype)
    return run


def signal_window(name, *order):
    """Those of torch.signal.windows: by keyword."""
    f = getattr(torch.signal.windows, name)

    def run(n, *rest, **kw):
        kw = {**dict(zip((*order, "sym", "dtype"), rest)), **kw}
        kw = {k: v for k, v in kw.items() if v is not None}
        if not kw.get("dtype", torch.float32).is_floating_point:
            raise RuntimeError("not a floating point dtype")
        try:
            return f(n, **kw)
        except ValueError as e:
            raise RuntimeError(str(e))
    return run


def general_cosine(n, a, sym=True, dtype=None):
    try:
        return torch.signal.windows.general_cosine(n, a=a.tolist(), sym=sym, dtype=dtype)
    except ValueError as e:
        raise RuntimeError(str(e))


def logspace(start, end, steps, base=10.0, dtype=None):
    return torch.logspace(start, end, steps, base, dtype=dtype)


OPS = {
    **{n + "_window": window(n + "_window")
       for n in ("bartlett", "blackman", "hamming", "hann", "kaiser")},
    **{"signal_windows_" + n: signal_window(n, *order) for n, *order in (
        ("bartlett",), ("blackman",), ("cosine",), ("hamming",), ("hann",), ("nuttall",),
        ("kaiser", "beta"), ("gaussian", "std"), ("exponential", "center", "tau"),
        ("general_hamming", "alpha"))},
    "signal_windows_general_cosine": general_cosine,
    "logspace": logspace,
    "empty_permuted": lambda s, o, dtype=None: torch.empty_permuted(s, o, dtype=dtype),
    "resize_as_": lambda x, like: x.resize_as_(like),
    "searchsorted": searchsorted, "bucketize": bucketize, "isin": isin,
    "_searchsorted": lambda s, x, i32, right, by: searchsorted(s, x, i32, right, "", by),
    "unravel_index": unravel_index,
    "nonzero_static": lambda x, n, fill=-1: torch.nonzero_static(x, size=n, fill_value=fill),
    "histogram": histogram,
    "histogram_bins": lambda x, b, w=None, d=False: histogram(x, b, None, None, w, d),
    "_histogram_edges": lambda x, n, a, b: histogram(x, n, a, b)[1],
    "_histogram": lambda x, e, w, even: histogram(x, e, None, None, w),
    "index_reduce": index_reduce("index_reduce"), "index_reduce_": index_reduce("index_reduce_"),
    "segment_reduce": segment_reduce,
    "_segment_offsets": lambda n, size, unsafe: torch.cat(
        [n.new_zeros(n.shape[:-1] + (1,)), n.cumsum(-1)], -1).long(),
    # statistics
    "_sorted_at": sorted_at, "mode": mode, "_expect_range": lambda x, a, b, what: x.clone(),
    "nanmedian_dim": lambda x, d=-1, k=False: torch.nanmedian(x, d, k),
    "quantile": lambda x, q, d=None, k=False, how="linear": torch.quantile(
        x, q, d, k, interpolation=how),
    "nanquantile": lambda x, q, d=None, k=False, how="linear": torch.nanquantile(
        x, q, d, k, interpolation=how),
    "nanmean": lambda x, d=None, k=False, dtype=None: torch.nanmean(x, d, k, dtype=dtype),
    "cov": cov, "gradient": gradient, "gradient_spacing": gradient,
    **{n: samples(n) for n in ("trapezoid", "trapz", "cumulative_trapezoid")},
    "repeat_interleave": repeat_interleave,
    "_repeat_interleave": lambda r, n=None: torch.repeat_interleave(r, output_size=n),
    "meshgrid": lambda ts, how="ij": torch.meshgrid(*ts, indexing=how),
    "cartesian_prod": lambda ts: torch.cartesian_prod(*ts),
    "_combinations": lambda n, r, again: torch.combinations(torch.arange(n), r, again),
    **{n + "_indices": named_split(n) for n in ("tensor_split", "hsplit", "vsplit", "dsplit")},
    # views as copies
    "expand_copy": lambda x, s, implicit=False: aten.expand_copy(x, s, implicit=implicit),
    "squeeze_dim_copy": lambda x, d: aten.squeeze_copy.dim(x, d),
    "squeeze_dims_copy": lambda x, d: aten.squeeze_copy.dims(x, d),
    "view_dtype_copy": lambda x, d: aten.view_copy.dtype(x, d),
}
