#!/usr/bin/env python3
"""gpt2.py -- what Hugging Face's GPT-2 does, for tests/programs/gpt2_files.c.

Writes below tests/gpt2:

  vocab.json merges.txt  a small byte-level tokenizer, trained on our own pages
  texts.txt              for each text a line with its bytes in hex and one with its tokens
  hf/                    config.json and model.safetensors of save_pretrained
  old.safetensors        the same weights with masks, prefix and last layer
  bare.safetensors       the same without prefix, f16 where that is exact
  results.safetensors    tokens and the logits of them

Run it with a Python that has torch, safetensors, transformers and tokenizers.
`--load DIR` instead loads a checkpoint of ours and prints the loss of a fixed batch.
"""
import glob
import os
import random
import sys
import torch
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
HERE = os.path.join(ROOT, "tests", "gpt2")
torch.set_num_threads(1)
torch.manual_seed(3)

TEXTS = [
    "", " ", "a", "The graph's been split; we've kept what they'll need, I'm sure you'd.",
    "DON'T shout, THEY'RE here. It'S 's 't 're 've 'm 'll 'd 'x ''s",
    "1234567 3.14159 0x1F ½ ² Ⅷ ٣٤ 一二三", "  two  spaces   three\n\n\nlines\t\ttabs \r\n end  ",
    " leading and trailing ", "\u00a0no\u00a0\u00a0break\u2003em\u3000wide\u2028line\x85next",
    "naïve café e\u0301 ﬁ ß İ ǆ ʰ ª", "日本語のテキスト。 한국어 문장! हिन्दी ไทย עברית العربية",
    "😀 😃👩‍👩‍👧 🇫🇷 ❤️ \U0001f9d1\U0001f3fd", "\x00\x01\x1c\x1f\x7f\x80\u200b\ufeff",
    "<|endoftext|>", "one<|endoftext|>two <|endoftext|> three<|endoftext",
    "for (int i = 0; i < n; i++) x[i] += y[i];",
    "a" * 200, " " * 65, "!?" * 40, "\n" * 33, "-- == >= ... ,,, ((()))",
]


def tokenizer():
    tok = ByteLevelBPETokenizer(add_prefix_space=False)
    pages = sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))
    tok.train(pages, vocab_size=700, min_frequency=2, show_progress=False,
              special_tokens=["<|endoftext|>"])
    tok.save_model(HERE)
    return tok


def texts(tok):
    random.seed(5)
    parts = [t for t in TEXTS if len(t) < 30]
    parts += ["don't", " we", "ll", "'", " ", "\n", "7", "é", "漢", "😀", "\t", "_", "x"]
    all_texts = TEXTS + ["".join(random.choices(parts, k=6)) for _ in range(100)]
    with open(os.path.join(HERE, "texts.txt"), "w", encoding="ascii") as f:
        for t in all_texts:
            f.write(t.encode().hex() + "\n" + " ".join(map(str, tok.encode(t).ids)) + "\n")


def weights():
    config = GPT2Config(vocab_size=23, n_positions=8, n_embd=8, n_layer=2, n_head=2)
    net = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in net.parameters():  # f16 holds them exactly
            p.copy_((torch.randn_like(p) * 0.3).half().float())
    net.save_pretrained(os.path.join(HERE, "hf"))
    os.remove(os.path.join(HERE, "hf", "generation_config.json"))
    state = load_file(os.path.join(HERE, "hf", "model.safetensors"))
    bare = {k.removeprefix("transformer."): v.half() for k, v in state.items()}
    save_file(bare, os.path.join(HERE, "bare.safetensors"))
    state["lm_head.weight"] = state["transformer.wte.weight"].clone()
    mask = torch.tril(torch.ones(8, 8, dtype=torch.uint8)).view(1, 1, 8, 8)
    for i in range(2):
        state[f"transformer.h.{i}.attn.bias"] = mask.clone()
        state[f"transformer.h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(state, os.path.join(HERE, "old.safetensors"))
    tokens = torch.randint(0, 23, (3, 8))
    with torch.no_grad():
        logits = net(tokens).logits
    save_file({"tokens": tokens, "logits": logits.contiguous()},
              os.path.join(HERE, "results.safetensors"))


def load(path):
    net = GPT2LMHeadModel.from_pretrained(path).eval()
    tokens = torch.arange(2 * net.config.n_positions).view(2, -1) % net.config.vocab_size
    with torch.no_grad():
        print("%.6f" % net(tokens, labels=tokens).loss)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load"]:
        load(sys.argv[2])
    else:
        os.makedirs(os.path.join(HERE, "hf"), exist_ok=True)
        texts(tokenizer())
        weights()
        for path in glob.glob(os.path.join(HERE, "**", "*.*"), recursive=True):
            os.chmod(path, 0o644)
