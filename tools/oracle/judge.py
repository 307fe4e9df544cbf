"""Runs programs in PyTorch and in Tandem, and sorts what differs.

    python tools/oracle/judge.py [OPTION]... [FILE.td | DIRECTORY]...

    --count=N     N random programs of build/fuzz/programs, from --seed=S (1) on
    --wide        random programs with wider cases (docs/testing.md)
    --with=PARTS  random programs of a grown grammar (docs/testing.md)
    --aot         compares PyTorch eager with PyTorch under aot_eager as well
    --save=DIR    small forms of unexplained programs (build/judge)
    --most=N      makes at most N of them small (10)
    --verbose     every difference, also the documented ones

Values, dtypes, strides, aliasing, writes, versions, flags, gradients and errors of
every case are compared. Each difference must belong to a class of differences.ini,
which docs/differences.md documents; any other fails. PyTorch runs in a child process:
where it dies, that is a difference of its program, and the others go on.

Developer-only: needs a Python with torch, build/tandem and build/fuzz/programs.
"""
import collections
import glob
import os
import re
import subprocess
import sys
import time
import warnings

import torch

import judge_child
import judge_classes
import judge_shrink
import td_text
from case_compare import Difference, Loosely, Within, differences, is_done
from tandem_run import ROOT, run_file, run_text
from torch_case import Case, drawn_inputs
from torch_code import DRAWS, Unsupported
from torch_ops import FORMULAS

FUZZ = os.environ.get("TANDEM_FUZZ", os.path.join(ROOT, "build", "fuzz", "programs"))
BATCH = 250  # random programs of one process
RUNS = 12    # with other rounding, where values differ

Program = collections.namedtuple("Program", "label text funcs stmts theirs draws")


# ---- programs ----

def file_programs(path):
    with open(path) as f:
        text = f.read()
    funcs, cases = td_text.parse(text)
    if not cases:
        return
    report = run_file(path)
    draws = drawn_inputs(cases, run_text)
    for (name, stmts), theirs in zip(cases, report["cases"]):
        yield Program(f"{path}: {name}", text, funcs, stmts, theirs, draws)


def text_programs(label, text):
    funcs, cases = td_text.parse(text)
    try:
        report = run_text(text)
    except RuntimeError as e:
        if len(cases) == 1:
            yield Program(label, text, funcs, cases[0][1], {"dies": str(e)}, {})
            return
        raise
    draws = drawn_inputs(cases, run_text)
    for (_, stmts), theirs in zip(cases, report["cases"]):
        yield Program(label, text, funcs, stmts, theirs, draws)


def random_texts(seed, count, options):
    """(seed, text) of random programs, each with one case called "seed N"."""
    command = [FUZZ, f"--seed={seed}", f"--count={count}", "--print", "--public"]
    r = subprocess.run(command + options, capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(r.stderr or f"{FUZZ}: status {r.returncode}")
    rest = r.stdout
    while True:
        m = re.search(r'^case "seed (\d+)" \{\n(?:.*\n)*?\}\n(?=func |\Z)', rest, re.M)
        if not m:
            return
        yield int(m.group(1)), rest[:m.end()]
        rest = rest[m.end():]


def renamed(text, seed):
    """Functions of several programs in one file need names of their own."""
    return re.sub(r"@([A-Za-z_]\w*)", rf"@\1_{seed}", text)


def batch_programs(texts):
    whole = "".join(renamed(t, s) for s, t in texts.items())
    try:
        for p in text_programs("", whole) if whole else []:
            own = int(p.theirs["case"].split()[1])
            yield p._replace(label=f"seed {own}", text=texts[own])
    except RuntimeError:  # Tandem dies on one of them
        for s, t in texts.items():
            yield from text_programs(f"seed {s}", t)


def batches(files, seed, count, options):
    """Lists of programs."""
    found = [p for name in files for p in (
        sorted(glob.glob(name + "/**/*.td", recursive=True)) if os.path.isdir(name) else [name])]
    for i in range(0, len(found), BATCH):
        yield [p for path in found[i:i + BATCH] for p in file_programs(path)]
    for first in range(seed, seed + count, BATCH):
        texts = dict(random_texts(first, min(BATCH, seed + count - first), options))
        yield list(batch_programs(texts))


# ---- judging ----

def judge(p, classes):
    """(differences with their class or None, whether values were compared)."""
    if "dies" in p.theirs:
        return [(Difference("tandem dies", p.theirs["dies"], 0), None)], False
    got = Case(p.funcs, p.stmts, p.theirs, p.draws).run()
    order = 1 + sum(orders(p.stmts))
    if any(order >= least and op in p.text for op, (least, _) in FORMULAS.items()):
        take_gradients(got, Case(p.funcs, p.stmts, p.theirs, p.draws, order=order).run())
    if got["loose"]:
        drop_elements(got)
    found = list(judge_classes.sort(differences(got, p.theirs, Loosely()), p.text, classes,
                                    got["notes"]))
    if any(c is None and d.kind.endswith((".elements", ".sizes")) for d, c in found):
        found = judge_rounding(p, got, classes)
    if any(c is None and CHECKPOINT.search(d.text) for d, c in found):
        found = judge_checkpoint(p, found, classes)
    if any(c is None and is_saved_more(d) for d, c in found):
        found = judge_saved(p, found, classes)
    return found, not got["loose"]


# A checkpoint of PyTorch's does not see that its region wrote what backward reads.
CHECKPOINT = re.compile("td_checkpoint: backward needs a value .* modified it in place")
MODIFIED = re.compile("needed for gradient computation has been modified by an inplace")


def without(stmts, options):
    return [s._replace(kwargs={k: v for k, v in s.kwargs.items() if k not in options},
                       body=without(s.body, options) if s.kind == "region" else s.body)
            for s in stmts]


def judge_checkpoint(p, found, classes):
    """The same, where PyTorch without the checkpoint says what Tandem says with it. A checkpoint
    takes the place of other hooks on saved values, so these go too."""
    stmts = without(p.stmts, ("checkpoint", "hooks"))
    plain = Case(p.funcs, stmts, p.theirs, p.draws).run()
    if plain["ok"] or not MODIFIED.search(plain["torch_says"]):
        return found
    named = [d._replace(why="checkpoint-versions") if CHECKPOINT.search(d.text) else d
             for d, _ in found]
    return list(judge_classes.sort(named, p.text, classes, plain["notes"]))


def is_saved_more(d):
    """PyTorch misses a value in backward, and Tandem goes on."""
    return d.kind in ("torch fails", "fail elsewhere") and MISSES.search(d.text)


MISSES = re.compile(r"^(backward|call): (\S+: )?(one of the variables needed for gradient computation has "
                    "been modified by an inplace|Trying to backward through the graph a second|"
                    r"Output \d+ of \S+ is a view and its base or another view of its base has been modified)")


# Tandem refuses a value, which it saves as PyTorch does.
REFUSES = re.compile("its backward needs .* but it has been modified in place by")


def judge_saved(p, found, classes):
    """The same, where Tandem's gradients are those of a PyTorch that saves copies: then
    Tandem does not read what was written, or reads what it was. It may refuse another value,
    in a step in which PyTorch, had it come there, reads one that was written."""
    for retain in (False, True):  # a second backward may need what Tandem never saved
        how = dict(by_value=True, retain=retain)
        got = Case(p.funcs, p.stmts, p.theirs, p.draws, **how).run()
        if got["loose"]:
            drop_elements(got)
        rest = judge_rounding(p, got, classes, **how)
        if sum(map(is_done, p.theirs["steps"])) in got["overwritten"]:
            rest = judge_classes.sort([
                d._replace(why="fewer-saved-values") if REFUSES.search(d.text) else d
                for d, _ in rest], p.text, classes, got["notes"])
            rest = list(rest)
        if all(c for _, c in rest):
            named = [d._replace(why="fewer-saved-values") if is_saved_more(d) else d
                     for d, _ in found]
            return list(judge_classes.sort(named, p.text, classes, got["notes"])) + rest
    return found


def orders(stmts):
    """For each statement, by how much it raises the order of the gradients there are."""
    for s in stmts:
        if s.kind == "region":
            yield from orders(s.body)
        else:
            yield bool(s.kwargs.get("create_graph")) + bool(s.kwargs.get("grads"))


def take_gradients(got, by):
    """Gives the gradients of a report the elements of another run's."""
    for step, other in zip(got["steps"], by["steps"]):
        for g, h in zip(step.get("gradients", []), other.get("gradients", [])):
            if "elements" in g and "elements" in h:
                g["elements"] = h["elements"]


def judge_rounding(p, got, classes, **how):
    """The same, where what PyTorch itself computes when it rounds otherwise is taken
    for equal: the first difference then says so. The runs retain graphs, because an op written
    out in its parts frees what PyTorch's op would not."""
    how["retain"] = True
    runs = [Case(p.funcs, p.stmts, p.theirs, p.draws, run=i, **how).run() for i in range(RUNS)]
    within = Within(runs)
    within.settle(got, p.theirs)
    notes = got["notes"] + ["sizes-of-rounded"] * (not sizes_agree([got] + runs))
    notes += ["bits-of-rounded"] * within.used
    found = list(differences(got, p.theirs, Loosely()))
    if within.used:
        found.insert(0, Difference("elements", "rounded otherwise", 0, "last-bits"))
    return list(judge_classes.sort(found, p.text, classes, notes))


def sizes_agree(runs):
    """Have the outputs of all runs the same sizes?"""
    return all(len({tuple(v.get("sizes", [])) for v in values}) == 1
               for steps in zip(*[r["steps"] for r in runs])
               for values in zip(*[s.get("outputs", []) for s in steps]))


def drop_elements(report):
    for step in report["steps"]:
        for values in step.values():
            for v in values if isinstance(values, list) else []:
                v.pop("elements", None)


def judged(p, classes, aot=False):
    """What a child does with a program: (found, compared), or why PyTorch cannot run it."""
    try:
        for d in judge_aot(p) if aot else []:
            print(f"{p.label}: aot_eager: {d.kind}: {d.text}"[:400], flush=True)
        return judge(p, classes)
    except Unsupported as e:
        return str(e)


def judge_all(ps, classes, aot=False):
    for p, outcome in judge_child.each(ps, lambda p: judged(p, classes, aot)):
        if isinstance(outcome, judge_child.Died):
            died = [Difference("torch dies", outcome.how, 0)]
            outcome = list(judge_classes.sort(died, p.text, classes)), False
        yield p, outcome


def judge_text(text, classes):
    """The unexplained differences of a program given as text; None: it cannot run."""
    try:
        ps = list(text_programs("", text))[:1]
    except (SyntaxError, RuntimeError, KeyError, IndexError):
        return None
    for _, outcome in judge_all(ps, classes):
        if not isinstance(outcome, str):
            return [d for d, c in outcome[0] if c is None]
    return None


# What compiling by PyTorch is free to change.
FREE = re.compile(r".*\.(version|is_view|grad_fn|offset)")


def judge_aot(p):
    """What PyTorch itself does differently under aot_eager."""
    if any(s.op in DRAWS for f in p.funcs.values() for s in f.body):
        return []
    torch._dynamo.reset()
    eager = Case(p.funcs, p.stmts, p.theirs, p.draws).run()
    compiled = Case(p.funcs, p.stmts, p.theirs, p.draws, wrap=lambda fn: torch.compile(
        fn, backend="aot_eager", dynamic=False)).run()
    if not compiled["ok"]:
        compiled["error"] = {"message": compiled["torch_says"]}
    return [d for d in differences(eager, compiled, Loosely())
            if not FREE.fullmatch(d.kind)]


class Tally:
    def __init__(self, verbose):
        self.n, self.verbose = collections.Counter(), verbose
        self.classes, self.skipped = collections.Counter(), collections.Counter()
        self.first, self.bad = {}, []

    def add(self, p, found, compared):
        unexplained = [d for d, c in found if c is None]
        self.n["programs"] += 1
        self.n["fail in both"] += not found and not p.theirs.get("ok")
        self.n["values not compared"] += not compared
        for c in {c.name for _, c in found if c}:
            self.classes[c] += 1
            self.first.setdefault(c, p.label)
        if unexplained:
            self.bad.append((p, unexplained))
        if unexplained or (found and self.verbose):
            print(p.label)
            for d, c in sorted(found, key=lambda f: f[1] is not None)[:6]:  # unexplained first
                print(f"    {c.name if c else '?'}: {d.kind}: {d.text}"[:400], flush=True)

    def skip(self, p, why):
        self.n["programs"] += 1
        self.skipped[re.sub(r"\d+", "N", str(why))[:70]] += 1
        if self.verbose:
            print(f"{p.label}: {why}"[:400], flush=True)

    def report(self, seconds):
        agree = self.n["programs"] - sum(self.skipped.values()) - len(self.bad)
        print(f"{self.n['programs']} programs in {seconds:.0f} s: {agree} agree, of these "
              f"{self.n['fail in both']} fail in both, {self.n['values not compared']} "
              f"without values; {sum(self.skipped.values())} not expressible; "
              f"{len(self.bad)} unexplained")
        for c, n in self.classes.most_common():
            print(f"documented {n:6d}  {c} ({self.first[c]})")
        for why, n in self.skipped.most_common():
            print(f"not expressible {n:4d}  {why}")


def save_small(bad, folder, most, classes):
    os.makedirs(folder, exist_ok=True)
    for i, (p, unexplained) in enumerate(bad[:most]):
        text = judge_shrink.shrink(p.text, unexplained[0], lambda t: judge_text(t, classes))
        name = re.sub(r"\W+", "-", p.label)[-60:].strip("-")
        with open(os.path.join(folder, name + ".td"), "w") as f:
            f.write(f"# {p.label}\n# {unexplained[0].kind}: {unexplained[0].text}\n\n{text}")
        print(f"small: {os.path.join(folder, name + '.td')}", flush=True)


def options(args):
    opt = {"seed": 1, "count": 0, "save": os.path.join(ROOT, "build", "judge"), "most": 10,
           "wide": False, "with": "", "aot": False, "verbose": False}
    files = []
    for a in args:
        key, eq, value = a[2:].partition("=")
        if not a.startswith("--"):
            files.append(a)
        elif key not in opt or bool(eq) == isinstance(opt[key], bool):
            raise SystemExit(__doc__)
        else:
            opt[key] = type(opt[key])(value) if eq else True
    return opt, files


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    opt, files = options(sys.argv[1:])
    classes = judge_classes.read()
    tally, start = Tally(opt["verbose"]), time.time()
    fuzz = ["--wide"] * opt["wide"] + [f"--with={opt['with']}"] * bool(opt["with"])
    for ps in batches(files, opt["seed"], opt["count"], fuzz):
        for p, outcome in judge_all(ps, classes, opt["aot"]):
            if isinstance(outcome, str):
                tally.skip(p, outcome)
            else:
                tally.add(p, *outcome)
    tally.report(time.time() - start)
    save_small(tally.bad, opt["save"], opt["most"], classes)
    sys.exit(bool(tally.bad))


if __name__ == "__main__":
    main()
