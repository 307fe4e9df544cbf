/* word_vectors.c -- word vectors by skip-grams with negative samples: each step touches
 * a few rows of two large tables, whose gradients are sparse. Words are made up: two
 * words occur together if they belong to the same topic. */
#include <stdio.h>
#include <tandem/tandem.h>

enum { WORDS = 1000, TOPICS = 10, WIDTH = 16, BATCH = 256, STEPS = 400 };

typedef struct net {
    td_tensor *in, *out; /* [WORDS, WIDTH] */
    td_optim  *opt;
} net;

/* Rows of a table; its gradient has an entry for each index. */
static td_tensor *rows(td_tensor *table, td_tensor *index) {
    return td_embedding(table, index, -1, false, true);
}

/* Arguments: words, their neighbours, other words. The whole step is compiled. */
static bool step(td_call *c) {
    net       *n = td_call_env(c);
    td_tensor *word = rows(n->in, td_arg(c, 0));
    td_tensor *near = td_sum(td_mul(word, rows(n->out, td_arg(c, 1))), TD_DIMS(1));
    td_tensor *far = td_sum(td_mul(word, rows(n->out, td_arg(c, 2))), TD_DIMS(1));
    td_tensor *loss =
        td_neg(td_mean(td_add(td_log_sigmoid(near), td_log_sigmoid(td_neg(far)))));
    if (!td_backward(loss) || !td_optim_step(n->opt)) return false;
    td_optim_zero_grad(n->opt);
    return td_return(c, td_detach(loss));
}

/* Random words of the topics of `words`. */
static td_tensor *neighbours(td_tensor *words) {
    td_ctx    *cx = td_ctx_of(words);
    td_tensor *other = td_randint(cx, 0, WORDS / TOPICS, TD_SHAPE(BATCH));
    return td_add(td_mul(other, TOPICS), td_remainder(words, TOPICS));
}

int main(void) {
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    net n = {td_requires_grad_(td_mul(td_randn(cx, TD_SHAPE(WORDS, WIDTH)), 0.1)),
             td_requires_grad_(td_mul(td_randn(cx, TD_SHAPE(WORDS, WIDTH)), 0.1)),
             td_optim_make(cx)};
    n.in = td_requires_grad_(td_detach(n.in));
    n.out = td_requires_grad_(td_detach(n.out));
    td_optim_add(n.opt, TD_LIST(n.in, n.out), td_sparse_adam(0.02));
    td_fn *f = td_aot_step(cx, step, &n, NULL);
    double last = 1;
    for (int t = 0; t < STEPS && td_ok(cx); t++) {
        td_scope_begin(cx, "step");
        td_tensor *words = td_randint(cx, 0, WORDS, TD_SHAPE(BATCH)), *loss;
        td_tensor *others = td_randint(cx, 0, WORDS, TD_SHAPE(BATCH));
        if (td_invoke(f, TD_ARGS(words, neighbours(words), others), &loss, 1))
            last = td_item(loss);
        if (t % 100 == 99) printf("step %d: loss %.3f\n", t + 1, last);
        td_scope_end(cx, "step", NULL);
    }
    printf("%d words, compiled %d time %s\n", WORDS, td_fn_specializations(f),
           td_message(cx));
    bool good = td_ok(cx) && last < 1;
    td_fn_drop(f);
    td_optim_free(n.opt);
    td_close(cx);
    return !good;
}
