"""What Tandem's internal ops stand for, in PyTorch."""
import torch
import torch.nn.functional as F

aten = torch.ops.aten
REDUCTION = {"none": 0, "mean": 1, "sum": 2}


def expand_reduced(g, size, dim, keepdim):
    if not keepdim:
        dims = range(len(size)) if dim is None else dim
        for d in sorted(d % len(size) for d in dims):
            g = g.unsqueeze(d)
    return g.expand(size)


def linear_scan(a, b, dim, reverse):
    a, b = a.unbind(dim), b.unbind(dim)
    n, out = len(a), [None] * len(a)
    for i in (range(n - 1, -1, -1) if reverse else range(n)):
        if reverse:
            out[i] = b[i] if i == n - 1 else b[i] + a[i + 1] * out[i + 1]
        else:
            out[i] = b[i] if i == 0 else b[i] + a[i] * out[i - 1]
    return torch.stack(out, dim)


def as_strided_backward(g, in_size, in_stride, in_offset, size, stride, offset):
    x = torch.empty_strided(in_size, in_stride, dtype=g.dtype).requires_grad_()
    y = x.as_strided(size, stride, offset - in_offset)
    return torch.autograd.grad(y, x, g, create_graph=True)[0]


def convolution(x, w, b, stride, padding, dilation, groups):
    return aten.convolution(x, w, b, stride, padding, dilation, False,
                            [0] * len(stride), groups)


def convolution_backward(g, x, w, mask, *rest):
    stride, padding, dilation, groups = rest
    return aten.convolution_backward(g, x, w, None, stride, padding, dilation, False,
                                     [0] * len(stride), groups, mask)


def conv_data_grad(g, w, size, *rest):
    x = torch.zeros(size, dtype=g.dtype)
    return convolution_backward(g, x, w, [True, False, False], *rest)[0]


def conv_weight_grad(g, x, size, *rest):
    w = torch.zeros(size, dtype=g.dtype)
    return convolution_backward(g, x, w, [False, True, False], *rest)[1]


def nll_forward(x, y, w, reduction, ignore):
    f = aten.nll_loss2d_forward if x.dim() == 4 else aten.nll_loss_forward
    return f(x, y, w, REDUCTION[reduction], ignore)


def nll_backward(g, y, w, total, size, reduction, ignore):
    x = torch.zeros(size, dtype=g.dtype)
    return aten.nll_loss_backward(g, x, y, w, REDUCTION[reduction], ignore, total)


def present(results, mask):
    return [r for r, m in zip(results, mask) if m]


def layer_norm_backward(g, x, shape, mean, rstd, w, mask):
    b = w
    return present(aten.native_layer_norm_backward(
        g, x, shape, mean, rstd, w, b, [bool(m) for m in mask]), mask)


def group_norm_backward(g, x, mean, rstd, w, n, c, hw, group, mask):
    return present(aten.native_group_norm_backward(
        g, x, mean, rstd, w, n, c, hw, group, [bool(m) for m in mask]), mask)


def batch_norm_train(x, w, b, mean, var, momentum, eps):
    return aten.native_batch_norm(x, w, b, mean, var, True, momentum, eps)


def batch_norm_backward(g, x, mean, rstd, w, mask):
    return present(aten.native_batch_norm_backward(
        g, x, w, None, None, mean, rstd, True, 1e-5, [bool(m) for m in mask]), mask)


def batch_norm_eval(x, w, b, mean, var, eps):
    return F.batch_norm(x, mean, var, w, b, False, 0.1, eps)


OPS = {
    "_scale": lambda x, f: x * f,
    "_expand_reduced": expand_reduced,
    "_linear_scan": linear_scan,
    "_reshape_copy": lambda x, s: x.reshape(s).clone(memory_format=torch.contiguous_format),
    "as_strided_backward": as_strided_backward,
    "convolution": convolution,
    "conv_data_grad": conv_data_grad,
    "conv_weight_grad": conv_weight_grad,
    "nll_loss_forward": nll_forward,
    "nll_loss_backward": nll_backward,
    "native_layer_norm_backward": layer_norm_backward,
    "native_group_norm_backward": group_norm_backward,
    "_batch_norm_train": batch_norm_train,
    "_batch_norm_backward": batch_norm_backward,
    "_batch_norm_eval": batch_norm_eval,
}
