"""Backends for torch.compile: "tandem" and "tandem_aot" (docs/pytorch.md).

    import tandem.torch
    model = torch.compile(model, backend="tandem")
"""
import torch
from torch._dynamo import register_backend

from .. import _core
from ._aot import tandem_aot
from ._backend import tandem
from ._explain import Explanation, explain

register_backend(tandem, name="tandem")
register_backend(tandem_aot, name="tandem_aot")
_core.set_threads(torch.get_num_threads())

__all__ = ["Explanation", "explain", "tandem", "tandem_aot"]
