"""Every row of the op table against PyTorch, on PyTorch's own samples: values, dtypes,
strides and gradients of a graph with that op alone, run by Tandem's interpreter."""
import operator

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

import tandem
from tandem.torch import _pieces
from tandem.torch._derive import is_random_op, row_of
from tandem.torch._emit import PLACEHOLDER, Unsupported, is_random, name_of
from tandem.torch._rows import MANY, ROWS

SAMPLES = 4
# Elements are not defined, or PyTorch leaves the order open.
UNDEFINED = {"kthvalue", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided",
             "empty_permuted", "topk", "sort", "argsort"}
# They change the sizes of an argument, which the backends refuse.
METADATA = {"squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_"}
# Two results, of which PyTorch differentiates one.
NO_GRADIENT = {"torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"}
covered = set()


def flat(value):
    return [v for v in torch.utils._pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def magnitudes(op):
    """The op with the magnitudes of its vectors, which are unique up to signs."""
    def run(*args, **kwargs):
        values, vectors = op(*args, **kwargs)
        return values, vectors.abs()
    return run


class Sample:
    """One sample as a function of its tensors."""

    def __init__(self, op, s):
        leaves, self.spec = torch.utils._pytree.tree_flatten((s.input, s.args, s.kwargs))
        self.op, self.leaves = op, leaves
        self.places = [i for i, v in enumerate(leaves) if isinstance(v, torch.Tensor)]
        self.tensors = [leaves[i].detach() for i in self.places]

    def __call__(self, *tensors):
        leaves = list(self.leaves)
        for i, t in zip(self.places, tensors):
            leaves[i] = t
        x, args, kwargs = torch.utils._pytree.tree_unflatten(leaves, self.spec)
        return flat(self.op(x, *args, **kwargs))


def graph_of(sample, pre_dispatch):
    """The ATen graph of a sample; None: it cannot be traced, or draws."""
    try:
        gm = make_fx(sample, pre_dispatch=pre_dispatch, tracing_mode="fake",
                     _allow_non_fake_inputs=True)(*sample.tensors)
    except Exception:
        return None
    calls = [n for n in gm.graph.nodes if n.op == "call_function"]
    if not calls or any(map(is_random, calls)) or any(n.op == "get_attr" for n in gm.graph.nodes):
        return None
    if any(name_of(n.target) is None and n.target is not operator.getitem for n in calls):
        return None
    return gm


def piece_of(gm, functional):
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    output = next(n for n in gm.graph.nodes if n.op == "output")
    if any(_pieces.reason_against(n, functional) for n in nodes):
        return None
    piece = _pieces.Piece(nodes, places, list(output.args[0]), "f", functional)
    piece.program.config("backend", "interp")
    return piece


def compare(got, want, what, sample=None):
    """Elements agree, or those of the sample's results are as near to PyTorch's results in
    f64 as PyTorch's own are: their largest error is at most twice PyTorch's."""
    assert len(got) == len(want), what
    for i, (g, w) in enumerate(zip(got, want)):
        assert g.dtype == w.dtype and g.shape == w.shape, what
        try:
            torch.testing.assert_close(g, w, rtol=2e-5, atol=2e-5, equal_nan=True,
                                       msg=lambda m: f"{what}: {m}")
        except AssertionError:
            if not sample or g.dtype != torch.float32:
                raise
            exact = sample(*[t.double() if t.is_floating_point() else t
                             for t in sample.tensors])[i]
            if not (g - exact).abs().max() <= 2 * (w - exact).abs().max():
                raise


def differentiable(sample):
    return [t.clone().requires_grad_() if t.is_floating_point() else t
            for t in sample.tensors]


def check_gradients(piece, sample, what):
    """The gradient of a sum of all results, with fixed weights."""
    args = differentiable(sample)
    wants = [t for t in args if t.requires_grad]
    try:
        want_out = sample(*args)
        roots = [o for o in want_out if o.requires_grad]
        tangents = [torch.linspace(-1, 1, o.numel(), dtype=o.dtype).reshape(o.shape)
                    for o in roots]
        want = torch.autograd.grad(roots, wants, tangents, allow_unused=True)
    except RuntimeError:
        return
    flags = bytes([t.requires_grad for t in args])
    outs, history = piece.function.record(tuple(args), torch.Tensor, None, None, flags)
    assert history.differentiable() == [o.requires_grad for o in want_out], what
    given = iter(tangents)
    every = tuple([next(given) if o.requires_grad else None for o in want_out])
    got = history.backward(every, flags, torch.Tensor, False)
    got = [g for g, t in zip(got, args) if t.requires_grad]
    for g, w in zip(got, want):
        if w is None or g is None:
            zero = w if g is None else g
            assert zero is None or not zero.any(), what
        else:
            torch.testing.assert_close(g, w, rtol=5e-3, atol=1e-3, equal_nan=True,
                                       msg=lambda m: f"gradient of {what}: {m}")


def cases():
    for info in op_db:
        if info.name.split(".")[-1] in UNDEFINED or not info.supports_dtype(
                torch.float32, "cpu"):
            continue
        for variant, op in (("", info.op), ("_", info.inplace_variant)):
            if op is not None and info.name + variant not in METADATA:
                op = magnitudes(op) if info.name == "linalg.eigh" else op
                yield pytest.param(info, op, id=info.formatted_name + variant)


@pytest.mark.parametrize("info,op", cases())
def test_samples(info, op):
    dtypes = [torch.float32]
    if info.supports_dtype(torch.int64, "cpu"):
        dtypes.append(torch.int64)
    compared = 0
    for dtype in dtypes:
        for k, s in enumerate(info.sample_inputs("cpu", dtype, requires_grad=False)):
            if k >= SAMPLES:
                break
            compared += run_sample(Sample(op, s), info, f"{info.name} {dtype} sample {k}")
    if not compared:
        pytest.skip("no sample is a graph that Tandem has all ops of")


def run_sample(sample, info, what):
    """Compares one sample before and after PyTorch's autograd; 0: not a piece."""
    compared = 0
    for pre_dispatch in (True, False):
        gm = graph_of(sample, pre_dispatch)
        if gm is None:
            continue
        functional = not any(_pieces.Split.writes(n) for n in gm.graph.nodes)
        try:
            piece = piece_of(gm, functional)
        except Unsupported:
            continue
        if piece is None:
            continue
        covered.update(filter(None, (name_of(n.target) for n in gm.graph.nodes)))
        ours, theirs = [[t.clone() for t in sample.tensors] for _ in range(2)]
        try:
            want = sample(*theirs)
        except RuntimeError:  # the sample is for the op that writes no argument
            return compared
        try:
            got = flat(piece.function.call(tuple(ours), torch.Tensor, None, None))
        except tandem.Error:
            continue  # the backends run such a graph in PyTorch
        compare(got, want, what, sample)
        compare(ours, theirs, f"arguments of {what}")
        if functional and pre_dispatch and info.supports_autograd and \
                info.name not in NO_GRADIENT:
            check_gradients(piece, sample, what)
        compared += 1
    return compared


@pytest.mark.parametrize("name", sorted([*ROWS, *MANY]))
def test_a_row_names_arguments_of_the_schema(name):
    op, overload = name.split(".")
    schema = getattr(getattr(torch.ops.aten, op), overload)._schema
    named = {m[1] for m in PLACEHOLDER.finditer(ROWS.get(name, ""))}
    assert named <= {a.name for a in schema.arguments}


def test_an_argument_without_a_place_in_the_row_is_not_dropped():
    def f(x):
        return torch.gather(x, 0, torch.zeros(1, 3, dtype=torch.int64), sparse_grad=True)
    gm = make_fx(f, tracing_mode="fake", pre_dispatch=True)(torch.ones(2, 3))
    gather = next(n for n in gm.graph.nodes if "gather" in str(n.target))
    assert "sparse_grad" in _pieces.reason_against(gather)


def test_coverage():
    """Rows that no sample of PyTorch reaches are listed, not hidden."""
    missing = sorted(set([*ROWS, *MANY]) - covered)
    print("rows without a sample:", " ".join(missing))
    if covered:
        assert len(missing) < len(ROWS) // 2


def test_rows_that_follow_from_schemas():
    assert row_of("conv3d.default") == ("conv3d({input}, {weight}, {bias}, {stride}, {padding}, "
                                        "{dilation}, {groups})")
    assert row_of("nll_loss.default").count("{reduction:reduction}") == 1
    assert row_of("nonzero_static.default") and not row_of("nonzero_static.out")
    assert row_of("upsample_nearest2d.vec") is None  # other parameters
    assert row_of("resize_.default") is None and row_of("masked_select.default") is None
    for name in ("randperm.default", "normal_.default", "randint.low"):
        assert row_of(name) and is_random_op(name.split(".")[0])


def test_an_argument_that_a_derived_row_lacks_is_not_dropped():
    def f(x, i):
        return torch.scatter(x, 0, i, x, reduce="add")
    args = torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.int64)
    gm = make_fx(f, tracing_mode="fake", pre_dispatch=True)(*args)
    scatter = next(n for n in gm.graph.nodes if "scatter" in str(n.target))
    assert row_of("scatter.reduce") and "the argument reduce" in _pieces.reason_against(scatter)
