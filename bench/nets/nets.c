/* nets.c -- MLPs, GPT-2, ResNet-18 and an LSTM, each with a batch and AdamW. */
#include "nets.h"

#include "../../examples/gpt2/model.h"

/* ---- MLP: four layers with GELU between --------------------------------- */

static void make_mlp(net_job *j, int64_t batch, int64_t width) {
    td_module *net = td_nn_sequential(j->cx, (td_modules){NULL, 0});
    for (int i = 0; i < 4; i++) {
        td_nn_append(net, td_nn_linear(j->cx, width, width, NULL));
        if (i < 3) td_nn_append(net, td_nn_gelu(j->cx));
    }
    j->net = net;
    j->classes = width;
    j->x = td_randn(j->cx, TD_SHAPE(batch, width));
    j->y = td_randint(j->cx, 0, width, TD_SHAPE(batch));
}

/* ---- GPT-2, 124M parameters --------------------------------------------- */

static void make_gpt2(net_job *j, int64_t batch, int64_t length) {
    j->net = gpt2_make(j->cx, gpt2_small);
    j->classes = gpt2_small.vocab;
    j->x = td_randint(j->cx, 0, j->classes, TD_SHAPE(batch, length));
    j->y = td_randint(j->cx, 0, j->classes, TD_SHAPE(batch, length));
}

/* ---- ResNet-18 ---------------------------------------------------------- */

/* Two convolutions and a way around them. */
typedef struct block {
    td_module *conv1, *bn1, *conv2, *bn2, *around; /* NULL: the input itself */
} block;

static td_tensor *on(td_module *m, td_tensor *x) {
    return td_module_call(m, TD_ARGS(x));
}

static bool block_forward(td_module *m, td_call *c) {
    block     *b = td_module_state(m);
    td_tensor *x = td_arg(c, 0), *y = td_relu(on(b->bn1, on(b->conv1, x)));
    y = on(b->bn2, on(b->conv2, y));
    return td_return(c, td_relu(td_add(y, b->around ? on(b->around, x) : x)));
}

static const td_module_type block_type = {.name = "BasicBlock",
                                          .bytes = sizeof(block),
                                          .forward = block_forward};

static td_module *conv(td_ctx *cx, int64_t in, int64_t out, int64_t size, int64_t by) {
    td_nn_conv_opts o = {TD_NN_CONV_OPTS, .stride = TD_DIMS(by),
                         .padding = TD_DIMS(size / 2), .no_bias = true};
    return td_nn_conv2d(cx, in, out, TD_DIMS(size), &o);
}

/* Registers a child and keeps it at hand in the state. */
static void add(td_module *m, const char *name, td_module *child, td_module **slot) {
    if (td_nn_add(m, name, child)) td_module_follow_child(m, name, slot);
}

static td_module *make_block(td_ctx *cx, int64_t in, int64_t out, int64_t by) {
    td_module *m = td_module_make(cx, &block_type);
    block     *b = m ? td_module_state(m) : NULL;
    if (!b) return NULL;
    add(m, "conv1", conv(cx, in, out, 3, by), &b->conv1);
    add(m, "bn1", td_nn_batch_norm2d(cx, out, NULL), &b->bn1);
    add(m, "conv2", conv(cx, out, out, 3, 1), &b->conv2);
    add(m, "bn2", td_nn_batch_norm2d(cx, out, NULL), &b->bn2);
    if (in != out) {
        td_module *shrink = conv(cx, in, out, 1, by);
        td_modules both = TD_MODULES(shrink, td_nn_batch_norm2d(cx, out, NULL));
        add(m, "downsample", td_nn_sequential(cx, both), &b->around);
    }
    return m;
}

static void make_resnet(net_job *j, int64_t batch, int64_t size) {
    td_ctx    *cx = j->cx;
    td_module *net = td_nn_sequential(cx, (td_modules){NULL, 0});
    td_nn_append(net, conv(cx, 3, 64, 7, 2));
    td_nn_append(net, td_nn_batch_norm2d(cx, 64, NULL));
    td_nn_append(net, td_nn_relu(cx));
    td_nn_append(net, td_nn_max_pool2d(cx, TD_DIMS(3), TD_DIMS(2), TD_DIMS(1)));
    for (int64_t stage = 0, in = 64; stage < 4; stage++) {
        int64_t out = 64 << stage;
        td_nn_append(net, make_block(cx, in, out, stage ? 2 : 1));
        td_nn_append(net, make_block(cx, out, out, 1));
        in = out;
    }
    td_nn_append(net, td_nn_adaptive_avg_pool2d(cx, TD_DIMS(1)));
    td_nn_append(net, td_nn_flatten(cx, 1, -1));
    td_nn_append(net, td_nn_linear(cx, 512, 1000, NULL));
    j->net = net;
    j->classes = 1000;
    j->x = td_randn(cx, TD_SHAPE(batch, 3, size, size));
    j->y = td_randint(cx, 0, j->classes, TD_SHAPE(batch));
}

/* ---- LSTM over letters -------------------------------------------------- */

enum { LETTERS = 256 };

typedef struct writer {
    td_module *letters, *lstm, *head;
} writer;

static bool writer_forward(td_module *m, td_call *c) {
    writer  *w = td_module_state(m);
    td_value out[3];
    int      n =
        td_module_call_values(w->lstm, TD_ARGS(on(w->letters, td_arg(c, 0))), out, 3);
    return n == 3 && td_return(c, on(w->head, out[0].u.t));
}

static const td_module_type writer_type = {.name = "Writer",
                                           .bytes = sizeof(writer),
                                           .forward = writer_forward};

/* Texts of 64 letters. */
static void make_lstm(net_job *j, int64_t batch, int64_t hidden) {
    td_ctx        *cx = j->cx;
    td_nn_rnn_opts how = {TD_NN_RNN_OPTS, .batch_first = true};
    td_module     *m = td_module_make(cx, &writer_type);
    writer        *w = m ? td_module_state(m) : NULL;
    if (!w) return;
    add(m, "letters", td_nn_embedding(cx, LETTERS, hidden, NULL), &w->letters);
    add(m, "lstm", td_nn_lstm(cx, hidden, hidden, &how), &w->lstm);
    add(m, "head", td_nn_linear(cx, hidden, LETTERS, NULL), &w->head);
    j->net = m;
    j->classes = LETTERS;
    j->x = td_randint(cx, 0, LETTERS, TD_SHAPE(batch, 64));
    j->y = td_randint(cx, 0, LETTERS, TD_SHAPE(batch, 64));
}

/* ---- all ---------------------------------------------------------------- */

const net_kind net_kinds[] = {
    {"mlp_64x256x4", make_mlp, 64, 256},    {"mlp_256x1024x4", make_mlp, 256, 1024},
    {"lstm_16x64x128", make_lstm, 16, 128}, {"lstm_32x64x256", make_lstm, 32, 256},
    {"resnet18_8x64", make_resnet, 8, 64},  {"gpt2_4x64", make_gpt2, 4, 64},
    {"gpt2_2x256", make_gpt2, 2, 256},      {NULL, NULL, 0, 0},
};

bool net_open(net_job *j, td_ctx *cx, const net_kind *kind) {
    *j = (net_job){.cx = cx};
    kind->make(j, kind->batch, kind->size);
    if (td_ok(cx) && j->net) j->opt = td_optim_module(j->net, td_adamw(1e-4));
    if (td_ok(cx)) return true;
    net_close(j);
    return false;
}

void net_close(net_job *j) {
    td_optim_free(j->opt);
    td_module_free(j->net);
    *j = (net_job){0};
}

bool net_step(td_call *c) {
    net_job   *j = td_call_env(c);
    td_tensor *out = on(j->net, td_arg(c, 0));
    td_tensor *loss = td_cross_entropy(td_reshape(out, TD_SHAPE(-1, j->classes)),
                                       td_reshape(td_arg(c, 1), TD_SHAPE(-1)));
    if (!td_backward(loss) || !td_optim_step(j->opt)) return false;
    td_optim_zero_grad(j->opt);
    return td_return(c, loss);
}
