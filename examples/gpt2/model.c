/* model.c -- GPT-2: embeddings, blocks of attention and a small network, a norm, and
 * the token table once more to tell the next token. */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <tandem/nn.h>

const gpt2_sizes gpt2_small = {50257, 1024, 12, 12, 768};

/* x @ weight + bias, the weight [in,out] as in GPT-2's files. */
typedef struct affine {
    td_tensor *weight, *bias;
} affine;

static bool affine_forward(td_module *m, td_call *c) {
    affine    *a = td_module_state(m);
    td_tensor *x = td_arg(c, 0);
    int64_t    in = td_size(a->weight, 0), out = td_size(a->weight, 1);
    td_tensor *y = td_addmm(a->bias, td_reshape(x, TD_SHAPE(-1, in)), a->weight);
    return td_return(c, td_reshape(y, TD_SHAPE(td_size(x, 0), td_size(x, 1), out)));
}

static td_module *affine_make(td_ctx *cx, int64_t in, int64_t out, double std) {
    static const td_module_type type = {.name = "Conv1D",
                                        .bytes = sizeof(affine),
                                        .forward = affine_forward};
    td_module                  *m = td_module_make(cx, &type);
    if (td_is_nil(m)) return NULL;
    affine *a = td_module_state(m);
    td_module_param(m, "weight", td_mul_(td_randn(cx, TD_SHAPE(in, out)), std));
    td_module_param(m, "bias", td_zeros(cx, TD_SHAPE(out)));
    td_module_follow(m, "weight", &a->weight);
    td_module_follow(m, "bias", &a->bias);
    return m;
}

/* ---- attention ----------------------------------------------------------- */

typedef struct attention {
    td_module *qkv, *out;
    int64_t    heads;
} attention;

static bool attention_forward(td_module *m, td_call *c) {
    attention *a = td_module_state(m);
    td_tensor *x = td_arg(c, 0), *part[3];
    int64_t    b = td_size(x, 0), t = td_size(x, 1), w = td_size(x, 2), h = a->heads;
    td_tensor *qkv = td_module_call(a->qkv, TD_ARGS(x));
    td_split(qkv, w, 2, part, 3);
    for (int i = 0; i < 3; i++) /* [B,T,W] to [B,H,T,W/H] */
        part[i] = td_transpose(td_view(part[i], TD_SHAPE(b, t, h, w / h)), 1, 2);
    td_tensor *y =
        td_scaled_dot_product_attention(part[0], part[1], part[2], NULL, 0.0, true);
    y = td_reshape(td_transpose(y, 1, 2), TD_SHAPE(b, t, w));
    return td_return(c, td_module_call(a->out, TD_ARGS(y)));
}

static td_module *attention_make(td_ctx *cx, gpt2_sizes s) {
    static const td_module_type type = {.name = "Attention",
                                        .bytes = sizeof(attention),
                                        .forward = attention_forward};
    double                      last = 0.02 / sqrt(2.0 * (double)s.layers);
    td_module                  *m = td_module_make(cx, &type);
    if (td_is_nil(m)) return NULL;
    attention *a = td_module_state(m);
    a->heads = s.heads;
    a->qkv = td_nn_add(m, "c_attn", affine_make(cx, s.width, 3 * s.width, 0.02));
    a->out = td_nn_add(m, "c_proj", affine_make(cx, s.width, s.width, last));
    return m;
}

/* ---- a block ------------------------------------------------------------- */

typedef struct block {
    td_module *ln_1, *attn, *ln_2, *up, *down;
} block;

static bool block_forward(td_module *m, td_call *c) {
    block     *k = td_module_state(m);
    td_tensor *x = td_arg(c, 0), *y;
    x = td_add(x,
               td_module_call(k->attn, TD_ARGS(td_module_call(k->ln_1, TD_ARGS(x)))));
    y = td_module_call(k->up, TD_ARGS(td_module_call(k->ln_2, TD_ARGS(x))));
    y = td_module_call(k->down, TD_ARGS(td_gelu(y, "tanh")));
    return td_return(c, td_add(x, y));
}

static td_module *block_make(td_ctx *cx, gpt2_sizes s) {
    static const td_module_type type = {.name = "Block",
                                        .bytes = sizeof(block),
                                        .forward = block_forward};
    static const td_module_type mlp = {.name = "MLP"};
    double                      last = 0.02 / sqrt(2.0 * (double)s.layers);
    td_module                  *m = td_module_make(cx, &type);
    if (td_is_nil(m)) return NULL;
    block *k = td_module_state(m);
    k->ln_1 = td_nn_add(m, "ln_1", td_nn_layer_norm(cx, TD_SHAPE(s.width), NULL));
    k->attn = td_nn_add(m, "attn", attention_make(cx, s));
    k->ln_2 = td_nn_add(m, "ln_2", td_nn_layer_norm(cx, TD_SHAPE(s.width), NULL));
    td_module *net = td_nn_add(m, "mlp", td_module_make(cx, &mlp));
    k->up = td_nn_add(net, "c_fc", affine_make(cx, s.width, 4 * s.width, 0.02));
    k->down = td_nn_add(net, "c_proj", affine_make(cx, 4 * s.width, s.width, last));
    return m;
}

/* ---- the whole ----------------------------------------------------------- */

typedef struct gpt2 {
    td_module *wte, *wpe, *blocks, *ln_f;
    bool       again; /* blocks are computed again in backward */
} gpt2;

static bool region(void *one, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_module_call(one, TD_ARGS(in[0]));
    return !td_is_nil(out[0]);
}

static td_tensor *block_call(const gpt2 *g, int i, td_tensor *x) {
    td_module *one = td_module_child_at(g->blocks, i, NULL);
    if (!g->again) return td_module_call(one, TD_ARGS(x));
    td_checkpoint(td_ctx_of(x), region, one, TD_LIST(x), &x, 1);
    return x;
}

static bool gpt2_forward(td_module *m, td_call *c) {
    gpt2      *g = td_module_state(m);
    td_tensor *at = td_arg(c, 0);
    td_tensor *tokens = td_module_get(g->wte, "weight");
    int64_t    b = td_size(at, 0), t = td_size(at, 1), w = td_size(tokens, 1);
    td_tensor *x = td_module_call(g->wte, TD_ARGS(at));
    x = td_add(x, td_narrow(td_module_get(g->wpe, "weight"), 0, 0, t));
    for (int i = 0; i < td_module_children(g->blocks); i++) x = block_call(g, i, x);
    x = td_module_call(g->ln_f, TD_ARGS(x));
    x = td_matmul(td_reshape(x, TD_SHAPE(b * t, w)), td_t(tokens));
    return td_return(c, td_reshape(x, TD_SHAPE(b, t, td_size(tokens, 0))));
}

td_module *gpt2_make(td_ctx *cx, gpt2_sizes s) {
    static const td_module_type type = {.name = "GPT2",
                                        .bytes = sizeof(gpt2),
                                        .forward = gpt2_forward};
    td_module                  *m = td_module_make(cx, &type);
    if (td_is_nil(m)) return NULL;
    gpt2 *g = td_module_state(m);
    g->wte = td_nn_add(m, "wte", td_nn_embedding(cx, s.vocab, s.width, NULL));
    g->wpe = td_nn_add(m, "wpe", td_nn_embedding(cx, s.context, s.width, NULL));
    td_module_set(g->wte, "weight",
                  td_mul_(td_randn(cx, TD_SHAPE(s.vocab, s.width)), 0.02));
    td_module_set(g->wpe, "weight",
                  td_mul_(td_randn(cx, TD_SHAPE(s.context, s.width)), 0.01));
    g->blocks = td_nn_add(m, "h", td_nn_list(cx, (td_modules){NULL, 0}));
    for (int64_t i = 0; i < s.layers; i++) td_nn_append(g->blocks, block_make(cx, s));
    g->ln_f = td_nn_add(m, "ln_f", td_nn_layer_norm(cx, TD_SHAPE(s.width), NULL));
    if (td_ok(cx)) return m;
    td_module_free(m);
    return NULL;
}

void gpt2_recompute(td_module *m) { ((gpt2 *)td_module_state(m))->again = true; }
