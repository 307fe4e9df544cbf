#!/usr/bin/env python3
"""schedules.py -- learning rates of PyTorch's schedulers, for tests/unit/schedules.c.
Writes tests/nn/schedules.safetensors: NAME, the rates of steps 0 to 59 as f64, and
metrics.NAME, what a plateau was told. Run it with a Python that has torch.
"""
import math
import os
import warnings
import torch
from safetensors.torch import save_file
from torch.optim import lr_scheduler as ls

warnings.simplefilter("ignore")
HERE = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "nn")
STEPS, LR = 60, 0.05

CASES = {
    "step": lambda o: ls.StepLR(o, 7, 0.5),
    "multi_step": lambda o: ls.MultiStepLR(o, [3, 10, 10, 31], 0.2),
    "exponential": lambda o: ls.ExponentialLR(o, 0.93),
    "linear": lambda o: ls.LinearLR(o),
    "linear_down": lambda o: ls.LinearLR(o, 1.0, 0.2, 40),
    "constant": lambda o: ls.ConstantLR(o, 0.25, 8),
    "polynomial": lambda o: ls.PolynomialLR(o, 45, 1.7),
    "cosine": lambda o: ls.CosineAnnealingLR(o, 17, 0.001),
    "restarts": lambda o: ls.CosineAnnealingWarmRestarts(o, 5, 2, 0.002),
    "restarts_equal": lambda o: ls.CosineAnnealingWarmRestarts(o, 9),
    "one_cycle": lambda o: ls.OneCycleLR(o, LR, STEPS),
    "one_cycle_linear": lambda o: ls.OneCycleLR(
        o, LR, STEPS, pct_start=0.4, anneal_strategy="linear", div_factor=10,
        final_div_factor=100),
    "one_cycle_three": lambda o: ls.OneCycleLR(o, LR, STEPS, three_phase=True),
    "cyclic": lambda o: ls.CyclicLR(o, 0.01, LR, 8, cycle_momentum=False),
    "cyclic2": lambda o: ls.CyclicLR(o, 0.01, LR, 6, 3, "triangular2",
                                     cycle_momentum=False),
    "cyclic_exp": lambda o: ls.CyclicLR(o, 0.01, LR, 5, 9, "exp_range", 0.97,
                                        cycle_momentum=False),
    "sequential": lambda o: ls.SequentialLR(
        o, [ls.ConstantLR(o, 0.1, 100), ls.ExponentialLR(o, 0.9)], [20]),
    "chained": lambda o: ls.ChainedScheduler(
        [ls.ConstantLR(o, 0.1, 20), ls.ExponentialLR(o, 0.9), ls.StepLR(o, 6, 0.5)]),
    "lambda": lambda o: ls.LambdaLR(o, lambda t: 1 / math.sqrt(1 + t)),
    "multiplicative": lambda o: ls.MultiplicativeLR(o, lambda t: 0.95),
}
PLATEAUS = {
    "plateau": dict(patience=3, factor=0.5),
    "plateau_max": dict(mode="max", patience=1, factor=0.3, cooldown=2, min_lr=0.004),
    "plateau_abs": dict(threshold=0.05, threshold_mode="abs", patience=0),
}


def rates(make, metrics=None):
    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], LR)
    s = make(opt)
    out = []
    for t in range(STEPS):
        out.append(opt.param_groups[0]["lr"])
        if t + 1 < STEPS:
            opt.step()
            s.step() if metrics is None else s.step(metrics[t])
    return torch.tensor(out, dtype=torch.float64)


def main():
    torch.manual_seed(5)
    out = {name: rates(make) for name, make in CASES.items()}
    for name, how in PLATEAUS.items():
        m = (torch.linspace(1, 0.7, STEPS, dtype=torch.float64)
             + 0.1 * torch.rand(STEPS, dtype=torch.float64))
        m[30:] -= 1.2
        m[17] = math.nan
        out[name] = rates(lambda o: ls.ReduceLROnPlateau(o, **how), m.tolist())
        out["metrics." + name] = m
    save_file(out, os.path.join(HERE, "schedules.safetensors"),
              {"torch": torch.__version__})


main()
