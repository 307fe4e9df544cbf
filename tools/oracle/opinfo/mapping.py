"""How an OpInfo's call is said in Tandem: OPS[full name](call, input, *args, **kwargs), where
call(op, ...) runs one op. Unsupported: Tandem has no such form."""
import torch

from driver import Unsupported

OPS = {}

# No values to compare: drawn or undefined elements.
NO_VALUES = set("""empty empty_like new_empty new_empty_strided empty_strided rand_like randn_like
randn empty_permuted randint randint_like uniform exponential cauchy geometric log_normal normal::in_place bernoulli multinomial
nn.functional.dropout resize_as_
nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout
nn.functional.feature_alpha_dropout nn.functional.rrelu""".split())
# Which of several equal elements comes first is free.
TIES = {"sort", "topk", "kthvalue", "median", "argsort", "mode", "nanmedian", "msort"}

# Vectors that are unique up to their signs.
SIGNS = {"linalg.eigh", "linalg.svd", "svd"}

# Arguments without a counterpart, and the values that mean nothing.
IGNORED = {"out": None, "generator": None, "layout": torch.strided, "device": None,
           "pin_memory": False, "memory_format": None, "requires_grad": False,
           "sparse_grad": False, "inplace": False, "non_blocking": False}
RENAMED = {"other": "b", "exponent": "b", "axis": "dim", "keepdims": "keepdim"}


def names(*full):
    def put(f):
        for n in full:
            OPS[n] = f
        return f
    return put


def kept(kw):
    """The keyword arguments that mean something."""
    out = {}
    for k, v in kw.items():
        if k in IGNORED and (v is None or v == IGNORED[k]):
            continue
        if k in ("out", "requires_grad"):
            raise Unsupported(k)
        if k == "device" and str(v).startswith("cpu"):
            continue
        if k == "memory_format" and v is torch.preserve_format:
            continue
        out[k] = v
    return out


def direct(op):
    """The same positions; keywords by name, or by Tandem's."""
    def run(call, *args, **kw):
        have = [n for n, _, _ in call.library.schemas[op]]
        out = {}
        for k, v in kept(kw).items():
            if k not in have:
                k = have[0] if k in ("input", "self", "a") else RENAMED.get(k, k)
            out[k] = v
        return call(op, *args, **out)
    return run


def sized(op):
    """Sizes as a list or as single arguments."""
    def run(call, x, *s, **kw):
        if s and all(isinstance(v, int) for v in s) and not kw:
            s = [list(s)]
        return call(op, x, *s, **kw)
    return run


for n in """neg abs sign sgn exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan
asin acos atan sinh cosh tanh sigmoid erf erfc square floor ceil trunc round frac logit nan_to_num
isnan isinf isfinite logical_not bitwise_not add sub rsub mul floor_divide remainder fmod pow
maximum minimum atan2 hypot copysign xlogy eq ne lt le gt ge logical_and logical_or logical_xor
bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift masked_fill lerp addcmul
addcdiv clamp_min clamp_max trace amax amin logsumexp cumsum cumprod logcumsumexp cummax cummin
argsort topk kthvalue aminmax argmax argmin sort mm bmm mv dot addmm baddbmm addmv outer matmul
view_as reshape_as flatten unflatten ravel expand_as unsqueeze transpose select split_with_sizes
chunk unbind diagonal unfold as_strided select_scatter slice_scatter diagonal_scatter
as_strided_scatter cat stack flip tril triu gather scatter_add take_along_dim index_select
index_add index_copy index_fill masked_select masked_scatter constant_pad_nd roll zeros_like
ones_like new_zeros new_ones empty_like new_empty new_empty_strided rand_like randn_like
native_layer_norm native_group_norm t count_nonzero multinomial slice movedim fill zeros ones
acosh asinh atanh deg2rad rad2deg signbit isposinf isneginf isreal positive angle sinc heaviside
fmax fmin nextafter ldexp frexp gcd lcm float_power logaddexp logaddexp2 isclose allclose equal
addr addbmm dist renorm true_divide lgamma digamma erfinv i0 igamma igammac
empty scalar_tensor eye linspace empty_strided randn tril_indices triu_indices full full_like
new_full""".split():
    OPS[n] = direct(n)
for n in "view reshape expand permute repeat tile sum_to_size".split():
    OPS[n] = sized(n)
for n in """relu threshold leaky_relu elu celu selu gelu silu mish softplus hardtanh relu6 hardswish
hardsigmoid hardshrink softshrink softsign tanhshrink linear layer_norm rms_norm group_norm
conv_transpose1d conv_transpose2d conv_transpose3d fold pixel_shuffle pixel_unshuffle
channel_shuffle""".split():
    OPS["nn.functional." + n] = direct(n)
for n in """i0e i1 i1e ndtr xlog1py zeta entr ndtri log_ndtr erfcx airy_ai bessel_j0 bessel_j1 bessel_y0
bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1
scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 chebyshev_polynomial_t
chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p""".split():
    OPS["special." + n] = direct("special_" + n)
for n in range(5):
    OPS[f"polygamma::polygamma_n_{n}"] = lambda call, x, n: call("polygamma", n, x)
OPS["special.polygamma::special_polygamma_n_0"] = OPS["polygamma::polygamma_n_0"]
for n in (1, 3, 5):
    OPS[f"mvlgamma::mvlgamma_p_{n}"] = direct("mvlgamma")
OPS["nn.functional.prelu"], OPS["nn.functional.glu"] = direct("prelu"), direct("glu")
OPS["nn.functional.logsigmoid"] = direct("log_sigmoid")
for n in ("decimals_0", "decimals_3", "decimals_neg_3"):
    OPS["round::" + n] = direct("round")
OPS["addmm::decomposed"] = direct("addmm")
OPS["as_strided::partial_views"] = direct("as_strided")
OPS["max::binary"], OPS["min::binary"] = direct("maximum"), direct("minimum")
for n, op in {"__radd__": "add", "__rmul__": "mul", "__rsub__": "rsub", "__rand__": "bitwise_and",
              "__ror__": "bitwise_or", "__rxor__": "bitwise_xor"}.items():
    OPS[n] = direct(op)
OPS["torch._scaled_mm"] = direct("scaled_mm")


@names("torch._scaled_mm_v2")
def scaled_mm_v2(call, a, b, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias=None,
                 out_dtype=None, contraction_dim=(), use_fast_accum=False):
    plain = all(int(v) in (0, 1) for v in recipe_a + recipe_b) and not any(
        int(v) for v in swizzle_a + swizzle_b)
    if not plain or len(scale_a) != 1 or contraction_dim:
        raise Unsupported("scales of blocks")
    return call("scaled_mm", a, b, scale_a[0], scale_b[0], bias, None, out_dtype)


OPS["__rmatmul__"] = lambda call, a, b: call("matmul", b, a)
OPS["broadcast_to"] = lambda call, x, s: call("expand", x, s)
for n in """broadcast_to block_diag diag diag_embed diagflat fliplr flipud rot90 unsafe_chunk
unsafe_split narrow_copy as_strided_copy diagonal_copy expand_copy permute_copy t_copy
transpose_copy unsqueeze_copy view_copy unfold_copy unbind_copy split_with_sizes_copy alias_copy
hstack vstack dstack column_stack combinations mT mH take put argwhere nonzero_static
bincount histc bucketize isin unravel_index mode msort quantile nanquantile
corrcoef cov trapezoid trapz cumulative_trapezoid empty_permuted logspace""".split():
    OPS[n] = direct(n)
for n in ("mean", "prod", "amin", "amax"):
    OPS["index_reduce::" + n] = direct("index_reduce")
for n in ("lengths", "offsets"):
    OPS["_segment_reduce::" + n] = OPS["segment_reduce::" + n] = direct("segment_reduce")
for n in """bartlett blackman cosine exponential gaussian general_hamming hamming hann kaiser
nuttall""".split():
    OPS["signal.windows." + n] = direct("signal_windows_" + n)
for n in "fft ifft rfft irfft hfft ihfft".split():
    OPS["fft." + n] = lambda call, x, n=None, dim=-1, norm=None, op="fft_" + n: call(
        op, x, n, dim, "backward" if norm is None else norm)
for n in "fft ifft rfft irfft hfft ihfft".split():
    OPS["fft." + n + "2"] = lambda call, x, s=None, dim=(-2, -1), norm=None, op="fft_" + n + "2": call(
        op, x, s, dims(dim), "backward" if norm is None else norm)
    OPS["fft." + n + "n"] = lambda call, x, s=None, dim=None, norm=None, op="fft_" + n + "n": call(
        op, x, s, dims(dim), "backward" if norm is None else norm)
for n in ("fftshift", "ifftshift"):
    OPS["fft." + n] = lambda call, x, dim=None, op="fft_" + n: call(op, x, dims(dim))
OPS["stft"] = lambda call, x, n_fft, hop_length=None, win_length=None, window=None, center=True, \
    pad_mode="reflect", normalized=False, onesided=None, return_complex=None: call(
        "stft", x, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
        bool(window is not None and window.is_complex() or x.is_complex())
        if return_complex is None else return_complex)
OPS["istft"] = direct("istft")
OPS["zero_"] = lambda call, x: call("zero_", call("clone", x))
OPS["resize_"] = lambda call, x, s: call("resize_", call("clone", x), s)
OPS["linalg.diagonal"] = lambda call, x, *, offset=0, dim1=-2, dim2=-1: call(
    "diagonal", x, offset, dim1, dim2)
OPS["__rdiv__"] = lambda call, a, b: call("mul", call("reciprocal", a), b)
OPS["__rpow__"] = lambda call, a, b: call("pow", b, a)
OPS["__rmod__"] = lambda call, a, b: call("remainder", b, a)
OPS["where"] = lambda call, a, cond, b: call("where", cond, a, b)
OPS["einsum"] = lambda call, ops, eq: call("einsum", eq, list(ops))


@names("div::no_rounding_mode", "div::trunc_rounding", "div::floor_rounding")
def div(call, a, b, rounding_mode=None):
    if rounding_mode == "":
        raise Unsupported("div: '' is Tandem's None")
    return call("div", a, b, rounding_mode or "")


for n, d in {"bfloat16": torch.bfloat16, "bool": torch.bool, "byte": torch.uint8,
             "char": torch.int8, "double": torch.float64, "float": torch.float32,
             "half": torch.float16, "int": torch.int32, "long": torch.int64,
             "short": torch.int16}.items():
    OPS[n] = lambda call, x, d=d, **kw: call("to", x, d, **kept(kw))


# ---- reductions

def dims(dim):
    return [dim] if isinstance(dim, int) else dim


for n in ("sum", "nansum", "mean"):
    OPS[n] = lambda call, x, dim=None, keepdim=False, dtype=None, n=n: call(
        n, x, dims(dim), keepdim, dtype)
for n in ("all", "any"):
    OPS[n] = lambda call, x, dim=None, keepdim=False, n=n: call(n, x, dims(dim), keepdim)
for n in ("max", "min", "median"):
    run = lambda call, x, dim=None, keepdim=False, n=n: (  # noqa: E731
        call(n, x) if dim is None else call(n + "_dim", x, dim, keepdim))
    for full in ([n] if n == "median" else [n + "::reduction_with_dim", n + "::reduction_no_dim"]):
        OPS[full] = run


@names("prod")
def prod(call, x, dim=None, keepdim=False, *, dtype=None):
    return call("prod", x, dtype) if dim is None else call("prod_dim", x, dim, keepdim, dtype)


def moments(op):
    def run(call, x, *a, **kw):
        dim, correction, keepdim, a = None, 1, False, list(a)
        if a and not isinstance(a[0], bool):
            dim = a.pop(0)
        if a:
            correction = int(a.pop(0))
        if a:
            keepdim = a.pop(0)
        correction = kw.get("correction", int(kw.get("unbiased", correction)))
        return call(op, x, dims(kw.get("dim", dim)), correction, kw.get("keepdim", keepdim))
    return run


for n in ("var", "std", "var_mean", "std_mean"):
    OPS[n] = OPS[n + "::unbiased"] = moments(n)


@names("norm", "norm::fro", "norm::inf")
def norm(call, x, p="fro", dim=None, keepdim=False, dtype=None):
    return call("norm", x, 2 if p in ("fro", None) else p, dims(dim), keepdim, dtype)


@names("linalg.vector_norm")
def vector_norm(call, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    return call("linalg_vector_norm", x, ord, dims(dim), keepdim, dtype)


@names("softmax", "softmax::with_dtype")
def softmax(call, x, dim, dtype=None, **kw):
    return call("softmax", x, dim, dtype)


@names("log_softmax", "log_softmax::with_dtype")
def log_softmax(call, x, dim, dtype=None, **kw):
    return call("log_softmax", x, dim, dtype)


@names("clamp")
def clamp(call, x, min=None, max=None):
    tensors = [isinstance(v, torch.Tensor) for v in (min, max) if v is not None]
    if any(tensors) and not all(tensors):
        raise Unsupported("clamp: a number and a tensor")
    return call("clamp_tensor" if any(tensors) else "clamp", x, min, max)


# ---- views, copies, indices

@names("squeeze", "squeeze::multiple")
def squeeze(call, x, dim=None):
    if dim is None:
        return call("squeeze", x)
    return call("squeeze_dim", x, dim) if isinstance(dim, int) else call("squeeze_dims", x, dim)


@names("split", "split::list_args")
def split(call, x, size, dim=0):
    if isinstance(size, int):
        return call("split", x, size, dim)
    return call("split_with_sizes", x, list(size), dim)


OPS["block_diag"] = lambda call, *ts: call("block_diag", list(ts))
OPS["cartesian_prod"] = lambda call, *ts: call("cartesian_prod", list(ts))
OPS["broadcast_tensors"] = lambda call, *ts: call("broadcast_tensors", list(ts))
OPS["squeeze_copy"] = lambda call, x, *dim: call(
    "squeeze_copy" if not dim else "squeeze_dim_copy" if isinstance(dim[0], int) else
    "squeeze_dims_copy", x, *dim)


@names("meshgrid::variadic_tensors", "meshgrid::list_of_tensors")
def meshgrid(call, *ts, indexing="ij"):
    return call("meshgrid", list(ts[0]) if isinstance(ts[0], (list, tuple)) else list(ts), indexing)


for n in ("atleast_1d", "atleast_2d", "atleast_3d"):
    def atleast(call, x, *rest, n=n):
        if rest or isinstance(x, (list, tuple)):
            raise Unsupported(n + ": a list of tensors")
        return call(n, x)
    OPS[n] = atleast


@names("repeat_interleave")
def repeat_interleave(call, x, repeats=None, dim=None, *, output_size=None):
    if repeats is None:
        return call("_repeat_interleave", x, output_size)
    return call("repeat_interleave", x, repeats, dim, output_size)


for n in ("tensor_split", "hsplit", "vsplit", "dsplit"):
    def split_at(call, x, at, *dim, n=n, **kw):
        if isinstance(at, torch.Tensor):
            raise Unsupported(n + ": sections or indices as a tensor")
        return call(n if isinstance(at, int) else n + "_indices", x,
                    at if isinstance(at, int) else list(at), *dim, **kw)
    OPS[n] = split_at


@names("searchsorted")
def searchsorted(call, seq, x, *, out_int32=False, right=False, side=None, sorter=None):
    if side == "":
        raise Unsupported("searchsorted: '' is Tandem's None")
    return call("searchsorted", seq, x, out_int32, right, side or "", sorter)


@names("histogram")
def histogram(call, x, bins=100, *, range=None, weight=None, density=False):
    if isinstance(bins, torch.Tensor):
        return call("histogram_bins", x, bins, weight, density)
    low, high = range or (None, None)
    return call("histogram", x, bins, low, high, weight, density)


@names("signal.windows.general_cosine")
def general_cosine(call, n, *, a, sym=True, **kw):
    return call("signal_windows_general_cosine", n, torch.tensor(a), sym, **kept(kw))


@names("nanmedian")
def nanmedian(call, x, dim=None, keepdim=False):
    return call("nanmedian", x) if dim is None else call("nanmedian_dim", x, dim, keepdim)


@names("nanmean")
def nanmean(call, x, dim=None, keepdim=False, dtype=None):
    return call("nanmean", x, dims(dim), keepdim, dtype)


@names("gradient")
def gradient(call, x, *, spacing=None, dim=None, edge_order=1):
    if isinstance(spacing, (list, tuple)):
        if any(isinstance(s, torch.Tensor) and s.is_meta for s in spacing):
            raise Unsupported("gradient: another device")
        if not all(isinstance(s, torch.Tensor) for s in spacing):
            dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
            spacing = [torch.tensor(float(s), dtype=dtype) for s in spacing]
        return call("gradient_spacing", x, list(spacing), dims(dim), edge_order)
    return call("gradient", x, spacing, dims(dim), edge_order)


@names("unique_consecutive")
def unique_consecutive(call, x, return_inverse=False, return_counts=False, dim=None):
    got = call("unique_consecutive", x, return_inverse, return_counts, dim)
    got = [got[0], *[got[1]] * return_inverse, *[got[2]] * return_counts]
    return got if len(got) > 1 else got[0]


OPS["resize_as_"] = lambda call, x, y, **kw: call("resize_as_", call("clone", x), y, **kept(kw))


@names("narrow")
def narrow(call, x, dim, start, length):
    if isinstance(start, torch.Tensor):
        raise Unsupported("narrow: start is a tensor")
    return call("narrow", x, dim, start, length)


@names("clone")
def clone(call, x, *, memory_format=torch.preserve_format):
    if memory_format not in (torch.preserve_format, torch.contiguous_format):
        raise Unsupported("clone: memory_format")
    return call("clone", x, memory_format is torch.contiguous_format)


@names("contiguous")
def contiguous(call, x, *, memory_format=torch.contiguous_format):
    if memory_format is not torch.contiguous_format:
        raise Unsupported("contiguous: memory_format")
    return call("contiguous", x)


@names("scatter")
def scatter(call, x, dim, index, src=None, value=None, reduce=None):
    if reduce is not None:
        raise Unsupported("scatter: reduce")
    src = value if src is None else src
    op = "scatter" if isinstance(src, torch.Tensor) else "scatter_value"
    return call(op, x, dim, index, src)


for n in ("sum", "prod", "mean", "amin", "amax"):
    OPS["scatter_reduce::" + n] = direct("scatter_reduce")


@names("index_put")
def index_put(call, x, indices, values, accumulate=False):
    return call("index_put", x, list(indices), values, accumulate)


@names("nonzero")
def nonzero(call, x, as_tuple=False):
    if as_tuple:
        raise Unsupported("nonzero: as_tuple")
    return call("nonzero", x)


@names("diff")
def diff(call, x, n=1, dim=-1, prepend=None, append=None):
    if prepend is not None or append is not None:
        raise Unsupported("diff: prepend or append")
    return call("diff", x, n, dim)


@names("nn.functional.one_hot")
def one_hot(call, x, num_classes=-1):
    return call("one_hot", x, num_classes)


@names("nn.functional.embedding")
def embedding(call, w, idx, padding_idx=None, max_norm=None, norm_type=2.,
              scale_grad_by_freq=False, sparse=False):
    if max_norm is not None or sparse:
        raise Unsupported("embedding: max_norm or sparse")
    n = w.shape[0]
    if padding_idx is not None and not -n <= padding_idx < n:
        raise Unsupported("embedding: padding_idx is checked by PyTorch's Python alone")
    padding = -1 if padding_idx is None else padding_idx % n
    return call("embedding", w, idx, padding, scale_grad_by_freq)


@names("arange")
def arange(call, *a, **kw):
    return call("arange", *([0, *a] if len(a) == 1 and "end" not in kw else a), **kept(kw))


@names("randint")
def randint(call, low, high, size=None, **kw):
    low, high, size = (0, low, high) if size is None else (low, high, size)
    return call("randint", low, high, size, **kept(kw))


@names("randint_like")
def randint_like(call, x, low, high=None, **kw):
    return call("randint_like", x, *((0, low) if high is None else (low, high)), **kept(kw))


for n in ("uniform", "exponential", "cauchy", "geometric", "log_normal"):
    OPS[n] = direct(n + "_")
OPS["normal::in_place"] = direct("normal_")


@names("bernoulli")
def bernoulli(call, x, p=None, **kw):
    kw = kept(kw)
    return call("bernoulli", x) if p is None else call("bernoulli_p", x, p)


# ---- linear algebra

for n in """vdot kron inner cross cholesky_inverse cholesky_solve geqrf lu_unpack matrix_exp ormqr
triangular_solve svd pinverse logdet""".split():
    OPS[n] = direct(n)
for n in """cross det cholesky cholesky_ex vecdot eigh eigvalsh householder_product ldl_factor
ldl_factor_ex ldl_solve matrix_power multi_dot qr slogdet vander lu_factor lu_factor_ex lu lu_solve
inv inv_ex solve solve_ex solve_triangular svd svdvals tensorinv tensorsolve""".split():
    OPS["linalg." + n] = direct("linalg_" + n)
for n in ("pdist", "bilinear"):
    OPS["nn.functional." + n] = direct(n)
OPS["lu_solve"] = lambda call, b, lu, pivots: call("linalg_lu_solve", lu, pivots, b)


@names("tensordot")
def tensordot(call, a, b, dims=2):
    if isinstance(dims, int):
        dims = list(range(-dims, 0)), list(range(dims))
    one, two = ([d] if isinstance(d, int) else list(d) for d in dims)
    return call("tensordot", a, b, one, two)


@names("cdist")
def cdist(call, a, b, p=2.0, compute_mode=None):
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
             "donot_use_mm_for_euclid_dist")
    if compute_mode not in (None, *modes):
        raise Unsupported("cdist: names of modes are checked by PyTorch's Python alone")
    return call("cdist", a, b, p, None if compute_mode is None else modes.index(compute_mode))


@names("linalg.lstsq")
def lstsq(call, a, b, rcond=None, *, driver=None):
    return call("linalg_lstsq", a, b, rcond, "gelsy" if driver is None else driver)


OPS["linalg.lstsq::grad_oriented"] = lambda call, a, b, driver: lstsq(
    call, a, b, driver=driver)[:2]


@names("linalg.norm", "linalg.norm::subgradients_at_zero")
def linalg_norm(call, x, ord=None, dim=None, keepdim=False, *, dtype=None):
    op = "linalg_norm_ord_str" if isinstance(ord, str) else "linalg_norm"
    return call(op, x, ord, dims(dim), keepdim, dtype)


@names("linalg.matrix_norm")
def matrix_norm(call, x, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    op = "linalg_matrix_norm_str_ord" if isinstance(ord, str) else "linalg_matrix_norm"
    return call(op, x, ord, dims(dim), keepdim, dtype)


@names("linalg.cond")
def cond(call, x, p=None):
    return call("linalg_cond_p_str" if isinstance(p, str) else "linalg_cond", x, p)


def tolerances(op):
    """atol and rtol as numbers; an rcond or a tol is one of them."""
    def run(call, x, tol=None, hermitian=False, *, atol=None, rtol=None, rcond=None):
        if op == "linalg_pinv" and rcond is None:
            tol, rcond = None, tol
        atol, rtol = (0.0, rcond) if rcond is not None else (atol, rtol)
        atol, rtol = (tol, 0.0) if tol is not None else (atol, rtol)
        if any(isinstance(v, torch.Tensor) for v in (atol, rtol)):
            raise Unsupported("linalg: a tolerance is a tensor")
        return call(op, x, atol, rtol, hermitian)
    return run


OPS["linalg.matrix_rank"] = OPS["linalg.matrix_rank::hermitian"] = tolerances("linalg_matrix_rank")
OPS["linalg.pinv"] = OPS["linalg.pinv::hermitian"] = tolerances("linalg_pinv")
OPS["linalg.pinv::singular"] = lambda call, a, b: call(
    "linalg_pinv", call("matmul", a, call("transpose", b, -2, -1)))


# ---- networks

@names("nn.functional.dropout")
def dropout(call, x, p=0.5, training=True, inplace=False):
    return call("dropout", x, p, training)


@names("nn.functional.batch_norm", "nn.functional.batch_norm::without_cudnn")
def batch_norm(call, x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if momentum is None:
        raise Unsupported("batch_norm: no momentum")
    return call("batch_norm", x, weight, bias, mean, var, training, momentum, eps)


@names("nn.functional.instance_norm")
def instance_norm(call, x, running_mean=None, running_var=None, weight=None, bias=None,
                  use_input_stats=True, momentum=0.1, eps=1e-5):
    return call("instance_norm", x, weight, bias, running_mean, running_var, use_input_stats,
                momentum, eps)


@names("native_batch_norm")
def native_batch_norm(call, *a, **kw):
    return call("native_batch_norm", *a, **kept(kw))


for n in ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "kl_div"):
    OPS["nn.functional." + n] = lambda call, x, y, n=n, reduction="mean", **kw: call(
        n, x, y, reduction=reduction, **kw)


@names("nn.functional.binary_cross_entropy_with_logits")
def bce(call, x, y, weight=None, reduction="mean", pos_weight=None):
    return call("bce_with_logits", x, y, weight, pos_weight, reduction)


@names("nn.functional.nll_loss")
def nll_loss(call, x, y, weight=None, ignore_index=-100, reduction="mean"):
    return call("nll_loss", x, y, weight, reduction, ignore_index)


@names("nn.functional.cross_entropy")
def cross_entropy(call, x, y, weight=None, ignore_index=-100, reduction="mean",
                  label_smoothing=0.0):
    return call("cross_entropy", x, y, weight, reduction, ignore_index, label_smoothing)


@names("nn.functional.scaled_dot_product_attention")
def attention(call, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
              enable_gqa=False):
    if dropout_p > 0:
        raise Unsupported("attention: drawn numbers")
    return call("scaled_dot_product_attention", q, k, v, attn_mask, dropout_p, is_causal, scale,
                enable_gqa)


def convolution(op):
    """Padding by name is an op of its own."""
    def run(call, x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
        name = op + "_padding" if isinstance(padding, str) else op
        return call(name, x, w, bias, stride, padding, dilation, groups)
    return run


for n in (1, 2, 3):
    OPS[f"nn.functional.conv{n}d"] = convolution(f"conv{n}d")


def pool(op, *order):
    def run(call, x, *a, **kw):
        kw = {**dict(zip(order, a)), **kw}
        name = op + "_with_indices" if kw.pop("return_indices", False) else op
        if kw.get("stride", ...) is None:
            kw["stride"] = []
        return call(name, x, **kw)
    return run


for n in (1, 2, 3):
    OPS[f"nn.functional.max_pool{n}d"] = pool(
        f"max_pool{n}d", "kernel_size", "stride", "padding", "dilation", "ceil_mode",
        "return_indices")
    OPS[f"nn.functional.avg_pool{n}d"] = pool(
        f"avg_pool{n}d", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
        "divisor_override")


def adaptive(kind, n):
    """None keeps the size of a dim; functional gives the maxima alone."""
    def run(call, x, size, return_indices=False):
        if isinstance(size, (list, tuple)):
            size = [x.shape[k - n] if v is None else v for k, v in enumerate(size)]
        out = call(f"adaptive_{kind}_pool{n}d", x, size)
        return out[0] if kind == "max" and not return_indices else out
    return run


for n in (1, 2, 3):
    for kind in ("avg", "max"):
        OPS[f"nn.functional.adaptive_{kind}_pool{n}d"] = adaptive(kind, n)


def unpool(op):
    def run(call, x, indices, kernel_size, stride=None, padding=0, output_size=None):
        stride = [] if stride is None else stride
        return call(op, x, indices, kernel_size, stride, padding, output_size)
    return run


for n in (1, 2, 3):
    for name in (f"nn.functional.max_unpool{n}d", f"nn.functional.max_unpool{n}d::grad"):
        OPS[name] = unpool(f"max_unpool{n}d")


@names("nn.functional.unfold")
def unfold_patches(call, x, *a, **kw):
    return call("im2col", x, *a, **kw)


@names(*("nn.functional.interpolate::" + m for m in (
    "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area")),
    "nn.functional.upsample_nearest")
def interpolate(call, x, size=None, scale_factor=None, mode="nearest", align_corners=None,
                recompute_scale_factor=None, antialias=False):
    if isinstance(scale_factor, (list, tuple)):
        raise Unsupported("interpolate: a scale for each dim")
    if isinstance(size, (list, tuple)) and len(size) == 1 and x.dim() > 3:
        raise Unsupported("interpolate: a list of one size is Tandem's number for all dims")
    return call("interpolate", x, size, scale_factor, mode, bool(align_corners),
                bool(recompute_scale_factor), antialias)


@names("nn.functional.upsample_bilinear")
def upsample_bilinear(call, x, size=None, scale_factor=None):
    return interpolate(call, x, size, scale_factor, "bilinear", True)


for n in ("grid_sampler_2d", "grid_sampler_3d"):
    OPS[n] = direct(n)


@names("nn.functional.grid_sample")
def grid_sample(call, x, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    return call("grid_sample", x, grid, mode, padding_mode, bool(align_corners))


@names("nn.functional.embedding_bag")
def embedding_bag(call, weight, indices, offsets=None, max_norm=None, norm_type=2.0,
                  scale_grad_by_freq=False, mode="mean", sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    if max_norm is not None or sparse:
        raise Unsupported("embedding_bag: max_norm, sparse")
    return call("embedding_bag", weight, indices, offsets, scale_grad_by_freq, mode,
                per_sample_weights, include_last_offset, padding_idx)


@names("_upsample_bilinear2d_aa")
def upsample_aa(call, x, output_size, align_corners, scale_factors=None, **kw):
    if output_size is None:
        raise Unsupported("_upsample_bilinear2d_aa: scales in place of sizes")
    h, w = (None, None) if scale_factors is None else scale_factors
    return call("_upsample_bilinear2d_aa", x, output_size, align_corners,
                kw.get("scales_h", h), kw.get("scales_w", w))


@names(*("nn.functional.pad::" + m for m in (
    "constant", "reflect", "replicate", "replicate_negative", "circular")))
def pad(call, x, pad, mode="constant", value=None):
    return call("pad", x, pad, mode, value)


# ---- losses, distances of pairs

for n in """soft_margin_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss
multilabel_margin_loss multilabel_soft_margin_loss binary_cross_entropy poisson_nll_loss
cosine_embedding_loss triplet_margin_loss cosine_similarity pairwise_distance normalize softmin
local_response_norm alpha_dropout feature_alpha_dropout""".split():
    OPS["nn.functional." + n] = lambda call, x, *a, n=n, **kw: direct(n)(
        call, x, *a, **{"train" if k == "training" else k: v for k, v in kw.items()})
OPS["nn.functional.gaussian_nll_loss"] = lambda call, x, y, var, **kw: call(
    "gaussian_nll_loss", x, y, var if isinstance(var, torch.Tensor) else torch.full_like(x, var),
    **kw)
OPS["nn.functional.linear_cross_entropy"] = direct("linear_cross_entropy")
OPS["nn.functional.rrelu"] = direct("rrelu")
for n in ("dropout2d", "dropout3d"):
    OPS["nn.functional." + n] = lambda call, x, p=0.5, training=True, inplace=False, n=n: call(
        n, x, p, training)


@names("nn.functional.ctc_loss")
def ctc_loss(call, x, targets, lengths, target_lengths, **kw):
    return call("ctc_loss", x, targets, torch.as_tensor(lengths), torch.as_tensor(target_lengths),
                **kw)


# ---- complex numbers, tensors by other names

for n in """conj conj_physical resolve_conj resolve_neg view_as_real view_as_complex complex real imag
polar _softmax_backward_data""".split():
    OPS[n] = direct(n)
