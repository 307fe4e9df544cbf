"""peer_torch.py -- the figures of eager_bench.c for PyTorch, under the same names.

Developer-only: bench/run.sh calls it when the Python in $PYTHON can import torch.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F

from peer import torch_peak_mib


def measure(fn):
    """Seconds of one call: the least of many batches of about 1 ms, over 0.2 s."""
    end = time.perf_counter() + 0.2
    best, reps = 1e9, 1
    fn()
    while True:
        start = time.perf_counter()
        for _ in range(reps):
            fn()
        taken = time.perf_counter() - start
        if taken >= 1e-3:
            break
        reps *= 2
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(reps):
            fn()
        best = min(best, (time.perf_counter() - start) / reps)
    return min(best, taken / reps)


def show(name, fn, unit):
    chosen = sys.argv[1:]
    if not chosen or any(part in name for part in chosen):
        value = fn()
        print(json.dumps({"name": name, "who": "torch", "value": value,
                          "unit": unit}), flush=True)


def time_of(name, fn, units, unit):
    show(name, lambda: units * measure(fn), unit)


def small():
    torch.set_num_threads(1)
    x, y = torch.randn(64), torch.randn(64)
    time_of("add_64", lambda: x + y, 1e6, "us")
    x.requires_grad_()
    time_of("add_64_tape", lambda: x + y, 1e6, "us")
    w = torch.randn(64, requires_grad=True)

    def step():
        torch.tanh(x * w + 1).sum().backward()
        w.grad = None
        x.grad = None

    time_of("tanh_64_forward_backward", step, 1e6, "us")


def large(threads):
    torch.set_num_threads(threads)
    x, y = torch.randn(2048, 2048), torch.randn(2048, 2048)
    w, b = torch.randn(2048), torch.randn(2048)
    col, cube = torch.randn(2048, 1), torch.randn(64, 256, 256)
    index = torch.randint(0, 2048, (2048,))
    shape, aten = (2048,), torch.ops.aten
    _, mean, rstd = aten.native_layer_norm(x, shape, w, b, 1e-5)
    cases = {
        "add": lambda: x + y,
        "add_row": lambda: x + w,
        "add_column": lambda: x + col,
        "mul_number": lambda: x * 2.5,
        "relu": lambda: x.relu(),
        "exp": lambda: x.exp(),
        "tanh": lambda: x.tanh(),
        "sigmoid": lambda: x.sigmoid(),
        "gelu": lambda: F.gelu(x),
        "gelu_backward": lambda: aten.gelu_backward(x, y),
        "add_transposed": lambda: x.t() + y,
        "mul_number_transposed": lambda: x.t() * 2.5,
        "copy_transposed": lambda: x.t().contiguous(),
        "sum_all": lambda: x.sum(),
        "sum_rows": lambda: x.sum(1),
        "sum_columns": lambda: x.sum(0),
        "sum_middle": lambda: cube.sum(1),
        "max_rows": lambda: x.amax(1),
        "max_columns": lambda: x.amax(0),
        "argmax_rows": lambda: x.argmax(1),
        "cumsum_rows": lambda: x.cumsum(1),
        "softmax_rows": lambda: x.softmax(-1),
        "softmax_columns": lambda: x.softmax(0),
        "softmax_backward": lambda: aten._softmax_backward_data(x, y, 1, torch.float32),
        "layer_norm_rows": lambda: F.layer_norm(x, shape, w, b),
        "layer_norm_backward": lambda: aten.native_layer_norm_backward(
            y, x, shape, mean, rstd, w, b, [True, True, True]),
        "embedding": lambda: F.embedding(index, x),
        "cat": lambda: torch.cat((x, y), 1),
        "index_select_columns": lambda: x.index_select(1, index),
        "roll_columns": lambda: x.roll(5, 1),
        "flip_columns": lambda: x.flip(1),
        "nonzero": lambda: x.nonzero(),
    }
    with torch.no_grad():
        for name, fn in cases.items():
            time_of(f"{name}_16MiB_{threads}t", fn, 1e3, "ms")


def attention(threads):
    torch.set_num_threads(threads)
    for t in (64, 256, 1024):
        packed = torch.randn(1, t, 3 * 768)
        q, k, v = (x.reshape(1, t, 12, 64).transpose(1, 2) for x in packed.split(768, 2))
        g = torch.randn(1, t, 12, 64).transpose(1, 2)

        def forward():
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        time_of(f"attention_{t}_{threads}t", forward, 1e6, "us")
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))

        def step():
            forward().backward(g)
            q.grad = k.grad = v.grad = None

        time_of(f"attention_{t}_step_{threads}t", step, 1e6, "us")


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

    show("mlp_step_peak", lambda: torch_peak_mib(step), "MiB")


small()
large(1)
large(2)
attention(1)
attention(2)
memory()
