"""python model_table.py FILE [--backends='tandem inductor'] [MODEL...]: runs models and
writes a table between the lines <!-- models --> and <!-- /models --> of FILE."""
import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from models import MODELS

here = Path(__file__).resolve().parent


def measure(name, backend, seconds):
    """One model in a process of its own: a row of run_model.py, or the reason it failed."""
    command = [sys.executable, str(here / "run_model.py"), name, backend]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {seconds} s"}
    except (IndexError, ValueError):
        lines = done.stderr.strip().splitlines() or ["no output"]
        return {"failed": lines[-1][:120]}


def graphs_of(row):
    """How the graphs were compiled: all by tandem, or the reasons."""
    reasons = [line.split(": ", 1)[1] for line in row["log"] if "tandem_aot: " in line]
    apart = sum("runs in PyTorch" in line for line in row["log"])
    text = "tandem" if not reasons else "tandem_aot: " + "; ".join(reasons)[:90]
    return text + (f" ({apart} calls in PyTorch)" if apart else "")


def line_of(name, rows, backends):
    first = rows[backends[0]]
    if "failed" in first:
        return f"| {name} | failed: {first['failed']} |" + " |" * (2 + 2 * len(backends))
    cells = [name, graphs_of(first), f"{first['grad']:.0e}", f"{first['eager_ms']:.1f}"]
    for b in backends:
        r = rows[b]
        cells += ["", ""] if "failed" in r else [f"{r['compile_s']:.1f}", f"{r['step_ms']:.1f}"]
    return "| " + " | ".join(cells) + " |"


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(": ")[1]
    return platform.machine()


def table(names, backends, seconds):
    head = "| model | graphs | gradients differ by | eager step, ms |"
    for b in backends:
        head += f" {b} compile, s | {b} step, ms |"
    lines = [head, "| --- | --- |" + " --: |" * (2 + 2 * len(backends))]
    for name in names:
        rows = {b: measure(name, b, seconds) for b in backends}
        lines.append(line_of(name, rows, backends))
        print(lines[-1], flush=True)
    return lines


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("file")
    parse.add_argument("--backends", default="tandem")
    parse.add_argument("--seconds", type=int, default=600)
    parse.add_argument("models", nargs="*")
    a = parse.parse_intermixed_args()
    backends = a.backends.split()
    lines = table(a.models or list(MODELS), backends, a.seconds)
    threads, clock = os.environ.get("THREADS", "2"), os.environ.get("CLOCK", "wall")
    note = (f"{datetime.date.today()}, {cpu_name()}, {threads} threads, {clock} time, "
            f"`make models BACKENDS='{a.backends}'`:")
    path = Path(a.file)
    text = path.read_text()
    begin, end = "<!-- models -->", "<!-- /models -->"
    before, rest = text.split(begin)
    path.write_text(before + begin + "\n" + note + "\n\n" + "\n".join(lines) + "\n" + end
                    + rest.split(end)[1])


if __name__ == "__main__":
    main()
