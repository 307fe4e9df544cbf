"""The classes of documented differences: differences.ini.

A section is one class. Its keys, all regular expressions but for `noted` and `rest`:

    kind      of the difference, matched whole (case_compare.py has the kinds);
              none: PyTorch's report names the class (torch_watch.py)
    text      found in the difference's text; default: any
    program   found in the program's text; default: any
    noted     yes: only where torch_watch.py noted that the run came to such a thing
    rest      yes: what differs at this step or later is a consequence

docs/differences.md has a heading for every class, which gives the reason.
"""
import configparser
import os
import re
from collections import namedtuple

from tandem_run import ROOT

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(ROOT, "docs", "differences.md")

Class = namedtuple("Class", "name kind text program noted rest")


def read():
    ini = configparser.ConfigParser(interpolation=None)
    with open(os.path.join(HERE, "differences.ini")) as f:
        ini.read_file(f)
    with open(PAGE) as f:
        documented = set(re.findall(r"^### (\S+)$", f.read(), re.M))
    if documented != set(ini.sections()):
        raise SystemExit(f"differences.ini and docs/differences.md name different classes: "
                         f"{sorted(documented ^ set(ini.sections()))}")
    return [Class(name, re.compile(s["kind"]) if "kind" in s else None, re.compile(s.get("text", "")),
                  re.compile(s.get("program", "")), s.getboolean("noted", False),
                  s.getboolean("rest", False))
            for name, s in ini.items() if name != "DEFAULT"]


def class_of(d, program, classes, notes):
    for c in classes:
        if d.why == c.name:
            return c
        if (c.kind and c.kind.fullmatch(d.kind) and c.text.search(d.text) and
                c.program.search(program) and
                (c.name in notes or not c.noted)):
            return c
    return None


def sort(found, program, classes, notes=()):
    """(difference, its class or None); consequences take the class of their cause."""
    cause = None
    for d in found:
        c = class_of(d, program, classes, notes) or cause
        if c and c.rest:
            cause = c
        yield d, c
