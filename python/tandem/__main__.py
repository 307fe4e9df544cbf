"""python -m tandem ARGS: the tandem command of this package."""
import os
import sys
from pathlib import Path

command = str(Path(__file__).resolve().parent / "bin" / "tandem")
os.execv(command, [command, *sys.argv[1:]])
