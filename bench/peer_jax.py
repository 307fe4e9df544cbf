"""peer_jax.py -- figures of train.c, overhead.c and compile.c for JAX on the CPU.

    python bench/peer_jax.py train|overhead|compile [part of a name]...

One JSON line per figure, names as ours, the least of many. Plain JAX, no further
packages: networks are functions of a dict of weights, a step is one jitted function
that owns its state. JAX uses all cores. BENCH_CLOCK=cpu counts processor time.
"""
import json
import sys

import jax
import jax.numpy as jnp
from jax import lax

from peer import least_us, now

LETTERS, VOCAB = 256, 50257


def show(name, value, unit, size=None):
    line = {"name": name, "who": "jax", "value": round(value, 4), "unit": unit}
    if size:
        line["size"] = size
    print(json.dumps(line), flush=True)


# ---- networks: (weights, forward) -------------------------------------------


class Maker:
    """Draws weights under names."""

    def __init__(self):
        self.w, self.key = {}, jax.random.PRNGKey(1)

    def add(self, name, *shape, scale=0.02):
        self.key, k = jax.random.split(self.key)
        self.w[name] = scale * jax.random.normal(k, shape)

    def linear(self, name, n_in, n_out):
        self.add(name + ".w", n_in, n_out)
        self.w[name + ".b"] = jnp.zeros(n_out)

    def norm(self, name, n):
        self.w[name + ".w"], self.w[name + ".b"] = jnp.ones(n), jnp.zeros(n)


def linear(w, name, x):
    return x @ w[name + ".w"] + w[name + ".b"]


def mlp(width):
    m = Maker()
    for i in range(4):
        m.linear(f"l{i}", width, width)

    def forward(w, x):
        for i in range(4):
            x = linear(w, f"l{i}", x)
            x = jax.nn.gelu(x, approximate=False) if i < 3 else x
        return x

    return m.w, forward


def layer_norm(w, name, x):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * w[name + ".w"] + w[name + ".b"]


def attend(q, k, v):
    t = q.shape[2]
    score = q @ k.swapaxes(2, 3) / q.shape[3] ** 0.5
    score = jnp.where(jnp.tril(jnp.ones((t, t), bool)), score, -jnp.inf)
    return jax.nn.softmax(score) @ v


def gpt2(layers=12, heads=12, width=768, context=1024):
    m = Maker()
    m.add("wte", VOCAB, width)
    m.add("wpe", context, width)
    for i in range(layers):
        m.norm(f"{i}.ln1", width)
        m.norm(f"{i}.ln2", width)
        m.linear(f"{i}.qkv", width, 3 * width)
        m.linear(f"{i}.out", width, width)
        m.linear(f"{i}.up", width, 4 * width)
        m.linear(f"{i}.down", 4 * width, width)
    m.norm("ln", width)

    def forward(w, at):
        b, t = at.shape
        x = w["wte"][at] + w["wpe"][:t]
        for i in range(layers):
            qkv = linear(w, f"{i}.qkv", layer_norm(w, f"{i}.ln1", x))
            q, k, v = (p.reshape(b, t, heads, -1).swapaxes(1, 2)
                       for p in jnp.split(qkv, 3, 2))
            y = attend(q, k, v).swapaxes(1, 2).reshape(b, t, width)
            x = x + linear(w, f"{i}.out", y)
            y = jax.nn.gelu(linear(w, f"{i}.up", layer_norm(w, f"{i}.ln2", x)))
            x = x + linear(w, f"{i}.down", y)
        return layer_norm(w, "ln", x) @ w["wte"].T

    return m.w, forward


def lstm(hidden):
    m = Maker()
    m.add("letters", LETTERS, hidden)
    m.linear("ih", hidden, 4 * hidden)
    m.linear("hh", hidden, 4 * hidden)
    m.linear("head", hidden, LETTERS)

    def forward(w, at):
        x = linear(w, "ih", w["letters"][at]).swapaxes(0, 1)

        def step(state, x):
            h, c = state
            i, f, g, o = jnp.split(x + linear(w, "hh", h), 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((at.shape[0], hidden))
        return linear(w, "head", lax.scan(step, (zero, zero), x)[1].swapaxes(0, 1))

    return m.w, forward


def resnet18():
    m = Maker()

    def conv_norm(name, n_in, n_out, size):
        m.add(name, size, size, n_in, n_out, scale=(2 / (n_in * size * size)) ** 0.5)
        m.norm(name, n_out)

    def run(w, name, x, by):
        size = w[name].shape[0]
        x = lax.conv_general_dilated(x, w[name], (by, by), [(size // 2,) * 2] * 2,
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * lax.rsqrt(var + 1e-5) * w[name + ".w"] + w[name + ".b"]

    blocks, n_in = [], 64
    conv_norm("first", 3, 64, 7)
    for stage in range(4):
        for k in range(2):
            name, out = f"{stage}.{k}", 64 << stage
            conv_norm(name + ".a", n_in, out, 3)
            conv_norm(name + ".b", out, out, 3)
            if n_in != out:
                conv_norm(name + ".c", n_in, out, 1)
            blocks.append((name, 2 if n_in != out else 1, n_in != out))
            n_in = out
    m.linear("fc", 512, 1000)

    def forward(w, x):
        x = jax.nn.relu(run(w, "first", x.transpose(0, 2, 3, 1), 2))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1),
                              ((0, 0), (1, 1), (1, 1), (0, 0)))
        for name, by, turns in blocks:
            y = jax.nn.relu(run(w, name + ".a", x, by))
            around = run(w, name + ".c", x, by) if turns else x
            x = jax.nn.relu(run(w, name + ".b", y, 1) + around)
        return linear(w, "fc", x.mean((1, 2)))

    return m.w, forward


# ---- training steps ---------------------------------------------------------


def adamw(w, g, m, v, t, lr=1e-4):
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    a, b = 1 - 0.9 ** t, jnp.sqrt(1 - 0.999 ** t)
    w = jax.tree.map(lambda w, m, v: w * (1 - 0.01 * lr)
                     - lr / a * m / (jnp.sqrt(v) / b + 1e-8), w, m, v)
    return w, m, v


def make_step(forward):
    def loss(w, x, y):
        out = forward(w, x)
        p = jax.nn.log_softmax(out.reshape(-1, out.shape[-1]))
        return -jnp.take_along_axis(p, y.reshape(-1, 1), 1).mean()

    def step(state, x, y):
        w, m, v, t = state
        value, g = jax.value_and_grad(loss)(w, x, y)
        return (*adamw(w, g, m, v, t), t + 1), value

    return jax.jit(step, donate_argnums=0)


def tokens(n, *shape):
    return jax.random.randint(jax.random.PRNGKey(2), shape, 0, n)


def floats(*shape):
    return jax.random.normal(jax.random.PRNGKey(3), shape)


# name: network, x, y
JOBS = {
    "mlp_64x256x4": lambda: (mlp(256), floats(64, 256), tokens(256, 64)),
    "mlp_256x1024x4": lambda: (mlp(1024), floats(256, 1024), tokens(1024, 256)),
    "lstm_16x64x128": lambda: (lstm(128), tokens(256, 16, 64), tokens(256, 16, 64)),
    "lstm_32x64x256": lambda: (lstm(256), tokens(256, 32, 64), tokens(256, 32, 64)),
    "resnet18_8x64": lambda: (resnet18(), floats(8, 3, 64, 64), tokens(1000, 8)),
    "gpt2_4x64": lambda: (gpt2(), tokens(VOCAB, 4, 64), tokens(VOCAB, 4, 64)),
    "gpt2_2x256": lambda: (gpt2(), tokens(VOCAB, 2, 256), tokens(VOCAB, 2, 256)),
}


def train(words):
    for name, make in JOBS.items():
        if not (any(w in name for w in words) if words else "gpt2" not in name):
            continue
        (w, forward), x, y = make()
        step = make_step(forward)
        zeros = jax.tree.map(jnp.zeros_like, w)
        state = (w, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(1))
        del w, zeros
        best, end, least = 1e9, now() + 1, 6
        while least > 0 or now() < end:
            start = now()
            state, value = step(state, x, y)
            value.block_until_ready()
            best = min(best, now() - start) if least <= 3 else best
            least -= 1
        show("train_" + name, best * 1e3, "ms")


# ---- small calls ------------------------------------------------------------


def overhead(_):
    def f(x, w):
        return jnp.tanh(x * w)

    both = jax.jit(lambda x, w, g: (lambda y, back: (y, *back(g)))(*jax.vjp(f, x, w)))
    forward = jax.jit(f)
    size = 64
    while size <= 1 << 20:
        x, w, g = floats(size), floats(size), jnp.ones(size)
        show("overhead_forward", least_us(lambda: forward(x, w).block_until_ready()),
             "us", size)
        show("overhead_forward_backward",
             least_us(lambda: both(x, w, g)[1].block_until_ready()), "us", size)
        size *= 4


def compile_times(_):
    x, w, b = jnp.ones((4, 4)), floats(4, 4), floats(4)
    jax.block_until_ready(jax.jit(lambda x: x + 1)(x))  # only the first one pays
    for n in (10, 100, 1000):
        def f(w):
            y = x
            for _ in range(n // 5):
                y = jnp.tanh(y @ w + b) * 0.5 + y
            return y.sum()

        start = now()
        jax.block_until_ready(jax.jit(jax.value_and_grad(f))(w))
        show("compile_cold", (now() - start) * 1e3, "ms", n)


if __name__ == "__main__":
    jobs = {"train": train, "overhead": overhead, "compile": compile_times}
    if len(sys.argv) < 2 or sys.argv[1] not in jobs:
        sys.exit(__doc__)
    jobs[sys.argv[1]](sys.argv[2:])
