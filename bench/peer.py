"""What the peers measure with: the clock, the least time of a call, the most bytes.

BENCH_CLOCK=cpu counts the processor time of this process.
"""
import os
import time

CPU = os.environ.get("BENCH_CLOCK") == "cpu"
now = time.process_time if CPU else time.perf_counter


def least_us(fn):
    """The least of many batches of 20 calls within 0.2 s, for one call."""
    for _ in range(20):
        fn()
    best, end = 1e9, now() + 0.2
    while now() < end:
        start = now()
        for _ in range(20):
            fn()
        best = min(best, (now() - start) / 20)
    return best * 1e6


def torch_peak_mib(step):
    """The most bytes PyTorch holds during step, beyond those held before it."""
    import torch

    with torch.profiler.profile(profile_memory=True) as prof:
        step()
    held = peak = 0
    for event in prof.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak / 1048576
