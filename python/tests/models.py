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


# ---- torchvision and timm -------------------------------------------------------

def images(net, size, batch=2):
    x, y = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))
    return net, lambda m: F.cross_entropy(m(x), y)


VISION = dict(resnet18=64, resnet50=64, mobilenet_v2=64, mobilenet_v3_small=64,
              efficientnet_b0=64, convnext_tiny=64, squeezenet1_1=64, shufflenet_v2_x0_5=64,
              regnet_y_400mf=64, densenet121=64, mnasnet0_5=64, vgg11_bn=64, swin_t=64)
TIMM = dict(vit_tiny_patch16_224=64, deit_tiny_patch16_224=64, convnext_atto=64,
            mixer_s32_224=64, resmlp_12_224=64, regnetx_002=64, ghostnet_050=64,
            edgenext_xx_small=64, poolformerv2_s12=64, efficientvit_b0=64, levit_128s=224,
            xcit_nano_12_p16_224=64, hrnet_w18_small=64, repvgg_a0=64, tf_efficientnetv2_b0=64)


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
        fixed = {"img_size": size} if any(w in name for w in ("vit_t", "deit", "mixer",
                                                               "resmlp", "xcit")) else {}
        return images(timm.create_model(name, num_classes=10, **fixed), size)
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
