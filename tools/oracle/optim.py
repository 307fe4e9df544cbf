#!/usr/bin/env python3
"""optim.py -- what PyTorch's optimizers make of 20 given gradients, for
tests/unit/optim_torch.c. Writes tests/nn/optim.safetensors: start.0 ... start.3, the
parameters at first; grad.T.I, their gradients; NAME.T.I, what parameter I is after T
steps of the optimizer called NAME. The learning rate changes at each step, and
parameter 2 has a gradient at every other one. Run it with a Python that has torch.
"""
import os
import torch
from safetensors.torch import save_file

torch.set_num_threads(1)
torch.manual_seed(11)
HERE = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "nn")
STEPS = 20


class Lion:
    """Not in PyTorch; the published update, step by step."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        self.params, self.betas, self.decay = params, betas, weight_decay
        self.param_groups = [{"lr": lr}]
        self.m = {p: torch.zeros_like(p) for p in params}

    @torch.no_grad()
    def step(self):
        lr, (b1, b2) = self.param_groups[0]["lr"], self.betas
        for p in self.params:
            if p.grad is None:
                continue
            c = b1 * self.m[p] + (1 - b1) * p.grad
            p.copy_(p - lr * (torch.sign(c) + self.decay * p))
            self.m[p] = b2 * self.m[p] + (1 - b2) * p.grad


o = torch.optim
CASES = {
    "sgd": (o.SGD, 0.1, {}),
    "sgd_momentum": (o.SGD, 0.1, dict(momentum=0.9, weight_decay=0.02)),
    "sgd_dampening": (o.SGD, 0.1, dict(momentum=0.9, dampening=0.3)),
    "sgd_nesterov": (o.SGD, 0.1, dict(momentum=0.9, nesterov=True, maximize=True)),
    "adam": (o.Adam, 0.01, {}),
    "adam_decay": (o.Adam, 0.01, dict(betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    "adam_amsgrad": (o.Adam, 0.01, dict(amsgrad=True)),
    "adamw": (o.AdamW, 0.01, {}),
    "adamw_amsgrad": (o.AdamW, 0.01, dict(amsgrad=True, weight_decay=0.2, maximize=True)),
    "rmsprop": (o.RMSprop, 0.01, {}),
    "rmsprop_all": (o.RMSprop, 0.01, dict(momentum=0.9, centered=True, weight_decay=0.1,
                                          alpha=0.9)),
    "adagrad": (o.Adagrad, 0.1, {}),
    "adagrad_decay": (o.Adagrad, 0.1, dict(lr_decay=0.1, weight_decay=0.1,
                                           initial_accumulator_value=0.5)),
    "lion": (Lion, 0.01, {}),
    "lion_decay": (Lion, 0.01, dict(betas=(0.95, 0.98), weight_decay=0.3)),
    "adadelta": (o.Adadelta, 1.0, {}),
    "adadelta_decay": (o.Adadelta, 0.5, dict(rho=0.8, weight_decay=0.1, maximize=True)),
    "adamax": (o.Adamax, 0.02, {}),
    "adamax_decay": (o.Adamax, 0.02, dict(betas=(0.8, 0.9), weight_decay=0.1,
                                          maximize=True)),
    "nadam": (o.NAdam, 0.02, {}),
    "nadam_decay": (o.NAdam, 0.02, dict(weight_decay=0.1, momentum_decay=0.1)),
    "nadam_decoupled": (o.NAdam, 0.02, dict(weight_decay=0.1, maximize=True,
                                            decoupled_weight_decay=True)),
    "radam": (o.RAdam, 0.01, {}),
    "radam_decay": (o.RAdam, 0.01, dict(betas=(0.8, 0.95), weight_decay=0.1)),
    "radam_decoupled": (o.RAdam, 0.01, dict(weight_decay=0.1, maximize=True,
                                            decoupled_weight_decay=True)),
    "adafactor": (o.Adafactor, 0.01, {}),
    "adafactor_decay": (o.Adafactor, 0.5, dict(beta2_decay=-0.6, eps=(1e-4, 1e-2), d=1.5,
                                               weight_decay=0.1, maximize=True)),
    "asgd": (o.ASGD, 0.01, {}),
    "asgd_decay": (o.ASGD, 0.1, dict(lambd=0.05, alpha=0.5, t0=3.0, weight_decay=0.1,
                                     maximize=True)),
    "rprop": (o.Rprop, 0.01, {}),
    "rprop_etas": (o.Rprop, 0.01, dict(etas=(0.3, 1.7), step_sizes=(5e-3, 0.05),
                                       maximize=True)),
    "muon": (o.Muon, 0.02, {}),
    "muon_adam": (o.Muon, 0.02, dict(nesterov=False, momentum=0.8,
                                     adjust_lr_fn="match_rms_adamw")),
}


LBFGS = {
    "lbfgs": dict(lr=0.02, max_iter=4),
    "lbfgs_wolfe": dict(line_search_fn="strong_wolfe", max_iter=6, history_size=3),
    "lbfgs_all": dict(lr=0.8, line_search_fn="strong_wolfe", tolerance_change=1e-12,
                      tolerance_grad=1e-9, max_eval=7, maximize=True),
}


def lbfgs(name, how):
    """Parameters and evaluations after 1 to 5 steps on Rosenbrock's function, in f64."""
    a = torch.tensor([-1.5, 2.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([[1.2], [0.7]], dtype=torch.float64, requires_grad=True)
    opt = o.LBFGS([a, b], **how)
    sign = -1 if how.get("maximize") else 1
    out = {}

    def closure():
        opt.zero_grad()
        x = torch.cat([a, b.reshape(-1)])
        loss = sign * (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        loss.backward()
        return loss

    for t in range(5):
        loss = opt.step(closure)
        x = torch.cat([a, b.reshape(-1)])
        evals = opt.state[a]["func_evals"]
        out[f"{name}.{t}"] = torch.cat([x, loss.reshape(1), x.new_tensor([evals])]).detach()
    return out


def main():
    start = [torch.randn(3, 4), torch.randn(5), torch.randn(2), torch.randn(6, 3)]
    grads = [[torch.randn_like(p) for p in start] for _ in range(STEPS)]
    out = {f"start.{i}": p for i, p in enumerate(start)}
    for t, row in enumerate(grads):
        out.update({f"grad.{t}.{i}": g for i, g in enumerate(row)})
    for name, (make, lr, how) in CASES.items():
        which = [0, 3] if make is o.Muon else [0, 1, 2]
        params = {i: start[i].clone().requires_grad_() for i in which}
        opt = make(list(params.values()), lr=lr, **how)
        for t in range(STEPS):
            opt.param_groups[0]["lr"] = lr * (1 + t % 3)
            for i, p in params.items():
                p.grad = None if i == 2 and t % 2 == 0 else grads[t][i].clone()
            opt.step()
            if t + 1 in (1, 2, STEPS):
                out.update({f"{name}.{t + 1}.{i}": p.detach().clone()
                            for i, p in params.items()})
        if name == "asgd_decay":
            out.update({f"ax.{i}": opt.state[p]["ax"] for i, p in params.items()})
    for name, how in LBFGS.items():
        out.update(lbfgs(name, how))
    save_file(out, os.path.join(HERE, "optim.safetensors"), {"torch": torch.__version__})


main()
