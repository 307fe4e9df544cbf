"""peer_train.py -- the figures of train.c for PyTorch, under the same names.

Developer-only, and slow: python bench/peer_train.py mlp|gpt2 [compile]
One JSON line per figure, the least of many steps; AdamW is the fused one.
"""
import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        parts = self.qkv(self.ln_1(x)).split(w, 2)
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, vocab=50257, context=1024, layers=12, heads=12, width=768):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, at):
        x = self.wte(at) + self.wpe.weight[: at.shape[1]]
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.t()


def mlp(width):
    layers = []
    for i in range(4):
        layers += [nn.Linear(width, width)] + ([nn.GELU()] if i < 3 else [])
    return nn.Sequential(*layers)


def measure(name, net, x, y, seconds, compiled):
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    f = torch.compile(net) if compiled else net

    def step():
        out = f(x)
        F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1)).backward()
        opt.step()
        opt.zero_grad(set_to_none=True)

    for _ in range(3):
        step()
    best, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    how = "compile" if compiled else "eager"
    print(json.dumps({"name": f"{name}_torch_{how}", "value": round(best * 1e3, 3),
                      "unit": "ms"}), flush=True)


def main():
    compiled = "compile" in sys.argv
    torch.manual_seed(1)
    if "gpt2" in sys.argv:
        for b, t in ((4, 64), (2, 256)):
            at = torch.randint(0, 50257, (2, b, t))
            measure(f"train_gpt2_{b}x{t}", GPT2(), at[0], at[1], 12, compiled)
        return
    for b, w in ((64, 256), (256, 1024)):
        x, y = torch.randn(b, w), torch.randint(0, w, (b,))
        measure(f"train_mlp_{b}x{w}x4", mlp(w), x, y, 4, compiled)


if __name__ == "__main__":
    main()
