"""Programs in .td text on numpy arrays, or anything with __dlpack__."""
import subprocess
import sys
import tempfile
from pathlib import Path

from . import _core


class Program:
    """The functions of a .td text (docs/text-format.md), compiled at their first run.

        p = Program.from_text('''
            func @f(%x: f32[3], %w: f32[3]) {
              %h = mul(%x, %w)
              %y = tanh(%h)
              return %y
            }''')
        y, = p.run(x, w)

    Arguments are shared by DLPack, without copies: a function that writes its argument
    writes the array. Results are numpy arrays where numpy has their dtype, else Tensor
    objects.
    """

    def __init__(self, text, name="text"):
        self._text = text
        self._core = _core.Program(text, name)
        self._compiled = {}

    @classmethod
    def from_text(cls, text):
        return cls(text)

    @classmethod
    def from_file(cls, path):
        return cls(Path(path).read_text(), str(path))

    @property
    def functions(self):
        """The names of its functions, in order."""
        return [name for name, _, _ in self._core.functions()]

    def text(self, function=None):
        """A function as text, with the types of all values that are known."""
        return self._core.text(function)

    def config(self, name, value):
        """Changes a setting (docs/config.md) for functions that are compiled from now on."""
        self._core.config(name, str(value))

    def compiled(self, function=None):
        """The compiled function as a tandem._core.Function."""
        function = function or self.functions[0]
        if function not in self._compiled:
            self._compiled[function] = self._core.compile(function)
        return self._compiled[function]

    def run(self, *args, function=None, seed=None):
        """Calls a function as native code; the default is the first. Returns the list of
        its results. `seed` seeds the generator of its random ops."""
        results = self.compiled(function).call(args, None, seed, None)
        return [to_numpy(r) for r in results]

    def run_eagerly(self, *args, function=None):
        """The same op by op, without compiling."""
        return [to_numpy(r) for r in self._core.run(function, args, None)]

    def check(self):
        """Runs the cases of the text in every way of execution and compares them with
        eager, as `tandem check` does. Returns its report; an Error if a case differs."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.td"
            path.write_text(self._text)
            done = subprocess.run([sys.executable, "-m", "tandem", "check", str(path)],
                                  capture_output=True, text=True)
        report = done.stdout + done.stderr
        if done.returncode:
            raise _core.Error(report)
        return report

    def explain(self, function=None, json=False):
        """How a function was compiled and why (docs/explain.md); run it first."""
        return self.compiled(function).explain(json)

    def report(self, path, function=None):
        """Writes an HTML page about the compiled function; run it first."""
        self.compiled(function).report(str(path))


def to_numpy(value):
    """A result as a numpy array over the same memory, if numpy has its dtype."""
    if not isinstance(value, _core.Tensor) or value.dtype == "bf16":
        return value
    import numpy
    return numpy.from_dlpack(value)
