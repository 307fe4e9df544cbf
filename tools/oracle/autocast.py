"""Writes tests/unit/autocast_dtypes.def: the dtype PyTorch's autocast for CPUs gives
each op for every pair of argument dtypes. Run from the root of the source tree."""
import warnings

import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def wide(a):
    return a.unsqueeze(0)


ZEROS = torch.zeros(3, dtype=torch.int64)
OPS = {
    "addmm": lambda a, b: torch.addmm(a, a, b),
    "addmm_": lambda a, b: a.clone().addmm_(a, b),
    "baddbmm_": lambda a, b: wide(a).clone().baddbmm_(wide(a), wide(b)),
    "mm": torch.mm,
    "matmul": torch.matmul,
    "vectors": lambda a, b: torch.matmul(a[0], b[0]),
    "linear": F.linear,
    "bmm": lambda a, b: torch.bmm(wide(a), wide(b)),
    "baddbmm": lambda a, b: torch.baddbmm(wide(a), wide(a), wide(b)),
    "conv1d": lambda a, b: F.conv1d(wide(a), wide(b)),
    "conv2d": lambda a, b: F.conv2d(wide(wide(a)), wide(wide(b))),
    "sdpa": lambda a, b: F.scaled_dot_product_attention(wide(a), wide(b), wide(b)),
    "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b),
    "prod": lambda a, b: torch.prod(a),
    "trace": lambda a, b: torch.trace(a),
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "kl": F.kl_div,
    "bce": F.binary_cross_entropy_with_logits,
    "cross": lambda a, b: F.cross_entropy(a, ZEROS),
    "nll": lambda a, b: F.nll_loss(a, ZEROS),
    "probabilities": F.binary_cross_entropy,
    "hinge": F.hinge_embedding_loss,
    "poisson": F.poisson_nll_loss,
    "ranking": lambda a, b: F.margin_ranking_loss(a, b, b),
    "soft_margin": F.soft_margin_loss,
    "multi_margin": lambda a, b: F.multi_margin_loss(a, ZEROS),
    "multilabel": lambda a, b: F.multilabel_margin_loss(a, ZEROS.expand(3, 3)),
    "multilabel_soft": F.multilabel_soft_margin_loss,
    "cosine": lambda a, b: F.cosine_embedding_loss(a, b, ZEROS + 1),
    "triplet": lambda a, b: F.triplet_margin_loss(a, b, b),
    "gaussian": lambda a, b: F.gaussian_nll_loss(a, a, b),
    "ctc": lambda a, b: F.ctc_loss(a.log_softmax(1), ZEROS[:1] + 1, torch.tensor(3),
                                   torch.tensor(1)),
    "cdist": torch.cdist,
    "inv": lambda a, b: torch.linalg.inv(torch.eye(3).to(a.dtype)),
    "quantile": lambda a, b: torch.quantile(a, 0.5),
    "prelu": lambda a, b: F.prelu(a, b[0, :1]),
    "conv_transpose": lambda a, b: F.conv_transpose1d(wide(a), b.unsqueeze(2)),
    "vecdot": lambda a, b: torch.linalg.vecdot(a, b),
    "cat": lambda a, b: torch.cat([a, b]),
    "stack": lambda a, b: torch.stack([a, b]),
    "index_copy": lambda a, b: torch.index_copy(a, 0, torch.arange(3), b),
    "add": torch.add,
    "softmax": lambda a, b: F.softmax(a, 1),
    "layer_norm": lambda a, b: F.layer_norm(a, (3,)),
    "gelu": lambda a, b: F.gelu(a),
    "mean": lambda a, b: a.mean(),
    "mv": lambda a, b: torch.mv(a, b[0]),
}

LETTERS = {torch.float64: "d", torch.float32: "f", torch.float16: "h",
           torch.bfloat16: "b"}


def result(fn, region, a, b):
    x, y = torch.ones(3, 3).to(a), torch.ones(3, 3).to(b)
    with torch.autocast("cpu", region):
        try:
            return LETTERS[fn(x, y).dtype]
        except (RuntimeError, ValueError):
            return "x"


with open("tests/unit/autocast_dtypes.def", "w") as out:
    out.write(f"/* PyTorch {torch.__version__.split('+')[0]}: op, region, results for a "
              "and b of f64 f32 f16 bf16;\n * written by tools/oracle/autocast.py. */\n")
    for name, fn in OPS.items():
        for region, word in ((torch.bfloat16, "TD_BF16"), (torch.float16, "TD_F16")):
            row = "".join(result(fn, region, a, b) for a in LETTERS for b in LETTERS)
            out.write(f'ROW({name}, {word}, "{row}")\n')
