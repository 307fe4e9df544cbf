"""peer_gpu.py -- the figures of gpu.c for PyTorch, under the same names.

    python bench/peer_gpu.py [gpt2 BATCH LENGTH | mlp | small] [--no-compile]

One JSON line per figure: the best of three rounds.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F

from peer_train import GPT2, mlp


def show(name, who, value, unit):
    print(json.dumps({"name": name, "who": who, "value": float(f"{value:.4g}"),
                      "unit": unit}), flush=True)


def best(fn, n):
    least = 1e9
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n):
            fn()
        torch.cuda.synchronize()
        least = min(least, (time.perf_counter() - start) / n)
    return least


def step_of(net, x, y, half, compiled):
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)

    def loss_of(x, y):
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            out = net(x)
            return F.cross_entropy(out.view(-1, out.shape[-1]), y.view(-1))

    f = torch.compile(loss_of) if compiled else loss_of

    def step():
        f(x, y).backward()
        opt.step()
        opt.zero_grad(set_to_none=True)

    return step


def train(name, make, half, n):
    for compiled in (False, True)[: 1 if "--no-compile" in sys.argv else 2]:
        torch.manual_seed(1)
        net, x, y = make()
        step = step_of(net.cuda(), x.cuda(), y.cuda(), half, compiled)
        for _ in range(3):
            step()
        show(name, "torch_compile" if compiled else "torch", 1e3 * best(step, n), "ms")


def small():
    def fn(x):
        return torch.tanh(x) * torch.sigmoid(x) + torch.sin(x)

    x = torch.randn(64, device="cuda")
    for who, f in (("torch", fn), ("torch_compile", torch.compile(fn))):
        with torch.no_grad():
            f(x)
            show("cuda_small_64", who, 1e6 * best(lambda: f(x), 2000), "us")


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    what = words[0] if words else ""
    torch.set_float32_matmul_precision("highest")
    if what in ("", "small"):
        small()
    if what in ("", "mlp"):
        train("cuda_mlp_64x256x4",
              lambda: (mlp(256), torch.randn(64, 256), torch.randint(0, 256, (64,))),
              False, 200)
    if what in ("", "gpt2"):
        b, t = (int(words[1]), int(words[2])) if len(words) > 2 else (16, 1024)
        train(f"cuda_gpt2_{b}x{t}_bf16",
              lambda: (GPT2(), torch.randint(0, 50257, (b, t)),
                       torch.randint(0, 50257, (b, t))), True, 5)


if __name__ == "__main__":
    main()
