#!/usr/bin/env python3
"""nn.py -- what PyTorch's layers compute, for tests/unit/nn_torch.c.

Writes two files below tests/nn: model.safetensors, the state dict of a module that
holds one of each layer, and layers.safetensors, its inputs, results, tangents and
gradients by name: NAME.in0, NAME.out0, NAME.tangent0, NAME.grad.weight, NAME.gin0,
NAME.after.running_mean. Run it with a Python that has torch and safetensors.

`--load FILE` only looks whether PyTorch loads the state dict in FILE, strictly.
"""
import os
import sys
import torch
from torch import nn
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)
torch.manual_seed(7)
HERE = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "nn")


def ints(high, *shape):
    return torch.randint(0, high, shape)


later = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
hide = torch.zeros(3, 4, dtype=torch.bool)
hide[0, 1] = hide[2, 0] = hide[2, 3] = True
pads = torch.zeros(2, 4, dtype=torch.bool)
pads[1, 3] = True
x = torch.randn(2, 4, 6)



def packed(m, q, *rest):
    """A recurrent layer on packed sequences; the last argument is their lengths."""
    lengths, states = rest[-1], [s for s in rest[:-1] if s is not None]
    p = nn.utils.rnn.pack_padded_sequence(q, lengths, m.batch_first, enforce_sorted=False)
    y, s = m(p, *([tuple(states) if len(states) > 1 else states[0]] if states else []))
    y = nn.utils.rnn.pad_packed_sequence(y, m.batch_first)[0]
    return (y, *s) if isinstance(s, tuple) else (y, s)


def encoder():
    layer = nn.TransformerEncoderLayer(6, 2, 8, 0.0)
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(6), enable_nested_tensor=False)


# name: layer, inputs, and where PyTorch's call differs, the call
LAYERS = {
    "linear": (nn.Linear(3, 4), [torch.randn(2, 3)]),
    "bare": (nn.Linear(3, 4, bias=False), [torch.randn(3)]),
    "table": (nn.Embedding(5, 3), [ints(5, 2, 3)]),
    "padded": (nn.Embedding(5, 3, padding_idx=-4), [torch.tensor([0, 1, 4, 1])]),
    "conv1": (nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), [torch.randn(2, 4, 7)]),
    "conv2": (nn.Conv2d(3, 2, (3, 2), padding=(1, 0), dilation=(1, 2), bias=False),
              [torch.randn(2, 3, 5, 4)]),
    "ln": (nn.LayerNorm((2, 3)), [torch.randn(4, 2, 3)]),
    "ln_weight": (nn.LayerNorm(3, bias=False, eps=1e-3), [torch.randn(4, 3)]),
    "rms": (nn.RMSNorm(5), [torch.randn(3, 5)]),
    "gn": (nn.GroupNorm(2, 4), [torch.randn(2, 4, 3)]),
    "bn1": (nn.BatchNorm1d(3), [torch.randn(4, 3)]),
    "bn2": (nn.BatchNorm2d(3, momentum=0.3), [torch.randn(2, 3, 2, 2)]),
    "bn_bare": (nn.BatchNorm1d(3, affine=False, track_running_stats=False),
                [torch.randn(2, 3, 3)]),
    "self": (nn.MultiheadAttention(6, 2), [torch.randn(4, 2, 6)],
             lambda m, q: m(q, q, q, need_weights=False)[0]),
    "cross": (nn.MultiheadAttention(6, 3, bias=False, batch_first=True),
              [torch.randn(2, 3, 6), x, x.clone(), hide, pads],
              lambda m, q, k, v, h, p: m(q, k, v, key_padding_mask=p, attn_mask=h,
                                         need_weights=False)[0]),
    "causal": (nn.MultiheadAttention(6, 1), [torch.randn(4, 6)],
               lambda m, q: m(q, q, q, attn_mask=later, need_weights=False)[0]),
    "causal_pads": (nn.MultiheadAttention(6, 1, batch_first=True),
                    [torch.randn(2, 4, 6), None, None, None, pads],
                    lambda m, q, k, v, h, p: m(q, q, q, attn_mask=later,
                                               key_padding_mask=p,
                                               need_weights=False)[0]),
    "lstm": (nn.LSTM(3, 4, 2, bidirectional=True), [torch.randn(5, 2, 3)],
             lambda m, q: (lambda y, s: (y, *s))(*m(q))),
    "lstm_state": (nn.LSTM(3, 4, batch_first=True, bias=False),
                   [torch.randn(2, 3, 3), torch.randn(1, 2, 4), torch.randn(1, 2, 4)],
                   lambda m, q, h, c: (lambda y, s: (y, *s))(*m(q, (h, c)))),
    "gru": (nn.GRU(3, 4, 2), [torch.randn(3, 2, 3), torch.randn(2, 2, 4)]),
    "gru_single": (nn.GRU(3, 2, bidirectional=True), [torch.randn(4, 3)]),
    "lstm_cell": (nn.LSTMCell(3, 4),
                  [torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 4)],
                  lambda m, q, h, c: m(q, (h, c))),
    "gru_cell": (nn.GRUCell(3, 4), [torch.randn(3)]),
    "rnn": (nn.RNN(3, 4, 2, nonlinearity="relu", bidirectional=True),
            [torch.randn(5, 2, 3)]),
    "rnn_tanh": (nn.RNN(3, 4, batch_first=True), [torch.randn(2, 3, 3), torch.randn(1, 2, 4)]),
    "rnn_cell": (nn.RNNCell(3, 4), [torch.randn(2, 3), torch.randn(2, 4)]),
    "lstm_packed": (nn.LSTM(3, 4, 2, bidirectional=True),
                    [torch.randn(5, 3, 3), None, None, torch.tensor([2, 5, 3])], packed),
    "gru_packed": (nn.GRU(3, 4, bidirectional=True, batch_first=True),
                   [torch.randn(3, 4, 3), torch.randn(2, 3, 4), torch.tensor([4, 1, 2])],
                   packed),
    "encoder": (encoder(), [torch.randn(4, 2, 6), later, pads]),
    "encoder_gelu": (nn.TransformerEncoderLayer(6, 3, 8, 0.0, "gelu", batch_first=True,
                                                norm_first=True, bias=False),
                     [torch.randn(2, 4, 6)]),
    "decoder": (nn.TransformerDecoder(nn.TransformerDecoderLayer(6, 2, 8, 0.0), 2),
                [torch.randn(4, 2, 6), torch.randn(4, 2, 6), later, None, None, pads]),
    "transformer": (nn.Transformer(6, 2, 1, 2, 8, 0.0, batch_first=True),
                    [torch.randn(2, 3, 6), torch.randn(2, 4, 6), None, later]),
    "net": (nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.BatchNorm1d(4), nn.Linear(4, 2)),
            [torch.randn(3, 3)]),
    "conv3": (nn.Conv3d(2, 4, (2, 1, 3), stride=(1, 2, 1), padding=1, groups=2),
              [torch.randn(2, 2, 3, 4, 3)]),
    "up1": (nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
            [torch.randn(2, 4, 5)]),
    "up2": (nn.ConvTranspose2d(2, 3, (3, 2), dilation=(1, 2), bias=False),
            [torch.randn(2, 2, 3, 4)]),
    "up3": (nn.ConvTranspose3d(2, 2, 2, stride=2), [torch.randn(1, 2, 2, 3, 2)]),
    "bn3": (nn.BatchNorm3d(2), [torch.randn(2, 2, 2, 3, 2)]),
    "in1": (nn.InstanceNorm1d(3), [torch.randn(2, 3, 5)]),
    "in2": (nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
            [torch.randn(2, 3, 4, 3)]),
    "in3": (nn.InstanceNorm3d(2, affine=True), [torch.randn(2, 2, 3, 2)]),
    "prelu": (nn.PReLU(), [torch.randn(2, 3)]),
    "prelu3": (nn.PReLU(3, 0.1), [torch.randn(2, 3, 4)]),
    "bilinear": (nn.Bilinear(3, 2, 4), [torch.randn(5, 3), torch.randn(5, 2)]),
    "glu": (nn.GLU(1), [torch.randn(2, 6, 3)]),
    "max1": (nn.MaxPool1d(2), [torch.randn(2, 3, 7)]),
    "max3": (nn.MaxPool3d((2, 1, 2), 1, (1, 0, 0)), [torch.randn(1, 2, 3, 2, 3)]),
    "avg1": (nn.AvgPool1d(3, 2, 1), [torch.randn(2, 3, 7)]),
    "avg3": (nn.AvgPool3d(2), [torch.randn(2, 2, 4, 2, 3)]),
    "grid1": (nn.AdaptiveAvgPool1d(3), [torch.randn(2, 3, 7)]),
    "grid3": (nn.AdaptiveAvgPool3d((2, 1, 3)), [torch.randn(2, 2, 4, 2, 5)]),
    "peaks1": (nn.AdaptiveMaxPool1d(3), [torch.randn(2, 3, 7)]),
    "peaks2": (nn.AdaptiveMaxPool2d((2, 3)), [torch.randn(2, 2, 4, 5)]),
    "peaks3": (nn.AdaptiveMaxPool3d(2), [torch.randn(1, 2, 4, 3, 5)]),
    "bag": (nn.EmbeddingBag(6, 3), [ints(6, 2, 4)]),
    "bag_sum": (nn.EmbeddingBag(6, 3, mode="sum", padding_idx=2, include_last_offset=True,
                                scale_grad_by_freq=False),
                [torch.tensor([0, 2, 4, 1, 5]), torch.tensor([0, 3, 5]), torch.rand(5)]),
    "bag_max": (nn.EmbeddingBag(6, 3, mode="max"),
                [torch.tensor([0, 2, 4, 1]), torch.tensor([0, 1])]),
    "short_rows": (nn.Embedding(5, 3, max_norm=0.5, scale_grad_by_freq=True),
                   [torch.tensor([[0, 1, 4], [1, 1, 3]])]),
    "lstm_proj": (nn.LSTM(3, 5, 2, bidirectional=True, proj_size=2),
                  [torch.randn(4, 2, 3), torch.randn(4, 2, 2), torch.randn(4, 2, 5)],
                  lambda m, q, h, c: (lambda y, s: (y, *s))(*m(q, (h, c)))),
    "upsample": (nn.Upsample(scale_factor=2, mode="bilinear"), [torch.randn(1, 2, 3, 4)]),
    "upsample_size": (nn.Upsample(5), [torch.randn(1, 2, 3, 4)]),
    "upsample_corners": (nn.Upsample((5, 2, 3), mode="trilinear", align_corners=True),
                         [torch.randn(1, 2, 3, 4, 2)]),
    "nearest": (nn.UpsamplingNearest2d(scale_factor=2), [torch.randn(1, 2, 3, 2)]),
    "bilinear2": (nn.UpsamplingBilinear2d((5, 3)), [torch.randn(1, 2, 3, 2)]),
    "unfold": (nn.Unfold((2, 3), dilation=(1, 2), padding=1, stride=(2, 1)),
               [torch.randn(2, 3, 4, 6)]),
    "fold": (nn.Fold((4, 5), (2, 2), padding=(1, 0)), [torch.randn(1, 8, 20)]),
    "constant": (nn.ConstantPad1d((1, 2), 3.5), [torch.randn(2, 3, 4)]),
    "zero": (nn.ZeroPad2d((1, 0, 2, -1)), [torch.randn(2, 3, 4, 3)]),
    "reflect": (nn.ReflectionPad3d(1), [torch.randn(1, 2, 3, 2, 4)]),
    "replicate": (nn.ReplicationPad2d((3, 1, 2, 0)), [torch.randn(2, 3, 4, 3)]),
    "circular": (nn.CircularPad2d((1, 2, 0, 1)), [torch.randn(1, 2, 3, 4)]),
    "lrn": (nn.LocalResponseNorm(3, 0.1, 0.5, 2.0), [torch.randn(2, 5, 3)]),
    "similar": (nn.CosineSimilarity(2), [torch.randn(2, 3, 4), torch.randn(2, 3, 4)]),
    "apart": (nn.PairwiseDistance(3.0, keepdim=True), [torch.randn(4, 3), torch.randn(4, 3)]),
    "shuffle": (nn.ChannelShuffle(2), [torch.randn(1, 6, 2, 2)]),
    "unflatten": (nn.Unflatten(1, (2, 3)), [torch.randn(2, 6, 2)]),
    "softmax2d": (nn.Softmax2d(), [torch.randn(2, 3, 2, 2)]),
    "lp1": (nn.LPPool1d(3, 2, ceil_mode=True), [torch.rand(2, 3, 7)]),
    "lp2": (nn.LPPool2d(2, (3, 2), stride=(2, 1)), [torch.randn(2, 3, 7, 4)]),
    "lp3": (nn.LPPool3d(1.5, 2), [torch.rand(1, 2, 4, 2, 4)]),
    "max_all": (nn.MaxPool2d(3, 2, 1, 1, True, True), [torch.randn(1, 2, 6, 5)]),
    "max_dilated": (nn.MaxPool1d(2, 1, dilation=2), [torch.randn(1, 2, 6)]),
    "avg_ceil": (nn.AvgPool2d(3, 2, 1, True, False), [torch.randn(1, 2, 6, 5)]),
    "avg_by": (nn.AvgPool3d(2, 1, divisor_override=3), [torch.randn(1, 2, 3, 2, 3)]),
    "unpool": (nn.MaxUnpool2d(2), [torch.randn(1, 2, 2, 2), torch.tensor([[[[0, 3], [9, 14]], [[1, 6], [8, 15]]]])]),
    "unpool_like": (nn.MaxUnpool1d(2, 2), [torch.randn(1, 2, 3), torch.tensor([[[0, 3, 6], [1, 2, 4]]]),
                                           ints(2, 1, 2, 7)],
                    lambda m, q, i, like: m(q, i, output_size=like.shape)),
    "fraction": (nn.FractionalMaxPool2d(2, output_ratio=(0.7, 0.5), return_indices=True,
                                        _random_samples=torch.rand(2, 3, 2)),
                 [torch.randn(2, 3, 6, 6)]),
    "fraction3": (nn.FractionalMaxPool3d((2, 2, 3), output_size=(2, 3, 2),
                                         _random_samples=torch.rand(1, 2, 3)),
                  [torch.randn(1, 2, 5, 6, 7)]),
    "ce": (nn.CrossEntropyLoss(torch.rand(4), ignore_index=0, label_smoothing=0.1),
           [torch.randn(5, 4), torch.tensor([1, 0, 3, 2, 1])]),
    "ce_none": (nn.CrossEntropyLoss(reduction="none"), [torch.randn(2, 4, 3), ints(4, 2, 3)]),
    "nll": (nn.NLLLoss(torch.rand(4)), [torch.randn(5, 4), ints(4, 5)]),
    "l1": (nn.L1Loss(), [torch.randn(2, 3), torch.randn(2, 3)]),
    "mse": (nn.MSELoss(reduction="sum"), [torch.randn(2, 3), torch.randn(2, 3)]),
    "smooth": (nn.SmoothL1Loss(beta=0.5), [torch.randn(2, 3), torch.randn(2, 3)]),
    "huber": (nn.HuberLoss(delta=0.7), [torch.randn(2, 3), torch.randn(2, 3)]),
    "bce": (nn.BCELoss(torch.rand(3)), [torch.rand(2, 3), torch.rand(2, 3)]),
    "bce_logits": (nn.BCEWithLogitsLoss(torch.rand(3), pos_weight=torch.rand(3)),
                   [torch.randn(2, 3), torch.rand(2, 3)]),
    "kl": (nn.KLDivLoss(reduction="batchmean", log_target=True),
           [torch.randn(2, 3), torch.randn(2, 3)]),
    "poisson": (nn.PoissonNLLLoss(log_input=False, full=True, eps=1e-3),
                [torch.rand(2, 3), ints(4, 2, 3).float() + 1]),
    "gaussian": (nn.GaussianNLLLoss(full=True),
                 [torch.randn(2, 3), torch.randn(2, 3), torch.rand(2, 3) + 0.1]),
    "ranking": (nn.MarginRankingLoss(0.5),
                [torch.randn(4), torch.randn(4), torch.tensor([1, -1, 1, -1])]),
    "hinge": (nn.HingeEmbeddingLoss(0.7), [torch.randn(4), torch.tensor([1, -1, 1, -1])]),
    "soft_margin": (nn.SoftMarginLoss(), [torch.randn(4), torch.tensor([1, -1, 1, -1])]),
    "multi_margin": (nn.MultiMarginLoss(2, 0.8, torch.rand(4)), [torch.randn(3, 4), ints(4, 3)]),
    "multilabel": (nn.MultiLabelMarginLoss(),
                   [torch.randn(2, 4), torch.tensor([[3, 0, -1, 1], [1, -1, 0, 2]])]),
    "multilabel_soft": (nn.MultiLabelSoftMarginLoss(torch.rand(4)),
                        [torch.randn(2, 4), ints(2, 2, 4).float()]),
    "triplet": (nn.TripletMarginLoss(0.7, 1.0, swap=True),
                [torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)]),
    "triplet_by": (nn.TripletMarginWithDistanceLoss(
                       distance_function=lambda a, b: (a - b).square().sum(-1), swap=True,
                       margin=2.0, reduction="sum"),
                   [torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)]),
    "cosine": (nn.CosineEmbeddingLoss(0.2),
               [torch.randn(3, 4), torch.randn(3, 4), torch.tensor([1, -1, -1])]),
    "linear_ce": (nn.LinearCrossEntropyLoss(5, 4, out_features=(3, 2), bias=True,
                                            weight=torch.rand(4)),
                  [torch.randn(2, 5), ints(4, 2, 3, 2)]),
    "adaptive": (nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3, 7, 9], 1.5, True),
                 [torch.randn(7, 6), torch.tensor([0, 11, 4, 8, 2, 6, 10])],
                 lambda m, q, t: tuple(m(q, t))),
}


def run(name, layer, inputs, call=None):
    out = {}
    args = [a.requires_grad_() if a is not None and a.is_floating_point() else a
            for a in inputs]
    got = call(layer, *args) if call else layer(*args)
    got = list(got) if isinstance(got, tuple) else [got]
    tangents = [torch.randn_like(g) if g.is_floating_point() else None for g in got]
    torch.autograd.backward([g for g in got if g.is_floating_point()],
                            [t for t in tangents if t is not None])
    for i, a in enumerate(inputs):
        if a is None:
            continue
        out[f"{name}.in{i}"] = a.detach()
        if a.is_floating_point():
            out[f"{name}.gin{i}"] = a.grad
    for i, g in enumerate(got):
        out[f"{name}.out{i}"] = g.detach()
        if tangents[i] is not None:
            out[f"{name}.tangent{i}"] = tangents[i]
    for n, p in layer.named_parameters():
        out[f"{name}.grad.{n}"] = p.grad
    for n, b in layer.named_buffers():
        out[f"{name}.after.{n}"] = b
    return out


def main():
    whole = nn.ModuleDict({n: row[0] for n, row in LAYERS.items()})
    if sys.argv[1:2] == ["--load"]:
        whole.load_state_dict(load_file(sys.argv[2]), strict=True)
        return
    os.makedirs(HERE, exist_ok=True)
    for p in whole.parameters():  # norms too
        with torch.no_grad():
            p.add_(torch.randn_like(p) * 0.1)
    state = {k: v.clone() for k, v in whole.state_dict().items()}
    save_file(state, os.path.join(HERE, "model.safetensors"), {"format": "pt"})
    out = {}
    for name, row in LAYERS.items():
        out.update(run(name, *row))
    out = {k: v.detach().contiguous().clone() for k, v in out.items()}
    save_file(out, os.path.join(HERE, "layers.safetensors"), {"torch": torch.__version__})


main()
