"""peer_calls.py -- the figures of overhead.c and compile.c for PyTorch, same names.

    python bench/peer_calls.py overhead|compile [--compile]

Calls are made from Python, which is part of what they cost there. `compile` is the
first call of torch.compile with its backward, all caches off; --compile measures
calls of compiled functions instead of eager ones.
"""
import json
import os
import sys

if len(sys.argv) > 1 and sys.argv[1] == "compile":
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
import torch

from peer import least_us, now


def show(name, who, size, value, unit):
    print(json.dumps({"name": name, "who": who, "size": size,
                      "value": round(value, 4), "unit": unit}), flush=True)


def overhead(compiled):
    who = "torch_compile" if compiled else "torch"
    size = 64
    while size <= 1 << 20:
        f = lambda x, w: torch.tanh(x * w)
        if compiled:
            torch._dynamo.reset()
            f = torch.compile(f)
        for back in (False, True):
            x, w = (torch.rand(size, requires_grad=back) for _ in range(2))
            ones = torch.ones(size)

            def call():
                y = f(x, w)
                if back:
                    y.backward(ones)
                    x.grad = w.grad = None

            name = "overhead_forward_backward" if back else "overhead_forward"
            show(name, who, size, least_us(call), "us")
        size *= 4


def compile_times():
    x, b = torch.ones(4, 4), torch.rand(4)
    torch.compile(lambda x: x + 1)(x)  # what only the first one of a process pays
    for n in (10, 100, 1000):
        w = torch.rand(4, 4, requires_grad=True)

        def f(x, w, b):
            for _ in range(n // 5):
                x = torch.tanh(x @ w + b) * 0.5 + x
            return x

        torch._dynamo.reset()
        start = now()
        torch.compile(f)(x, w, b).sum().backward()
        show("compile_cold", "torch_compile", n, (now() - start) * 1e3, "ms")


if __name__ == "__main__":
    if sys.argv[1:2] == ["overhead"]:
        overhead("--compile" in sys.argv)
    elif sys.argv[1:2] == ["compile"]:
        compile_times()
    else:
        sys.exit(__doc__)
