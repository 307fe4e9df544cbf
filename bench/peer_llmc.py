"""peer_llmc.py -- a training step of GPT-2 124M by llm.c's CPU program, 4 x 64 tokens.

    python bench/peer_llmc.py DIR [scratch folder]

DIR is a checkout of llm.c in which `make train_gpt2` has been run. The program reads
its weights and tokens from files; random ones are made in the scratch folder (500 MB,
kept there for the next time). The least of a few steps, as one JSON line. Standard
library only.
"""
import array
import json
import os
import random
import re
import shutil
import subprocess
import sys

STEPS = 6
SIZES = {"context": 1024, "vocab": 50257, "layers": 12, "heads": 12, "width": 768,
         "padded": 50304}


def header(*numbers):
    return array.array("i", list(numbers) + [0] * (256 - len(numbers)))


def parameters():
    w, layers = SIZES["width"], SIZES["layers"]
    layer = 12 * w * w + 13 * w
    return SIZES["padded"] * w + SIZES["context"] * w + layers * layer + 2 * w


def write_weights(path):
    draw = random.Random(1)
    block = array.array("f", [draw.gauss(0, 0.02) for _ in range(1 << 16)])
    left = parameters()
    with open(path + ".part", "wb") as f:
        header(20240326, 3, *SIZES.values()).tofile(f)
        while left > 0:
            block[:left].tofile(f)
            left -= len(block)
    os.rename(path + ".part", path)


def write_tokens(path):
    draw = random.Random(2)
    tokens = array.array("H", [draw.randrange(SIZES["vocab"]) for _ in range(1 << 16)])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        header(20240520, 1, len(tokens)).tofile(f)
        tokens.tofile(f)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = os.path.join(os.path.abspath(sys.argv[1]), "train_gpt2")
    room = sys.argv[2] if len(sys.argv) > 2 else "build/bench/llmc"
    os.makedirs(room, exist_ok=True)
    if not os.path.exists(os.path.join(room, "gpt2_124M.bin")):
        write_weights(os.path.join(room, "gpt2_124M.bin"))
    for which in ("train", "val"):
        write_tokens(os.path.join(room, "dev/data/tinyshakespeare",
                                  f"tiny_shakespeare_{which}.bin"))
    command = [program]
    if shutil.which("stdbuf"):  # lines as they come
        command = ["stdbuf", "-oL", program]
    run = subprocess.Popen(command, cwd=room, text=True, stdout=subprocess.PIPE)
    times = []
    for line in run.stdout:
        took = re.search(r"\(took ([0-9.]+) ms\)", line)
        if took:
            times.append(float(took.group(1)))
        if len(times) == STEPS:
            break
    run.terminate()
    run.wait()
    if not times:
        sys.exit(f"{program}: no step was finished")
    print(json.dumps({"name": "train_gpt2_4x64", "who": "llm.c",
                      "value": round(min(times), 2), "unit": "ms"}))


if __name__ == "__main__":
    main()
