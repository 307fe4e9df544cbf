"""Losses, distances of pairs and dropout of channels: functions of torch.nn.functional that take
arguments by keyword."""
import torch
import torch.nn.functional as F


def named(f, *names, tensors=2):
    """f with what follows the first tensors by name."""
    return lambda *args: f(*args[:tensors], **dict(zip(names, args[tensors:])))


def reduction_of(name, *names, tensors=2):
    return named(getattr(F, name), *names, "reduction", tensors=tensors)


def linear_cross_entropy(x, w, y, bias=None, weight=None, reduction="mean", ignore=None, smooth=0.0):
    return F.linear_cross_entropy(x, w, y, linear_bias=bias, weight=weight, reduction=reduction,
                                  ignore_index=ignore, label_smoothing=smooth)


def ctc_loss(p, t, il, tl, blank=0, reduction="mean", zero_infinity=False):
    return F.ctc_loss(p, t, il, tl, blank, reduction, zero_infinity)


def local_response_norm(x, *rest):
    """PyTorch returns an input without elements itself."""
    y = F.local_response_norm(x, *rest)
    return y.clone() if y is x else y


OPS = {
    "_binary_cross_entropy": lambda x, y: F.binary_cross_entropy(x, y, reduction="none"),
    "binary_cross_entropy": reduction_of("binary_cross_entropy", "weight"),
    "poisson_nll_loss": lambda x, y, log_input=True, full=False, eps=1e-8, reduction="mean": (
        F.poisson_nll_loss(x, y, log_input, full, eps=eps, reduction=reduction)),
    "gaussian_nll_loss": reduction_of("gaussian_nll_loss", "full", "eps", tensors=3),
    "linear_cross_entropy": linear_cross_entropy,
    "ctc_loss": ctc_loss,
    "margin_ranking_loss": reduction_of("margin_ranking_loss", "margin", tensors=3),
    "hinge_embedding_loss": reduction_of("hinge_embedding_loss", "margin"),
    "soft_margin_loss": reduction_of("soft_margin_loss"),
    "multi_margin_loss": reduction_of("multi_margin_loss", "p", "margin", "weight"),
    "multilabel_margin_loss": reduction_of("multilabel_margin_loss"),
    "multilabel_soft_margin_loss": reduction_of("multilabel_soft_margin_loss", "weight"),
    "triplet_margin_loss": reduction_of("triplet_margin_loss", "margin", "p", "eps", "swap",
                                        tensors=3),
    "cosine_embedding_loss": reduction_of("cosine_embedding_loss", "margin", tensors=3),
    "cosine_similarity": named(F.cosine_similarity, "dim", "eps"),
    "pairwise_distance": named(F.pairwise_distance, "p", "eps", "keepdim"),
    "normalize": F.normalize, "local_response_norm": local_response_norm,
    "softmin": lambda x, dim, dtype=None: F.softmin(x, dim, dtype=dtype),
    **{n: getattr(F, n) for n in ("dropout1d", "dropout2d", "dropout3d")},
    "feature_dropout": lambda x, p=0.5, train=True: torch.feature_dropout(x, p, train),
    **{n: getattr(F, n) for n in ("alpha_dropout", "feature_alpha_dropout", "rrelu")},
    "gumbel_softmax": lambda x, tau=1, hard=False, dim=-1: F.gumbel_softmax(x, tau, hard, dim=dim),
    "conv_tbc": torch.conv_tbc,
}
