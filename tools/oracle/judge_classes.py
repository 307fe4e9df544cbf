"""The classes of documented differences: differences.ini.

A section is one class. Its keys, all regular expressions but for `rest`:

    kind      of the difference, matched whole (case_compare.py has the kinds);
              none: PyTorch's report names the class (torch_watch.py)
    text      found in the difference's text; default: any
    program   found in the program's text; default: any
    noted     yes: only where torch_watch.py noted that the run came to such a thing
    within    the numbers of "is A, Tandem B" lie so near, relatively; default: any
    rest      yes: what differs at this step or later is a consequence

docs/differences.md has a heading for every class, which gives the reason.
"""
import configparser
import math
import os
import re
from collections import namedtuple

from tandem_run import ROOT

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(ROOT, "docs", "differences.md")

Class = namedtuple("Class", "name kind text program noted within rest")


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
                  s.getfloat("within", math.inf),
                  s.getboolean("rest", False))
            for name, s in ini.items() if name != "DEFAULT"]


def distance(d):
    """How far the two numbers of a difference are apart, relatively; 0: it has none."""
    m = re.search(r" is (\S+), Tandem (\S+)$", d.text)
    if not m or "elements" not in d.kind:
        return 0
    a, b = (float(v) if v not in ("True", "False") else v == "True" for v in m.groups())
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b)) if a != b else 0


def class_of(d, program, classes, notes):
    for c in classes:
        if d.why == c.name:
            return c
        if (c.kind and c.kind.fullmatch(d.kind) and c.text.search(d.text) and
                c.program.search(program) and distance(d) <= c.within and
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
