/* transformer.c -- the layers of a transformer and their stacks, with PyTorch's names
 * and order of operations. */
#include "nn/nn.h"

/* ---- blocks ------------------------------------------------------------- */

/* A layer: attention to itself, a decoder's to the memory, and two linear maps. */
typedef struct block {
    td_module *self, *cross; /* cross NULL: an encoder's */
    td_module *up, *down, *norm[3];
    double     dropout;
    bool       norm_first, gelu;
} block;

/* A part of a layer: what is added to x. */
typedef struct part {
    td_module *attention; /* NULL: the linear maps */
    td_value   with[4];   /* key, value, mask, padding */
} part;

static td_tensor *drop(td_module *m, td_tensor *x) {
    const block *b = td_module_state(m);
    return td_dropout(x, b->dropout, td_module_training(m));
}

static td_tensor *feed_forward(td_module *m, td_tensor *x) {
    const block *b = td_module_state(m);
    td_tensor   *y = td_module_call(b->up, TD_ARGS(x));
    y = drop(m, b->gelu ? td_gelu(y) : td_relu(y));
    return td_module_call(b->down, TD_ARGS(y));
}

static td_tensor *run_part(td_module *m, const part *p, td_tensor *x) {
    if (!p->attention) return drop(m, feed_forward(m, x));
    td_value args[5] = {td_value_tensor(x), p->with[0], p->with[1], p->with[2],
                        p->with[3]};
    return drop(m, td_module_call(p->attention, (td_values){args, 5}));
}

/* x plus the part, with the norm before or after. */
static td_tensor *add_part(td_module *m, const part *p, td_module *norm, td_tensor *x) {
    const block *b = td_module_state(m);
    if (b->norm_first)
        return td_add(x, run_part(m, p, td_module_call(norm, TD_ARGS(x))));
    return td_module_call(norm, TD_ARGS(td_add(x, run_part(m, p, x))));
}

/* Argument i, or none. */
static td_value given(td_call *c, int i) {
    return i < td_arg_count(c) && !td_arg_absent(c, i) ? td_value_tensor(td_arg(c, i))
                                                       : TD_NONE;
}

/* Arguments of an encoder layer: x, mask, padding. Of a decoder layer: x, memory, mask,
 * memory_mask, padding, memory_padding. */
static bool block_forward(td_module *m, td_call *c) {
    const block *b = td_module_state(m);
    bool         decodes = b->cross != NULL;
    td_tensor   *x = td_arg(c, 0);
    int          nr = 0;
    if (td_is_nil(x) || !td__nn_takes(m, c, decodes ? 6 : 3)) return false;
    part self = {b->self,
                 {TD_NONE, TD_NONE, given(c, 1 + decodes), given(c, 2 + 2 * decodes)}};
    part cross = {b->cross, {given(c, 1), TD_NONE, given(c, 3), given(c, 5)}};
    part maps = {0};
    x = add_part(m, &self, b->norm[nr++], x);
    if (decodes && td_arg_absent(c, 1))
        return td__fail(td_call_ctx(c), TD_E_ARG,
                        "%s: the memory is absent; pass the encoder's result as "
                        "argument 1",
                        td_module_name(m));
    if (decodes) x = add_part(m, &cross, b->norm[nr++], x);
    return td_return(c, add_part(m, &maps, b->norm[nr], x));
}

static const td_module_type encoder_layer_type = {.name = "TransformerEncoderLayer",
                                                  .bytes = sizeof(block),
                                                  .forward = block_forward};
static const td_module_type decoder_layer_type = {.name = "TransformerDecoderLayer",
                                                  .bytes = sizeof(block),
                                                  .forward = block_forward};

/* Makes the children in PyTorch's order. */
static void fill_block(td_making *k, int64_t dim, int64_t heads,
                       const td_nn_transformer_opts *o) {
    static const char *const names[] = {"norm1", "norm2", "norm3"};
    block                   *b = td_module_state(k->m);
    td_nn_attention_opts     a = {TD_NN_ATTENTION_OPTS, .dropout = o->dropout,
                                  .no_bias = o->no_bias, .batch_first = o->batch_first};
    td_nn_linear_opts        l = {TD_NN_LINEAR_OPTS, .no_bias = o->no_bias};
    td_nn_norm_opts n = {TD_NN_NORM_OPTS, .eps = o->eps, .no_bias = o->no_bias};
    bool            decodes = td_module_name(k->m) == decoder_layer_type.name;
    b->dropout = o->dropout;
    b->norm_first = o->norm_first;
    b->gelu = o->gelu;
    td_ctx *cx = k->cx;
    td__nn_child(k, "self_attn", td_nn_multihead_attention(cx, dim, heads, &a),
                 &b->self);
    if (decodes)
        td__nn_child(k, "multihead_attn", td_nn_multihead_attention(cx, dim, heads, &a),
                     &b->cross);
    td__nn_child(k, "linear1", td_nn_linear(cx, dim, o->feedforward, &l), &b->up);
    td__nn_child(k, "linear2", td_nn_linear(cx, o->feedforward, dim, &l), &b->down);
    for (int i = 0; i < 2 + decodes; i++)
        td__nn_child(k, names[i], td_nn_layer_norm(cx, TD_SHAPE(dim), &n), &b->norm[i]);
}

/* Reads the options, zeros as PyTorch's defaults. False after td__fail. */
static bool read_opts(td_ctx *cx, const char *who, td_nn_transformer_opts *o,
                      const td_nn_transformer_opts *opts) {
    if (!td__opts_take(td__ctx_of_any(cx), who, o, sizeof *o, opts,
                       "TD_NN_TRANSFORMER_OPTS") ||
        !td__nn_fraction(cx, who, "dropout", o->dropout))
        return false;
    if (o->feedforward == 0) o->feedforward = 2048;
    if (o->dropout == 0) o->dropout = 0.1;
    if (o->no_dropout) o->dropout = 0;
    return true;
}

static td_module *make_block(td_ctx *cx, const td_module_type *type, int64_t dim,
                             int64_t heads, const td_nn_transformer_opts *opts) {
    td_nn_transformer_opts o;
    if (!read_opts(cx, type->name, &o, opts)) return TD_NIL(cx, MODULE);
    td_making k = td__nn_begin(cx, type);
    if (k.m) fill_block(&k, dim, heads, &o);
    return td__nn_end(&k);
}

td_module *td_nn_transformer_encoder_layer(td_ctx *cx, int64_t dim, int64_t heads,
                                           const td_nn_transformer_opts *opts) {
    return make_block(cx, &encoder_layer_type, dim, heads, opts);
}

td_module *td_nn_transformer_decoder_layer(td_ctx *cx, int64_t dim, int64_t heads,
                                           const td_nn_transformer_opts *opts) {
    return make_block(cx, &decoder_layer_type, dim, heads, opts);
}

/* ---- stacks ------------------------------------------------------------- */

typedef struct stack {
    td_module *layers, *norm; /* norm NULL: none */
} stack;

/* The arguments of a layer go to each; x is what the layer before returned. */
static bool stack_forward(td_module *m, td_call *c) {
    const stack *s = td_module_state(m);
    td_value     args[6];
    int          n = td_arg_count(c);
    td_tensor   *x = td_arg(c, 0);
    if (td_is_nil(x) || !td__nn_takes(m, c, 6)) return false;
    for (int i = 1; i < n; i++) args[i] = given(c, i);
    for (int i = 0; i < td_module_children(s->layers) && td_ok(td_call_ctx(c)); i++) {
        args[0] = td_value_tensor(x);
        x = td_module_call(td_module_child_at(s->layers, i, NULL),
                           (td_values){args, n});
    }
    if (s->norm) x = td_module_call(s->norm, TD_ARGS(x));
    return td_return(c, x);
}

static const td_module_type encoder_type = {.name = "TransformerEncoder",
                                            .bytes = sizeof(stack),
                                            .forward = stack_forward};
static const td_module_type decoder_type = {.name = "TransformerDecoder",
                                            .bytes = sizeof(stack),
                                            .forward = stack_forward};

/* A list of n: the layer, and copies of it. Takes it over. */
static td_module *repeat(td_ctx *cx, td_module *layer, int64_t n) {
    td_module *list = td_nn_list(cx, (td_modules){&layer, 1});
    for (int64_t i = 1; i < n && !td_is_nil(list) && td_ok(cx); i++) {
        td_module *copy = td_module_copy(layer);
        if (!td_is_nil(copy)) td_nn_append(list, copy);
    }
    return list;
}

static td_module *make_stack(td_ctx *cx, const td_module_type *type, td_module *layer,
                             int64_t n, td_module *norm) {
    bool       ok = td__nn_positive(cx, type->name, "n", n);
    td_module *list = repeat(cx, layer, ok ? n : 1);
    td_making  k = td__nn_begin(cx, type);
    stack     *s = k.m ? td_module_state(k.m) : NULL;
    td__nn_child(&k, "layers", list, s ? &s->layers : NULL);
    if (norm) td__nn_child(&k, "norm", norm, s ? &s->norm : NULL);
    return td__nn_end(&k);
}

td_module *td_nn_transformer_encoder(td_ctx *cx, td_module *layer, int64_t n,
                                     td_module *norm) {
    return make_stack(cx, &encoder_type, layer, n, norm);
}

td_module *td_nn_transformer_decoder(td_ctx *cx, td_module *layer, int64_t n,
                                     td_module *norm) {
    return make_stack(cx, &decoder_type, layer, n, norm);
}

/* ---- both --------------------------------------------------------------- */

typedef struct transformer {
    td_module *encoder, *decoder;
} transformer;

/* Arguments: source, target, source_mask, target_mask, memory_mask, source_padding,
 * target_padding, memory_padding. */
static bool transformer_forward(td_module *m, td_call *c) {
    const transformer *t = td_module_state(m);
    if (td_is_nil(td_arg(c, 0)) || !td__nn_takes(m, c, 8)) return false;
    td_value   source[3] = {given(c, 0), given(c, 2), given(c, 5)};
    td_tensor *memory = td_module_call(t->encoder, (td_values){source, 3});
    td_value   target[6] = {given(c, 1), td_value_tensor(memory),
                            given(c, 3), given(c, 4),
                            given(c, 6), given(c, 7)};
    return td_return(c, td_module_call(t->decoder, (td_values){target, 6}));
}

static const td_module_type transformer_type = {.name = "Transformer",
                                                .bytes = sizeof(transformer),
                                                .forward = transformer_forward};

/* PyTorch draws the weights of both stacks anew: Xavier for matrices. */
static bool reset(void *env, const td_member *m) {
    (void)env;
    if (td_rank(m->t) > 1) td_init_xavier_uniform(m->t, 1);
    return true;
}

td_module *td_nn_transformer(td_ctx *cx, int64_t dim, int64_t heads, int64_t encoders,
                             int64_t decoders, const td_nn_transformer_opts *opts) {
    td_nn_transformer_opts o;
    if (!read_opts(cx, "Transformer", &o, opts)) return TD_NIL(cx, MODULE);
    td_nn_norm_opts n = {TD_NN_NORM_OPTS, .eps = o.eps, .no_bias = o.no_bias};
    td_module      *e = td_nn_transformer_encoder_layer(cx, dim, heads, opts);
    td_module      *d = td_nn_transformer_decoder_layer(cx, dim, heads, opts);
    e = td_nn_transformer_encoder(cx, e, encoders,
                                  td_nn_layer_norm(cx, TD_SHAPE(dim), &n));
    d = td_nn_transformer_decoder(cx, d, decoders,
                                  td_nn_layer_norm(cx, TD_SHAPE(dim), &n));
    td_making    k = td__nn_begin(cx, &transformer_type);
    transformer *t = k.m ? td_module_state(k.m) : NULL;
    td__nn_child(&k, "encoder", e, t ? &t->encoder : NULL);
    td__nn_child(&k, "decoder", d, t ? &t->decoder : NULL);
    if (k.m) td_module_visit(k.m, TD_VISIT_PARAMS, reset, NULL);
    return td__nn_end(&k);
}
