"""What a difference of values is about, found out by other means than PyTorch's result:

    EXACT     the op as its definition has it, where PyTorch's own is wrong or has few digits;
              it stands for PyTorch's in f64
    FACTORS   a factorization or solution that differs is one all the same
    reason()  the condition under which a difference is documented, such as an infinity among
              the arguments; a row of classes.txt may ask for it, as in `value: not finite`
"""
import math

import torch

LARGE = 2 ** 31


# ---- definitions

class Bessel(torch.autograd.Function):
    """Bessel functions of order 0 and 1 by SciPy, with their first derivatives."""

    @staticmethod
    def forward(ctx, x, name):
        import scipy.special
        ctx.save_for_backward(x)
        ctx.name = name
        return torch.from_numpy(getattr(scipy.special, name)(x.detach().numpy()[()]).reshape(x.shape)
                                if x.dim() else getattr(scipy.special, name)(x.numpy().reshape(1))
                                ).reshape(x.shape)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        kind = ctx.name[0]
        one = Bessel.apply(x, kind + "1")
        return g * (-one if ctx.name[1] == "0" else Bessel.apply(x, kind + "0") - one / x), None


def bessel(name):
    return lambda x: Bessel.apply(x.double(), name)


def as_strided_scatter(x, src, size, stride, storage_offset=None):
    y = x.clone()
    y.as_strided(size, stride, storage_offset or 0).copy_(src)
    return y


def triangle(x, upper):
    return x.triu() if upper else x.tril()


EXACT = {
    **{f"special.bessel_{n}": bessel(n) for n in ("j0", "j1", "y0", "y1")},
    "as_strided_scatter": as_strided_scatter,
    "cholesky_inverse": lambda x, upper=False: torch.cholesky_inverse(triangle(x, upper), upper),
    "cholesky_solve": lambda b, x, upper=False: torch.cholesky_solve(b, triangle(x, upper), upper),
}


# ---- factorizations

def near(got, want, scale):
    """Within the rounding of a product of matrices of this size."""
    n = max([1, *want.shape[-2:]])
    eps = torch.finfo(want.dtype).eps
    bound = 20 * n * eps * max(float(scale), torch.finfo(want.dtype).tiny)
    return bool(got.shape == want.shape and ((got - want).abs() <= bound).all())


def size_of(*matrices):
    return math.prod(float(m.abs().max()) if m.numel() else 0 for m in matrices)


def is_orthonormal(q):
    one = torch.eye(q.shape[-1], dtype=q.dtype).expand(*q.shape[:-2], q.shape[-1], q.shape[-1])
    return near(q.mH @ q, one, 1)


def is_lu(a, r):
    p, l, u = r if len(r) == 3 and r[1].dim() >= 2 and r[1].is_floating_point() | r[1].is_complex() \
        else torch.lu_unpack(r[0], r[1].int())
    return near(p @ l @ u, a, size_of(a) * 10)


def is_qr(a, r, mode="reduced"):
    q, upper = r
    if mode == "r":
        return near(upper.mH @ upper, a.mH @ a, size_of(a, a) * 10)
    return is_orthonormal(q) and near(q @ upper, a, size_of(a) * 10) and not upper.tril(-1).any()


def is_geqrf(a, r):
    k = min(a.shape[-2:])
    q = torch.linalg.householder_product(r[0][..., :k].contiguous(), r[1])
    return is_qr(a, (q, r[0].triu()[..., :k, :]))


def is_svd(a, r):
    u, s, v = r
    k = s.shape[-1]
    return (is_orthonormal(u) and is_orthonormal(v.mH)
            and near((u[..., :k] * s.unsqueeze(-2)) @ v[..., :k, :], a, size_of(a) * 10))


def is_pinverse(a, r):
    return near(a @ r[0] @ a, a, size_of(a, a, r[0]) * 10)


def is_eigh(a, r, upper):
    whole = a.triu() + a.triu(1).mH if upper else a.tril() + a.tril(-1).mH
    diagonal = whole.diagonal(dim1=-2, dim2=-1)
    if a.is_complex():
        diagonal.imag.zero_()
    return is_orthonormal(r[1]) and near((r[1] * r[0].unsqueeze(-2)) @ r[1].mH, whole,
                                         size_of(a) * 10)


def is_residual(a, r, b):
    left = (b - a @ r[0]).abs().square().sum(-2)
    return r[1].numel() == 0 or near(r[1], left.to(r[1].dtype), float(b.abs().max()) ** 2 * 100)


def upper_of(args, kw):
    return (args[0] if args else kw.get("UPLO", "L")).upper() == "U"


# Ours, read; the matrix; the other arguments.
FACTORS = {
    "linalg.lu_factor": lambda a, r, *_: is_lu(a, r), "linalg.lu": lambda a, r, *_: is_lu(a, r),
    "linalg.lu_factor_ex": lambda a, r, *_: is_lu(a, r),
    "linalg.qr": lambda a, r, args, kw: is_qr(a, r, args[0] if args else kw.get("mode", "reduced")),
    "geqrf": lambda a, r, *_: is_geqrf(a, r),
    "svd": lambda a, r, *_: is_svd(a, (r[0], r[1], r[2].mH)),
    "linalg.svd": lambda a, r, *_: is_svd(a, r),
    "linalg.eigh": lambda a, r, args, kw: is_eigh(a, r, upper_of(args, kw)),
    "pinverse": lambda a, r, *_: is_pinverse(a, r),
    "linalg.lstsq": lambda a, r, args, kw: is_residual(a, r, args[0].detach()),
}


def is_factorization(name, sample, results):
    """None: there is no check for this op."""
    name = name.split("::")[0]
    if name not in FACTORS:
        return None
    a = sample.input.detach()
    if not a.isfinite().all():
        return None
    try:
        return FACTORS[name](a, results, sample.args, sample.kwargs)
    except (RuntimeError, ValueError):
        return False


# ---- conditions

def numbers(*trees):
    for x in trees:
        if isinstance(x, dict):
            yield from numbers(*x.values())
        elif isinstance(x, (list, tuple)):
            yield from numbers(*x)
        elif isinstance(x, (int, float)) and not isinstance(x, bool):
            yield x


def is_odd(t):
    return (t.is_floating_point() or t.is_complex()) and not bool(t.detach().isfinite().all())


def is_huge(t):
    """Does the square of an element overflow?"""
    return t.is_floating_point() and t.numel() > 0 and (
        float(t.detach().abs().amax()) > math.sqrt(torch.finfo(t.dtype).max))


def beyond(sample, tensors):
    """Do segments of `unsafe` go beyond the data, or run backwards?"""
    given = {**sample.kwargs}
    lengths, offsets = given.get("lengths"), given.get("offsets")
    rows = sample.input.shape[given.get("axis", 0)] if sample.input.dim() else 0
    if not given.get("unsafe"):
        return False
    if lengths is not None:
        return bool((lengths < 0).any() or (lengths.sum(-1) != rows).any())
    return bool((offsets.diff() < 0).any() or (offsets < 0).any() or (offsets > rows).any())


def meet(sample):
    """Do sizes and strides of as_strided_scatter have several elements for one place?"""
    size, stride = sample.args[1:3]
    at = torch.zeros(1, dtype=torch.long)
    for n, s in zip(size, stride):
        at = (at.unsqueeze(-1) + torch.arange(n) * s).reshape(-1)
    return at.unique().numel() < at.numel()


def reason(name, sample, tensors, results):
    """What the difference of values comes from, or an empty word."""
    base = name.split("::")[0]
    plain = results and not any(is_odd(t) or is_huge(t) for t in tensors)
    found = is_factorization(name, sample, results) if plain else None
    if found is not None:
        return "other factors" if found else ""
    if base.endswith("segment_reduce") and beyond(sample, tensors):
        return "beyond the data"
    if base == "as_strided_scatter" and meet(sample):
        return "several for one place"
    if base == "as_strided_scatter" and (sample.input.numel() * sample.input.itemsize
                                         < sample.input.untyped_storage().nbytes()):
        return "in gaps"
    if base == "nn.functional.embedding_bag" and any(
            t.dim() == 1 and not t.is_floating_point() and (t.diff() < 0).any() for t in tensors[1:]
            if t.dtype != torch.bool):
        return "descending offsets"
    if any(map(is_odd, tensors)) or any(not math.isfinite(x) for x in numbers(sample.args, sample.kwargs)):
        return "not finite"
    if any(map(is_huge, tensors)) or any(abs(x) >= LARGE for x in numbers([sample.input], sample.args, sample.kwargs)):
        return "large number"
    return ""
