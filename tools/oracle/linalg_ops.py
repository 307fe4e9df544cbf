"""Ops of linear algebra whose arguments differ from those of torch.ops.aten: flags by position."""
import torch

aten, linalg = torch.ops.aten, torch.linalg


def flags(f, **defaults):
    """f(tensors, flag=...) with the flags by position, after as many tensors as there are."""
    names = list(defaults)

    def run(*args):
        n = len(args)
        while n and not isinstance(args[n - 1], (torch.Tensor, list)):
            n -= 1
        return f(*args[:n], **dict(zip(names, args[n:])))
    return run


def lstsq(a, b, rcond=None, driver="gelsy"):
    return aten.linalg_lstsq(a, b, rcond, driver=driver)


def matrix_norm(x, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    return linalg.matrix_norm(x, ord, dim, keepdim, dtype=dtype)


def norm(x, ord=None, dim=None, keepdim=False, dtype=None):
    return linalg.norm(x, ord, dim, keepdim, dtype=dtype)


def matrix_rank(x, atol=None, rtol=None, hermitian=False):
    return aten.linalg_matrix_rank.atol_rtol_float(x, atol=atol, rtol=rtol,
                                                   hermitian=hermitian)


def pinv(x, atol=None, rtol=None, hermitian=False):
    return aten.linalg_pinv.atol_rtol_float(x, atol=atol, rtol=rtol, hermitian=hermitian)


def exact_cdist(x1, x2, p=2, mode=None):
    """Differences element by element. PyTorch's products of matrices, which it takes for many
    rows or in mode 1, lose digits."""
    if mode not in (None, 0, 1, 2):
        raise ValueError("compute_mode")
    return torch.cdist(x1, x2, float(p), "donot_use_mm_for_euclid_dist")


def lstsq_padded(a, b, rcond, driver):
    """Of matrices with as many rows as columns, or more: zeros below the solution."""
    x, residuals, rank, values = aten.linalg_lstsq(a, b, rcond, driver=driver)
    x = torch.cat([x, x.new_zeros(b.shape[:-2] + (b.shape[-2] - x.shape[-2], b.shape[-1]))], -2)
    return x, residuals, rank, values


def eig(a, vectors=True):
    return linalg.eig(a) if vectors else (linalg.eigvals(a), a.new_empty(0).to(torch.complex128
                                          if a.dtype in (torch.float64, torch.complex128)
                                          else torch.complex64))


def permutation(pivots, rows):
    """The exchanges applied to 0, 1, 2.. in order."""
    if pivots.dtype != torch.int32 or pivots.shape[-1] > rows:
        raise ValueError("pivots")
    out = torch.arange(rows).expand(pivots.shape[:-1] + (rows,)).clone()
    for to, swaps in zip(out.view(-1, rows), pivots.reshape(-1, pivots.shape[-1])):
        for i, k in enumerate(swaps.tolist()):
            if not 1 <= k <= rows:
                raise ValueError("pivots")
            to[[i, k - 1]] = to[[k - 1, i]]
    return out


OPS = {
    "_linalg_eig": eig, "_linalg_lstsq": lstsq_padded, "_lu_permutation": permutation,
    "linalg_vecdot": flags(linalg.vecdot, dim=-1),
    "linalg_cross": flags(linalg.cross, dim=-1),
    "linalg_vander": lambda x, n=None: linalg.vander(x, N=n),
    "tensordot": lambda a, b, da, db: aten.tensordot(a, b, da, db),
    "chain_matmul": lambda ts: aten.chain_matmul(ts),
    "bilinear": torch.nn.functional.bilinear,
    "cdist": exact_cdist, "_cdist": exact_cdist,
    "_matrix_exp": linalg.matrix_exp,
    "pdist": lambda x, p=2: torch.pdist(x, float(p)),
    "linalg_matrix_norm": matrix_norm, "linalg_matrix_norm_str_ord": matrix_norm,
    "linalg_norm": norm, "linalg_norm_ord_str": norm,
    "linalg_cond": linalg.cond, "linalg_cond_p_str": linalg.cond,
    "linalg_matrix_rank": matrix_rank, "linalg_pinv": pinv,
    "linalg_cholesky_ex": flags(linalg.cholesky_ex, upper=False, check_errors=False),
    "linalg_cholesky": flags(linalg.cholesky, upper=False),
    "linalg_lu_factor_ex": flags(linalg.lu_factor_ex, pivot=True, check_errors=False),
    "linalg_lu_factor": flags(linalg.lu_factor, pivot=True),
    "linalg_lu": flags(linalg.lu, pivot=True),
    "linalg_lu_solve": flags(linalg.lu_solve, left=True, adjoint=False),
    "linalg_svd": flags(linalg.svd, full_matrices=True),
    "_linalg_svd": lambda x, full=False, uv=True: aten._linalg_svd(x, full, uv),
    "linalg_ldl_factor_ex": flags(linalg.ldl_factor_ex, hermitian=False, check_errors=False),
    "linalg_ldl_factor": flags(linalg.ldl_factor, hermitian=False),
    "linalg_ldl_solve": flags(linalg.ldl_solve, hermitian=False),
    "linalg_solve_triangular": lambda a, b, upper, left=True, unit=False: (
        linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)),
    "_linalg_solve_ex": flags(aten._linalg_solve_ex, left=True, check_errors=False),
    "linalg_solve_ex": flags(linalg.solve_ex, left=True, check_errors=False),
    "linalg_solve": flags(linalg.solve, left=True),
    "linalg_lstsq": lstsq,
    "linalg_inv_ex": flags(linalg.inv_ex, check_errors=False),
}
