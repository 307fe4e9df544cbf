"""One OpInfo sample in PyTorch and in Tandem: (outcome, text). "agree" and "rounding" are
agreement, "unsupported" has nothing to compare, all else is a difference."""
import torch

import checks
from driver import MOST_READ, Context, TandemError, Unsupported
from mapping import NO_VALUES, SIGNS, TIES

# Relative and absolute tolerances, those of torch.testing.
TOLERANCE = {torch.float64: (1e-7, 1e-7), torch.float32: (1.3e-6, 1e-5),
             torch.bfloat16: (1.6e-2, 1e-5), torch.float16: (1e-3, 1e-5),
             torch.float8_e4m3fn: (0.125, 2**-9), torch.float8_e5m2: (0.25, 2**-16)}


# Ops that add up terms in an order of their own: errors are compared with the terms.
TERMS = {"nn.functional.conv_transpose3d", "addbmm"}
# Units of the dtype by which these may differ: PyTorch rounds in between, or terms cancel.
UNITS = {"special.i1e": 2, "native_batch_norm": 2, "nn.functional.soft_margin_loss": 2,
         "linalg.matrix_power": 100}


class Difference(Exception):
    def __init__(self, outcome, text):
        super().__init__(text)
        self.outcome, self.text = outcome, text


# ---- trees of arguments

def tree_map(x, f):
    if isinstance(x, torch.Tensor):
        return f(x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*[tree_map(y, f) for y in x])
    if isinstance(x, (list, tuple)):
        return type(x)(tree_map(y, f) for y in x)
    if isinstance(x, dict):
        return {k: tree_map(v, f) for k, v in x.items()}
    return x


def tensors_of(*trees):
    found = []

    def add(t):
        if all(t is not u for u in found):
            found.append(t)
        return t
    for x in trees:
        tree_map(x, add)
    return found


def flat(r):
    if isinstance(r, (list, tuple)):
        return [y for x in r for y in flat(x)]
    return [r]


# ---- comparisons

def error_of(got, exact):
    """(elements that are not finite in one only, largest relative error)."""
    both = torch.isfinite(exact) & torch.isfinite(got)
    odd = (torch.isfinite(exact) != torch.isfinite(got)) | (exact.isnan() != got.isnan())
    relative = (got - exact).abs()[both] / (exact.abs()[both] + 1e-3)
    return int(odd.sum()), relative.max().item() if relative.numel() else 0.0


def rounds_alike(errors):
    """Whether our errors are like PyTorch's: [(ours, theirs)], tensors of errors."""
    ours, theirs = [torch.cat([e[i].flatten() for e in errors]) for i in (0, 1)]
    if not (ours.isfinite().all() and theirs.isfinite().all()):
        return False
    return bool(ours.square().mean().sqrt() <= 1.25 * theirs.square().mean().sqrt()
                and ours.abs().max() <= 2 * theirs.abs().max())


def varied(t, seed):
    """t with its elements nearer to 0 by up to a 32nd: the same function, other rounding."""
    if not t.is_floating_point():
        return t
    random = torch.Generator().manual_seed(seed)
    by = torch.rand(t.shape, generator=random, dtype=torch.float64) / 32
    return (t.detach() * (1 - by)).to(t.dtype).requires_grad_(t.requires_grad)


def parts(t):
    """Complex numbers as pairs of real ones."""
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


def widest(t):
    return t.to(torch.complex128) if t.is_complex() else t.double()


def compare_values(what, got, want, exact, eps=0):
    """Raises Difference unless got is want within tolerance, or as near as PyTorch is to
    exact(), the same computed in f64; eps is that of the least exact argument."""
    if want.is_complex():
        return compare_values(what, parts(got), parts(want),
                              exact and (lambda: parts(exact())), eps)
    if got.numel() == 0 or got.numel() > MOST_READ:
        return "agree"
    if not want.dtype.is_floating_point:
        bad = got != want
        if bad.any():
            i = bad.flatten().nonzero()[0].item()
            raise Difference("value", f"{what}: {got.flatten()[i].item()} for "
                             f"{want.flatten()[i].item()}, {int(bad.sum())} of {bad.numel()}")
        return "agree"
    rtol, atol = TOLERANCE[want.dtype]
    g, w = got.double(), want.double()
    bad = ~torch.isclose(g, w, rtol=rtol, atol=atol, equal_nan=True)
    if not bad.any():
        return "agree"
    try:
        e = None if exact is None else exact().to(torch.float64)
    except Exception:
        e = None
    if e is not None and e.shape == w.shape:
        ours, theirs = error_of(g[bad], e[bad]), error_of(w[bad], e[bad])
        if ours[0] <= theirs[0] and ours[1] <= max(2 * theirs[1],
                                                   4 * torch.finfo(want.dtype).eps, 2 * eps):
            return "rounding"
        if rounds_alike([(g - e, w - e)]):
            return "rounding"
    i = bad.flatten().nonzero()[0].item()
    raise Difference("value", f"{what}: {g.flatten()[i].item()!r} for {w.flatten()[i].item()!r}, "
                     f"{int(bad.sum())} of {bad.numel()}")


def tangent(w):
    """A random gradient of w."""
    wide = torch.complex128 if w.is_complex() else torch.float64
    return torch.randn(w.shape, dtype=wide).to(w.dtype)


def compare_metadata(what, got, strides, want):
    if got.dtype != want.dtype:
        raise Difference("dtype", f"{what}: {got.dtype} for {want.dtype}")
    if got.shape != want.shape:
        raise Difference("shape", f"{what}: {list(got.shape)} for {list(want.shape)}")
    moved = [a != b for n, a, b in zip(want.shape, strides, want.stride()) if n > 1]
    if want.numel() and any(moved):
        raise Difference("strides", f"{what}: {strides} for {list(want.stride())}")


class Run:
    """One call. `name` is the OpInfo's full name, `say` its mapping."""

    def __init__(self, library, op, name, say, sample, note=lambda stage: None):
        self.library, self.op, self.name, self.say = library, op, name, say
        self.s, self.note = sample, note
        self.tensors = tensors_of(sample.input, sample.args, sample.kwargs)
        self.rounded = False
        self.same_signs = True  # of vectors that may have others; else gradients differ

    def __enter__(self):
        self.cx = self.context()
        return self

    def context(self):
        cx = Context(self.library, self.name.startswith("as_strided"))
        cx.so.td_seed(cx.cx, 1)
        return cx

    def __exit__(self, *_):
        self.cx.close()

    def caller(self, cx, inplace=False):
        def call(op, *a, **kw):
            name = op + "_" if inplace and not op.endswith("_") else op
            if name not in self.library.prototypes:
                raise Unsupported("no op " + name)
            return cx.call(name, *a, **kw)
        call.library = self.library
        return call

    def ours(self, cx, first=None, inplace=False):
        x = self.s.input if first is None else first
        return flat(self.say(self.caller(cx, inplace), x, *self.s.args, **self.s.kwargs))

    def theirs(self, f, first=None):
        x = self.s.input if first is None else first
        return flat(f(x, *self.s.args, **self.s.kwargs))

    def both(self, ours, theirs):
        """Results of the two, or how they failed."""
        failed = {}
        results = []
        for who, f in (("ours", ours), ("theirs", theirs)):
            self.note("torch" if who == "theirs" else "Tandem")
            try:
                results.append(f())
            except TandemError as e:
                failed[who] = e
            except Unsupported:
                raise
            except Exception as e:
                if who == "ours":
                    raise Unsupported(f"{type(e).__name__}: {e}")
                failed[who] = e
        self.note("Tandem")
        if len(failed) == 2:
            return None
        if "ours" in failed:
            raise Difference("refused", str(failed["ours"]))
        if "theirs" in failed:
            raise Difference("accepted", str(failed["theirs"]).split("\n")[0])
        return results

    def in_f64(self, f, gradients=None):
        """f of the same arguments in f64; with gradients (outputs, tangents), those."""
        wide = {}

        def widen(t):
            if id(t) not in wide:
                wide[id(t)] = (widest(t.detach()).requires_grad_(t.requires_grad)
                               if t.is_floating_point() or t.is_complex()
                               else t.detach().double() if self.name.startswith("fft.")
                               else t.detach())
            return wide[id(t)]
        s = self.s
        f = checks.EXACT.get(self.name, f)
        out = flat(f(tree_map(s.input, widen), *tree_map(s.args, widen),
                     **tree_map(s.kwargs, widen)))
        if gradients is None:
            return out
        leaves, tangents = gradients
        out = [r for r in out if isinstance(r, torch.Tensor) and r.requires_grad]
        return torch.autograd.grad(out, [wide[id(t)] for t in leaves],
                                   [widest(t) for t in tangents], allow_unused=True)

    def check(self, what, got, strides, want, exact):
        compare_metadata(what, got, strides, want)
        if self.name in NO_VALUES:
            return
        if self.free_order():
            if what == "result 1" or self.name == "argsort":
                return
            if want.dim():
                got, want, exact = got.flatten().sort()[0], want.flatten().sort()[0], None
        if self.name in SIGNS:
            self.same_signs &= bool(torch.all(got * want >= 0)) if not want.is_complex() else (
                torch.allclose(got, want, rtol=1e-3, atol=1e-3))
            got, want, signed = got.abs(), want.abs(), exact
            exact = lambda: signed().abs()  # noqa: E731
        eps = max([torch.finfo(t.dtype).eps for t in self.tensors if t.is_floating_point() or t.is_complex()],
                  default=0)
        self.rounded |= compare_values(what, got, want, exact, eps) == "rounding"

    def free_order(self):
        """Whether which index belongs to a value, or the order of values, is the library's."""
        if self.name.split("::")[0] not in TIES:
            return False
        x = self.s.input.detach()
        if self.s.kwargs.get("sorted", True) is False or len(self.s.args) > 3:
            return True
        return bool(x.dim()) and len(x.flatten().unique()) < x.numel()

    def verdict(self):
        return ("rounding", "") if self.rounded else ("agree", "")

    # ---- what is compared

    def plain(self, gradients):
        """Results, arguments afterwards, sharing, requires_grad, gradients."""
        return self.with_reason(lambda: self.whole(gradients))

    def with_reason(self, compare):
        self.results = []
        try:
            return compare()
        except Difference as e:
            if e.outcome != "value":
                raise
            word = self.reason(e.text)
            if word == "rounding":
                return "rounding", ""
            raise Difference("value: " + word if word else "value", e.text)

    def reason(self, text):
        """The word of checks.py for a difference of values."""
        of_result = text.startswith("result")
        if of_result and self.within_terms():
            return "rounding"
        word = checks.reason(self.name, self.s, self.tensors, self.results if of_result else None)
        return word or self.known(text)

    def within_terms(self):
        """Are all results within the rounding of the terms that the op adds up?"""
        if self.name.split("::")[0] not in TERMS and not self.name.startswith("fft."):
            return False
        try:
            exact = [r.detach() for r in self.in_f64(self.op.op)]
            if self.name.startswith("fft."):
                size = [self.s.input.detach().abs().double().sum()] * len(exact)
            else:
                size = self.in_f64(lambda *a, **kw: self.op.op(
                    *tree_map(a, torch.abs), **{k: tree_map(v, torch.abs) if isinstance(v, torch.Tensor)
                                                else abs(v) if isinstance(v, float) else v
                                                for k, v in kw.items()}))
            return all(bool(((g - e).abs() <= 8 * torch.finfo(g.dtype).eps * s.detach().abs()).all())
                       for g, e, s in zip(self.results, exact, size))
        except (RuntimeError, TypeError):
            return False

    def known(self, text):
        """Differences of these ops have a bound or a formula of their own."""
        if self.name == "nn.functional.ctc_loss" and text.startswith("gradient 0"):
            ours, theirs = self.last
            p = self.s.input.detach().double().exp()
            ours, theirs = ours.double(), theirs.double()
            return "of probabilities" if torch.allclose(
                theirs, ours - p * ours.sum(-1, keepdim=True), rtol=1e-3,
                atol=1e-5 * float(theirs.abs().max())) else ""
        if self.name in UNITS:
            ours, theirs = (t.double() for t in self.last)
            eps = torch.finfo(self.last[1].dtype).eps
            if ours.shape == theirs.shape and bool(
                    ((ours - theirs).abs() <= UNITS[self.name] * eps * theirs.abs().clamp_min(1)).all()):
                return "some units"
        return ""

    def whole(self, gradients):
        cx = self.cx
        r = self.both(lambda: self.ours(cx), lambda: self.theirs(self.op.op))
        if r is None:
            return "agree", "both refuse"
        if len(r[0]) != len(r[1]):
            raise Difference("count", f"{len(r[0])} results for {len(r[1])}")
        pairs = [(g, w) for g, w in zip(*r) if isinstance(w, torch.Tensor)]
        self.results = [cx.read(g)[0] for g, _ in pairs]
        for k, (g, w) in enumerate(pairs):
            got, strides = cx.read(g)
            self.last = got, w.detach()
            self.check(f"result {k}", got, strides, w.detach(),
                       lambda: self.in_f64(self.op.op)[k].detach())
            self.check_flags(k, g, w)
        for i, t in enumerate(self.tensors):
            if self.name not in NO_VALUES and t.dtype in TOLERANCE:
                got, _ = cx.read(cx.get(t))
                self.last = got, t.detach()
                compare_values(f"argument {i} afterwards", got, t.detach(), t.detach)
        if not self.same_signs and checks.is_factorization(self.name, self.s, self.results) is False:
            raise Difference("value", "result 0: no factorization of the argument")
        if (gradients and self.name not in NO_VALUES and not self.free_order()
                and self.same_signs):
            self.check_gradients(pairs)
        return self.verdict()

    def check_flags(self, k, g, w):
        cx = self.cx
        for t in self.tensors:
            if t.numel() and w.numel():
                share = w.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
                if share != cx.so.td_same_storage(g.p, cx.get(t).p):
                    raise Difference("alias", f"result {k} shares bytes with an argument: "
                                     f"PyTorch {share}")
        if cx.so.td_requires_grad(g.p) != w.requires_grad:
            raise Difference("requires_grad", f"result {k}: PyTorch {w.requires_grad}")

    def check_gradients(self, pairs):
        leaves = [t for t in self.tensors if t.requires_grad]
        pairs = [(g, w) for g, w in pairs if w.requires_grad]
        if not leaves or not pairs:
            return
        r, tangents = self.gradients(pairs, leaves, 7)
        for k, (g, w) in enumerate(zip(*(r or ([], [])))):
            if g is None or w is None:
                if g is not None and g.any() or w is not None and w.any():
                    raise Difference("gradient", f"of leaf {k}: one has none")
                continue
            compare_metadata(f"gradient {k}", g, w.stride(), w)
            self.last = g, w
            try:
                self.rounded |= "rounding" == compare_values(
                    f"gradient {k}", g, w,
                    lambda: self.in_f64(self.op.op, (leaves, tangents))[k])
            except Difference:
                if not self.gradients_round_alike(k):
                    raise
                self.rounded = True

    def gradients(self, pairs, leaves, seed):
        """Gradients of both for tangents of a seed, as torch tensors; None: both refuse."""
        cx = self.cx
        torch.manual_seed(seed)
        tangents = [tangent(w) for _, w in pairs]
        r = self.both(
            lambda: cx.grad([g for g, _ in pairs], [cx.get(t) for t in leaves],
                            [cx.wrap(t) for t in tangents], retain_graph=True),
            lambda: torch.autograd.grad([w for _, w in pairs], leaves, tangents,
                                        allow_unused=True, retain_graph=True))
        return r and ([g and cx.read(g)[0] for g in r[0]], r[1]), tangents

    def gradients_round_alike(self, k):
        """One sum that cancels may round badly in either: compares errors for 24 other tangents
        and arguments."""
        errors = []
        try:
            for seed in range(24):
                with self.again(seed) as run:
                    errors.append(run.gradient_errors(seed, k))
        except (Difference, RuntimeError):
            return False
        return rounds_alike(errors)

    def again(self, seed):
        """The same call with arguments that are varied."""
        s, made = self.s, {}

        def vary(t):
            return made.setdefault(id(t), varied(t, seed))
        sample = type(s)(tree_map(s.input, vary), args=tree_map(s.args, vary),
                         kwargs=tree_map(s.kwargs, vary))
        return Run(self.library, self.op, self.name, self.say, sample, self.note)

    def gradient_errors(self, seed, k):
        """Errors of gradient k, ours and PyTorch's."""
        r = self.both(lambda: self.ours(self.cx), lambda: self.theirs(self.op.op))
        pairs = [(g, w) for g, w in zip(*r) if isinstance(w, torch.Tensor) and w.requires_grad]
        leaves = [t for t in self.tensors if t.requires_grad]
        r, tangents = self.gradients(pairs, leaves, seed)
        exact = self.in_f64(self.op.op, (leaves, tangents))[k]
        return [parts(widest(x[k]) - exact) for x in r]

    def inplace(self):
        """op_ on a copy that is no leaf, and its gradients."""
        return self.with_reason(self.written)

    def written(self):
        cx, x = self.cx, self.s.input
        if not isinstance(x, torch.Tensor) or self.op.inplace_variant is None:
            return "unsupported", ""
        double = x.dtype != torch.bool
        h = cx.call("mul", x, 1) if double else cx.call("clone", x)
        w = x * 1 if double else x.clone()
        r = self.both(lambda: self.ours(cx, h, True),
                      lambda: self.theirs(self.op.inplace_variant, w))
        if r is None:
            return "agree", "both refuse"
        got, strides = cx.read(h)
        self.results, self.last = [got], (got, w.detach())
        self.check("result 0", got, strides, w.detach(),
                   lambda: self.in_f64(self.op.op)[0].detach())
        if cx.so.td_requires_grad(h.p) != w.requires_grad:
            raise Difference("requires_grad", f"PyTorch {w.requires_grad}")
        if self.name not in NO_VALUES:
            self.check_gradients([(h, w)])
        return self.verdict()

    def compiled(self, dynamic):
        """A compiled function against Tandem's own eager run: results and gradients."""
        cx, eager = self.cx, self.context()
        cx.so.td_config_set(cx.cx, b"backend", b"interp")
        cx.so.td_config_set(cx.cx, b"dynamic", b"on" if dynamic else b"off")
        leaves = [t for t in self.tensors if t.requires_grad and self.name not in NO_VALUES]

        def gradients(context, results):
            roots = [h for h in results if context.so.td_requires_grad(h.p)]
            if not roots or not leaves:
                return []
            torch.manual_seed(7)
            tangents = [context.wrap(tangent(context.read(h)[0])) for h in roots]
            return context.grad(roots, [context.get(t) for t in leaves], tangents)

        def run_eager():
            results = self.ours(eager)
            return results, gradients(eager, results)

        def run_compiled(n):
            results = cx.compiled(lambda: self.ours(cx), self.tensors, n)
            return results, gradients(cx, results)
        try:
            error = want = None
            try:
                want = run_eager()
            except TandemError as e:
                error = e
            try:
                got = run_compiled(len(want[0]) if want else 1)
            except TandemError as e:
                if error is None:
                    raise Difference("compiled refuses", str(e))
                return "agree", "both refuse"
            if error is not None:
                raise Difference("compiled accepts", str(error))
            self.compare_runs(cx, eager, got[0], want[0], "result")
            self.compare_runs(cx, eager, got[1], want[1], "gradient")
            return "agree", ""
        finally:
            eager.close()

    def compare_runs(self, cx, eager, got, want, what):
        for k, (g, w) in enumerate(zip(got, want)):
            if g is None or w is None:
                if g is not w:
                    raise Difference("gradient", f"of leaf {k}: one has none")
                continue
            (values, strides), (expected, its) = cx.read(g), eager.read(w)
            if values.dtype != expected.dtype or values.shape != expected.shape:
                raise Difference("shape", f"{what} {k}: {values.dtype}{list(values.shape)} for "
                                 f"{expected.dtype}{list(expected.shape)}")
            if what == "result" and expected.numel() and any(
                    a != b for n, a, b in zip(expected.shape, strides, its) if n > 1):
                raise Difference("strides", f"{what} {k}: {strides} for {its}")
            if self.name not in NO_VALUES:
                compare_values(f"{what} {k}", values, expected, lambda: expected)
