"""Tests need numpy; those of the torch backends are skipped where torch is missing."""
import pytest

pytest.importorskip("numpy", reason="numpy is not installed")

collect_ignore_glob = []
try:
    import torch  # noqa: F401
except ImportError:
    collect_ignore_glob = ["test_torch_*.py", "torch_*.py"]
    print("tests of the torch backends are skipped: torch is not installed")
