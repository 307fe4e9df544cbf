"""python model_table.py FILE [--rows=ROWS] [--backends='tandem inductor'] [--table] [MODEL...]: runs
models, appends a row for each to ROWS, and writes the table of all rows between the lines
<!-- models --> and <!-- /models --> of FILE. A model that has a row runs if it is named."""
import argparse
import datetime
import importlib
import json
import multiprocessing
import os
import platform
import tempfile
from pathlib import Path

import run_model
from models import MODELS


def child(pipe, name, backend, cache):
    """Measures in this process, which the parent forked, and sends the row."""
    os.environ.update(TD_CACHE_DIR=cache, TORCHINDUCTOR_CACHE_DIR=cache)
    try:
        pipe.send(run_model.row_of(name, backend))
    except BaseException as e:
        pipe.send({"failed": f"{type(e).__name__}: {e}".splitlines()[0][:120]})


def measure(name, backend, seconds):
    """One model in a process of its own, with empty caches: a row of run_model.py, or the
    reason it failed. A fork has imported what is imported here."""
    with tempfile.TemporaryDirectory() as cache:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(
            target=child, args=(theirs, name, backend, cache))
        process.start()
        theirs.close()
        try:
            return ours.recv() if ours.poll(seconds) else {"failed": f"more than {seconds} s"}
        except EOFError:
            process.join()
            return {"failed": f"ended with {process.exitcode}"}
        finally:
            process.kill()
            process.join()


def preload():
    for library in ("torchvision", "timm", "transformers", "diffusers"):
        try:
            importlib.import_module(library)
        except ImportError:
            pass


def measured(path):
    """{(model, backend): row} of a file of rows; the last row of a pair counts."""
    if not path.exists():
        return {}
    rows = map(json.loads, path.read_text().splitlines())
    return {(r["model"], r["backend"]): r for r in rows}


def add_row(path, row):
    with path.open("a") as f:
        f.write(json.dumps(row) + "\n")


def sentence(row):
    """Why calls of the model run in PyTorch or through tandem_aot; "" if none does."""
    reasons = {x.split(": ", 1)[1] for x in row["log"] if ": " in x}
    return "; ".join(sorted(reasons))[:90].replace("|", "/")


def line_of(name, rows, backends):
    first = rows[backends[0]]
    if "failed" in first:
        return f"| {name} | failed: {first['failed']} |" + " |" * (3 + 2 * len(backends))
    ours, calls = first["coverage"]
    why = sentence(first)
    cells = [name, f"{first['params'] / 1e6:.2f}", f"{ours} / {calls}" + (f": {why}" if why else ""),
             f"{first['grad']:.0e}", f"{first['eager_ms']:.1f}"]
    for b in backends:
        r = rows.get(b, {"failed": ""})
        cells += ["", ""] if "failed" in r else [f"{r['compile_s']:.1f}", f"{r['step_ms']:.1f}"]
    return "| " + " | ".join(cells) + " |"


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(": ")[1]
    return platform.machine()


def table(names, backends, rows):
    head = "| model | parameters, M | ops compiled / all | gradients differ by | eager step, ms |"
    for b in backends:
        head += f" {b} compile, s | {b} step, ms |"
    lines = [head, "| --- | --: | --- |" + " --: |" * (2 + 2 * len(backends))]
    for name in names:
        if (name, backends[0]) in rows:
            of = {b: rows[name, b] for b in backends if (name, b) in rows}
            lines.append(line_of(name, of, backends))
    return lines


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("file")
    parse.add_argument("--rows", type=Path, default=Path("models.jsonl"))
    parse.add_argument("--backends", default="tandem")
    parse.add_argument("--seconds", type=int, default=600)
    parse.add_argument("--table", action="store_true", help="write the table, run nothing")
    parse.add_argument("models", nargs="*")
    a = parse.parse_intermixed_args()
    backends = a.backends.split()
    rows = measured(a.rows)
    if not a.table:
        preload()
    for name in [] if a.table else a.models or list(MODELS):
        for b in backends:
            if a.models or (name, b) not in rows:
                row = {"model": name, "backend": b, **measure(name, b, a.seconds)}
                add_row(a.rows, row)
                print({k: v for k, v in row.items() if k != "log"}, *row.get("log", []),
                      sep="\n    ", flush=True)
    rows = measured(a.rows)
    backends = [b for b in ("tandem", "tandem_aot", "inductor", "aot_eager")
                if any(of == b for _, of in rows)]
    lines = table(list(MODELS), backends, rows)
    threads, clock = os.environ.get("THREADS", "2"), os.environ.get("CLOCK", "wall")
    note = (f"{datetime.date.today()}, {cpu_name()}, {threads} thread(s), {clock} time, "
            f"`make models BACKENDS='{' '.join(backends)}'`:")
    path = Path(a.file)
    text = path.read_text()
    begin, end = "<!-- models -->", "<!-- /models -->"
    before, rest = text.split(begin)
    path.write_text(before + begin + "\n" + note + "\n\n" + "\n".join(lines) + "\n" + end
                    + rest.split(end)[1])


if __name__ == "__main__":
    main()
