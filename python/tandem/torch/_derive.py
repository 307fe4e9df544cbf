"""Rows that follow from the schemas: an ATen op gets the call of Tandem's op of that name if
every parameter of Tandem's op is an argument of the ATen op, of the same kind."""
import functools
import re

import torch

from .._schemas import SCHEMAS
from ._rows import ROWS

# Types of ATen arguments, and the types of parameters that they can be.
KINDS = {
    "Tensor": "Tensor Tensor? Operand",
    "Optional[Tensor]": "Tensor?",
    "List[Tensor]": "Tensor[]",
    "List[Optional[Tensor]]": "Tensor?[]",
    "number": "Scalar Scalar? Operand",
    "Optional[number]": "Scalar?",
    "int": "int int? Scalar",
    "Optional[int]": "int?",
    "List[int]": "int[] int[]?",
    "Optional[List[int]]": "int[]?",
    "float": "float float? Scalar",
    "Optional[float]": "float? Scalar?",
    "bool": "bool",
    "Optional[bool]": "Scalar?",
    "str": "str",
}
# Their elements or sizes are found when they run, or they write more than elements.
APART = {"sizes-from-values", "writes-geometry", "counts-from-storage-start", "internal"}
# Views of another dtype: results that share memory with an argument keep its dtype.
RETYPED = {"view_as_real", "view_as_complex", "real", "imag"}


@functools.lru_cache(maxsize=None)
def row_of(name):
    """The row of an ATen op such as "add.Tensor", or None."""
    return ROWS.get(name) or (derive(name) if name else None)


def is_random_op(name):
    """Does Tandem's op of that name draw?"""
    return "random" in SCHEMAS.get(name, ("", ()))[1]


def derive(name):
    op, overload = name.split(".")
    text, flags = SCHEMAS.get(op, (None, ()))
    if text is None or op in RETYPED or APART & set(flags):
        return None
    schema = getattr(getattr(torch.ops.aten, op), overload)._schema
    if any(a.is_out for a in schema.arguments) or len(schema.returns) != results_of(text):
        return None
    written = placeholders(parameters_of(text), schema.arguments)
    return None if written is None else f"{op}({', '.join(written)})"


def results_of(text):
    results = text.split(" -> ")[1]
    return results.count(",") + 1 if results.startswith("(") else 1


def parameters_of(text):
    """[(type, name, whether it has a default)] of a schema of Tandem."""
    inner = text[text.index("(") + 1:text.index(") -> ")]
    found = []
    for part in re.split(r", (?![^\[]*\])", inner) if inner else []:
        kind, name = part.split("=")[0].rsplit(" ", 1)
        found.append((re.sub(r"\(\w+!?\)", "", kind), name, "=" in part))
    return found


def placeholders(parameters, arguments):
    """The ATen argument of each parameter: of its name, else at its position. None: a
    parameter has none."""
    by_name = {a.name: a for a in arguments}
    written, taken = [], set()
    for i, (kind, name, default) in enumerate(parameters):
        at = by_name.get(name) or (arguments[i] if i < len(arguments) else None)
        how = at is not None and at.name not in taken and writer(kind, at)
        if not how:
            rest = parameters[i:]
            absent = all(d and n not in by_name for _, n, d in rest)
            return written if absent and i >= len(arguments) else None
        taken.add(at.name)
        written.append(how)
    return written


def writer(kind, argument):
    """How a row writes an ATen argument as a parameter of a type; None: it cannot."""
    name, of = argument.name, str(argument.type)
    if "dtype" in name:
        return f"{{{name}}}" if kind in ("dtype", "dtype?") else None
    if name == "reduction" and kind == "str":
        return "{reduction:reduction}"
    if of == "Optional[str]" and kind == "str":
        return f"{{{name}:{name}}}" if name == "norm" else None
    if of == "List[bool]" and kind == "int[]":
        return f"{{{name}:ints}}"
    return f"{{{name}}}" if kind in KINDS.get(of, "").split() else None
