"""How an OpInfo's call is said in Tandem: OPS[full name](call, input, *args, **kwargs), where
call(op, ...) runs one op. Unsupported: Tandem has no such form."""
import torch

from driver import Unsupported

OPS = {}

# No values to compare: drawn or undefined elements.
NO_VALUES = set("""empty empty_like new_empty new_empty_strided empty_strided rand_like randn_like
randn randint randint_like uniform exponential normal::in_place bernoulli multinomial
nn.functional.dropout""".split())
# Which of several equal elements comes first is free.
TIES = {"sort", "topk", "kthvalue", "median", "argsort"}

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
empty scalar_tensor eye linspace empty_strided randn tril_indices triu_indices full full_like
new_full""".split():
    OPS[n] = direct(n)
for n in "view reshape expand permute repeat tile sum_to_size".split():
    OPS[n] = sized(n)
for n in """relu threshold leaky_relu elu celu selu gelu silu mish softplus hardtanh relu6 hardswish
hardsigmoid hardshrink softshrink softsign tanhshrink linear layer_norm rms_norm group_norm conv1d
conv2d adaptive_avg_pool1d adaptive_avg_pool2d""".split():
    OPS["nn.functional." + n] = direct(n)
OPS["nn.functional.logsigmoid"] = direct("log_sigmoid")
for n in ("decimals_0", "decimals_3", "decimals_neg_3"):
    OPS["round::" + n] = direct("round")
OPS["addmm::decomposed"] = direct("addmm")
OPS["as_strided::partial_views"] = direct("as_strided")
OPS["max::binary"], OPS["min::binary"] = direct("maximum"), direct("minimum")
for n, op in {"__radd__": "add", "__rmul__": "mul", "__rsub__": "rsub", "__rand__": "bitwise_and",
              "__ror__": "bitwise_or", "__rxor__": "bitwise_xor"}.items():
    OPS[n] = direct(op)
OPS["__rmatmul__"] = lambda call, a, b: call("matmul", b, a)
OPS["true_divide"] = lambda call, a, b: call("div", a, b)
OPS["broadcast_to"] = lambda call, x, s: call("expand", x, s)
OPS["zero_"] = lambda call, x: call("zero_", call("clone", x))
OPS["resize_"] = lambda call, x, s: call("resize_", call("clone", x), s)
OPS["linalg.diagonal"] = lambda call, x, *, offset=0, dim1=-2, dim2=-1: call(
    "diagonal", x, offset, dim1, dim2)
OPS["__rdiv__"] = lambda call, a, b: call("mul", call("reciprocal", a), b)
OPS["__rpow__"] = lambda call, a, b: call("pow", b, a)
OPS["__rmod__"] = lambda call, a, b: call("remainder", b, a)
OPS["mT"] = lambda call, x: call("transpose", x, -2, -1)
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


for n in ("uniform", "exponential"):
    OPS[n] = direct(n + "_")
OPS["normal::in_place"] = direct("normal_")


@names("bernoulli")
def bernoulli(call, x, p=None, **kw):
    kw = kept(kw)
    return call("bernoulli", x) if p is None else call("bernoulli_p", x, p)


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
    if enable_gqa or dropout_p > 0:
        raise Unsupported("attention: enable_gqa, or drawn numbers")
    return call("scaled_dot_product_attention", q, k, v, attn_mask, dropout_p, is_causal, scale)


def pool(op, *order):
    def run(call, x, *a, **kw):
        kw = {**dict(zip(order, a)), **kw}
        if kw.pop("return_indices", False):
            raise Unsupported(op + ": return_indices")
        if kw.get("stride", ...) is None:
            kw["stride"] = []
        return call(op, x, **kw)
    return run


for n in ("max_pool1d", "max_pool2d"):
    OPS["nn.functional." + n] = pool(n, "kernel_size", "stride", "padding", "dilation",
                                     "ceil_mode", "return_indices")
for n in ("avg_pool1d", "avg_pool2d"):
    OPS["nn.functional." + n] = pool(n, "kernel_size", "stride", "padding", "ceil_mode",
                                     "count_include_pad", "divisor_override")


@names("nn.functional.interpolate::nearest", "nn.functional.upsample_nearest")
def interpolate(call, x, size=None, scale_factor=None, mode="nearest", **kw):
    if any(v for v in kw.values()):
        raise Unsupported("interpolate: " + ", ".join(kw))
    if x.dim() == 5:
        raise Unsupported("interpolate: volumes")
    if isinstance(size, (list, tuple)) and len(size) == 1 and x.dim() == 4:
        raise Unsupported("interpolate: a list of one size is Tandem's number for all dims")
    return call("interpolate", x, size, scale_factor, mode)


@names("nn.functional.pad::constant")
def pad(call, x, pad, mode="constant", value=None):
    return call("pad", x, pad, mode, value)
