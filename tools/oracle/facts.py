"""Asks PyTorch's own analysis for the facts of the cases, and compares.

    python tools/oracle/facts.py [FILE.td...]    without files, all of tests/cases/sem

For every call of every case the metadata pass of AOTAutograd is run on fake copies
of the arguments, with writes moved out of the graph and with writes kept in it;
what it says of inputs, outputs, bases and tangents must be what `tandem facts` and
`tandem facts --keep-mutations` print. Left out are calls whose arguments lie in one
storage or are one tensor, which PyTorch merges in another pass, and calls that its
analysis refuses. Stores nothing: the facts themselves are pinned in
tests/cases/sem/expected/*.facts.

Developer-only: needs a Python with torch, and build/tandem. The pass is private to
PyTorch; this was written against 2.15.
"""
import glob
import os
import re
import subprocess
import sys
import warnings

import torch
from torch._functorch._aot_autograd.collect_metadata_analysis import (
    run_functionalized_fw_and_collect_metadata)
from torch._functorch._aot_autograd.descriptors import PlainAOTInput
from torch._functorch._aot_autograd.schemas import MutationType, OutputType
from torch._subclasses.fake_tensor import FakeTensorMode

import td_text
from tandem_run import ROOT, TANDEM, run_file as run_tandem, run_text
from torch_case import Case, drawn_inputs

MUTATION = {MutationType.NOT_MUTATED: "not mutated",
            MutationType.MUTATED_IN_GRAPH: "in graph",
            MutationType.MUTATED_OUT_GRAPH: "out of graph"}
PLACED = {"is_input": "input", "alias_of_input": "input",
          "alias_of_intermediate": "base",
          "alias_of_intermediate_save_as_output": "base",
          "alias_of_intermediate_base_is_user_output": "output"}

# A parameter made inside: PyTorch's graph is one for inference, and the result does
# not require grad as eager's does.
KNOWN = {"test_nn_parameter_construction NRG"}


def analyse(fn, args, keep):
    mode = FakeTensorMode(allow_non_fake_inputs=True)  # literals of the function
    fake = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]
    descs = [PlainAOTInput(i) for i in range(len(args))]
    with mode:
        return run_functionalized_fw_and_collect_metadata(
            fn, flat_args_descs=descs, keep_input_mutations=keep)(*fake)


def input_words(i, a):
    if not isinstance(a, torch.Tensor):
        return "not a tensor"
    words = [w for w, on in (
        ("leaf", i.is_leaf), ("requires_grad", i.requires_grad),
        ("mutates_data", i.mutates_data), ("mutates_metadata", i.mutates_metadata),
        ("mutates_storage_metadata", i.mutates_storage_metadata),
        ("mutations_under_no_grad", i.mutations_under_no_grad_or_inference_mode and
         i.mutates_data)) if on]
    return f"{MUTATION[i.mutation_type]} {', '.join(words)}".strip()


def output_words(o):
    kind = o.output_type.name
    at = f" ({PLACED[kind]} {o.base_idx})" if kind in PLACED else ""
    grad = ", requires_grad" if o.requires_grad else ""
    late = "" if o.requires_grad_for_backward == o.requires_grad else ", not for backward"
    return kind + at + grad + late


def is_training(m, args):
    """As aot_autograd decides it."""
    needs = any(isinstance(a, torch.Tensor) and a.requires_grad for a in args)
    out = any(o.requires_grad and not (
        o.output_type in (OutputType.alias_of_input, OutputType.is_input) and
        o.base_idx is not None and m.input_info[o.base_idx].requires_grad)
        for o in m.output_info)
    written = any(i.requires_grad and i.mutates_data and
                  not i.mutations_under_no_grad_or_inference_mode and
                  not i.mutations_hidden_from_autograd for i in m.input_info)
    return needs and (out or written)


def facts_of(m, args, trains):
    sizes = [str(list(t.size())).replace(" ", "") for t in m.traced_tangents]
    return {"trains": trains,
            "inputs": [input_words(i, a) for i, a in zip(m.input_info, args)],
            "outputs": [output_words(o) for o in m.output_info],
            "bases": m.num_intermediate_bases,
            "tangents": sizes if trains else []}


class Asking(Case):
    """A run that notes the facts of each call before it happens."""

    def call(self, s):
        args = [self.arg(a) for a in s.args]
        self.found.append(self.ask(self.function(s.op), args))
        super().call(s)

    def ask(self, fn, args):
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if len({t.untyped_storage()._cdata for t in tensors}) < len(tensors):
            return None
        try:
            m = analyse(fn, args, self.keep)
        except (RuntimeError, AssertionError):
            return None
        return facts_of(m, args, is_training(m, args))


# ---- what Tandem prints ----

def read_facts(text):
    """By case, a list with the facts of each call."""
    out, section, now = {}, "", None
    for line in text.splitlines():
        m = re.match(r"# case (.*)", line)
        if m:
            calls = out.setdefault(m.group(1), [])
        elif line.startswith("@"):
            now = {"trains": "training" in line, "inputs": [], "outputs": [],
                   "bases": 0, "tangents": []}
            calls.append(now)
        elif line in ("inputs", "outputs", "tangents", "intermediate bases"):
            section = line
        elif section == "inputs" and (m := re.match(r" +\d+  \S+ +(.*)", line)):
            words = re.sub(r" +", " ", m.group(1)).replace(", storage_resized", "")
            now["inputs"].append(words.strip())
        elif section == "outputs" and (m := re.match(r" {3}\d+  .*? {2,}(.*)", line)):
            words = m.group(1).split(", of a multi")[0]
            now["outputs"].append(re.sub(r"^non_alias \(input \d+\)", "non_alias", words))
        elif section == "intermediate bases" and re.match(r" +\d", line):
            now["bases"] += 1
        elif section == "tangents" and (m := re.search(r": \w+(\[.*?\])", line)):
            now["tangents"].append(m.group(1))
    return out


def compare(where, want, got):
    """Prints what differs; constants of the function are no arguments there."""
    got = {**got, "inputs": got["inputs"][:len(want["inputs"])]}
    lines = [f"    {k}: {want[k]}\n    {' ' * len(k)}  {got[k]} (Tandem)"
             for k in want if want[k] != got[k]]
    if lines:
        print(where, *lines, sep="\n")
    return bool(lines)


def run_file(path, keep):
    with open(path) as f:
        funcs, all_cases = td_text.parse(f.read())
    command = [TANDEM, "facts", *["--keep-mutations"][:keep], path]
    mine = read_facts(subprocess.run(command, capture_output=True, text=True).stdout)
    report, draws = run_tandem(path), drawn_inputs(all_cases, run_text)
    asked = left = bad = 0
    for (name, stmts), theirs in zip(all_cases, report["cases"]):
        c = Asking(funcs, stmts, theirs, draws)
        c.found, c.keep = [], keep
        c.run()
        for want, got in zip(c.found, mine.get(name, [])):
            want = None if name in KNOWN else want
            asked += want is not None
            left += want is None
            bad += want is not None and compare(f"{path}: {name}", want, got)
    print(f"{os.path.basename(path)}{', writes kept' if keep else ''}: {asked} calls, "
          f"{bad} differ, {left} left out")
    return bad


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    files = sys.argv[1:] or sorted(
        glob.glob(os.path.join(ROOT, "tests", "cases", "sem", "*.td")))
    sys.exit(sum(run_file(f, keep) for f in files for keep in (False, True)) > 0)


if __name__ == "__main__":
    main()
