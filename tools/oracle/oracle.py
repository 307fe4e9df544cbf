"""Writes tests/ops/expected/*.bin: what PyTorch says about every sample.

    python tools/oracle/oracle.py              all families
    python tools/oracle/oracle.py pointwise    one family
    python tools/oracle/oracle.py --show 'mul(f32[2],2)'   print, store nothing

Developer-only: needs a Python with torch; `make test` reads the stored files.
The file format is described at the top of tests/ops/expected.c.
"""
import glob
import os
import struct
import sys
import warnings

import torch

import samples
from torch_ops import call, VIEWS

HERE = os.path.dirname(os.path.abspath(__file__))
OPS = os.path.normpath(os.path.join(HERE, "..", "..", "tests", "ops"))

DT = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
      "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
      "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
      "c64": torch.complex64, "c128": torch.complex128, "u16": torch.uint16,
      "u32": torch.uint32, "u64": torch.uint64, "f8e4m3": torch.float8_e4m3fn,
      "f8e5m2": torch.float8_e5m2}
DT_NR = {DT[name]: i for i, name in enumerate(samples.DTYPES)}

OK, ERROR, LACKS = 0, 1, 2
GRAD, VALUES, STRIDED = 1, 2, 4


class Bytes:
    def __init__(self):
        self.b = bytearray()

    def u8(self, v):
        self.b.append(v)

    def varint(self, v):
        while v >= 128:
            self.b.append(v & 127 | 128)
            v >>= 7
        self.b.append(v)

    def tensor(self, t, alias, values):
        flags = (GRAD if t.requires_grad else 0) | (VALUES if values else 0)
        if not dense(t):
            flags |= STRIDED
        for v in (DT_NR[t.dtype], t.dim(), flags, alias):
            self.u8(v)
        for v in (t.storage_offset(), *t.size()):
            self.varint(v)
        if flags & STRIDED:
            for s in t.stride():
                self.varint(s)
        if values:
            self.raw(t)

    def raw(self, t):
        if t.numel() > 65536:
            raise ValueError("a sample's tensor is too big to store")
        t = t.detach().resolve_conj().clone(memory_format=torch.contiguous_format)
        t = torch.view_as_real(t).view(-1) if t.is_complex() else t.view(-1)
        self.b += t.view(torch.uint8).numpy().tobytes()


def dense(t):
    """Row-major strides, to the last bit (also of dims of size 0 and 1)."""
    expect = 1
    for n, s in zip(reversed(t.size()), reversed(t.stride())):
        if s != expect:
            return False
        expect *= max(n, 1)
    return True


def fill(seed, leaf, dtype, size, hint=None, mod=None, values=None):
    n = 1
    for s in size:
        n *= s
    v = values if values is not None else samples.numbers(seed, leaf, dtype, n, hint, mod, size)
    if dtype in samples.PARTS:
        pairs = torch.tensor([float(x) for x in v], dtype=torch.float64).view(-1, 2)
        t = torch.view_as_complex(pairs).to(DT[dtype])
    elif dtype in samples.BITS or dtype in samples.EIGHT:
        t = torch.tensor([float(x) for x in v], dtype=torch.float64).to(DT[dtype])
    else:
        t = torch.tensor([int(x) for x in v], dtype=torch.int64).to(DT[dtype])
    return t.view(size)


class Run:
    """One sample executed by PyTorch."""

    def __init__(self, s):
        self.s = s
        self.writes = s.op.endswith("_") or "writes" in s.tags
        want_grad = "nograd" not in s.tags
        self.leaves, self.bases = [], []
        for i, l in enumerate(s.leaves):
            t = fill(s.seed, i, l.dtype, l.leaf_size(), l.hint, l.mod, l.values)
            if l.grad and want_grad:
                t.requires_grad_(True)
            self.leaves.append(t)
            self.bases.append(t.clone() if self.writes else t)
        self.before = [b.detach().clone() for b in self.bases]
        self.made = {}  # positional argument -> tensor
        self.used = {}  # leaf -> the tensor that was passed
        self.args = [self.build(a, i) for i, a in enumerate(s.args)]
        self.kwargs = {k: self.build(v, None) for k, v in s.kwargs.items()}
        self.geometry = {i: geometry(t) for i, t in self.used.items()}

    def build(self, v, position):
        if isinstance(v, list):
            return [self.build(x, None) for x in v]
        if isinstance(v, samples.Word):
            return DT[v.dtype]
        if not isinstance(v, samples.Tensor):
            return v
        if v.ref is not None:
            t = self.made[v.ref]
        else:
            l = self.s.leaves[v.leaf]
            t = self.bases[v.leaf]
            if l.stride is not None:
                t = t.as_strided(l.size, l.stride)
        for name, args in v.views:
            args = [self.build(a, None) for a in args]
            t = VIEWS[name](t, *args) if name in VIEWS else getattr(t, name)(*args)
        if v.ref is None:
            self.used[v.leaf] = t
        if position is not None:
            self.made[position] = t
        return t

    def run(self):
        out = call(self.s.op, self.args, self.kwargs)
        if isinstance(out, torch.Tensor):
            return [out]
        return [o for o in (out if isinstance(out, (list, tuple)) else [])]

    def alias(self, t, earlier):
        for i, b in enumerate(self.bases):
            if b.untyped_storage()._cdata == t.untyped_storage()._cdata:
                return i + 1
        for i, o in enumerate(earlier):
            if o.untyped_storage()._cdata == t.untyped_storage()._cdata:
                return 64 + i
        return 0

    def gradients(self, outs):
        """Gradients of every leaf for hashed tangents; None: not stored."""
        need = [t for t in self.leaves if t.requires_grad]
        ends = [o for o in outs if o.requires_grad]
        if self.writes:
            ends += [b for i, b in enumerate(self.bases)
                     if b.requires_grad and self.used.get(i) is not b]
        if not need or not ends:
            return None
        names = {v: k for k, v in DT.items()}
        tangents = [fill(self.s.seed, 100 + i, names[o.dtype], list(o.size()))
                    for i, o in enumerate(ends)]
        got = torch.autograd.grad(ends, need, tangents, allow_unused=True)
        return {id(t): g for t, g in zip(need, got)}


def geometry(t):
    return (list(t.size()), list(t.stride()), t.storage_offset(), t.dtype,
            t.untyped_storage()._cdata)


def same(a, b):
    if a.size() != b.size():
        return False
    if a.dtype.itemsize == 1:
        a, b = a.view(torch.uint8), b.view(torch.uint8)
    eq = (a == b) | ((a != a) & (b != b))
    return bool(eq.all())




def lacks(e):
    """The op is defined for such inputs, but PyTorch's CPU has no kernel for the dtype."""
    return "not implemented for '" in str(e) or "unsupported scalarType" in str(e)


def record(s, log):
    b = Bytes()
    try:
        r = Run(s)
    except Exception as e:
        raise ValueError(f"{s.where}: {s.text}: cannot build the arguments: {e}") from e
    try:
        outs = r.run()
    except TypeError as e:
        raise ValueError(f"{s.where}: {s.text}: wrong call: {e}") from e
    except (RuntimeError, IndexError, ValueError, ZeroDivisionError) as e:
        if not {"error", "any"} & set(s.tags) and not lacks(e):
            raise ValueError(f"{s.where}: {s.text}: not expected to fail: {e}") from e
        log(f"{s.text}: {type(e).__name__} {str(e).splitlines()[0]}")
        b.u8(LACKS if lacks(e) and "error" not in s.tags else ERROR)
        return bytes(b.b)
    if "error" in s.tags:
        raise ValueError(f"{s.where}: {s.text}: expected to fail but does not")
    b.u8(OK)
    b.u8(len(outs))
    for i, o in enumerate(outs):
        b.tensor(o, r.alias(o, outs[:i]), "random" not in s.tags)
    changes(b, r, "random" not in s.tags)
    gradient_bytes(b, r, outs, log)
    return bytes(b.b)


def changes(b, r, values):
    """What the call did to its arguments: written bases, changed geometry."""
    found = []
    for i, base in enumerate(r.bases):
        if geometry(base)[:3] != geometry(r.before[i])[:3] or not same(base.detach(), r.before[i]):
            found.append((0, i, base))
        used = r.used.get(i)
        if used is not None and used is not base and geometry(used) != r.geometry[i]:
            found.append((1, i, used))
    b.u8(len(found))
    for kind, i, t in found:
        b.u8(kind)
        b.u8(i)
        b.tensor(t, r.alias(t, []), values)


def gradient_bytes(b, r, outs, log):
    grads = None
    if not {"random", "nograd", "owngrad", "signs"} & set(r.s.tags):
        try:
            grads = r.gradients(outs)
        except (RuntimeError, NotImplementedError) as e:
            log(f"{r.s.text}: no gradient: {str(e).splitlines()[0]}")
    b.u8(0 if grads is None else 1)
    if grads is None:
        return
    for t in r.leaves:
        g = grads.get(id(t))
        b.u8(0 if g is None else 1)
        if g is not None:
            b.raw(g)


def write(family, log):
    payload, count, bad, seen = bytearray(), 0, 0, {}
    for s in samples.read(os.path.join(OPS, f"samples_{family}.def")):
        if s.seed in seen:  # what is stored must fit both
            if (set(s.tags) ^ set(seen[s.seed])) & {"nograd", "random", "owngrad", "signs", "writes"}:
                print(f"{s.where}: {s.text}: there already with other tags")
                bad += 1
            continue
        seen[s.seed] = s.tags
        try:
            body = record(s, log)
        except ValueError as e:
            print(e)
            bad += 1
            continue
        payload += struct.pack("<QI", s.seed, len(body)) + body
        count += 1
    version = torch.__version__.encode()
    h = fnv_bytes(payload)
    head = b"TDEXPCT1" + struct.pack("<I", len(version)) + version
    head += struct.pack("<IQQ", count, len(payload), h)
    os.makedirs(os.path.join(OPS, "expected"), exist_ok=True)
    with open(os.path.join(OPS, "expected", f"{family}.bin"), "wb") as f:
        f.write(head + payload)
    print(f"{family}: {count} samples, {len(payload)} bytes, {bad} bad")
    return bad


def fnv_bytes(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & samples.MASK
    return h


def show(text):
    s = samples.Sample(["any"], text.replace(" ", ""), "argument")
    r = Run(s)
    print("inputs:", *[t.tolist() for t in r.leaves], sep="\n  ")
    try:
        outs = r.run()
    except Exception as e:
        print("error:", e)
        return
    for i, o in enumerate(outs):
        print(f"out {i}: {o.dtype} {list(o.size())} strides {list(o.stride())} "
              f"offset {o.storage_offset()} alias {r.alias(o, outs[:i])}\n  {o.tolist()}")
    grads = r.gradients(outs) or {}
    for i, t in enumerate(r.leaves):
        g = grads.get(id(t))
        print(f"gradient {i}: {None if g is None else g.tolist()}")


def main():
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    args = sys.argv[1:]
    if args and args[0] == "--show":
        return show(args[1])
    verbose = "-v" in args
    families = [a for a in args if a != "-v"]
    if not families:
        families = sorted(os.path.basename(p)[8:-4]
                          for p in glob.glob(os.path.join(OPS, "samples_*.def")))
    log = print if verbose else (lambda text: None)
    sys.exit(1 if sum([write(f, log) for f in families]) else 0)


if __name__ == "__main__":
    main()
