"""The backend tandem: Tandem's own autograd over the whole graph, or tandem_aot with a
logged reason."""
import itertools
import logging

import torch

from .. import _core
from ._aot import tandem_aot
from ._bridge import Run
from ._emit import Unsupported
from ._trace import NothingToDo, Traced, program_of

log = logging.getLogger("tandem")
numbers = itertools.count()


def compile_whole(gm, example_inputs, name):
    """A Run of the whole graph. Raises Unsupported with the reason."""
    if share_memory(example_inputs):
        raise Unsupported("arguments share memory")
    traced = Traced(gm, example_inputs)
    piece, take, computed = program_of(traced, name)
    return Run(piece, take, computed, traced, gm)


def share_memory(inputs):
    """Do two of the tensors have the same storage?"""
    storages = [t.untyped_storage()._cdata for t in inputs if isinstance(t, torch.Tensor)
                and t.layout is torch.strided]
    return len(set(storages)) < len(storages)


def tandem(gm, example_inputs, **options):
    """Compiles a graph of TorchDynamo."""
    name = f"graph{next(numbers)}"
    try:
        run = compile_whole(gm, example_inputs, name)
        log.info("%s is compiled by tandem: %d ops", name, len(run.piece.nodes))
        return run
    except NothingToDo:
        log.info("%s computes nothing", name)
        return gm.forward
    except Unsupported as e:
        log.info("%s is compiled by tandem_aot: %s", name, e)
    except _core.Error as e:
        log.warning("%s is compiled by tandem_aot: %s", name, e)
    return tandem_aot(gm, example_inputs)
