"""What `cond` and `while_loop` of a function do in PyTorch: a Python `if` and `while`.

    own       a result that shares storage with an operand or an earlier result is a
              copy, as docs/text-format.md has it
    control   the call has control=true: td_cond and td_while run the bodies like the
              ops around them. They also copy a result that is a view, or that the body
              wrote

`closed` numbers the operands that the bodies close over: these are no arguments, and a
result may be one of them.
"""
import torch


def storage_of(t):
    return t.untyped_storage()._cdata


def with_gradient(body, add, total, watch):
    """The body, which adds to its first result the sum of that result's gradient with respect
    to the first operand, where both require grad."""
    def call(*args):
        out = list(body(*args))
        x, y = args[0], out[0] if out else None
        if all(isinstance(t, torch.Tensor) and t.requires_grad for t in (x, y)):
            g, = torch.autograd.grad([y], [x], [torch.ones_like(y)], create_graph=True,
                                     allow_unused=True)
            if g is not None:
                if watch:
                    watch.fresh(g)
                out[0] = add(y, total(g))
        return out
    return call


class Op(torch.autograd.Function):
    """One node for all results of an op: each float among them requires grad if an operand does."""

    @staticmethod
    def forward(ctx, n, *given):
        ctx.n = len(given) - n
        ctx.mark_non_differentiable(*[t for t in given[ctx.n:] if not (
            t.is_floating_point() or t.is_complex())])
        return tuple(t.clone() for t in given[ctx.n:])

    @staticmethod
    def backward(ctx, *grads):
        return None, *[None] * ctx.n, *grads


class Control:
    """watch: torch_watch.Watch, or None. control: that option of the call."""

    def __init__(self, watch, control):
        self.watch, self.control = watch, control

    def own(self, results, operands):
        """The results, with copies of those that are no tensors of their own."""
        out = []
        for t in results:
            taken = {storage_of(o) for o in [*operands, *out]}
            if storage_of(t) in taken or self.control and (t._is_view() or self.is_written(t)):
                t = self.copy(t)
            out.append(t)
        out = out if self.control else self.joined(out, operands)
        for t in out if self.watch and not self.control else []:
            self.watch.result(t)
        return out

    def copy(self, t, layout=torch.preserve_format):
        """A new tensor, of version 0."""
        new = t.clone(memory_format=layout)
        if self.watch:
            self.watch.result(new)
        return new

    def joined(self, out, operands):
        """The results of an op have one node."""
        needs = [t for t in operands if t.requires_grad]
        if not needs or not torch.is_grad_enabled() or not out:
            return out
        return list(Op.apply(len(out), *needs, *out))

    def is_written(self, t):
        return self.watch is not None and bool(self.watch.version(t))

    def cond(self, flag, yes, no, operands, closed=()):
        """`closed`: places of operands that the branch yes closes over."""
        passed = [t for i, t in enumerate(operands) if i not in closed]
        return self.own((yes if bool(flag) else no)(*operands), passed)

    def while_loop(self, test, body, state, fixed=()):
        """td_while runs on row-major copies of the state, which its body may write."""
        given = state
        if self.control:
            state = [self.copy(t, torch.contiguous_format) for t in state]
        while bool(test(*state, *fixed)[0]):
            state = self.next(body, state, fixed)
        return state if self.control else self.own(state, [*given, *fixed])

    def next(self, body, state, fixed):
        """The state after an iteration. td_while copies views, what the body wrote and what
        shares storage with an earlier result."""
        before = {storage_of(t): t._version for t in state if not t.is_inference()}
        results, out = body(*state, *fixed), []
        if any(a.dtype != b.dtype or a.shape != b.shape for a, b in zip(state, results)):
            raise RuntimeError("while_loop: dtype and sizes of the state may not change")
        for t in results:
            shared = storage_of(t) in {storage_of(o) for o in out}
            if self.control and (shared or t._is_view() or not t.is_contiguous() or
                                 self.is_written_since(t, before)):
                t = self.copy(t, torch.contiguous_format)
            out.append(t)
        return out

    def is_written_since(self, t, before):
        if t.is_inference() or storage_of(t) not in before:
            return self.is_written(t)
        return t._version > before[storage_of(t)]
