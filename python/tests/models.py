"""Models for tests and for the table of docs/pytorch.md: name -> function that returns a
model with random weights and a function from the model to its loss. Sizes are small."""
import torch
import torch.nn.functional as F
from torch import nn

MODELS = {}


def model(f):
    MODELS[f.__name__] = f
    return f


# ---- by hand ------------------------------------------------------------------

@model
def mlp():
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 10))
    x, y = torch.randn(16, 32), torch.randint(0, 10, (16,))
    return net, lambda m: F.cross_entropy(m(x), y)


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(a, b, 3, padding=1)
                                   for a, b in ((3, 8), (8, 16), (16, 32))])
        self.up = nn.ModuleList([nn.Conv2d(a, b, 3, padding=1)
                                 for a, b in ((48, 16), (24, 8))])
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        kept = []
        for i, conv in enumerate(self.down):
            x = F.relu(conv(F.max_pool2d(x, 2) if i else x))
            kept.append(x)
        for i, conv in enumerate(self.up):
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = F.relu(conv(torch.cat([x, kept[1 - i]], 1)))
        return self.out(x)


@model
def unet():
    x, y = torch.randn(2, 3, 16, 16), torch.rand(2, 1, 16, 16)
    return Unet(), lambda m: F.binary_cross_entropy_with_logits(m(x), y)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed, self.cell = nn.Embedding(20, 16), kind(16, 24, batch_first=True)
        self.out = nn.Linear(24, 20)

    def forward(self, x):
        return self.out(self.cell(self.embed(x))[0])


def recurrent(kind):
    x = torch.randint(0, 20, (4, 9))
    return Recurrent(kind), lambda m: F.cross_entropy(m(x[:, :-1]).flatten(0, 1),
                                                      x[:, 1:].flatten())


@model
def lstm():
    return recurrent(nn.LSTM)


@model
def gru():
    return recurrent(nn.GRU)


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(30, 8) for _ in range(4)])
        self.bottom = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 8))
        self.top = nn.Sequential(nn.Linear(8 + 10, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense, sparse):
        d = self.bottom(dense)
        all_ = torch.stack([d, *[t(sparse[:, i]) for i, t in enumerate(self.tables)]], 1)
        pairs = torch.bmm(all_, all_.transpose(1, 2))
        i, j = torch.tril_indices(5, 5, -1)
        return self.top(torch.cat([d, pairs[:, i, j]], 1))


@model
def dlrm():
    dense, sparse = torch.randn(8, 13), torch.randint(0, 30, (8, 4))
    y = torch.rand(8, 1).round()
    return Dlrm(), lambda m: F.binary_cross_entropy_with_logits(m(dense, sparse), y)


class Gnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x, edges):
        for layer in (self.one, self.two):
            h = layer(x)
            gathered = torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])
            x = F.elu(gathered + h)
        return x


@model
def gnn():
    x, edges = torch.randn(12, 8), torch.randint(0, 12, (2, 40))
    y = torch.randint(0, 3, (12,))
    return Gnn(), lambda m: F.cross_entropy(m(x, edges), y)


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(),
                                    nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.Flatten())
        self.mean, self.scale = nn.Linear(256, 8), nn.Linear(256, 8)
        self.decode = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Unflatten(1, (16, 4, 4)),
                                    nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(),
                                    nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Sigmoid())

    def forward(self, x, noise):
        h = self.encode(x)
        mean, scale = self.mean(h), self.scale(h)
        return self.decode(mean + noise * torch.exp(0.5 * scale)), mean, scale


@model
def vae():
    x, noise = torch.rand(4, 1, 16, 16), torch.randn(4, 8)

    def loss(m):
        y, mean, scale = m(x, noise)
        kl = -0.5 * (1 + scale - mean.square() - scale.exp()).mean()
        return F.binary_cross_entropy(y, x) + kl
    return Vae(), loss


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.matrix = nn.Linear(16, 9)
        self.points = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(),
                                    nn.Conv1d(16, 32, 1), nn.BatchNorm1d(32), nn.ReLU())
        self.out = nn.Linear(32, 5)

    def forward(self, x):
        turn = self.matrix(self.turn(x).max(2)[0]).view(-1, 3, 3)
        x = torch.bmm(turn + torch.eye(3), x)
        return self.out(self.points(x).max(2)[0])


@model
def pointnet():
    x, y = torch.randn(8, 3, 20), torch.randint(0, 5, (8,))
    return PointNet(), lambda m: F.cross_entropy(m(x), y)


class Gat(nn.Module):
    """Attention over the edges of a graph: softmax by scatter."""

    def __init__(self):
        super().__init__()
        self.w, self.a = nn.Linear(8, 16), nn.Linear(32, 1)
        self.out = nn.Linear(16, 3)

    def forward(self, x, edges):
        h, (i, j) = self.w(x), edges
        e = F.leaky_relu(self.a(torch.cat([h[i], h[j]], 1)), 0.2).squeeze(1)
        top = torch.full((x.shape[0],), -1e9).scatter_reduce(0, j, e.detach(), "amax")
        p = (e - top[j]).exp()
        p = p / torch.zeros(x.shape[0]).scatter_add(0, j, p)[j]
        return self.out(F.elu(torch.zeros_like(h).index_add(0, j, h[i] * p[:, None])))


@model
def gat():
    x, edges = torch.randn(12, 8), torch.randint(0, 12, (2, 40))
    y = torch.randint(0, 3, (12,))
    return Gat(), lambda m: F.cross_entropy(m(x, edges), y)


@model
def transformer():
    net = nn.Transformer(32, 4, 2, 2, 64, dropout=0.0, batch_first=True)
    x, y = torch.randn(2, 9, 32), torch.randn(2, 7, 32)
    return net, lambda m: F.mse_loss(m(x, y), y)


@model
def conv3d():
    net = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(),
                        nn.MaxPool3d(2), nn.Conv3d(4, 8, 3), nn.PReLU(),
                        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(8, 3))
    x, y = torch.randn(2, 1, 8, 8, 8), torch.randint(0, 3, (2,))
    return net, lambda m: F.cross_entropy(m(x), y)


class Siren(nn.Module):
    """Coordinates to colours, with the gradient by the coordinates in the loss."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 1)])
        for layer in self.layers[1:]:
            nn.init.uniform_(layer.weight, -0.014, 0.014)  # sqrt(6 / 32) / 30

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.sin(30 * layer(x))
        return self.layers[-1](x)


@model
def siren():
    x, y = torch.rand(32, 2, requires_grad=True), torch.rand(32, 2)

    def loss(m):
        slope, = torch.autograd.grad(m(x).sum(), x, create_graph=True)
        return 1e-3 * F.mse_loss(slope, y)  # steps of SGD with 1e-3 stay small
    return Siren(), loss


# ---- torchvision and timm -------------------------------------------------------

def images(net, size, batch=2):
    x, y = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))
    return net, lambda m: F.cross_entropy(m(x), y)


VISION = dict(resnet18=64, resnet50=64, mobilenet_v2=64, mobilenet_v3_small=64,
              efficientnet_b0=64, convnext_tiny=64, squeezenet1_1=64, shufflenet_v2_x0_5=64,
              regnet_y_400mf=64, densenet121=64, mnasnet0_5=64, vgg11_bn=64, swin_t=64,
              swin_v2_t=64, alexnet=96, resnext50_32x4d=64)
TIMM = dict(vit_tiny_patch16_224=64, deit_tiny_patch16_224=64, convnext_atto=64,
            mixer_s32_224=64, resmlp_12_224=64, regnetx_002=64, ghostnet_050=64,
            edgenext_xx_small=64, poolformerv2_s12=64, efficientvit_b0=64, levit_128s=224,
            xcit_nano_12_p16_224=64, hrnet_w18_small=64, repvgg_a0=64, tf_efficientnetv2_b0=64,
            gmlp_ti16_224=64, convmixer_768_32=64, cspresnet50=64, dla34=64,
            nf_resnet26=64, mobileone_s0=64, fastvit_t8=64, pit_ti_224=224,
            deit3_small_patch16_224=64, coat_lite_tiny=64)


def vision_model(name, size):
    def make():
        import torchvision
        net = torchvision.models.get_model(name, weights=None, num_classes=10)
        for m in net.modules():
            if isinstance(m, nn.Dropout):
                m.p = 0.0
            if hasattr(m, "p") and type(m).__name__ == "StochasticDepth":
                m.p = 0.0
        return images(net, size)
    MODELS[name] = make


def timm_model(name, size):
    def make():
        import timm
        fixed = {"img_size": size} if name.startswith(
            ("vit_t", "deit", "mixer", "resmlp", "xcit", "gmlp", "coat_")) else {}
        net = timm.create_model(name, num_classes=10, **fixed)
        if getattr(net, "drop_rate", 0.0):
            net.drop_rate = 0.0
        return images(net, size)
    MODELS[name] = make


for _name, _size in VISION.items():
    vision_model(_name, _size)
for _name, _size in TIMM.items():
    timm_model(_name, _size)

# ---- transformers ----------------------------------------------------------------

SMALL = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
             intermediate_size=128, vocab_size=100, max_position_embeddings=64,
             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
GPT = dict(n_layer=2, n_head=4, n_embd=64, vocab_size=100, n_positions=64, resid_pdrop=0.0,
           embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
KEYS = dict(num_key_value_heads=2, bos_token_id=0, eos_token_id=0, pad_token_id=0)
TEXT = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SMALL),
    "opt": ("OPTForCausalLM", "OPTConfig",
            dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128,
                 vocab_size=100, word_embed_proj_dim=64, dropout=0.0,
                 max_position_embeddings=64)),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**SMALL, **KEYS}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**SMALL, **KEYS}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig",
                {**SMALL, **KEYS, "num_local_experts": 4}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**SMALL, **KEYS}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", {**SMALL, **KEYS, "head_dim": 16}),
    "phi": ("PhiForCausalLM", "PhiConfig",
            {**SMALL, "resid_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}),
    "bert": ("BertForMaskedLM", "BertConfig", SMALL),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", SMALL),
    "electra": ("ElectraForMaskedLM", "ElectraConfig", {**SMALL, "embedding_size": 64}),
    "albert": ("AlbertForMaskedLM", "AlbertConfig", {**SMALL, "embedding_size": 32}),
    "gpt_neo": ("GPTNeoForCausalLM", "GPTNeoConfig",
                dict(hidden_size=64, num_layers=2, num_heads=4, vocab_size=100,
                     attention_types=[[["global", "local"], 1]], window_size=8,
                     max_position_embeddings=64, bos_token_id=0, eos_token_id=0)),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", {**GPT, "rotary_dim": 8}),
    "codegen": ("CodeGenForCausalLM", "CodeGenConfig", {**GPT, "rotary_dim": 8}),
    "bloom": ("BloomForCausalLM", "BloomConfig",
              dict(hidden_size=64, n_layer=2, n_head=4, vocab_size=100)),
    "falcon": ("FalconForCausalLM", "FalconConfig", {**SMALL, "bos_token_id": 0,
                                                     "eos_token_id": 0}),
    "mpt": ("MptForCausalLM", "MptConfig",
            dict(d_model=64, n_layers=2, n_heads=4, vocab_size=100, max_seq_len=64)),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", {**SMALL, **KEYS}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**SMALL, **KEYS, "head_dim": 16}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**SMALL, **KEYS, "head_dim": 16}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**SMALL, **KEYS}),
    "olmo": ("OlmoForCausalLM", "OlmoConfig", {**SMALL, **KEYS}),
    "granite": ("GraniteForCausalLM", "GraniteConfig", {**SMALL, **KEYS}),
    "mamba": ("MambaForCausalLM", "MambaConfig",
              dict(hidden_size=32, num_hidden_layers=2, state_size=8, vocab_size=100,
                   bos_token_id=0, eos_token_id=0, pad_token_id=0)),
    "deberta_v2": ("DebertaV2ForMaskedLM", "DebertaV2Config",
                   {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
                    "position_buckets": 16}),
    "mpnet": ("MPNetForMaskedLM", "MPNetConfig", SMALL),
    "roformer": ("RoFormerForMaskedLM", "RoFormerConfig", {**SMALL, "embedding_size": 64}),
    "mobilebert": ("MobileBertForMaskedLM", "MobileBertConfig",
                   {**SMALL, "embedding_size": 32, "intra_bottleneck_size": 32,
                    "num_feedforward_networks": 2}),
    "esm": ("EsmForMaskedLM", "EsmConfig", {**SMALL, "pad_token_id": 1, "mask_token_id": 2}),
    "modernbert": ("ModernBertForMaskedLM", "ModernBertConfig",
                   {**SMALL, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
                    "cls_token_id": 0, "sep_token_id": 0, "attn_implementation": "sdpa"}),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertConfig",
                   dict(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=100,
                        dropout=0.0, attention_dropout=0.0)),
}


def text_model(name, of, config, options):
    def make():
        import transformers
        c = getattr(transformers, config)(**options)
        net = getattr(transformers, of)(c)
        x = torch.randint(4, 100, (2, 24))
        cache = {} if "Masked" in of else {"use_cache": False}
        return net, lambda m: m(input_ids=x, labels=x, **cache).loss
    MODELS[name] = make


for _name, (_of, _config, _options) in TEXT.items():
    text_model(_name, _of, _config, _options)


def seq2seq(name, of, config, options):
    def make():
        import transformers
        net = getattr(transformers, of)(getattr(transformers, config)(**options))
        x, y = torch.randint(4, 100, (2, 16)), torch.randint(4, 100, (2, 8))
        return net, lambda m: m(input_ids=x, labels=y, use_cache=False).loss
    MODELS[name] = make


seq2seq("t5", "T5ForConditionalGeneration", "T5Config",
        dict(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=100,
             dropout_rate=0.0, decoder_start_token_id=0))
seq2seq("bart", "BartForConditionalGeneration", "BartConfig",
        dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
             decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128,
             vocab_size=100, dropout=0.0, max_position_embeddings=64, pad_token_id=1))


@model
def whisper():
    import transformers
    c = transformers.WhisperConfig(
        d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=100,
        num_mel_bins=16, max_source_positions=32, max_target_positions=32, dropout=0.0,
        pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=3)
    x, y = torch.randn(2, 16, 64), torch.randint(4, 100, (2, 8))
    return transformers.WhisperForConditionalGeneration(c), \
        lambda m: m(input_features=x, labels=y, use_cache=False).loss


seq2seq("mbart", "MBartForConditionalGeneration", "MBartConfig",
        dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
             decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128,
             vocab_size=100, dropout=0.0, max_position_embeddings=64, pad_token_id=1))
seq2seq("pegasus", "PegasusForConditionalGeneration", "PegasusConfig",
        dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
             decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128,
             vocab_size=100, dropout=0.0, max_position_embeddings=64, pad_token_id=0))

WIDTHS = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
              intermediate_size=128, hidden_dropout_prob=0.0,
              attention_probs_dropout_prob=0.0)


@model
def clip():
    import transformers
    side = {**WIDTHS, "attention_dropout": 0.0, "projection_dim": 32}
    c = transformers.CLIPConfig(
        text_config={**side, "vocab_size": 100, "max_position_embeddings": 32,
                     "bos_token_id": 0, "eos_token_id": 2},
        vision_config={**side, "image_size": 32, "patch_size": 8}, projection_dim=32)
    x, y = torch.randint(4, 100, (3, 8)), torch.randn(3, 3, 32, 32)
    return transformers.CLIPModel(c), \
        lambda m: m(input_ids=x, pixel_values=y, return_loss=True).loss


@model
def dinov2():
    import transformers
    c = transformers.Dinov2Config(**WIDTHS, image_size=32, patch_size=8)
    net = transformers.Dinov2ForImageClassification(c)
    x, y = torch.randn(2, 3, 32, 32), torch.randint(0, 2, (2,))
    return net, lambda m: F.cross_entropy(m(pixel_values=x).logits, y)


@model
def segformer():
    import transformers
    c = transformers.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 3, 4],
        decoder_hidden_size=32, num_labels=4, hidden_dropout_prob=0.0, drop_path_rate=0.0,
        attention_probs_dropout_prob=0.0, classifier_dropout_prob=0.0)
    net = transformers.SegformerForSemanticSegmentation(c)
    x, y = torch.randn(2, 3, 64, 64), torch.randint(0, 4, (2, 64, 64))
    return net, lambda m: m(pixel_values=x, labels=y).loss


@model
def wav2vec2():
    import transformers
    c = transformers.Wav2Vec2Config(
        **WIDTHS, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
        num_feat_extract_layers=2, num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4, layerdrop=0.0, feat_proj_dropout=0.0,
        final_dropout=0.0, hidden_dropout=0.0, attention_dropout=0.0,
        activation_dropout=0.0, mask_time_prob=0.0, vocab_size=20)
    net = transformers.Wav2Vec2Model(c)
    x = torch.randn(2, 400)
    return net, lambda m: m(x).last_hidden_state.square().mean()


# ---- diffusers -------------------------------------------------------------------

@model
def diffusion_unet():
    import diffusers
    net = diffusers.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1,
        block_out_channels=(16, 32), norm_num_groups=4, attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    x, y, t = torch.randn(2, 3, 16, 16), torch.randn(2, 3, 16, 16), torch.tensor([3, 70])
    return net, lambda m: F.mse_loss(m(x, t).sample, y)


@model
def diffusion_text_unet():
    import diffusers
    net = diffusers.UNet2DConditionModel(
        sample_size=16, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4,
        cross_attention_dim=32, attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))
    x, y, t = torch.randn(2, 4, 16, 16), torch.randn(2, 4, 16, 16), torch.tensor([3, 70])
    text = torch.randn(2, 7, 32)
    return net, lambda m: F.mse_loss(m(x, t, text).sample, y)


@model
def diffusion_vae():
    import diffusers
    net = diffusers.AutoencoderKL(
        block_out_channels=(16, 32), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)
    x = torch.randn(2, 3, 16, 16)
    return net, lambda m: F.mse_loss(m(x).sample, x)


@model
def dit():
    import diffusers
    net = diffusers.DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=16, in_channels=4, num_layers=2,
        sample_size=8, norm_num_groups=4, dropout=0.0)
    x, y, t = torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8), torch.tensor([3, 70])
    labels = torch.tensor([1, 2])
    for m in net.modules():
        if hasattr(m, "dropout_prob"):  # of labels
            m.dropout_prob = 0.0
    return net, lambda m: F.mse_loss(m(x, t, class_labels=labels).sample, y)
