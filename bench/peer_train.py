"""peer_train.py -- the figures of train.c for PyTorch, under the same names.

    python bench/peer_train.py [--compile] [--peak | --batches] [part of a name]...

One JSON line per figure: the least of many steps, or with --peak the most bytes
a step holds beyond those it found; --batches: that of ResNet-18 for batches of 1 to
32. No name: all but GPT-2. AdamW is the fused one. --threads=N: on so many;
--threads=N,N...: the times with each number.
BENCH_CLOCK=cpu counts the processor time of this process.
"""
import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

from peer import now, torch_peak_mib


# ---- networks ---------------------------------------------------------------


class Layer(nn.Module):
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
        self.h = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, at):
        x = self.wte(at) + self.wpe.weight[: at.shape[1]]
        for layer in self.h:
            x = layer(x)
        return self.ln_f(x) @ self.wte.weight.t()


def conv(n_in, n_out, size, by):
    return nn.Conv2d(n_in, n_out, size, by, size // 2, bias=False)


class Block(nn.Module):
    def __init__(self, n_in, n_out, by):
        super().__init__()
        self.conv1, self.bn1 = conv(n_in, n_out, 3, by), nn.BatchNorm2d(n_out)
        self.conv2, self.bn2 = conv(n_out, n_out, 3, 1), nn.BatchNorm2d(n_out)
        self.around = nn.Identity()
        if n_in != n_out:
            self.around = nn.Sequential(conv(n_in, n_out, 1, by), nn.BatchNorm2d(n_out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.around(x))


def resnet18():
    layers = [conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    n_in = 64
    for stage in range(4):
        out = 64 << stage
        layers += [Block(n_in, out, 2 if stage else 1), Block(out, out, 1)]
        n_in = out
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*layers)


class Writer(nn.Module):
    def __init__(self, hidden, letters=256):
        super().__init__()
        self.letters = nn.Embedding(letters, hidden)
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, letters)

    def forward(self, at):
        return self.head(self.lstm(self.letters(at))[0])


def mlp(width):
    layers = []
    for i in range(4):
        layers += [nn.Linear(width, width)] + ([nn.GELU()] if i < 3 else [])
    return nn.Sequential(*layers)


def numbers(classes, *shape):
    return torch.randint(0, classes, shape)


# name: network, x, y
JOBS = {
    "mlp_64x256x4": lambda: (mlp(256), torch.randn(64, 256), numbers(256, 64)),
    "mlp_256x1024x4": lambda: (mlp(1024), torch.randn(256, 1024), numbers(1024, 256)),
    "lstm_16x64x128": lambda: (Writer(128), numbers(256, 16, 64), numbers(256, 16, 64)),
    "lstm_32x64x256": lambda: (Writer(256), numbers(256, 32, 64), numbers(256, 32, 64)),
    "resnet18_8x64": lambda: (resnet18(), torch.randn(8, 3, 64, 64), numbers(1000, 8)),
    "gpt2_4x64": lambda: (GPT2(), numbers(50257, 4, 64), numbers(50257, 4, 64)),
    "gpt2_2x256": lambda: (GPT2(), numbers(50257, 2, 256), numbers(50257, 2, 256)),
}


# ---- measuring --------------------------------------------------------------


def make_step(net, x, y, compiled):
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    f = torch.compile(net) if compiled else net

    def step():
        out = f(x)
        F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1)).backward()
        del out
        opt.step()
        opt.zero_grad(set_to_none=True)

    return step


def least_ms(step, seconds=1.0):
    best, end, least = 1e9, now() + seconds, 3
    while least > 0 or now() < end:
        start = now()
        step()
        best = min(best, now() - start)
        least -= 1
    return best * 1e3


def show(name, compiled, value, unit, size=None):
    line = {"name": name, "who": "torch_compile" if compiled else "torch",
            "value": round(value, 3), "unit": unit}
    if size:
        line["size"] = size
    print(json.dumps(line), flush=True)


def warm_step(make, compiled):
    torch.manual_seed(1)
    step = make_step(*make(), compiled)
    for _ in range(3):
        step()
    return step


def batches(compiled):
    for n in (1, 2, 4, 8, 16, 32):
        torch._dynamo.reset()
        step = warm_step(lambda: (resnet18(), torch.randn(n, 3, 64, 64),
                                  numbers(1000, n)), compiled)
        show("memory_resnet18", compiled, torch_peak_mib(step), "MiB", n)


def main():
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    compiled, peak = "--compile" in sys.argv, "--peak" in sys.argv
    counts = [0]
    for arg in sys.argv[1:]:
        if arg.startswith("--threads="):
            counts = [int(n) for n in arg[10:].split(",")]
            torch.set_num_threads(counts[0])
    if "--batches" in sys.argv:
        return batches(compiled)
    for name, make in JOBS.items():
        wanted = any(w in name for w in words) if words else "gpt2" not in name
        if not wanted:
            continue
        step = warm_step(make, compiled)
        if len(counts) > 1:
            for n in counts:
                torch.set_num_threads(n)
                step()
                show("threads_" + name, compiled, least_ms(step, 0.4), "ms", n)
        elif peak:
            show("peak_" + name, compiled, torch_peak_mib(step), "MiB")
        else:
            show("train_" + name, compiled, least_ms(step), "ms")


if __name__ == "__main__":
    main()
