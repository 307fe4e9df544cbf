"""A compiled call's node in PyTorch's history: that of tandem._node, where it was built, and
torch.autograd.Function, which must do the same."""
import gc
import threading
import weakref

import pytest
import torch

import tandem.torch  # noqa: F401
from tandem.torch import _bridge

WAYS = ["function", *(["node"] if _bridge.record else [])]


@pytest.fixture(params=WAYS, autouse=True)
def way(request, monkeypatch):
    if request.param == "function":
        monkeypatch.setattr(_bridge, "record", None)
    torch._dynamo.reset()
    torch.manual_seed(0)
    return request.param


def compiled(f):
    return torch.compile(f, backend="tandem")


def scaled(x, w):
    return torch.tanh(x * w + 1)


def test_the_node_is_the_one_that_was_asked_for(way):
    y = compiled(scaled)(torch.randn(4), torch.randn(4, requires_grad=True))
    assert isinstance(y.grad_fn, torch.autograd.function.BackwardCFunction) == (way == "function")
    assert y.grad_fn.name() == "CallBackward"


def test_gradients_of_some_arguments_and_of_all():
    for which in ((True, True), (False, True), (True, False)):
        args = [torch.randn(3, 4, requires_grad=r) for r in which]
        want = torch.autograd.grad(scaled(*args).sum(), [a for a in args if a.requires_grad])
        torch._dynamo.reset()
        compiled(scaled)(*args).sum().backward()
        assert [a.grad is not None for a in args] == list(which)
        for a, g in zip([a for a in args if a.requires_grad], want):
            torch.testing.assert_close(a.grad, g)


def test_results_without_gradient_and_numbers_among_arguments():
    def f(x, n):
        return x * n, (x > 0), x.detach() + 1

    x = torch.randn(5, requires_grad=True)
    y, positive, plain = compiled(f)(x, 3)
    assert y.requires_grad and not positive.requires_grad and not plain.requires_grad
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.full((5,), 3.0))


def test_a_result_without_tangent_counts_as_zeros():
    x = torch.randn(5, requires_grad=True)
    a, b = compiled(lambda x: (x.sin(), x.cos()))(x)
    b.sum().backward()
    torch.testing.assert_close(x.grad, -x.detach().sin())


def test_a_second_backward_needs_retain_graph():
    x = torch.randn(4, requires_grad=True)
    y = compiled(scaled)(x, x).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_gradients_of_gradients():
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    f = compiled(scaled)
    assert torch.autograd.gradgradcheck(lambda x: f(x, x), x)


def test_a_write_before_backward_is_an_error():
    x, w = torch.randn(4), torch.randn(4, requires_grad=True)
    y = compiled(scaled)(x, w)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified in place"):
        y.sum().backward()
    y = compiled(scaled)(x, w)
    y.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified in place"):
        y.sum().backward()


def test_a_written_argument_counts_a_version():
    def f(x, seen):
        seen.add_(1)
        return x * 2

    x, seen = torch.randn(3, requires_grad=True), torch.zeros(())
    compiled(f)(x, seen).sum().backward()
    assert seen.item() == 1 and seen._version == 1


def test_results_that_are_arguments_or_views_of_them():
    def f(x, c):
        return x, x[1:], c, x * c

    x, c = torch.randn(4, requires_grad=True), torch.randn(4)
    a, b, d, y = compiled(f)(x, c)
    assert a is x and d is c and b._base is x
    (b.sum() + y.sum()).backward()
    torch.testing.assert_close(x.grad, c + torch.tensor([0.0, 1, 1, 1]))


def test_hooks_of_the_node_and_of_results_run():
    seen = []
    x = torch.randn(3, requires_grad=True)
    y = compiled(scaled)(x, x)
    y.register_hook(lambda g: seen.append("result"))
    y.grad_fn.register_hook(lambda *_: seen.append("node"))
    y.sum().backward()
    assert seen == ["result", "node"]


def test_the_history_is_freed_with_the_result():
    x = torch.randn(3, requires_grad=True)
    held = torch.randn(3)
    gone = weakref.ref(held)
    y = compiled(lambda x, c: x * c.sin())(x, held)
    del held
    gc.collect()
    assert gone() is not None
    del y
    gc.collect()
    assert gone() is None


def test_errors_of_a_hook_reach_the_caller():
    x = torch.randn(3, requires_grad=True)
    y = compiled(scaled)(x, x)

    def fail(g):
        raise KeyError("from the hook")

    y.register_hook(fail)
    with pytest.raises(KeyError, match="from the hook"):
        y.sum().backward()


def test_backwards_of_several_threads():
    f = compiled(scaled)
    w = torch.randn(16, requires_grad=True)
    f(torch.randn(16), w)
    grads = {}

    def work(i):
        x = torch.full((16,), float(i))
        for _ in range(20):
            grads[i] = torch.autograd.grad(f(x, w).sum(), w)[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for i, g in grads.items():
        torch.testing.assert_close(g, torch.autograd.grad(
            scaled(torch.full((16,), float(i)), w).sum(), w)[0])
