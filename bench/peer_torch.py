"""peer_torch.py -- the figures of eager_bench.c for PyTorch, under the same names.

Developer-only: bench/run.sh calls it when the Python in $PYTHON can import torch.
"""
import json
import statistics
import time

import torch
import torch.nn.functional as F


def measure(fn):
    reps = 1
    while True:
        start = time.perf_counter()
        for _ in range(reps):
            fn()
        if time.perf_counter() - start >= 0.02:
            break
        reps *= 2
    batches = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(reps):
            fn()
        batches.append((time.perf_counter() - start) / reps)
    return statistics.median(batches)


def show(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def small():
    torch.set_num_threads(1)
    x, y = torch.randn(64), torch.randn(64)
    show("add_64", 1e6 * measure(lambda: x + y), "us")
    x.requires_grad_()
    show("add_64_tape", 1e6 * measure(lambda: x + y), "us")
    w = torch.randn(64, requires_grad=True)

    def step():
        torch.tanh(x * w + 1).sum().backward()
        w.grad = None
        x.grad = None

    show("tanh_64_forward_backward", 1e6 * measure(step), "us")


def large(threads):
    torch.set_num_threads(threads)
    x, y = torch.randn(2048, 2048), torch.randn(2048, 2048)
    w, b = torch.randn(2048), torch.randn(2048)
    cases = {
        "add": lambda: x + y,
        "mul_number": lambda: x * 2.5,
        "exp": lambda: x.exp(),
        "tanh": lambda: x.tanh(),
        "gelu": lambda: F.gelu(x),
        "add_transposed": lambda: x.t() + y,
        "copy_transposed": lambda: x.t().contiguous(),
        "sum_all": lambda: x.sum(),
        "sum_rows": lambda: x.sum(1),
        "sum_columns": lambda: x.sum(0),
        "max_rows": lambda: x.amax(1),
        "softmax_rows": lambda: x.softmax(-1),
        "layer_norm_rows": lambda: F.layer_norm(x, (2048,), w, b),
    }
    with torch.no_grad():
        for name, fn in cases.items():
            show(f"{name}_16MiB_{threads}t", 1e3 * measure(fn), "ms")


def peak_of(step):
    """The most bytes held during step, beyond those held before it."""
    with torch.profiler.profile(profile_memory=True) as prof:
        step()
    held = peak = 0
    for event in prof.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def memory():
    width, layers = 1024, 4
    w = [torch.randn(width, width, requires_grad=True) for _ in range(layers)]
    b = [torch.randn(width, requires_grad=True) for _ in range(layers)]
    x, y = torch.randn(256, width), torch.randn(256, width)

    def step():
        h = x
        for i in range(layers):
            h = F.linear(h, w[i], b[i])
            if i < layers - 1:
                h = F.relu(h)
        loss = F.mse_loss(h, y)
        del h
        loss.backward()

    show("mlp_step_peak", peak_of(step) / 1048576, "MiB")


small()
large(1)
large(2)
memory()
