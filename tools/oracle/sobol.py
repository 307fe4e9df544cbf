#!/usr/bin/env python3
"""sobol.py -- points of PyTorch's SobolEngine, for tests/unit/sobol.c."""
import os
import torch
from safetensors.torch import save_file

engine = torch.quasirandom.SobolEngine(1111)
engine.fast_forward(1000)
save_file({"points": engine.draw(8, dtype=torch.float64)},
          os.path.join(os.path.dirname(__file__), "..", "..", "tests", "nn", "sobol.safetensors"),
          {"torch": torch.__version__})
