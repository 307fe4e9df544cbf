"""Special functions with all digits, by mpmath, where PyTorch's have 7 to 11 of them in f64."""
import math

import mpmath
import torch

aten = torch.ops.aten


def value(formula, args, limit=None):
    """As a float; None where mpmath has no value: at poles and beyond its domain. The
    limit is that of a function of one argument at infinity."""
    if limit is not None and args == (math.inf,):
        return limit
    if not all(math.isfinite(v) for v in args):
        return None
    try:
        with mpmath.workdps(30):
            r = formula(*(mpmath.mpf(v) for v in args))
            return float(r) if isinstance(r, mpmath.mpf) else None
    except (ValueError, ZeroDivisionError, NotImplementedError, mpmath.libmp.NoConvergence):
        return None


def exact(name, formula, limit=None):
    """The op with mpmath's values, its dtype, layout and history."""
    f = getattr(aten, name)

    def run(*args):
        was = [a.detach().clone() if isinstance(a, torch.Tensor) else torch.tensor(a, dtype=torch.float64)
               for a in args]
        out = f(*args)
        if not out.dtype.is_floating_point:
            return out
        rows = torch.broadcast_tensors(*(a.double() for a in was))
        old = out.detach().double().reshape(-1).tolist()
        new = [value(formula, v, limit) for v in zip(*(r.reshape(-1).tolist() for r in rows))]
        best = torch.tensor([o if n is None else n for o, n in zip(old, new)], dtype=torch.float64)
        out.data.copy_(best.reshape(out.shape))
        return out
    return run


def polygamma(n, x):
    if x <= 0 and x == int(x):
        raise ValueError
    return mpmath.polygamma(int(n), x)


def lower(a, x):
    if a <= 0 or x <= 0:
        raise ValueError
    return mpmath.gammainc(a, 0, x, regularized=True)


def upper(a, x):
    if a <= 0 or x <= 0:
        raise ValueError
    return mpmath.gammainc(a, x, mpmath.inf, regularized=True)


def zeta(x, q):
    """PyTorch's is infinite at some NaNs."""
    out = aten.special_zeta(x, q)
    for a in (x, q):
        a = a if isinstance(a, torch.Tensor) else torch.tensor(a)
        if a.is_floating_point() and out.is_floating_point():
            out.data.masked_fill_(a.detach().isnan().expand(out.shape), float("nan"))
    return out


def above(f, order):
    def run(x):
        if x <= 0:
            raise ValueError
        return f(order, x)
    return run


OPS = {
    **{f"special_bessel_j{n}": exact(f"special_bessel_j{n}", lambda x, n=n: mpmath.besselj(n, x), 0)
       for n in (0, 1)},
    **{f"special_bessel_y{n}": exact(f"special_bessel_y{n}", above(mpmath.bessely, n), 0)
       for n in (0, 1)},
    "special_zeta": zeta,
    "special_airy_ai": exact("special_airy_ai", mpmath.airyai, 0),
    "polygamma": exact("polygamma", polygamma),
    **{n: exact(n, f) for n, f in (("igamma", lower), ("igamma_", lower), ("igammac", upper),
                                   ("igammac_", upper))},
    "special_erfcx": exact("special_erfcx", lambda x: mpmath.exp(x * x) * mpmath.erfc(x)),
}
