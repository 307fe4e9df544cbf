"""python small_calls.py [BACKEND...]: microseconds of tanh(x * w + 1).sum() on 64 elements,
forward, and forward and backward, and the seconds of its first call."""
import sys
import time

import torch

import tandem.torch  # noqa: F401


def best(f, calls=20, rounds=300):
    """The least microseconds of a call: other processes only add."""
    least = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            f()
        least = min(least, (time.perf_counter() - begin) / calls)
    return least * 1e6


def main():
    torch.set_num_threads(1)
    x, w = torch.randn(64), torch.randn(64, requires_grad=True)
    for name in ["eager", *(sys.argv[1:] or ["tandem", "tandem_aot", "aot_eager", "inductor"])]:
        def body(x, w):
            return torch.tanh(x * w + 1).sum()
        torch._dynamo.reset()
        f = body if name == "eager" else torch.compile(body, backend=name)

        def both():
            w.grad = None
            f(x, w).backward()

        begin = time.perf_counter()
        both()
        first = time.perf_counter() - begin
        print(f"{name:12} first call {first:7.2f} s, forward {best(lambda: f(x, w)):6.1f} us, "
              f"forward and backward {best(both):6.1f} us", flush=True)


if __name__ == "__main__":
    main()
