#!/usr/bin/env python3
"""distributions.py -- numbers of torch.distributions, for tests/unit/distributions.c.
Writes tests/nn/distributions.safetensors, in f64: KIND.0 ..., the parameters,
KIND.value, KIND.log_prob, KIND.grad.0 ..., the gradients of its sum, KIND.entropy,
KIND.mean, KIND.variance, and kl.P.Q. Run it with a Python that has torch.
"""
import os
import torch
from safetensors.torch import save_file
from torch import distributions as D

torch.set_num_threads(1)
torch.manual_seed(13)
torch.set_default_dtype(torch.float64)
D.Distribution.set_default_validate_args(False)
HERE = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "nn")


def pos(*shape):
    return torch.rand(shape) * 2 + 0.3


TRIL = torch.randn(2, 3, 3).tril()
TRIL.diagonal(dim1=-2, dim2=-1).abs_().add_(0.5)
OTHER = torch.randn(3, 3).tril()
OTHER.diagonal(dim1=-2, dim2=-1).abs_().add_(0.5)

# name: class, parameters, those of the second one of the kind
KINDS = {
    "normal": (D.Normal, [torch.randn(2, 3), pos(3)], [torch.randn(3), pos(3)]),
    "log_normal": (D.LogNormal, [torch.randn(3), pos(2, 3) / 2], [torch.randn(3), pos(3)]),
    "uniform": (D.Uniform, [torch.tensor([0.1, -1., 0.2]), torch.tensor([0.8, 2., 0.9])],
                [torch.tensor([0.0, -2., 0.5]), torch.tensor([1.0, 2.5, 1.0])]),
    "bernoulli": (D.Bernoulli, [torch.tensor([0.2, 0.7, 1.0])],
                  [torch.tensor([0.5, 0.0, 0.3])]),
    "bernoulli_logits": (lambda l: D.Bernoulli(logits=l), [torch.randn(2, 3) * 4], None),
    "categorical": (D.Categorical, [pos(2, 4)], [pos(4)]),
    "categorical_logits": (lambda l: D.Categorical(logits=l), [torch.randn(3, 4)], None),
    "gamma": (D.Gamma, [pos(2, 3), pos(3)], [pos(3), pos(3)]),
    "beta": (D.Beta, [pos(2, 3), pos(3)], [pos(3), pos(3)]),
    "dirichlet": (D.Dirichlet, [pos(2, 3)], [pos(3)]),
    "exponential": (D.Exponential, [pos(3)], [pos(3)]),
    "laplace": (D.Laplace, [torch.randn(2, 3), pos(3)], [torch.randn(3), pos(3)]),
    "poisson": (D.Poisson, [pos(3) * 4], [pos(3)]),
    "binomial": (lambda p, n: D.Binomial(n, p), [torch.tensor([0.2, 0.7, 0.5]),
                                                 torch.tensor([6., 6., 6.])],
                 [torch.tensor([0.4, 0.6, 0.9]), torch.tensor([6., 6., 6.])]),
    "student_t": (D.StudentT, [torch.tensor([0.7, 1.5, 4.0]), torch.randn(2, 3), pos(3)],
                  None),
    "mvn": (lambda m, l: D.MultivariateNormal(m, scale_tril=l), [torch.randn(2, 3), TRIL],
            [torch.randn(3), OTHER]),
}


def value_of(name, d):
    if name == "uniform":
        return torch.tensor([0.5, 3.0, 0.2])
    return d.sample((2,))


def main():
    out = {}
    for name, (make, params, other) in KINDS.items():
        params = [p.clone().requires_grad_() for p in params]
        d = make(*params)
        value = value_of(name, d)
        lp = d.log_prob(value)
        which = [p for i, p in enumerate(params) if not (name == "binomial" and i == 1)]
        grads = torch.autograd.grad(lp[lp.isfinite()].sum(), which, allow_unused=True)
        out.update({f"{name}.{i}": p for i, p in enumerate(params)})
        out.update({f"{name}.grad.{i}": g for i, g in enumerate(grads) if g is not None})
        out[f"{name}.value"], out[f"{name}.log_prob"] = value, lp
        if name != "poisson":
            out[f"{name}.entropy"] = d.entropy()
        if not name.startswith("categorical"):
            out[f"{name}.mean"], out[f"{name}.variance"] = d.mean, d.variance
        if other:
            out.update({f"{name}.q.{i}": p for i, p in enumerate(other)})
    firsts = {n: make(*[p for p in params]) for n, (make, params, _) in KINDS.items()}
    seconds = {n: make(*[p for p in other]) for n, (make, _, other) in KINDS.items() if other}
    for pn, p in firsts.items():
        for qn, q in seconds.items():
            try:
                out[f"kl.{pn}.{qn}"] = D.kl_divergence(p, q)
            except (NotImplementedError, RuntimeError, ValueError, IndexError):
                pass
    out = {k: v.detach().double().contiguous().clone() for k, v in out.items()}
    save_file(out, os.path.join(HERE, "distributions.safetensors"),
              {"torch": torch.__version__})
    print([k for k in out if k.startswith("kl.")])


main()
