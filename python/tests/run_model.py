"""python run_model.py MODEL BACKEND [ROUNDS]: three training steps of a model against
eager, each from the same parameters, and timings, as one line of JSON."""
import copy
import json
import logging
import os
import re
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


def coverage(lines):
    """[calls that Tandem compiles, all calls] of the graphs in the log."""
    ours = calls = 0
    for line in lines:
        whole = re.search(r"is compiled by tandem: (\d+) ops", line)
        part = re.search(r"compiles (\d+) of (\d+) ops", line)
        if whole or part:
            n, m = (int(whole[1]),) * 2 if whole else map(int, part.groups())
            ours, calls = ours + n, calls + m
    return ours, calls


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


def timed(calls, times):
    """The least seconds of each call, in rounds of one call each: what else runs on the
    machine then slows all of them."""
    best = [float("inf")] * len(calls)
    for _ in range(times):
        for i, call in enumerate(calls):
            begin = step_clock()
            call()
            best[i] = min(best[i], step_clock() - begin)
    return best


def run(name, backend, steps=3, times=10, dtype=torch.float32):
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
        both = timed([lambda: step(fast, loss), lambda: step(eager, loss)], times)
        row["step_ms"], row["eager_ms"] = (round(1e3 * t, 2) for t in both)
    return row


def row_of(name, backend, times=10):
    """The row of a model: what run returns, and what the backends logged."""
    warnings.filterwarnings("ignore")
    reasons = Reasons()
    logging.getLogger("tandem").addHandler(reasons)
    logging.getLogger("tandem").setLevel(logging.INFO)
    torch.set_num_threads(int(os.environ.get("THREADS", 2)))
    if backend.startswith("tandem"):
        import tandem.torch  # noqa: F401
    row = run(name, backend, times=times)
    row["log"] = [x for x in reasons.lines if " ops" not in x]
    row["coverage"] = coverage(reasons.lines)
    return row


def main():
    name, backend, *times = sys.argv[1:]
    print(json.dumps(row_of(name, backend, *map(int, times))))


if __name__ == "__main__":
    main()
