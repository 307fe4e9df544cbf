"""Three training steps of models against eager: losses and all gradients. Each step starts
from the same parameters, so that differences do not add up; in f64, so that a wrong gradient
is not taken for rounding."""
import pytest
import torch

import tandem.torch  # noqa: F401
from models import MODELS
from run_model import run

NEEDS = {"resnet18": "torchvision", "vit_tiny_patch16_224": "timm", "gpt2": "transformers",
         "bert": "transformers", "llama": "transformers"}
# It normalizes, and computes its loss, in f32.
IN_F32 = {"llama"}
NAMES = ["mlp", "unet", "lstm", "dlrm", "gnn", *NEEDS]


@pytest.mark.parametrize("backend", ["tandem", "tandem_aot"])
@pytest.mark.parametrize("name", NAMES)
def test_three_steps(name, backend):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed")
    assert name in MODELS
    torch._dynamo.reset()
    row = run(name, backend, times=0, dtype=torch.float64)
    loss, grad = (1e-6, 1e-5) if name in IN_F32 else (1e-9, 1e-7)
    assert row["loss"] < loss and row["grad"] < grad, row
