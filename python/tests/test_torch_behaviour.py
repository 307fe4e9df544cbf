"""Behaviours of compiled functions through torch.compile, against eager: writes, aliases,
views, grad modes, random numbers, sizes, errors."""
import copy
import gc
import logging
import threading
import weakref

import pytest
import torch
import torch.nn.functional as F

import tandem.torch  # noqa: F401

BACKENDS = ["tandem", "tandem_aot"]


@torch.library.custom_op("tandem_tests::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    """An op that Tandem does not know."""
    return x ** 3


@cube.register_fake
def cube_of_fake(x):
    return torch.empty_like(x)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def clones(args):
    """Copies of the arguments: leaves of the same flags."""
    return [a.detach().clone().requires_grad_(a.requires_grad)
            if isinstance(a, torch.Tensor) else a for a in args]


def properties(t):
    return t.dtype, tuple(t.shape), t.stride(), t.requires_grad


def same(got, want):
    assert properties(got) == properties(want)
    torch.testing.assert_close(got, want)


def check(f, backend, *args, history=False, **options):
    """f compiled and eager: results, arguments afterwards, gradients. With `history` the
    arguments that require grad are no leaves."""
    torch._dynamo.reset()
    sides = []
    for call in (f, torch.compile(f, backend=backend, **options)):
        leaves = clones(args)
        given = [a * 1 if history and isinstance(a, torch.Tensor) and a.requires_grad else a
                 for a in leaves]
        wanted = [a for a in leaves if isinstance(a, torch.Tensor) and a.requires_grad]
        out = call(*given)
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        roots = [o for o in outs if isinstance(o, torch.Tensor) and o.requires_grad]
        grads = []
        if roots and wanted and torch.is_grad_enabled():
            tangents = [torch.linspace(-1, 1, r.numel(), dtype=r.dtype).reshape(r.shape)
                        for r in roots]
            grads = torch.autograd.grad(roots, wanted, tangents, allow_unused=True)
        sides.append((outs, given, grads))
    (want, want_in, want_grads), (got, got_in, got_grads) = sides
    assert len(got) == len(want) and len(got_grads) == len(want_grads)
    for g, w in zip([*got, *got_in], [*want, *want_in]):
        if isinstance(w, torch.Tensor):
            same(g, w)
        else:
            assert g == w
    for g, w in zip(got_grads, want_grads):
        assert (g is None) == (w is None)
        if w is not None:
            torch.testing.assert_close(g, w)
    aliases = [[a.untyped_storage()._cdata == b.untyped_storage()._cdata
                for a in tensors for b in tensors]
               for tensors in ([t for t in [*outs, *ins] if isinstance(t, torch.Tensor)]
                               for outs, ins in ((want, want_in), (got, got_in)))]
    assert aliases[0] == aliases[1]
    return got


def x34(grad=True):
    return torch.randn(3, 4, requires_grad=grad)


# ---- programs -----------------------------------------------------------------

def written_argument(x, w):
    x.add_(1)
    return torch.tanh(x * w)


def written_twice(x, w):
    y = x.sum() * w
    x.mul_(2)
    x.add_(1)
    return y + x


def written_view(x, w):
    x[1].add_(3)
    x[:, 1].mul_(2)
    return x.exp() + w


def argument_and_view(x, w):
    return x, x.t(), x[1:], (x * w).sum()


def detached(x, w):
    return x.detach(), (x.detach() * w)


def views_of_a_result(x, w):
    y = x * w
    return y, y.t(), y[0]


def view_alone(x, w):
    return (x * w).t()


def same_result_twice(x, w):
    y = x * w
    return y, y


def unused_argument(x, w):
    return x.exp()


def no_grad_inside(x, w):
    with torch.no_grad():
        y = x * 2
    return y * w, y


def enable_grad_inside(x, w):
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            z = x * w
    return z + y


def numbers(x, w):
    return x * w, 3, None, 2.5


def integers(x, w):
    return (x > 0).long().sum(0), x.argmax(1), (x * w).sum()


def indexed(x, w):
    i = torch.tensor([0, 2, 2])
    return x[i] * w, x[:, [1, 3]], w[x > 0].numel() >= 0


def inner_writes(x, w):
    y = x * w
    y[0] = 1
    y += x
    y.relu_()
    z = y + 1
    return z.masked_fill_(x > 0, 0.5), y


def norms(x, w):
    return F.layer_norm(x, (4,)) + F.gelu(w) + F.softmax(x, -1) * F.silu(w)


def reductions(x, w):
    return x.mean(), x.var(1), (x * w).amax(0), w.logsumexp(1), x.norm()


PROGRAMS = [written_argument, written_twice, written_view, argument_and_view, detached,
            views_of_a_result, view_alone, same_result_twice, unused_argument, no_grad_inside,
            enable_grad_inside, numbers, integers, indexed, inner_writes, norms, reductions]
WRITERS = (written_argument, written_twice, written_view)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("flags", ["none", "x", "w", "both"])
def test_program(f, backend, flags):
    x, w = x34(flags in ("x", "both")), x34(flags in ("w", "both"))
    check(f, backend, x, w, history=f in WRITERS)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_under_no_grad(f, backend):
    with torch.no_grad():
        check(f, backend, x34(), x34())


@pytest.mark.parametrize("f", [norms, argument_and_view], ids=lambda f: f.__name__)
def test_in_inference_mode(f, backend):
    with torch.inference_mode():
        check(f, backend, x34(False), x34(False))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes(backend, dtype):
    check(norms if dtype.itemsize > 4 else lambda x, w: (x * w + 1).relu(), backend,
          x34().detach().to(dtype).requires_grad_(), x34().detach().to(dtype))


def test_other_layouts(backend):
    check(lambda x, w: F.linear(x, w).tanh(), backend, torch.randn(4, 3).t().contiguous().t(),
          torch.randn(5, 3).requires_grad_())
    check(lambda x: x.exp() + 1, backend, torch.randn(3, 1).expand(3, 4))
    check(lambda x: x.exp() + 1, backend, torch.randn(6, 8)[::2, ::2])


def test_empty_and_scalar(backend):
    check(lambda x: x.exp().sum(), backend, torch.randn(0, 3, requires_grad=True))
    check(lambda x: x.exp() * 2, backend, torch.randn((), requires_grad=True))


def test_arguments_that_share_memory(backend):
    def f(a, b):
        a.add_(1)
        return a * b
    for call in (f, torch.compile(f, backend=backend)):
        x = torch.arange(4.0)
        out = call(x, x[:2].repeat(2))
        same(out, torch.tensor([0.0, 2.0, 0.0, 4.0]))
    want, got = [], []
    for call, to in ((f, want), (torch.compile(f, backend=backend), got)):
        x = torch.arange(4.0)
        to += [call(x[:2], x[1:3]), x]
    same(got[0], want[0])
    same(got[1], want[1])


def test_memory_shared_after_compiling():
    """The compiled code was made for arguments apart; a later call has them overlap, which
    AOTAutograd, and so tandem_aot, does not notice."""
    def f(a, b):
        a.add_(1)
        return a * b
    g = torch.compile(f, backend="tandem")
    g(torch.ones(2), torch.ones(2))
    want, got = torch.arange(4.0), torch.arange(4.0)
    same(g(got[:2], got[1:3]), f(want[:2], want[1:3]))
    same(got, want)


# ---- modules ------------------------------------------------------------------

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.out = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.out(F.max_pool2d(self.norm(self.conv(x)).relu_(), 2).mean((2, 3)))


@pytest.mark.parametrize("train", [True, False])
def test_buffers_are_written(backend, train):
    a = Net().train(train)
    b = copy.deepcopy(a)
    c = torch.compile(b, backend=backend)
    x = torch.randn(2, 3, 8, 8)
    for _ in range(3):
        ya, yb = a(x), c(x)
        same(yb, ya)
        ya.square().sum().backward()
        yb.square().sum().backward()
    for p, q in zip([*a.parameters(), *a.buffers()], [*b.parameters(), *b.buffers()]):
        torch.testing.assert_close(q, p)
        if p.grad is not None:
            torch.testing.assert_close(q.grad, p.grad)
    assert a.norm.running_mean._version == b.norm.running_mean._version or backend != "tandem"


# ---- autograd -------------------------------------------------------------------

def test_double_backward(backend):
    def f(x, w):
        return torch.tanh(x @ w).square().sum()
    results = []
    for call in (f, torch.compile(f, backend=backend)):
        torch.manual_seed(1)
        x = torch.randn(3, 4, requires_grad=True)
        w = torch.randn(4, 2, requires_grad=True)
        try:
            g, = torch.autograd.grad(call(x, w), x, create_graph=True)
            results.append(torch.autograd.grad(g.square().sum(), (x, w)))
        except RuntimeError as e:
            assert backend == "tandem_aot", e  # PyTorch's AOTAutograd has none
            return
    for got, want in zip(results[1], results[0]):
        torch.testing.assert_close(got, want)


def test_third_derivatives():
    def f(x):
        return (x.sin() * x).sum()
    results = []
    for call in (f, torch.compile(f, backend="tandem")):
        x = torch.linspace(-1, 1, 5, requires_grad=True)
        g, = torch.autograd.grad(call(x), x, create_graph=True)
        g, = torch.autograd.grad(g.sum(), x, create_graph=True)
        results.append(torch.autograd.grad(g.sum(), x)[0])
    torch.testing.assert_close(results[1], results[0])


def test_some_tangents_are_missing(backend):
    def f(x, w):
        return x * w, x + 1, w.exp()
    for k in range(3):
        want, got = [], []
        for call, to in ((f, want), (torch.compile(f, backend=backend), got)):
            x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
            call(x, w)[k].sum().backward()
            to += [x.grad, w.grad]
        for g, v in zip(got, want):
            assert (torch.zeros(3) if g is None else g).equal(torch.zeros(3) if v is None else v)


def test_retain_graph(backend):
    f = torch.compile(lambda x: x.exp().sum(), backend=backend)
    x = torch.ones(3, requires_grad=True)
    y = f(x)
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 2 * torch.ones(3).exp())
    with pytest.raises(RuntimeError, match="second time|freed"):
        y.backward()


def test_a_saved_argument_is_written(backend):
    f = torch.compile(lambda x, w: (x * w).sum(), backend=backend)
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    y = f(x, w)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified|written|version"):
        y.backward()


def test_an_argument_that_is_not_saved_is_written(backend):
    f = torch.compile(lambda x, w: (x + w).sum(), backend=backend)
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    y = f(x, w)
    x.add_(1)
    y.backward()
    assert w.grad.equal(torch.ones(3))


def test_a_saved_result_is_written(backend):
    f = torch.compile(lambda x: x.exp(), backend=backend)
    x = torch.zeros(3, requires_grad=True)
    y = f(x)
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified|written|version"):
        y.sum().backward()


def test_hooks_on_results_and_leaves(backend):
    f = torch.compile(lambda x: x * 3, backend=backend)
    x, seen = torch.ones(3, requires_grad=True), []
    y = f(x)
    y.register_hook(lambda g: seen.append("result") or g * 2)
    x.register_hook(lambda g: seen.append("leaf"))
    y.sum().backward()
    assert seen == ["result", "leaf"] and x.grad.equal(torch.full((3,), 6.0))


def test_backward_on_another_thread(backend):
    f = torch.compile(lambda x: x.exp().sum(), backend=backend)
    x = torch.ones(3, requires_grad=True)
    y = f(x)
    t = threading.Thread(target=y.backward)
    t.start()
    t.join()
    torch.testing.assert_close(x.grad, torch.ones(3).exp())


# ---- random numbers ---------------------------------------------------------------

def test_dropout(backend):
    f = torch.compile(lambda x: F.dropout(x, 0.3, True), backend=backend)
    x = torch.ones(100, 100, requires_grad=True)
    torch.manual_seed(3)
    y = f(x)
    z = f(x)
    assert not y.equal(z)
    kept = (y != 0).float().mean().item()
    assert abs(kept - 0.7) < 0.02
    assert y[y != 0].sub(1 / 0.7).abs().max() < 1e-6
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())
    torch.manual_seed(3)
    assert f(x).equal(y)


# ---- sizes --------------------------------------------------------------------------

@pytest.mark.parametrize("dynamic", [True, None])
def test_batch_sizes(backend, dynamic):
    compiled = []

    def count(gm, args):
        compiled.append(gm)
        return torch._dynamo.lookup_backend(backend)(gm, args)

    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(),
                              torch.nn.Linear(8, 2))
    f = torch.compile(lambda x: F.log_softmax(net(x).view(x.shape[0] * 2), 0).sum() / x.shape[0],
                      backend=count, dynamic=dynamic)
    for n in (3, 5, 8, 13, 2):
        x = torch.randn(n, 4)
        want = F.log_softmax(net(x).view(n * 2), 0).sum() / n
        got = f(x)
        torch.testing.assert_close(got, want)
        a = torch.autograd.grad(want, list(net.parameters()))
        b = torch.autograd.grad(got, list(net.parameters()))
        for p, q in zip(a, b):
            torch.testing.assert_close(q, p)
    assert len(compiled) <= 2


# ---- several graphs, other ops, errors ------------------------------------------------

def test_graph_breaks(backend):
    def f(x, w):
        y = x * w
        torch._dynamo.graph_break()
        return y.tanh() + x
    check(f, backend, x34(), x34())


def test_an_unknown_op_runs_in_pytorch(backend, caplog):
    def f(x, w):
        y = (x * w).sin()
        z = cube(y.detach()) + y
        return (z * x).cos()
    with caplog.at_level(logging.INFO, "tandem"):
        check(f, backend, x34(), x34())
    assert "tandem_tests.cube" in caplog.text


def test_what_tandem_refuses_runs_in_pytorch(backend, caplog):
    """u8 indexes: an error of Tandem at the first call."""
    def f(x, i):
        return torch.gather(x, 0, i) * 2
    i = torch.zeros(0, 4, dtype=torch.uint8)
    with caplog.at_level(logging.INFO, "tandem"):
        check(f, backend, x34(), i)
    assert "index must be i64" in caplog.text


def test_a_wrong_call_has_the_error_of_pytorch(backend):
    f = torch.compile(lambda w, i: F.embedding(i, w), backend=backend)
    w = torch.randn(5, 3, requires_grad=True)
    f(w, torch.tensor([1, 2]))
    with pytest.raises(IndexError):
        f(w, torch.tensor([1, 7]))
    f(w, torch.tensor([1, 4]))


def test_autocast(backend):
    def f(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            return x @ w
    got = torch.compile(f, backend=backend)(torch.randn(4, 4), torch.randn(4, 4))
    assert got.dtype is torch.bfloat16


def test_explain():
    def f(x, w):
        return cube((x * w).detach()) + w
    found = tandem.torch.explain(f, x34(), x34())
    assert len(found.graphs) == 1 and found.graphs[0].backend == "tandem_aot"
    assert 0 < found.coverage < 1 and "tandem_tests.cube" in str(found)
    found = tandem.torch.explain(Net(), torch.randn(2, 3, 8, 8))
    assert found.coverage == 1 and found.graphs[0].backend == "tandem"


def test_two_threads(backend):
    f = torch.compile(lambda x, w: (x @ w).tanh().sum(), backend=backend)
    w = torch.randn(8, 8, requires_grad=True)
    want = torch.autograd.grad((torch.ones(8, 8) @ w).tanh().sum(), w)[0]
    f(torch.ones(8, 8), w).backward()
    wrong = []

    def work():
        for _ in range(20):
            g, = torch.autograd.grad(f(torch.ones(8, 8), w), w)
            if not torch.allclose(g, want, atol=1e-5):
                wrong.append(g)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_nothing_is_leaked(backend):
    f = torch.compile(lambda x, w: (x @ w).tanh(), backend=backend)
    w = torch.randn(8, 8, requires_grad=True)
    for ends_with_backward in (True, False):
        x = torch.randn(8, 8)
        y = f(x, w)
        refs = [weakref.ref(x), weakref.ref(y)]
        if ends_with_backward:
            y.sum().backward()
        del x, y
        gc.collect()
        assert [r() for r in refs] == [None, None]
