/* recurrent.c -- LSTM, GRU and RNN, as cells and as layers. The inputs' part of the
 * gates is one product for all time steps; a capture unrolls the loop over time steps.
 * */
#include "nn/nn.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = 32 };

/* The weights of one direction of one layer: w_ih [gates*hidden, in], w_hh
 * [gates*hidden, out], biases [gates*hidden] or NULL, and w_hr [out, hidden] of an LSTM
 * with projections, else NULL. */
typedef struct side {
    td_tensor *w_ih, *w_hh, *b_ih, *b_hh, *w_hr;
} side;

/* The state of all six modules; a cell has one layer and one direction. */
typedef struct recurrent {
    int64_t in, hidden;
    int64_t out;   /* size of h: hidden, or proj_size */
    int     gates; /* 4: LSTM, 3: GRU, 1: RNN */
    bool    relu;  /* RNN: not tanh */
    int     layers, sides;
    double  dropout;
    bool    batch_first;
    side    at[2 * MAX_LAYERS]; /* layer by layer, forward before reverse */
} recurrent;

/* The hidden state h [B, out] and, of an LSTM, the cell state c [B, hidden]. */
typedef struct memory {
    td_tensor *h, *c;
} memory;

/* ---- one step ----------------------------------------------------------- */

/* Splits [B, gates*hidden] into its gates. */
static void split_gates(const recurrent *r, td_tensor *all, td_tensor **out) {
    for (int i = 0; i < r->gates; i++) out[i] = td_nil(td_ctx_of(all));
    td_split(all, r->hidden, -1, out, r->gates);
}

/* One time step; x is the inputs' part of the gates. Order of gates: input, forget,
 * cell, output. */
static memory lstm_step(const recurrent *r, const side *s, td_tensor *x, memory m) {
    td_tensor *g[4];
    split_gates(r, td_add(x, td_linear(m.h, s->w_hh, s->b_hh)), g);
    td_tensor *remembered = td_mul(td_sigmoid(g[1]), m.c);
    td_tensor *c = td_add(remembered, td_mul(td_sigmoid(g[0]), td_tanh(g[2])));
    td_tensor *h = td_mul(td_sigmoid(g[3]), td_tanh(c));
    return (memory){s->w_hr ? td_linear(h, s->w_hr) : h, c};
}

/* Order of gates: reset, update, new. As in PyTorch, the reset gate scales h's part
 * including its bias. */
static memory gru_step(const recurrent *r, const side *s, td_tensor *x, memory m) {
    td_tensor *g[3], *h[3];
    split_gates(r, x, g);
    split_gates(r, td_linear(m.h, s->w_hh, s->b_hh), h);
    td_tensor *reset = td_sigmoid(td_add(g[0], h[0]));
    td_tensor *update = td_sigmoid(td_add(g[1], h[1]));
    td_tensor *fresh = td_tanh(td_add(g[2], td_mul(reset, h[2])));
    return (memory){td_add(fresh, td_mul(update, td_sub(m.h, fresh))), NULL};
}

static memory rnn_step(const recurrent *r, const side *s, td_tensor *x, memory m) {
    td_tensor *h = td_add(x, td_linear(m.h, s->w_hh, s->b_hh));
    return (memory){r->relu ? td_relu(h) : td_tanh(h), NULL};
}

static memory one_step(const recurrent *r, const side *s, td_tensor *x, memory m) {
    if (r->gates == 1) return rnn_step(r, s, x, m);
    return r->gates == 4 ? lstm_step(r, s, x, m) : gru_step(r, s, x, m);
}

/* ---- arguments ---------------------------------------------------------- */

static td_tensor *optional(td_call *c, int i) {
    return i < td_arg_count(c) && !td_arg_absent(c, i) ? td_arg(c, i) : NULL;
}

/* rank: with a batch dim; without one it is one less. Layers take lengths as well.
 * False after td__fail. */
static bool check_input(td_module *m, td_call *c, int rank) {
    const recurrent *r = td_module_state(m);
    td_tensor       *x = td_arg(c, 0);
    int              most = (r->gates == 4 ? 3 : 2) + (rank == 3);
    if (td_is_nil(x) || !td__nn_takes(m, c, most)) return false;
    bool fits = td_rank(x) == rank || td_rank(x) == rank - 1;
    if (fits && td_size(x, -1) == r->in && (rank == 2 || td_size(x, 0) > 0))
        return true;
    return td__fail(
        td_module_ctx(m), TD_E_SHAPE,
        "%s: the input is %s; it must have %d or %d dims, at least one time "
        "step, and last size %lld",
        td_module_name(m), td__type_str(x), rank, rank - 1, (long long)r->in);
}

/* An initial state: `like`, zeros, if absent; else it must have like's sizes. Nil
 * after td__fail. */
static td_tensor *read_state(td_module *m, td_tensor *s, td_tensor *like) {
    if (!s || td_is_nil(s)) return s ? s : like;
    bool fits = td_rank(s) == td_rank(like);
    for (int i = 0; fits && i < td_rank(s); i++)
        fits = td_sym_size(s, i) == td_sym_size(like, i) ||
               td_size(s, i) == td_size(like, i);
    if (fits) return s;
    char wants[64];
    snprintf(wants, sizeof wants, "%s", td__type_str(like));
    return td_fail(td_module_ctx(m), TD_E_SHAPE,
                   "%s: an initial state is %s; it must be %s", td_module_name(m),
                   td__type_str(s), wants);
}

/* ---- cells -------------------------------------------------------------- */

static bool cell_forward(td_module *m, td_call *c) {
    const recurrent *r = td_module_state(m);
    td_tensor       *x = td_arg(c, 0);
    if (!check_input(m, c, 2)) return false;
    td_ints sizes =
        td_rank(x) == 1 ? TD_SHAPE(r->hidden) : TD_SHAPE(td_sym_size(x, 0), r->hidden);
    td_tensor *zero = td_zeros(td_module_ctx(m), sizes, td_dtype_of(x));
    memory     was = {read_state(m, optional(c, 1), zero),
                  r->gates == 4 ? read_state(m, optional(c, 2), zero) : NULL};
    memory     now = one_step(r, r->at, td_linear(x, r->at->w_ih, r->at->b_ih), was);
    return r->gates == 4 ? td_return(c, now.h, now.c) : td_return(c, now.h);
}

/* ---- layers ------------------------------------------------------------- */

/* The inputs of all layers. */
typedef struct sequence {
    td_tensor *x;      /* [T,B,...] */
    td_tensor *inside; /* bool[T,B,1]: is the step one of its sequence? NULL: all are */
    td_tensor **steps; /* scratch for 2*T tensors */
} sequence;

/* The state after a step: of sequences that have ended as before. */
static memory kept(memory now, memory was, td_tensor *inside) {
    now.h = td_where(inside, now.h, was.h);
    if (now.c) now.c = td_where(inside, now.c, was.c);
    return now;
}

/* One direction of one layer: [T,B,out]. *m is the first state and becomes the last.
 */
static td_tensor *run_side(const recurrent *r, const side *s, const sequence *q,
                           memory *m, bool reverse) {
    td_tensor  *x = q->x, **steps = q->steps;
    int64_t     n = td_is_nil(x) ? 0 : td_size(x, 0);
    td_tensor **in = steps, **out = steps + n;
    for (int64_t t = 0; t < n; t++) in[t] = td_nil(td_ctx_of(x));
    td_unbind(td_linear(x, s->w_ih, s->b_ih), 0, in, (int)n);
    for (int64_t t = 0; t < n; t++) {
        int64_t    at = reverse ? n - 1 - t : t;
        memory     now = one_step(r, s, in[at], *m);
        td_tensor *inside = q->inside ? td_select(q->inside, 0, at) : NULL;
        *m = inside ? kept(now, *m, inside) : now;
        out[at] = inside ? td_where(inside, now.h, td_zeros_like(now.h)) : now.h;
    }
    return n ? td_stack(td__nn_list(out, (int)n), 0) : x;
}

/* All layers; last[0] and last[1] get h and c of each direction. */
static td_tensor *run_layers(td_module *m, sequence q, memory first,
                             td_tensor *last[2][2 * MAX_LAYERS]) {
    const recurrent *r = td_module_state(m);
    for (int layer = 0; layer < r->layers; layer++) {
        td_tensor *out[2];
        for (int d = 0; d < r->sides; d++) {
            int    at = layer * r->sides + d;
            memory mem = {td_select(first.h, 0, at),
                          first.c ? td_select(first.c, 0, at) : NULL};
            out[d] = run_side(r, &r->at[at], &q, &mem, d == 1);
            last[0][at] = mem.h;
            last[1][at] = mem.c;
        }
        q.x = r->sides == 1 ? out[0] : td_cat(TD_LIST(out[0], out[1]), -1);
        if (layer + 1 < r->layers)
            q.x = td_dropout(q.x, r->dropout, td_module_training(m));
    }
    return q.x;
}

/* Converts to the internal layout [T,B,...] (states [layers,B,...]): adds a batch dim
 * if single, transposes if batch_first. */
static td_tensor *with_batch(td_tensor *t, bool single, bool batch_first) {
    if (!t || td_is_nil(t)) return t;
    return single ? td_unsqueeze(t, 1) : batch_first ? td_transpose(t, 0, 1) : t;
}

/* The inverse of with_batch. */
static td_tensor *without_batch(td_tensor *t, bool single, bool batch_first) {
    return single ? td_squeeze_dim(t, 1) : batch_first ? td_transpose(t, 0, 1) : t;
}

/* Which steps of x [T,B,...] are before the lengths: bool[T,B,1]; NULL: there are none.
 * Nil after td__fail. */
static td_tensor *steps_inside(td_module *m, td_tensor *lengths, td_tensor *x) {
    if (!lengths || td_is_nil(lengths)) return lengths;
    bool fits = td_dtype_of(lengths) == TD_I64 && td_rank(lengths) == 1 &&
                (td_sym_size(lengths, 0) == td_sym_size(x, 1) ||
                 td_size(lengths, 0) == td_size(x, 1));
    if (!fits)
        return td_fail(td_module_ctx(m), TD_E_SHAPE,
                       "%s: lengths is %s; it must be i64[%lld], one for each sequence",
                       td_module_name(m), td__type_str(lengths),
                       (long long)td_size(x, 1));
    td_tensor *t = td_arange(td_module_ctx(m), 0, td_size(x, 0), 1, TD_I64);
    return td_unsqueeze(td_lt(td_unsqueeze(t, 1), lengths), 2);
}

/* Arguments: input, h0, c0 of an LSTM, lengths; all but the first optional. Results:
 * output, hn, cn. */
static bool layers_forward(td_module *m, td_call *c) {
    const recurrent *r = td_module_state(m);
    td_ctx          *cx = td_module_ctx(m);
    td_tensor       *x = td_arg(c, 0), *last[2][2 * MAX_LAYERS];
    if (!check_input(m, c, 3)) return false;
    bool single = td_rank(x) == 2;
    int  n = r->layers * r->sides;
    x = with_batch(x, single, r->batch_first);
    td_ints    sizes = TD_SHAPE(n, td_sym_size(x, 1), r->out);
    td_tensor *zero = td_zeros(cx, sizes, td_dtype_of(x)), *zero_c = zero;
    sizes = TD_SHAPE(n, td_sym_size(x, 1), r->hidden);
    if (r->out != r->hidden) zero_c = td_zeros(cx, sizes, td_dtype_of(x));
    td_tensor *h = with_batch(optional(c, 1), single, false);
    td_tensor *cell = r->gates == 4 ? with_batch(optional(c, 2), single, false) : NULL;
    memory     first = {read_state(m, h, zero),
                    r->gates == 4 ? read_state(m, cell, zero_c) : NULL};
    td_tensor *lengths = optional(c, r->gates == 4 ? 3 : 2);
    sequence   q = {.x = x, .inside = steps_inside(m, lengths, x)};
    if (!td_ok(cx)) return false;
    q.steps = td__alloc(sizeof *q.steps * 2 * (size_t)td_size(x, 0));
    if (!q.steps) return td__fail_memory(cx);
    td_tensor *y = run_layers(m, q, first, last);
    td__free(q.steps);
    y = without_batch(y, single, r->batch_first);
    td_tensor *hn = without_batch(td_stack(td__nn_list(last[0], n), 0), single, false);
    if (r->gates != 4) return td_return(c, y, hn);
    td_tensor *cn = without_batch(td_stack(td__nn_list(last[1], n), 0), single, false);
    return td_return(c, y, hn, cn);
}

/* ---- making ------------------------------------------------------------- */

#define RECURRENT(name_, forward_) \
    { .name = (name_), .bytes = sizeof(recurrent), .forward = (forward_) }
static const td_module_type lstm_type = RECURRENT("LSTM", layers_forward);
static const td_module_type gru_type = RECURRENT("GRU", layers_forward);
static const td_module_type rnn_type = RECURRENT("RNN", layers_forward);
static const td_module_type rnn_cell_type = RECURRENT("RNNCell", cell_forward);
static const td_module_type lstm_cell_type = RECURRENT("LSTMCell", cell_forward);
static const td_module_type gru_cell_type = RECURRENT("GRUCell", cell_forward);

/* Registers "weight_ih" etc. with the suffix of its layer and direction; an empty
 * shape: NULL. */
static void add_weight(td_making *k, const char *what, const char *suffix,
                       td_ints shape, td_tensor **slot) {
    const recurrent *r = td_module_state(k->m);
    char             name[64];
    snprintf(name, sizeof name, "%s%s", what, suffix);
    td_tensor *t = shape.n ? td__nn_uniform(k->cx, shape, r->hidden) : NULL;
    td__nn_param(k, name, t, slot);
}

/* Registers the tensors of one direction. */
static void add_side(td_making *k, side *s, const char *suffix, int64_t in, bool bias) {
    const recurrent *r = td_module_state(k->m);
    int64_t          rows = r->gates * r->hidden;
    td_ints          b = bias ? TD_SHAPE(rows) : TD_SHAPE();
    add_weight(k, "weight_ih", suffix, TD_SHAPE(rows, in), &s->w_ih);
    add_weight(k, "weight_hh", suffix, TD_SHAPE(rows, r->out), &s->w_hh);
    add_weight(k, "bias_ih", suffix, b, &s->b_ih);
    add_weight(k, "bias_hh", suffix, b, &s->b_hh);
    if (r->out != r->hidden)
        add_weight(k, "weight_hr", suffix, TD_SHAPE(r->out, r->hidden), &s->w_hr);
}

/* Are the options in range? False after td__fail. */
static bool check_opts(td_ctx *cx, const char *who, int64_t in, int64_t hidden,
                       const td_nn_rnn_opts *o) {
    if (!td__nn_positive(cx, who, "in", in) ||
        !td__nn_positive(cx, who, "hidden", hidden) ||
        !td__nn_fraction(cx, who, "dropout", o->dropout))
        return false;
    if (o->proj_size && strcmp(who, "LSTM") != 0)
        return td__fail(cx, TD_E_ARG, "%s: proj_size is for LSTM layers only", who);
    if (o->proj_size < 0 || o->proj_size >= hidden)
        return td__fail(cx, TD_E_ARG,
                        "%s: proj_size is %lld; it must be 0 to %lld, less than hidden",
                        who, (long long)o->proj_size, (long long)hidden - 1);
    return (o->layers >= 0 && o->layers <= MAX_LAYERS) ||
           td__fail(cx, TD_E_ARG, "%s: layers is %lld; it must be 1 to %d", who,
                    (long long)o->layers, MAX_LAYERS);
}

/* Weights have PyTorch's names: weight_ih_l0, weight_hh_l0_reverse... A cell has one
 * layer and no suffix. */
static td_module *make(td_ctx *cx, const td_module_type *type, int64_t in,
                       int64_t hidden, const td_nn_rnn_opts *opts) {
    td_nn_rnn_opts o;
    bool           cell = type->forward == cell_forward;
    if (!td__opts_take(td__ctx_of_any(cx), type->name, &o, sizeof o, opts,
                       "TD_NN_RNN_OPTS"))
        return TD_NIL(cx, MODULE);
    if (!check_opts(cx, type->name, in, hidden, &o)) return TD_NIL(cx, MODULE);
    td_making  k = td__nn_begin(cx, type);
    recurrent *r = k.m ? td_module_state(k.m) : NULL;
    if (!r) return td__nn_end(&k);
    r->in = in;
    r->hidden = hidden;
    r->out = o.proj_size ? o.proj_size : hidden;
    r->gates = type == &lstm_type || type == &lstm_cell_type ? 4
               : type == &gru_type || type == &gru_cell_type ? 3
                                                             : 1;
    r->relu = o.relu;
    r->layers = o.layers && !cell ? (int)o.layers : 1;
    r->sides = o.bidirectional && !cell ? 2 : 1;
    r->dropout = o.dropout;
    r->batch_first = o.batch_first;
    for (int i = 0; i < r->layers * r->sides; i++) {
        char    suffix[32] = "";
        int64_t below = i < r->sides ? in : r->out * r->sides;
        if (!cell)
            snprintf(suffix, sizeof suffix, "_l%d%s", i / r->sides,
                     i % r->sides ? "_reverse" : "");
        add_side(&k, &r->at[i], suffix, below, !o.no_bias);
    }
    return td__nn_end(&k);
}

td_module *td_nn_lstm(td_ctx *cx, int64_t in, int64_t hidden,
                      const td_nn_rnn_opts *opts) {
    return make(cx, &lstm_type, in, hidden, opts);
}
td_module *td_nn_gru(td_ctx *cx, int64_t in, int64_t hidden,
                     const td_nn_rnn_opts *opts) {
    return make(cx, &gru_type, in, hidden, opts);
}
td_module *td_nn_lstm_cell(td_ctx *cx, int64_t in, int64_t hidden,
                           const td_nn_rnn_opts *opts) {
    return make(cx, &lstm_cell_type, in, hidden, opts);
}
td_module *td_nn_gru_cell(td_ctx *cx, int64_t in, int64_t hidden,
                          const td_nn_rnn_opts *opts) {
    return make(cx, &gru_cell_type, in, hidden, opts);
}
td_module *td_nn_rnn(td_ctx *cx, int64_t in, int64_t hidden,
                     const td_nn_rnn_opts *opts) {
    return make(cx, &rnn_type, in, hidden, opts);
}
td_module *td_nn_rnn_cell(td_ctx *cx, int64_t in, int64_t hidden,
                          const td_nn_rnn_opts *opts) {
    return make(cx, &rnn_cell_type, in, hidden, opts);
}
