"""Runs `tandem run --json`."""
import json
import os
import subprocess
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TANDEM = os.environ.get("TANDEM", os.path.join(ROOT, "build", "tandem"))


def run_file(path):
    r = subprocess.run([TANDEM, "run", "--json", path], capture_output=True, text=True)
    if r.returncode not in (0, 1):
        raise RuntimeError(r.stderr.strip() or f"tandem run: status {r.returncode}")
    return json.loads(r.stdout)


def run_text(text):
    with tempfile.NamedTemporaryFile("w", suffix=".td") as f:
        f.write(text)
        f.flush()
        return run_file(f.name)
