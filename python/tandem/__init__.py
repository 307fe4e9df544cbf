"""Tandem for Python: functions in .td text on arrays (Program), and, with PyTorch, a
backend for torch.compile (import tandem.torch)."""
from . import _core
from ._core import Error, Tensor, set_threads, threads
from ._program import Program

__version__ = _core.version
__all__ = ["Error", "Program", "Tensor", "set_threads", "threads", "__version__"]
