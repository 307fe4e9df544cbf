"""Reads tests/ops/samples_*.def and makes the numbers of their tensors.

The language is described in docs/testing.md. tests/ops/sample_parse.c and
tests/ops/sample_values.c read the same files and make the same numbers; a
change here is a change there.
"""
import re

MASK = (1 << 64) - 1
DTYPES = ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool",
          "c64", "c128", "u16", "u32", "u64", "f8e4m3", "f8e5m2"]
PARTS = {"c64": "f32", "c128": "f64"}  # a complex element is two numbers
BITS = {"f64": 20, "f32": 20, "f16": 10, "bf16": 7}
EIGHT = {"f8e4m3": 3, "f8e5m2": 2}  # floats without gradients
UNSIGNED = ("u8", "u16", "u32", "u64")


class Leaf:
    """One tensor literal: its storage's dtype and sizes, and how to fill it."""

    def __init__(self, dtype, size):
        self.dtype, self.size = dtype, size
        self.stride = None  # as_strided over a flat leaf when given
        self.hint, self.mod, self.values = None, None, None
        self.grad = dtype in BITS or dtype in PARTS

    def leaf_size(self):
        if self.stride is None:
            return list(self.size)
        if 0 in self.size:
            return [0]
        return [1 + sum((n - 1) * s for n, s in zip(self.size, self.stride))]


class Tensor:
    """A use of a leaf (or of argument `ref`) through a chain of views."""

    def __init__(self, leaf=None, ref=None):
        self.leaf, self.ref, self.views = leaf, ref, []


class Word:
    """dtype or none."""


class Sample:
    def __init__(self, tags, text, where):
        self.tags, self.text, self.where = tags, text, where
        self.leaves, self.args, self.kwargs = [], [], {}
        self.seed = fnv(text)
        p = Parser(text, self)
        self.op = p.ident()
        p.expect("(")
        for name, value in p.arguments():
            if name:
                self.kwargs[name] = value
            else:
                self.args.append(value)
        if p.pos != len(text):
            raise ValueError(f"{where}: text after the call: {text[p.pos:]}")


class Parser:
    def __init__(self, text, sample):
        self.text, self.pos, self.sample = text, 0, sample

    def fail(self, what):
        raise ValueError(f"{self.sample.where}: {what} at '{self.text[self.pos:]}' "
                         f"in {self.text}")

    def peek(self):
        return self.text[self.pos] if self.pos < len(self.text) else ""

    def take(self, s):
        if self.text.startswith(s, self.pos):
            self.pos += len(s)
            return True
        return False

    def expect(self, s):
        if not self.take(s):
            self.fail(f"'{s}' expected")

    def ident(self):
        m = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").match(self.text, self.pos)
        if not m:
            self.fail("a name expected")
        self.pos = m.end()
        return m.group()

    def arguments(self):
        out = []
        if self.take(")"):
            return out
        while True:
            m = re.compile(r"([a-z_][a-z0-9_]*)=").match(self.text, self.pos)
            name = None
            if m:
                name, self.pos = m.group(1), m.end()
            out.append((name, self.value()))
            if self.take(")"):
                return out
            self.expect(",")

    def number(self):
        m = re.compile(r"-?(inf|nan|[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?)").match(self.text, self.pos)
        if not m:
            self.fail("a value expected")
        self.pos = m.end()
        s = m.group()
        if any(c in s for c in ".ien"):
            return float(s)
        return int(s)

    def value(self):
        c = self.peek()
        if c == "[":
            self.pos += 1
            items = []
            if self.take("]"):
                return items
            while True:
                items.append(self.value())
                if self.take("]"):
                    return items
                self.expect(",")
        if c == '"':
            end = self.text.index('"', self.pos + 1)
            s = self.text[self.pos + 1:end]
            self.pos = end + 1
            return s
        if c == "&":
            self.pos += 1
            t = Tensor(ref=self.number())
            self.views(t)
            return t
        if c.isalpha() and not re.compile(r"inf|nan").match(self.text, self.pos):
            return self.word()
        return self.number()

    def word(self):
        w = self.ident()
        fixed = {"true": True, "false": False, "none": None}
        if w in fixed:
            return fixed[w]
        if w not in DTYPES:
            self.fail(f"unknown word {w}")
        if self.peek() != "[":
            d = Word()
            d.dtype = w
            return d
        return self.tensor(w)

    def ints(self, close):
        out = []
        if self.take(close):
            return out
        while True:
            out.append(self.number())
            if self.take(close):
                return out
            self.expect(",")

    def tensor(self, dtype):
        self.expect("[")
        leaf = Leaf(dtype, self.ints("]"))
        if self.take("{"):
            leaf.stride = self.ints("}")
        if self.take(":"):
            leaf.hint = self.ident()
        elif self.take("%"):
            leaf.mod = self.number()
        elif self.take("=("):
            leaf.values = []
            while True:
                leaf.values.append(self.number())
                if self.take(")"):
                    break
                self.expect(",")
        if self.take("!"):
            leaf.grad = False
        self.sample.leaves.append(leaf)
        t = Tensor(leaf=len(self.sample.leaves) - 1)
        self.views(t)
        return t

    def views(self, t):
        while self.take("."):
            name = self.ident()
            self.expect("(")
            t.views.append((name, [v for _, v in self.arguments()]))


def fnv(text):
    h = 0xCBF29CE484222325
    for b in text.encode():
        h = ((h ^ b) * 0x100000001B3) & MASK
    return h


def mix(x):
    x &= MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def draw(seed, leaf, i):
    return mix(seed + (leaf + 1) * 0x9E3779B97F4A7C15 + (i + 1) * 0xD1B54A32D192ED03)


def plain(dtype, h):
    """The number of hash h without a hint: an odd fraction in (-4, 4), never 0."""
    if dtype == "bool":
        return h & 1
    if dtype in UNSIGNED:
        return h % 20
    b = BITS.get(dtype) or EIGHT.get(dtype)
    if not b:
        return h % 19 - 9
    return (2 * (h % (1 << (b + 1))) + 1 - (1 << (b + 1))) / (1 << (b - 1))


def ranks(seed, leaf, n):
    order = sorted(range(n), key=lambda i: (draw(seed, leaf, i), i))
    rank = [0] * n
    for r, i in enumerate(order):
        rank[i] = r
    return rank


def mirrored(seed, leaf, dtype, size, n, hint):
    """Symmetric matrices of numbers in (-1, 1); spd adds their size to the diagonal."""
    k, out = size[-1], []
    for i in range(n):
        row, col = i // k % k, i % k
        other = i + (col - row) * k + row - col
        v = plain(dtype, draw(seed, leaf, min(i, other))) / 4
        out.append(abs(v) + k if row == col and hint == "spd" else v)
    return out


def numbers(seed, leaf, dtype, n, hint=None, mod=None, size=None):
    """n numbers for leaf number `leaf` of the sample with this seed."""
    if dtype in PARTS:
        dtype, n = PARTS[dtype], 2 * n
    fl = dtype in BITS or dtype in EIGHT
    if hint in ("mirror", "spd"):
        return mirrored(seed, leaf, dtype, size, n, hint)
    if hint == "distinct":
        r = ranks(seed, leaf, n)
        if fl:
            return [(4 * x + 1 - 2 * n) / 32 for x in r]
        return [x if dtype in UNSIGNED else x - n // 2 for x in r]
    out = []
    for i in range(n):
        h = draw(seed, leaf, i)
        v = plain(dtype, h)
        if mod is not None:
            v = h % mod if mod > 0 else h % (-2 * mod) + mod
        elif hint == "pos":
            v = abs(v)
        elif hint == "unit":
            v = abs(v) / 4
        elif hint == "sym":
            v = v / 4
        elif hint == "int":
            v = h % 9 if dtype in UNSIGNED else h % 9 - 4
        elif hint == "nz":
            v = h % 9 + 1
            if (h >> 32) & 1 and dtype not in UNSIGNED + ("bool",):
                v = -v
        elif hint == "zeros":
            v = 0
        elif hint == "ones":
            v = 1
        elif hint == "x16":
            v = v * 16
        elif hint is not None:
            raise ValueError(f"unknown hint {hint}")
        out.append(v)
    return out


def expand(text):
    """{a|b} becomes one text for each choice; @1 repeats the first choice."""
    out = [(text, [])]
    group = re.compile(r"\{([^{}]*\|[^{}]*)\}")
    while True:
        m = group.search(out[0][0])
        if not m:
            break
        new = []
        for t, picked in out:
            m = group.search(t)
            for c in m.group(1).split("|"):
                new.append((t[:m.start()] + c + t[m.end():], picked + [c]))
        out = new
    return [re.sub(r"@([1-9])", lambda m: p[int(m.group(1)) - 1], t) for t, p in out]


def read(path):
    """All samples of a file, expanded, in order."""
    sets, default, out = {}, [], []
    for nr, line in enumerate(open(path), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        where = f"{path}:{nr}"
        if line.startswith("let "):
            name, value = line[4:].split("=", 1)
            sets[name.strip()] = substitute(value.replace(" ", ""), sets)
            continue
        if line.startswith("tags"):
            default = line[4:].split()
            continue
        tags = list(default)
        if line.startswith("["):
            end = line.index("]")
            tags += line[1:end].split()
            line = line[end + 1:]
        line = substitute(re.sub(r"\s+", "", line), sets)
        out += [Sample(tags, t, where) for t in expand(line)]
    return out


def substitute(text, sets):
    return re.sub(r"\$([a-z0-9_]+)", lambda m: sets[m.group(1)], text)
