/* training.c -- failures of allocations and file calls while networks are made, trained
 * with each kind of rule, saved and loaded, and while batches are read. */
#include "faults.h"

#include "../unit/nn_help.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/td-training-XXXXXX", path[256], tokens[256];

/* Every layer there is. */
static double make(td_ctx *cx) {
    td_module *m = whole_make(cx);
    double     n = m ? td_module_parameters(m, NULL, 0) : 0;
    td_module_free(m);
    return n;
}

static td_module *small(td_ctx *cx) {
    td_nn_attention_opts causal = {TD_NN_ATTENTION_OPTS, .causal = true,
                                   .batch_first = true};
    return td_nn_sequential(cx,
                            TD_MODULES(td_nn_embedding(cx, 5, 4, NULL),
                                       td_nn_multihead_attention(cx, 4, 2, &causal),
                                       td_nn_layer_norm(cx, TD_SHAPE(4), NULL),
                                       td_nn_gelu(cx), td_nn_linear(cx, 4, 5, NULL)));
}

/* Two groups, so that several rules meet. Freed by the caller. */
static td_optim *optimizer(td_module *m, td_rule a, td_rule b) {
    td_ctx    *cx = td_module_ctx(m);
    td_tensor *p[16];
    int        n = td_module_parameters(m, p, 16);
    td_optim  *o = n < 1 ? NULL : td_optim_make(cx);
    if (td_is_nil(o)) return NULL;
    td_optim_add(o, (td_tensors){p, 1}, a);
    td_optim_add(o, (td_tensors){p + 1, n - 1}, b);
    return o;
}

static double step(td_module *m, td_optim *o, td_tensor *x, td_tensor *y) {
    td_scope_begin(td_module_ctx(m), "step");
    td_tensor *out = td_module_call(m, TD_ARGS(x));
    td_tensor *loss = td_cross_entropy(td_flatten(out, 0, 1), td_flatten(y));
    td_backward(loss);
    td_optim_clip_norm(o, 1);
    td_optim_step(o);
    td_optim_zero_grad(o);
    double value = td_item(loss);
    td_scope_end(td_module_ctx(m), "step", NULL);
    return value;
}

static double train(td_ctx *cx, td_rule a, td_rule b) {
    static const int64_t few[] = {0, 1, 2, 3, 4, 0};
    td_module           *m = small(cx);
    td_optim            *o = m ? optimizer(m, a, b) : NULL;
    double               sum = 0;
    if (o) {
        td_tensor *x = td_from(cx, TD_I64, TD_SHAPE(2, 3), few);
        for (int i = 0; i < 2; i++) sum += step(m, o, x, x);
    }
    td_optim_free(o);
    td_module_free(m);
    return sum;
}

static double train_adam(td_ctx *cx) {
    td_rule ams = td_adam(0.1);
    ams.amsgrad = true;
    return train(cx, td_adamw(0.1), ams);
}

static double train_muon(td_ctx *cx) {
    td_rule sgd = td_sgd(0.1);
    sgd.momentum = 0.9;
    sgd.dampening = 0.5;
    return train(cx, td_muon(0.1), sgd);
}

static double train_others(td_ctx *cx) {
    td_rule rms = td_rmsprop(0.1);
    rms.centered = true;
    return train(cx, rms, td_lion(0.1));
}

static double recur(td_ctx *cx) {
    td_module *m = lstm(cx);
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 1, 3)),
              *y = m ? td_module_call(m, TD_ARGS(x)) : td_nil(cx);
    td_backward(td_sum(y));
    double sum = td_item(td_sum(y));
    td_module_free(m);
    return sum;
}

typedef struct trained {
    td_module *m;
    td_optim  *o;
} trained;

static bool whole_step(td_call *c) {
    trained   *t = td_call_env(c);
    td_tensor *x = td_arg(c, 0), *y = td_module_call(t->m, TD_ARGS(x));
    td_tensor *loss = td_mean(td_square(y));
    td_backward(loss);
    td_optim_step(t->o);
    td_optim_zero_grad(t->o);
    return td_return(c, td_detach(loss));
}

/* Forward, backward and update as one compiled function. */
static double compiled(td_ctx *cx) {
    td_module *m = td_nn_linear(cx, 2, 1, NULL);
    trained    t = {m, m ? td_optim_module(m, td_adamw(0.1)) : NULL};
    td_fn     *f = t.o ? td_aot_function(cx, whole_step, &t, NULL) : NULL;
    double     sum = 0;
    td_tensor *y, *x = td_ones(cx, TD_SHAPE(3, 2));
    for (int i = 0; f && i < 2 && td_invoke(f, TD_ARGS(x), &y, 1); i++)
        sum += td_item(y);
    td_fn_drop(f);
    td_optim_free(t.o);
    td_module_free(m);
    return sum;
}

static bool torn; /* a load that failed had written something */

static double files(td_ctx *cx) {
    td_module *m = td_nn_linear(cx, 2, 2, NULL);
    td_optim  *o = m ? td_optim_module(m, td_adam(0.5)) : NULL;
    double     sum = 0;
    if (o && td_optim_save(o, path)) {
        td_optim_set_lr(o, -1, 0.25);
        bool    set = td_ok(cx), loaded = td_optim_load(o, path);
        td_code code = td_error(cx);
        if (set && !loaded) {
            td_clear(cx);
            torn |= td_optim_lr(o, 0) != 0.25;
            td_fail(cx, code, "as before");
        }
        sum = td_optim_lr(o, 0);
    }
    td_optim_free(o);
    td_module_free(m);
    return sum;
}

/* A checkpoint of every part but a loader. */
static double checkpoint(td_ctx *cx) {
    td_module          *m = td_nn_batch_norm1d(cx, 2, NULL);
    td_optim           *o = m ? td_optim_module(m, td_nadam(0.5)) : NULL;
    td_plateau          p = td_lr_plateau();
    int64_t             step = 3;
    td_checkpoint_parts parts = {TD_CHECKPOINT_PARTS, .module = m, .optim = o,
                                 .plateau = &p, .step = &step};
    double              sum = 0;
    if (o && td_checkpoint_save(cx, path, &parts)) {
        step = 4;
        td_optim_set_lr(o, -1, 0.25);
        bool    set = td_ok(cx), loaded = td_checkpoint_load(cx, path, &parts);
        td_code code = td_error(cx);
        if (set && !loaded) {
            td_clear(cx);
            torn |= td_optim_lr(o, 0) != 0.25 || step != 4;
            td_fail(cx, code, "as before");
        }
        sum = td_optim_lr(o, 0) + (double)step;
    }
    td_optim_free(o);
    td_module_free(m);
    return sum;
}

static td_tensor *closure(void *env) {
    trained *t = env;
    td_ctx  *cx = td_module_ctx(t->m);
    td_optim_zero_grad(t->o);
    td_tensor *y = td_module_call(t->m, TD_ARGS(td_ones(cx, TD_SHAPE(3, 2))));
    td_tensor *loss = td_mean(td_square(td_add(y, 1.0)));
    td_backward(loss);
    return loss;
}

static double search(td_ctx *cx) {
    td_rule r = td_lbfgs(1);
    r.strong_wolfe = true;
    r.max_iter = 3;
    r.history_size = 2;
    td_module *m = td_nn_linear(cx, 2, 1, NULL);
    td_optim  *o = m ? td_optim_module(m, r) : NULL;
    trained    t = {m, o};
    double     sum = 0;
    for (int i = 0; o && i < 2; i++) {
        td_tensor *loss = td_optim_step_closure(o, closure, &t);
        if (td_ok(cx)) sum += td_item(loss);
    }
    td_optim_free(o);
    td_module_free(m);
    return sum;
}

/* A transformer with an average of it, and a loss of samples. */
static double attend(td_ctx *cx) {
    td_nn_transformer_opts o = {TD_NN_TRANSFORMER_OPTS, .feedforward = 3};
    td_module             *m = td_nn_transformer(cx, 2, 1, 2, 1, &o);
    td_module             *n = td_module_copy(m);
    td_tensor             *x = td_ones(cx, TD_SHAPE(2, 1, 2));
    td_module_average(n, m, 0.5);
    td_distribution q = td_dist_normal(td_module_call(m, TD_ARGS(x, x)), td_exp(x));
    td_tensor      *z = td_dist_rsample(q, TD_SHAPE(2));
    z = td_add(z, td_dist_rsample(td_dist_gamma(td_exp(x), td_exp(x)), TD_SHAPE(2)));
    double sum = td_item(td_sum(td_dist_log_prob(q, z)));
    td_module_free(n);
    td_module_free(m);
    return sum;
}

/* Batches from a file, with a thread and without. */
static double load(td_ctx *cx) {
    double sum = 0;
    for (int ahead = -1; ahead < 2 && td_ok(cx); ahead += 2) {
        td_loader_opts o = {TD_LOADER_OPTS, .type = TD_TOKENS_U8, .batch = 2,
                            .window = 3, .ahead = ahead};
        td_loader     *l = td_loader_open(cx, tokens, &o);
        td_tensor     *x, *y;
        for (int i = 0; l && i < 3 && td_loader_next(l, &x, &y); i++)
            sum += td_item(td_sum(td_mul(x, y)));
        td_loader_close(l);
    }
    return sum;
}

static const td_fault_case cases[] = {
    {.name = "make", .run = make},
    {.name = "train_adam", .run = train_adam},
    {.name = "train_muon", .run = train_muon},
    {.name = "train_others", .run = train_others},
    {.name = "recur", .run = recur},
    {.name = "compiled", .run = compiled},
    {.name = "files", .run = files, .io = true},
    {.name = "checkpoint", .run = checkpoint, .io = true},
    {.name = "search", .run = search},
    {.name = "attend", .run = attend},
    {.name = "load", .run = load, .io = true},
};

int main(int argc, char **argv) {
    if (!mkdtemp(folder)) return perror(folder), 1;
    snprintf(path, sizeof path, "%s/state.safetensors", folder);
    snprintf(tokens, sizeof tokens, "%s/tokens", folder);
    FILE *f = fopen(tokens, "w");
    if (!f || fputs("some text to be cut into windows", f) < 0 || fclose(f)) return 1;
    int status = fault_main(cases, TD_COUNT(cases), argc, argv);
    unlink(path);
    unlink(tokens);
    if (torn) return puts("a load that failed had written something"), 1;
    if (rmdir(folder)) return perror(folder), 1;
    return status;
}
