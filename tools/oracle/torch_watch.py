"""Watches the ops that a case calls in PyTorch, so that what PyTorch leaves open is
compared all the same, and what is meant to differ is known by the tensor it is about.

A new tensor's version counts from 0, whatever made it (PyTorch's composites write
into their results), and what lies between its elements is zero. Where an op reads what
it writes through another argument, the values are those of reading first. Notes name
classes of differences.ini: of a storage (its versions, or that writes overlapped), of a
tensor (its is_view), and of the whole run (`notes`: it came to what the class is about).
"""
import os
import re

import torch

from tandem_run import ROOT
from torch_code import is_float

# Composites whose result may be a view of a temporary, in PyTorch or in Tandem.
OF_TEMPORARIES = {"conv1d", "max_pool1d", "matmul", "scaled_dot_product_attention",
                  "native_layer_norm", "sum_to_size", "unique", "copy", "linear"}
# Ops that Tandem composes of others, by the table of docs/ops.md.
with open(os.path.join(ROOT, "docs", "ops.md")) as page:
    COMPOSED = set(re.findall(r"^\| `(\w+)\(.*\| of its parts \|", page.read(), re.M))
# Linear algebra by LAPACK: the result is that of a matrix that differs in last bits.
LAPACK = re.compile(r"_?linalg_(?!cross|vector|vecdot|diagonal)\w+|p?inverse|(slog|log)?det|cholesky\w*|"
                    r"triangular_solve|lu_\w+|ormqr|geqrf|nuclear_norm|svd|qr|orgqr|matrix_exp")
VECTORS = {"linalg_svd", "_linalg_svd", "svd", "linalg_eigh", "_linalg_eigh", "linalg_qr", "geqrf"}
SUBTRACT = {"triplet_margin_loss", "margin_ranking_loss", "hinge_embedding_loss", "cosine_embedding_loss",
         "multi_margin_loss", "multilabel_margin_loss", "cosine_similarity", "log_softmax", "_log_softmax", "layer_norm", "native_layer_norm", "group_norm", "native_group_norm",
         "batch_norm", "native_batch_norm", "instance_norm", "interpolate", "_resample", "grid_sample",
         "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d",
         "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"}
PRODUCTS = {"linalg_cross", "cross", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "linear", "einsum",
            "scaled_dot_product_attention"}
SPREADS = {"var", "std", "var_mean", "std_mean"}
GELU = {"gelu", "gelu_"}
# Ops whose derivative at NaN is 0, 1 or NaN, by the place in a vector register.
OPEN_AT_NAN = {"hardtanh", "relu6", "hardswish", "softshrink", "hardshrink", "elu", "celu", "selu"}
# Ops whose derivative is a sum of few digits: PyTorch adds alpha to the result of elu_, the
# terms of mish and gelu cancel near their least value, and a probability near 1 loses the
# target's 1.
CANCEL = {"elu_", "celu_", "selu_", "mish", "mish_", "cross_entropy", *GELU}
# Ops whose derivative has another layout than PyTorch's.
LAYOUTS = {"prod", "prod_dim", "sgn", "copysign", "logcumsumexp", "smooth_l1_loss", "huber_loss",
           "bce_with_logits", "pinverse"}
# Ops whose sizes depend on values, through indices by masks too.
COUNT = {"nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "index", "index_put", "index_put_"}
STATISTICS = {"batch_norm": (3, 4), "instance_norm": (3, 4), "native_batch_norm": (3, 4)}
# Ops whose zeros have either sign: in PyTorch it depends on the place in a vector register, or
# on a bias of 0 that is added.
ZEROS = {"softshrink", "maximum", "minimum", "amax", "amin", "max", "min", "aminmax", "layer_norm",
         "native_layer_norm", "group_norm", "native_group_norm"}


META_WRITES = {"set_", "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "squeeze_dim_", "squeeze_dims_", "unsqueeze_", "as_strided_"}


def tensors(values):
    for v in values:
        if isinstance(v, torch.Tensor):
            yield v
        elif isinstance(v, (list, tuple)):
            yield from tensors(v)


def is_tracked_int(t):
    return t.requires_grad and not is_float(t)


def storage_of(t):
    return t.untyped_storage()._cdata


def overlaps_itself(t):
    """May two elements lie in one place? Exact for what programs have: few elements."""
    if t.numel() < 2:
        return False
    at = places(t)
    return at.unique().numel() < at.numel()


def strides_meet(size, stride):
    """Do several elements of these sizes and strides lie in one place?"""
    last = sum((n - 1) * k for n, k in zip(size, stride))
    return 0 not in size and last >= 0 and overlaps_itself(
        torch.empty(last + 1).as_strided(size, stride))


def is_rounded(t):
    return t.is_floating_point() and bool((t.detach() != t.detach().round()).any())


def is_open_product(t, dim=None, *_):
    """Has a product no finite gradient by division, as of infinities or of several zeros?"""
    t, dim = (t.detach().reshape(-1), 0) if dim is None else (t.detach(), dim)
    return t.is_floating_point() and bool(
        ((t == 0).sum(dim) > 1).any() or not t.prod(dim).isfinite().all())


def is_write(op):
    return op.endswith("_") and op not in ("requires_grad_", "detach_", "set_", "resize_")


# The integer of a float's bits, and those of its bits that only rounded results have.
BITS = {torch.float64: (torch.int64, 0xff), torch.float32: (torch.int32, 0xff),
        torch.float16: (torch.int16, 0x3), torch.bfloat16: (torch.int16, 0x1)}
HALVES = (torch.float16, torch.bfloat16)


def largest(grads):
    """One unit of the largest of these: a difference of them is rounded by that."""
    some = [g.detach().abs().nan_to_num(0, 0, 0).max() * torch.finfo(g.dtype).eps
            for g in grads if g is not None and g.numel()]
    return max(some, default=0)


def is_singular(a):
    """Has a stack of matrices one that is singular to within ten units of its dtype?"""
    if not isinstance(a, torch.Tensor) or not is_float(a) or a.dim() < 2 or (
            not a.numel() or not a.isfinite().all()):
        return False
    s = torch.linalg.svdvals(a.detach().to(torch.complex128 if a.is_complex() else torch.float64))
    return bool((s[..., -1] <= s[..., 0] * 10 * torch.finfo(a.dtype).eps).any())


class Watch:
    """run: the number of a run in which rounded results change by up to two units, as they
    may with another library, NaNs in sign and payload, and zeros of some ops in sign; in runs
    0 and 1 all of these have one sign. None: results stay."""

    def __init__(self, run=None):
        self.run = run
        self.nudges = None if run is None else torch.Generator().manual_seed(run)
        self.kept = []      # tensors: what is noted by identity stays alive
        self.born = {}      # storage: the version its first tensor came with
        self.versions = {}  # storage: why its versions differ
        self.views = {}     # tensor: why its is_view differs
        self.overlapped = set()  # storages written where elements overlap
        self.tainted = {}   # storage: why its elements differ
        self.pending = ""   # why those of the result to come will
        self.low = ""       # why those of gradients do: products in halves within a derivative
        self.notes = set()  # classes that may apply to this run
        self.unset = False  # there are elements that nothing has written
        self.checkpointed = False  # a checkpoint's region runs
        self.nans = []      # arguments of the op that runs
        self.mode = True    # grad mode of the last op
        self.counts = False  # an op whose sizes depend on values was called
        self.ints = set()   # tensors: the gradients of which all come to integers
        self.slices = set() # ops that wrote views
        self.nodes = []     # whose gradients are rounded otherwise
        self.grads = set()  # gradients that a call returned
        self.uncounted = set()  # storages of these
        self.layouts = False  # an op of LAYOUTS had an argument that is not row-major, or a
                              # real argument a complex result
        self.left = []      # tensors a view of which set_ took to another storage
        self.moved = []     # tensors that set_ took to another storage, away from their views

    # ---- what reports ask ----

    def version(self, t):
        """None: it is not compared."""
        if t.is_inference() or storage_of(t) in self.uncounted:
            return None
        return t._version - self.born.get(storage_of(t), 0)

    def why(self, t):
        """The class of each field of a tensor's report that may differ."""
        out = {}
        if storage_of(t) in self.versions:
            out["version"] = self.versions[storage_of(t)]
            if out["version"] == "inference-views":  # a view that counts a write is stale
                out.update(dict.fromkeys(("is_leaf", "grad_fn"), "inference-views"))
        if t.numel() == 0:
            out["offset"] = "offset-of-nothing"
            if id(t) in self.grads:
                out.update(dict.fromkeys(("requires_grad", "is_leaf", "grad_fn"),
                                         "gradients-of-nothing"))
        if t.is_inference():
            out["is_view"] = "inference-views"
        if any(t is b or t._base is b for b in self.left) or any(
                t._base is b and storage_of(t) != storage_of(b) for b in self.moved):
            out.update(dict.fromkeys(("requires_grad", "is_leaf", "grad_fn"), "views-set-away"))
        if id(t) in self.ints:
            out.update(dict.fromkeys(("requires_grad", "is_leaf", "grad_fn"),
                                     "integers-without-gradients"))
        if id(t) in self.views:
            out["is_view"] = self.views[id(t)]
        if id(t) in self.grads and self.layouts:
            out["strides"] = "gradient-layouts"
        if storage_of(t) in self.tainted:
            out["elements"] = self.tainted[storage_of(t)]
        return out

    def taint(self, ts, why):
        """Elements of these differ, and of all that is computed from them."""
        for t in ts if why else []:
            self.kept.append(t.untyped_storage())
            self.tainted.setdefault(storage_of(t), why)

    def gradient(self, t):
        """One that backward left; what it passed is not known."""
        self.taint([t], next(iter(self.tainted.values()), self.low))

    def fresh(self, t):
        """A tensor that appeared by itself, a gradient: how it was made is free."""
        self.kept.append(t)
        self.gradient(t)
        if not t.is_inference():
            self.born.setdefault(storage_of(t), t._version)
        self.views[id(t)] = "view-flag"
        self.grads.add(id(t))
        self.uncounted.add(storage_of(t))

    def result(self, t):
        """A result of an op of ours: its version counts from 0, whether it is a view is free."""
        self.kept.append(t)
        self.gradient(t)
        if not t.is_inference():
            self.born[storage_of(t)] = t._version
        self.views[id(t)] = "view-flag"

    def note_versions(self, t, why):
        self.kept.append(t.untyped_storage())
        self.versions[storage_of(t)] = why

    # ---- around a call ----

    def watched(self, op, fn):
        def call(*args, **kwargs):
            given = list(tensors(list(args) + list(kwargs.values())))
            before = {storage_of(t) for t in given}
            first = read_first(op, fn, args, kwargs) if is_write(op) else None
            needy = [g for g in given if g.requires_grad]
            if (given and not torch.is_inference_mode_enabled() and
                    all(g.is_inference() for g in given) and any(g.requires_grad for g in given)):
                self.notes.add("inference-leaves")
            self.before(op, args)
            why = self.pending or next((self.tainted[storage_of(g)] for g in given
                                        if storage_of(g) in self.tainted), "")
            self.pending = ""
            args = args if first is None else integers_apart(args)
            self.renew_casts(op, args)
            self.nans = [g.detach().clone() for g in given if self.nudges and g.dtype in BITS]
            nans = (args[0].detach().isnan() if self.nudges and op.rstrip("_") in OPEN_AT_NAN
                    else None)
            out = (self.gelu_by_tanh(op, args[0]) if self.nudges and op in GELU and "tanh" in args
                   else fn(*args, **kwargs))
            out = resolved(out)
            if first is not None:
                args[0].data.copy_(first)
            if self.nudges and op in SUBTRACT:
                self.nudge_terms(fn, args, kwargs, out)
            if self.nudges and op in SPREADS:
                self.nudge_spread(op, fn, args, kwargs, out)
            if LAPACK.fullmatch(op):
                self.linear_algebra(op, fn, args, kwargs, out)
            if self.nudges and op == "_log_softmax_backward_data":
                self.nudge_exponentials(out, *args)
            self.note_run(op, needy, out)
            self.layouts |= any(t.is_complex() for t in tensors([out])) and any(
                g.is_floating_point() and g.requires_grad for g in given)
            self.taint([*tensors([out]), *given[:is_write(op)]], why)
            if nans is not None and nans.any():
                self.vary_at_nan(up_to_date(out), nans)
            for t in tensors([out]):
                self.after(op, t, before)
                if is_write(op) or storage_of(t) not in before:
                    self.nudge_sums(op, t)
                    self.nudge(t, t.dtype in HALVES, op.rstrip("_") in ZEROS)
                    if self.nudges:  # else a stale view keeps its grad_fn until an op reads it
                        self.nudge_gradients(up_to_date(t), op)
            return out
        return call

    def renew_casts(self, op, args):
        """Tandem casts a weight again that was written since, or was cast in the other grad
        mode. PyTorch's autocast takes its first cast."""
        mode = torch.is_grad_enabled()
        writes = is_write(op) and args[0].dtype == torch.float32
        if torch.is_autocast_enabled("cpu") and (writes or mode != self.mode):
            torch.clear_autocast_cache()
        self.mode = mode

    def note_run(self, op, needy, out):
        """What an op did to histories; needy are the arguments that required grad before."""
        if needy and all(id(g) in self.ints or is_tracked_int(g) for g in needy):
            self.kept += tensors([out])
            self.ints |= {id(t) for t in tensors([out])}
        if op == "scaled_dot_product_attention" and not any(
                "Flash" in t.grad_fn.name() for t in tensors([out]) if t.grad_fn):
            self.notes.add("attention-saves")

    def gelu_by_tanh(self, op, x):
        """With another rounding of the tanh, to which 1 is added: below 0 few digits are left
        of the sum, and of the derivative."""
        y = x.clone()
        t = ((y + 0.044715 * y * y * y) * 0.7978845608028654).tanh()
        self.nudge(t, exact=True)
        out = 0.5 * y * (1 + t)
        return x.copy_(out) if op == "gelu_" else out

    def nudge_terms(self, fn, args, kwargs, out):
        """Differences of elements to a mean or a sum: rounding goes with the elements."""
        x = args[0].detach().clone()
        self.nudge(x, exact=True)
        with torch.no_grad():
            again = fn(x, *[a.clone() if isinstance(a, torch.Tensor) else a
                            for a in args[1:]], **kwargs)
        for t, u in zip(tensors([out]), tensors([again])):
            if self.run == 0 and u.is_floating_point():  # nothing may be left of the digits
                u = torch.where(u.abs() <= largest([args[0].detach()]), 0, u)
            t.data.copy_(u)

    def linear_algebra(self, op, fn, args, kwargs, out):
        info = op.endswith("_ex") and [t for t in tensors([out]) if t.dtype == torch.int32][-1:]
        odd = any(not t.detach().isfinite().all() for t in tensors([*args, out]) if is_float(t))
        if torch.is_autocast_enabled("cpu") and any(t.requires_grad for t in tensors(args)):
            self.low, self.layouts = "autocast-of-derivatives", True
        why = "failed-factorizations" if odd or info and info[0].any() else ""
        why = "singular-matrices" if is_singular(args[0]) else why
        self.taint(tensors([out]), "signs-of-vectors" if op in VECTORS else why)
        if self.nudges and isinstance(args[0], torch.Tensor):
            try:
                self.nudge_terms(fn, args, kwargs, out)
            except RuntimeError:  # it is singular now
                pass

    def nudge_spread(self, op, fn, args, kwargs, out):
        """Of elements that are nearly equal it is 0, or what rounding of the mean leaves."""
        spread = next(tensors([out]))
        if self.run:
            self.nudge_terms(fn, args, kwargs, out)
        elif spread.numel():
            least = (4 * largest([args[0]])) ** (1 if "std" in op else 2)
            spread.data.copy_(torch.where(spread.data <= least, 0, spread.data))

    def nudge_sums(self, op, t):
        """Products of matrices and solutions: where terms cancel, rounding goes with the terms."""
        sums = op.rstrip("_") in PRODUCTS or LAPACK.fullmatch(op) and ("solve" in op or "inv" in op)
        sums = sums or op.startswith("fft_")
        if self.nudges and sums and is_float(t) and not overlaps_itself(t):
            noise = largest([t])
            parts = torch.view_as_real(t.data) if t.is_complex() else t.data
            parts += noise * torch.randint(-2, 3, parts.shape, generator=self.nudges)
        if self.nudges and op in ("logaddexp", "logaddexp2") and t.is_floating_point():
            t.data += 2 * torch.finfo(t.dtype).eps * torch.randint(-2, 3, t.shape, generator=self.nudges)
        if self.nudges and "_window" in op and t.is_floating_point():  # sums of cosines
            noise = torch.finfo(t.dtype).eps
            low, high = t.data.amin().clamp(max=0) if t.numel() else 0, 1
            t.data += noise * torch.randint(-2, 3, t.shape, generator=self.nudges)
            t.data.clamp_(low, high)  # probabilities stay such

    def nudge_exponentials(self, out, g, y, dim, *_):
        """Where the second argument is no log_softmax, little is left of the difference."""
        with torch.no_grad():
            e = y.detach().exp()
            self.nudge(e, exact=True)
            out.data.copy_(g - e * g.sum(dim, keepdim=True))

    def nudge(self, t, exact=False, zeros=False):
        if self.nudges and t.is_complex() and not t.is_conj():
            return self.nudge(torch.view_as_real(t.data), exact, zeros)
        if not self.nudges or t.dtype not in BITS or overlaps_itself(t):
            return
        integer, rounded = BITS[t.dtype]
        rounded = -1 if exact else rounded
        bits = t.data.contiguous().view(integer)
        by = torch.randint(-2, 3, bits.shape, generator=self.nudges, dtype=integer)
        by[((bits & rounded) == 0) | (t.data == 0) | ~t.data.isfinite()] = 0
        new = (bits + by).view(t.dtype)
        sign = torch.randint(0, 2, bits.shape, generator=self.nudges) * 2 - 1
        sign = [torch.ones_like(sign), -torch.ones_like(sign), sign][min(self.run, 2)]
        if zeros:
            new = torch.where(new == 0, torch.zeros_like(new).copysign(sign), new)
        nan = torch.full_like(new, float("nan")).copysign(sign)
        for x in self.nans if self.run % 2 else []:  # an op may pass the NaN of an argument on
            if x.dtype == nan.dtype and x.shape == nan.shape:
                nan = torch.where(x.isnan(), x, nan)
        t.data.copy_(torch.where(new.isnan(), nan, new))

    def vary_at_nan(self, node, nans):
        def varied(given, got):
            if given[0] is None or given[0].shape != nans.shape:
                return None
            there = [torch.zeros_like(got[0]), got[0], got[0] * float("nan")][self.run % 3]
            return (torch.where(nans, there.to(given[0].dtype), given[0]), *given[1:])
        if node is not None:
            node.register_hook(varied)

    def nudge_gradients(self, node, op):
        """The gradients that a derivative gives are rounded too."""
        if node is not None and op == "instance_norm" and "View" in node.name():
            node = node.next_functions[0][0]  # the norm, of which the result is a view
        if node is None or node in self.nodes:
            return

        def nudged(g, noise):
            if g is None:
                return None
            other = g.detach().clone()
            self.nudge(other, other.dtype in HALVES)
            if noise:
                other += noise * torch.randint(-2, 3, g.shape, generator=self.nudges)
            if noise and self.run == 0:  # nothing may be left of the digits
                other = torch.where(g.detach().abs() <= 4 * noise, 0, other)
            return g + (other - g.detach()).nan_to_num(0, 0, 0)

        def hook(given, got):
            cancels = "_norm" in op or op in CANCEL or LAPACK.fullmatch(op)
            noise = largest(given + got) if cancels else 0
            for g in given:  # with create_graph
                self.nudge_gradients(g if g is None else g.grad_fn, op)
            return tuple(nudged(g, noise) for g in given)
        self.nodes.append(node)
        node.register_hook(hook)

    def before(self, op, args):
        for i in STATISTICS.get(op, ()):
            if len(args) > i and isinstance(args[i], torch.Tensor):
                self.note_versions(args[i], "running-statistics")
        if op == "set_":
            for t in args[:2]:
                self.note_versions(t, "storage-versions")
            self.before_set(*args)
        if op == "as_strided_scatter" and strides_meet(args[2], args[3]):
            self.pending = "overlapping-scatter"
        if op == "unique" and is_rounded(args[0]):
            self.notes.add("unique-of-rounded")
        if is_write(op):
            up_to_date(args[0])
            self.slices |= {op.rstrip("_")} if args[0]._is_view() else set()
        if op in ("view_dtype", "detach") and (
                args[0].is_inference() or torch.is_inference_mode_enabled()):
            self.notes.add("inference-views")
        if op == "view_dtype" and args[0].is_inference():
            self.note_versions(args[0], "inference-views")
        if op in ("prod", "prod_dim") and is_open_product(*args[:1 if op == "prod" else 2]):
            self.notes.add("products-of-others")
        if op == "scaled_dot_product_attention" and not all(
                t.detach().isfinite().all() for t in tensors(args)):
            self.notes.add("attention-of-nan")
        self.counts |= op in COUNT
        self.layouts |= op.rstrip("_") in LAYOUTS and not all(
            t.is_contiguous() for t in tensors(args))
        whole = gives_integers(op, args)
        if any(is_stale(t) for t in tensors(args) if whole or not is_float(t)):
            self.notes.add("stale-views-of-integers")
        if op == "resize_" and (is_tracked_int(args[0]) or id(args[0]) in self.ints):
            self.notes.add("resized-integers")
        if op.startswith("view_dtype") and (args[0].numel() == 0 or 1 in args[0].shape):
            self.notes.add("offset-of-nothing")
        if op in META_WRITES and self.checkpointed:
            self.notes.add("checkpoint-metadata")
        if op in META_WRITES and args[0].requires_grad and not args[0]._is_view():
            self.notes.add("accumulators-of-temporaries")
        if op == "matmul" and args[0].dim() == 2 and args[0].requires_grad and args[1].dim() > 2:
            self.notes.add("matmul-saves")
        if op == "as_strided" and 0 in args[1]:
            self.notes.add("negative-sizes")
        if op in ("tile", "repeat") and args[0].numel() == 0:
            self.notes.add("negative-repeats")
        if (is_write(op) or op == "resize_") and (
                self.versions.get(storage_of(args[0])) == "storage-versions"):
            self.notes.add("writes-after-set")
        if is_write(op) and not is_float(args[0]) and any(
                t.requires_grad for t in tensors(args[1:])):
            self.notes.add("integers-in-views")
        if is_write(op) and overlaps_itself(args[0]):
            self.pending = "overlapping-write"

    def before_set(self, t, source, offset=None, size=None, stride=None):
        if t._is_view():
            self.left.append(t._base)
        else:
            self.moved.append(t)
        if size is not None and 0 not in size:
            steps = zip(size, stride or torch.empty(size).stride())
            end = source.storage_offset() + offset + 1 + sum((n - 1) * s for n, s in steps)
            self.unset |= end * source.itemsize > source.untyped_storage().nbytes()

    def after(self, op, t, before):
        new = storage_of(t) not in before and not is_write(op)
        if new and not t.is_inference():
            self.kept.append(t.untyped_storage())
            self.born.setdefault(storage_of(t), t._version)
        if new and op not in ("set_", "as_strided_scatter", "unravel_index"):
            clear_gaps(t)
        if op in OF_TEMPORARIES or new and (t._is_view() or op in COMPOSED):
            self.kept.append(t)
            self.views[id(t)] = "view-flag"
        if op == "view_dtype" and torch.is_inference_mode_enabled():
            self.note_versions(t, "inference-views")


def resolved(out):
    """Conjugates as new tensors, not views with a lazy flag."""
    if isinstance(out, (list, tuple)):
        return type(out)(map(resolved, out)) if type(out) in (list, tuple) else tuple(map(resolved, out))
    lazy = isinstance(out, torch.Tensor) and (out.is_conj() or out.is_neg())
    return out.resolve_conj().resolve_neg() if lazy else out


def places(t):
    """Where the elements lie, from the start of the storage, in elements."""
    at = torch.tensor([t.storage_offset()])
    for n, s in zip(t.size(), t.stride()):
        at = (at.unsqueeze(-1) + torch.arange(n) * s).reshape(-1)
    return at


def clear_gaps(t):
    whole = t.untyped_storage().nbytes() // t.itemsize
    if t.numel() == whole or not t.numel():
        return
    flat = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage(), 0, [whole], [1])
    shown = torch.zeros(whole, dtype=torch.bool)
    shown[places(t)] = True
    flat[~shown] = 0


def up_to_date(t):
    """PyTorch takes a view that is behind its base for a leaf, until it is asked."""
    try:
        return t.grad_fn
    except RuntimeError:
        return None


def gives_integers(op, args):
    """Has the call an integer result, by a dtype that it is given or by what it writes?"""
    writes = (is_write(op) or op == "copy") and not is_float(args[0])
    return writes or any(isinstance(a, torch.dtype) and not (a.is_floating_point or a.is_complex)
                         for a in args)


def is_stale(t):
    """Is it a view whose history PyTorch refuses to bring up to date?"""
    try:
        _ = t._is_view() and t.grad_fn
    except RuntimeError:
        return True
    return False


def read_first(op, fn, args, kwargs):
    """What args[0] holds after a write that reads all arguments first; None: no other
    argument lies in its storage, or PyTorch refuses the call."""
    x = args[0]
    others = [t for t in tensors(args[1:]) if storage_of(t) == storage_of(x)]
    frozen = x.is_inference() and not torch.is_inference_mode_enabled()
    if not others or overlaps_itself(x) or frozen:
        return None

    def apart(v):
        if isinstance(v, (list, tuple)):
            return [apart(e) for e in v]
        return v.detach().clone() if isinstance(v, torch.Tensor) else v

    with torch.no_grad():
        try:
            fn(*together(args), **kwargs)
        except RuntimeError as e:
            if str(e) != "ZeroDivisionError":  # of an element that this call wrote
                return None
        try:
            copy = apart(x)
            fn(copy, *apart(args[1:]), **kwargs)
        except RuntimeError:
            return None
    return copy


def integers_apart(args):
    """Arguments of a write of integers, of which no other one shares its storage."""
    x = args[0]
    if is_float(x):
        return args
    return [x, *(v.clone() if isinstance(v, torch.Tensor) and storage_of(v) == storage_of(x) else v
                 for v in args[1:])]


def together(args):
    """Copies of arguments that share storages as the arguments do."""
    made = {}

    def copied(v):
        if isinstance(v, (list, tuple)):
            return [copied(e) for e in v]
        if not isinstance(v, torch.Tensor):
            return v
        if storage_of(v) not in made:
            made[storage_of(v)] = v.untyped_storage().clone()
        new = torch.empty(0, dtype=v.dtype)
        return new.set_(made[storage_of(v)], v.storage_offset(), v.size(), v.stride())

    return copied(args)
