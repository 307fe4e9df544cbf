/* lstm_text.c -- an LSTM learns a text letter by letter, then goes on by itself.
 *
 *     cc lstm_text.c $(pkg-config --cflags --libs tandem) -lm && ./a.out book.txt 2000
 *
 * Arguments: a file of text, steps. By default a few lines of its own, briefly.
 */
#include <tandem/tandem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LETTERS = 256, DIM = 32, HIDDEN = 96, BATCH = 8, WINDOW = 32 };

static const char own[] =
    "The tide comes in, the tide goes out, and twice a day the shore is new. "
    "The gulls walk where the water was, and write their names in rows of three. "
    "The tide comes in and reads the names, and keeps them all, and tells no one. "
    "The tide goes out, the shore is new, the gulls come back and write again. ";

/* ---- the network -------------------------------------------------------- */

typedef struct writer {
    td_module *letters, *lstm, *head;
} writer;

/* (letters [B,T], h, c), states absent at first; gives scores [B,T,LETTERS], h, c. */
static bool writer_forward(td_module *m, td_call *c) {
    writer    *w = td_module_state(m);
    bool       first = td_arg_count(c) < 2;
    td_value   out[3], in[3];
    td_tensor *x = td_arg(c, 0);
    in[0] = td_value_tensor(td_module_call(w->letters, TD_ARGS(x)));
    in[1] = first ? TD_NONE : td_value_tensor(td_arg(c, 1));
    in[2] = first ? TD_NONE : td_value_tensor(td_arg(c, 2));
    if (td_module_call_values(w->lstm, (td_values){in, 3}, out, 3) != 3) return false;
    td_tensor *y = td_module_call(w->head, TD_ARGS(out[0]));
    return td_return(c, y, out[1], out[2]);
}

static const td_module_type writer_type = {.name = "Writer",
                                           .bytes = sizeof(writer),
                                           .forward = writer_forward};

static void add(td_module *m, const char *name, td_module *child, td_module **slot) {
    if (td_nn_add(m, name, child)) td_module_follow_child(m, name, slot);
}

static td_module *make_writer(td_ctx *cx) {
    td_module     *m = td_module_make(cx, &writer_type);
    writer        *w = m ? td_module_state(m) : NULL;
    td_nn_rnn_opts how = {TD_NN_RNN_OPTS, .batch_first = true};
    if (!w) return NULL;
    add(m, "letters", td_nn_embedding(cx, LETTERS, DIM, NULL), &w->letters);
    add(m, "lstm", td_nn_lstm(cx, DIM, HIDDEN, &how), &w->lstm);
    add(m, "head", td_nn_linear(cx, HIDDEN, LETTERS, NULL), &w->head);
    return m;
}

/* ---- training ----------------------------------------------------------- */

static double train(td_ctx *cx, td_module *m, td_loader *l, long steps) {
    td_optim *opt = td_optim_module(m, td_adamw(1e-2));
    double    last = 0;
    for (long step = 0; step < steps && td_ok(cx); step++) {
        td_scope_begin(cx, "step");
        td_tensor *x, *y;
        td_optim_set_lr(opt, -1, td_lr_warmup_cosine(step, 10, steps, 1e-2, 1e-3));
        td_loader_next(l, &x, &y);
        td_tensor *score = td_module_call(m, TD_ARGS(x));
        td_tensor *loss = td_cross_entropy(td_flatten(score, 0, 1), td_flatten(y));
        td_backward(loss);
        td_optim_clip_norm(opt, 1.0);
        td_optim_step(opt);
        td_optim_zero_grad(opt);
        last = td_item(loss);
        if (step % 20 == 19) printf("step %4ld  loss %.3f\n", step + 1, last);
        td_scope_end(cx, "step", NULL);
    }
    td_optim_free(opt);
    return last;
}

/* Draws letter after letter; the state goes along. */
static void write_on(td_ctx *cx, td_module *m, const char *from, int count) {
    td_grad_mode was = td_no_grad_begin(cx);
    size_t       n = strlen(from);
    td_tensor   *x = td_empty(cx, TD_SHAPE(1, (int64_t)n), TD_I64);
    td_value     out[3];
    for (size_t i = 0; i < n; i++) td_fill_(td_select(x, 1, (int64_t)i), from[i]);
    int got = td_module_call_values(m, TD_ARGS(x), out, 3);
    printf("%s", from);
    while (got == 3 && count-- > 0) {
        td_tensor *last = td_select(td_select(out[0].u.t, 0, 0), 0, -1);
        x = td_multinomial(td_softmax(td_mul(last, 1.5), 0), 1);
        putchar((int)td_item_int(x));
        x = td_unsqueeze(x, 0);
        got = td_module_call_values(m, TD_ARGS(x, out[1], out[2]), out, 3);
    }
    putchar('\n');
    td_no_grad_end(cx, was);
}

int main(int argc, char **argv) {
    long           steps = argc > 2 ? strtol(argv[2], NULL, 10) : 150;
    td_loader_opts how = {TD_LOADER_OPTS, .type = TD_TOKENS_U8,
                          .batch = BATCH, .window = WINDOW,
                          .seed = 1,      .order = TD_ORDER_RANDOM};
    td_ctx        *cx = td_open();
    td_seed(cx, 1);
    td_loader *l = argc > 2 ? td_loader_open(cx, argv[1], &how)
                            : td_loader_over(cx, own, sizeof own - 1, &how);
    td_module *m = make_writer(cx);

    double loss = td_ok(cx) ? train(cx, m, l, steps) : 0;
    if (td_ok(cx)) write_on(cx, m, "The ", 200);
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    bool ok = td_ok(cx) && (argc > 2 || loss < 1.0);
    td_module_free(m);
    td_loader_close(l);
    td_close(cx);
    return ok ? 0 : 1;
}
