"""python run_model.py MODEL BACKEND [STEPS]: three training steps of a model against
eager, each from the same parameters, and timings, as one line of JSON."""
import copy
import json
import logging
import os
import sys
import time
import warnings

import torch

from models import MODELS


class Reasons(logging.Handler):
    """Collects the log of the backends."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def step(net, loss):
    net.zero_grad()
    value = loss(net)
    value.backward()
    return value.item()


def copy_state(to, of):
    with torch.no_grad():
        for a, b in zip([*to.parameters(), *to.buffers()], [*of.parameters(), *of.buffers()]):
            a.copy_(b)


def distance(a, b):
    """The largest difference of two models' gradients, relative to the largest gradient."""
    scale = max(p.grad.abs().max().item() for p in a.parameters() if p.grad is not None)
    worst = 0.0
    for p, q in zip(a.parameters(), b.parameters()):
        g, h = (t.grad if t.grad is not None else torch.zeros_like(t) for t in (p, q))
        worst = max(worst, (g - h).abs().max().item())
    return worst / max(scale, 1e-12)


# CLOCK=cpu: seconds of the processor, compilers included, for machines that do other work.
if os.environ.get("CLOCK") == "cpu":
    step_clock = time.process_time

    def compile_clock():
        return sum(os.times()[:4])
else:
    step_clock = compile_clock = time.perf_counter


def timed(f, *args, times):
    """The least seconds of some calls."""
    best = float("inf")
    for _ in range(times):
        begin = step_clock()
        f(*args)
        best = min(best, step_clock() - begin)
    return best


def run(name, backend, steps=3, times=5, dtype=torch.float32):
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    try:
        return run_steps(name, backend, steps, times)
    finally:
        torch.set_default_dtype(torch.float32)


def run_steps(name, backend, steps, times):
    eager, loss = MODELS[name]()
    eager.train()
    net = copy.deepcopy(eager)
    fast = torch.compile(net, backend=backend)
    sgd = torch.optim.SGD(eager.parameters(), 1e-3)
    row = {"model": name, "backend": backend, "loss": 0.0, "grad": 0.0}
    for i in range(steps):
        copy_state(net, eager)
        want = step(eager, loss)
        begin = compile_clock()
        got = step(fast, loss)
        if i == 0:
            row["compile_s"] = round(compile_clock() - begin, 2)
        row["loss"] = max(row["loss"], abs(got - want) / max(abs(want), 1e-12))
        row["grad"] = max(row["grad"], distance(eager, net))
        sgd.step()
    row["params"] = sum(p.numel() for p in eager.parameters())
    if times:
        row["step_ms"] = round(1e3 * timed(step, fast, loss, times=times), 2)
        row["eager_ms"] = round(1e3 * timed(step, eager, loss, times=times), 2)
    return row


def main():
    warnings.filterwarnings("ignore")
    name, backend = sys.argv[1:3]
    times = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    reasons = Reasons()
    logging.getLogger("tandem").addHandler(reasons)
    logging.getLogger("tandem").setLevel(logging.INFO)
    torch.set_num_threads(int(os.environ.get("THREADS", 2)))
    if backend.startswith("tandem"):
        import tandem.torch  # noqa: F401
    row = run(name, backend, times=times)
    row["log"] = reasons.lines
    print(json.dumps(row))


if __name__ == "__main__":
    main()
