#!/usr/bin/env python3
"""sparse.py -- what PyTorch computes of sparse tensors, and what its optimizers make of
sparse gradients, for tests/unit/sparse_torch.c. Writes tests/nn/sparse.safetensors:
indices, values, x, y, z, the arguments; the plain form of each result under its name;
start, at.T, grad.T, a table, and indices and gradient of step T; NAME.T, the table after T
steps of the optimizer called NAME. Run it with a Python that has torch.
"""
import os
import torch
from safetensors.torch import save_file

torch.set_num_threads(1)
torch.manual_seed(5)
HERE = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "nn")
STEPS = 8
SIZE = (6, 5)
o = torch.optim
CASES = {
    "sgd": (o.SGD, 0.1, {}),
    "sgd_momentum": (o.SGD, 0.1, dict(momentum=0.9)),
    "sgd_nesterov": (o.SGD, 0.1, dict(momentum=0.8, nesterov=True, maximize=True)),
    "adagrad": (o.Adagrad, 0.1, {}),
    "adagrad_decay": (o.Adagrad, 0.1, dict(lr_decay=0.1, initial_accumulator_value=0.5)),
    "sparse_adam": (o.SparseAdam, 0.01, {}),
    "sparse_adam_betas": (o.SparseAdam, 0.05, dict(betas=(0.8, 0.95), eps=1e-4,
                                                   maximize=True)),
}


def dense(t):
    return t.detach().to_dense().contiguous().clone()


def ops(out):
    """Products and sums of a sparse_coo tensor with two entries at one place."""
    i = torch.tensor([[0, 5, 1, 1, 3, 1, 4], [2, 0, 0, 4, 1, 0, 3]])
    v, x, y = torch.randn(7), torch.randn(5, 4), torch.randn(3, 6)
    z = torch.randn(SIZE)
    out.update(indices=i, values=v, x=x, y=y, z=z)
    a = torch.sparse_coo_tensor(i, v, SIZE)
    c, r = a.coalesce(), a.to_sparse_csr()
    out.update({"mm": a @ x, "dense_mm": y @ a, "csr_mm": r @ x, "mv": a @ x[:, 0],
                "add": dense(a + a), "plus": z + a, "mul": dense(a * z),
                "square": dense(a * a), "transpose": dense(a.t()),
                "addmm": torch.sparse.addmm(z[:, :4], a, x, beta=2.0, alpha=0.5),
                "sum": a.sum(), "coalesced": c.values(), "places": c.indices(),
                "crow": r.crow_indices(), "col": r.col_indices(),
                "sampled": dense(torch.sparse.sampled_addmm(r, z[:, :3], z[:3, :], beta=2.0,
                                                            alpha=0.5))})
    for name, f in {"to_dense": lambda a, x: a.to_dense().square().sum(),
                    "sparse_mm": lambda a, x: torch.sparse.mm(a, x).square().sum(),
                    "sparse_sum": lambda a, x: torch.sparse.sum(a * 3.0) + x.sum(),
                    "plain_mm": lambda a, x: (a @ x).square().sum()}.items():
        p = a.clone().detach().requires_grad_()
        q = x.clone().requires_grad_()
        f(p, q).backward()
        out[f"grad_{name}"] = dense(p.grad)
        if q.grad is not None:
            out[f"grad_{name}.x"] = q.grad
    p = v.clone().requires_grad_()
    torch.sparse.mm(torch.sparse_coo_tensor(i, p, SIZE), x).square().sum().backward()
    out["grad_values"] = p.grad


def optimizers(out):
    start = torch.randn(7, 3)
    steps = [(torch.randint(0, 7, (5,)), torch.randn(5, 3)) for _ in range(STEPS)]
    out["start"] = start
    for t, (at, g) in enumerate(steps):
        out.update({f"at.{t}": at, f"grad.{t}": g})
    for name, (make, lr, how) in CASES.items():
        w = start.clone().requires_grad_()
        opt = make([w], lr=lr, **how)
        for t, (at, g) in enumerate(steps):
            opt.zero_grad()
            y = torch.nn.functional.embedding(at, w, sparse=True)
            (y * g).sum().backward()
            opt.step()
            out[f"{name}.{t + 1}"] = w.detach().clone()
    w = start.clone().requires_grad_()
    y = torch.nn.functional.embedding(torch.tensor([1, 3, 1]), w, sparse=True)
    y.sum().backward()
    out["clip"] = torch.nn.utils.clip_grad_norm_([w], 1.0)
    out["clipped"] = dense(w.grad)


def main():
    out = {}
    ops(out)
    optimizers(out)
    out = {k: t.detach().contiguous().clone() for k, t in out.items()}
    save_file(out, os.path.join(HERE, "sparse.safetensors"), {"torch": torch.__version__})


main()
