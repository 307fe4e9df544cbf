/* mistakes.c -- the mistakes a newcomer makes most often, with their full messages.
 * Each block below makes one; tests/programs/mistakes.txt holds what the library says
 * to it. A message names the user's op and argument, what was found, what is required
 * and what to do. `build/programs/mistakes --bless` writes the file anew: read the
 * diff. */
#include <tandem/tandem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FILE_NAME[] = "tests/programs/mistakes.txt";

typedef struct scene {
    td_ctx    *cx;
    td_tensor *x, *y, *w, *i, *leaf; /* f32[4,3], f32[5], f32[3,2], i64[2], f32[3] */
    td_module *net;                  /* Linear(3, 2) */
    td_tensor *out[4];
} scene;

static bool body_ok(td_call *c) { return td_return(c, td_relu(td_arg(c, 0))); }
static bool body_item(td_call *c) {
    double f = td_item(td_sum(td_arg(c, 0)));
    return td_return(c, td_mul(td_arg(c, 0), f));
}
static bool body_branch(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    if (td_item(td_amax(x)) > 0) x = td_neg(x);
    return td_return(c, x);
}
static bool body_nothing(td_call *c) { return c != NULL; }
static bool body_false(td_call *c) { return (void)td_arg(c, 0), false; }
static bool body_far(td_call *c) { return td_return(c, td_arg(c, 3)); }
static bool body_shape(td_call *c) {
    return td_return(c, td_matmul(td_arg(c, 0), td_arg(c, 0)));
}
static bool body_seed(td_call *c) {
    td_seed(td_call_ctx(c), 3);
    return td_return(c, td_dropout(td_arg(c, 0), 0.5));
}

static bool body_number(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg_number(c, 1)));
}
static bool body_size(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_div(td_sum(x), td_size(x, 0)));
}
static bool body_loss(td_call *c) { return td_return(c, td_sum(td_arg(c, 0))); }

/* Results of two branches with other strides; a write of `noted`. */
static td_tensor *noted;
static bool       rows(td_call *c) { return td_return(c, td_neg(td_arg(c, 0))); }
static bool       columns(td_call *c) {
          return td_return(c, td_neg(td_t(td_contiguous(td_t(td_arg(c, 0))))));
}
static bool notes(td_call *c) {
    td_add_(noted, 1);
    return td_return(c, td_neg(td_arg(c, 0)));
}
static bool positive(td_call *c) {
    return td_return(c, td_gt(td_sum(td_arg(c, 0)), 0));
}

/* A body that calls td_cond or td_while with the functions above. */
static bool body_cond(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y;
    td_branches of = {.yes = rows, .no = *(td_body **)td_call_env(c)};
    return td_cond(td_gt(td_sum(x), 0), of, TD_ARGS(x), &y, 1) && td_return(c, y);
}
static bool body_while(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y;
    td_loop    of = {.test = positive, .body = *(td_body **)td_call_env(c)};
    return td_while(td_call_ctx(c), of, TD_LIST(x), &y) && td_return(c, y);
}

/* A custom function that computes in C. */
static bool square(td_fcall *f, td_tensor *const *in, int n, td_tensor **out, int m) {
    out[0] = td_clone(in[0]);
    float *v = td_data(out[0]);
    for (int64_t i = 0; v && i < td_numel(out[0]); i++) v[i] *= v[i];
    return f && n == 1 && m == 1 && v;
}
static bool unknown(td_fcall *f, td_tensor *const *g, int m, td_tensor **to, int n) {
    (void)f, (void)g, (void)m, (void)to, (void)n;
    return false;
}
static const td_function square_fn = {.name = "square",
                                      .forward = square,
                                      .backward = unknown};
static bool              body_custom(td_call *c) {
                 td_tensor *y, *x = td_arg(c, 0);
                 td_function_call(td_call_ctx(c), &square_fn, NULL, TD_LIST(x), &y, 1);
                 return td_return(c, y);
}

static td_fn *endless;
static bool   body_endless(td_call *c) {
      td_tensor *y;
      td_invoke(endless, TD_ARGS(td_arg(c, 0)), &y, 1);
      return td_return(c, y);
}

static void call(scene *s, td_body *body, td_values args) {
    td_fn *f = td_aot_function(s->cx, body, NULL, &(td_aot_opts){TD_AOT_OPTS});
    td_invoke(f, args, s->out, 1);
    td_fn_drop(f);
}

static FILE       *to;
static const char *from; /* the rest of the file; NULL: it is written */
static int         passed, failed;

static void enter(scene *s) {
    td_ctx *cx = s->cx;
    td_scope_begin(cx, NULL);
    s->x = td_ones(cx, TD_SHAPE(4, 3));
    s->y = td_ones(cx, TD_SHAPE(5));
    s->w = td_ones(cx, TD_SHAPE(3, 2));
    s->i = td_full(cx, TD_SHAPE(2), 1);
    s->leaf = td_requires_grad_(td_ones(cx, TD_SHAPE(3)));
}

/* The message without what differs by machine: digits of live bytes and lines. */
static void settle(const char *message, char *out, size_t cap) {
    size_t n = 0;
    for (const char *p = message; *p && n + 2 < cap; p++) {
        bool   line = !strncmp(p, "mistakes.c:", 11);
        bool   live = !strncmp(p, "tensors hold ", 13);
        size_t skip = line ? 11 : live ? 13 : 0;
        for (size_t i = 0; i < skip && n + 2 < cap; i++) out[n++] = *p++;
        if (skip) {
            while (*p >= '0' && *p <= '9') p++;
            out[n++] = 'N';
        }
        out[n++] = *p;
    }
    out[n] = 0;
}

static void leave(scene *s, const char *what) {
    char said[2048], want[2400];
    settle(td_message(s->cx), said, sizeof said);
    snprintf(want, sizeof want, "%s\n    %s: %s\n", what, td_code_name(td_error(s->cx)),
             said);
    if (to) fputs(want, to);
    else if (from && !strncmp(from, want, strlen(want)) && !td_ok(s->cx)) {
        passed++;
        from += strlen(want);
    } else {
        failed++;
        printf("FAIL %s\n     said: %s\n", what, td_ok(s->cx) ? "nothing" : said);
        const char *next = from ? strstr(from, "\n") : NULL;
        next = next ? strstr(next + 1, "\n") : NULL;
        if (next) printf("     not:  %.*s\n", (int)(next - from), from);
        from = next ? next + 1 : from;
    }
    td_clear(s->cx);
    td_scope_end(s->cx, NULL, NULL);
}

/* MISTAKE(what the user wanted, what they wrote) */
#define MISTAKE(what, ...) \
    enter(s);              \
    __VA_ARGS__;           \
    leave(s, what)

static void shapes(scene *s) {
    MISTAKE("shapes do not broadcast", td_add(s->x, s->y));
    MISTAKE("inner sizes of a product", td_matmul(s->x, s->x));
    MISTAKE("a product in a longer expression", td_sum(td_relu(td_matmul(s->x, s->y))));
    MISTAKE("linear: weight transposed", td_linear(s->x, s->w));
    MISTAKE("linear: bias of another size", td_linear(s->x, td_t(s->w), s->y));
    MISTAKE("reshape to another count", td_reshape(s->x, TD_SHAPE(5, 2)));
    MISTAKE("reshape with two -1", td_reshape(s->x, TD_SHAPE(-1, -1)));
    MISTAKE("view of a transposed tensor", td_view(td_t(s->x), TD_SHAPE(12)));
    MISTAKE("a dim that is not there", td_sum(s->x, TD_DIMS(2)));
    MISTAKE("the same dim twice", td_sum(s->x, TD_DIMS(1, 1)));
    MISTAKE("softmax over a dim that is not there", td_softmax(s->x, 3));
    MISTAKE("permute with too few dims", td_permute(s->x, TD_DIMS(0)));
    MISTAKE("transpose of a dim that is not there", td_transpose(s->x, 0, 2));
}

static void indices(scene *s) {
    MISTAKE("an index out of range", td_select(s->x, 0, 4));
    MISTAKE("an index tensor out of range", td_index_select(s->x, 0, td_mul(s->i, 5)));
    MISTAKE("indices that are floats", td_index_select(s->x, 0, s->y));
    MISTAKE("gather with floats", td_gather(s->x, 0, s->x));
    MISTAKE("embedding with floats", td_embedding(s->w, s->y));
    MISTAKE("embedding out of range", td_embedding(s->w, td_mul(s->i, 9)));
    MISTAKE("one_hot with too few classes", td_one_hot(td_arange(s->cx, 5), 3));
    MISTAKE("cat of other sizes", td_cat(TD_LIST(s->x, s->w), 0));
    MISTAKE("stack of other sizes", td_stack(TD_LIST(s->x, s->w)));
    MISTAKE("expand to a smaller size", td_expand(s->x, TD_SHAPE(4, 2)));
    MISTAKE("narrow beyond the end", td_narrow(s->x, 0, 3, 4));
}

static void losses(scene *s) {
    MISTAKE("cross_entropy with float classes",
            td_cross_entropy(s->x, td_ones(s->cx, TD_SHAPE(4))));
    MISTAKE("cross_entropy with a class too many",
            td_cross_entropy(s->x, td_full(s->cx, TD_SHAPE(4), 7)));
    MISTAKE("cross_entropy with too few classes", td_cross_entropy(s->x, s->i));
    MISTAKE("mse_loss of other sizes", td_mse_loss(s->x, s->y));
    MISTAKE("layer_norm of another shape", td_layer_norm(s->x, TD_SHAPE(5)));
    MISTAKE("conv2d of a matrix",
            td_conv2d(s->x, td_ones(s->cx, TD_SHAPE(2, 3, 3, 3))));
    MISTAKE("conv2d: other channels", td_conv2d(td_ones(s->cx, TD_SHAPE(1, 4, 8, 8)),
                                                td_ones(s->cx, TD_SHAPE(2, 3, 3, 3))));
    MISTAKE("attention: other head sizes",
            td_scaled_dot_product_attention(td_ones(s->cx, TD_SHAPE(2, 2, 5, 4)),
                                            td_ones(s->cx, TD_SHAPE(2, 2, 5, 8)),
                                            td_ones(s->cx, TD_SHAPE(2, 2, 5, 8))));
    MISTAKE("einsum: a letter too many", td_einsum("ijk,jk->i", TD_LIST(s->x, s->x)));
    MISTAKE("einsum: sizes of a letter differ",
            td_einsum("ij,jk->ik", TD_LIST(s->x, s->x)));
    MISTAKE("a mean of integers", td_mean(s->i));
    MISTAKE("a reduction with a wrong name", td_mse_loss(s->x, s->x, "average"));
    MISTAKE("dropout beyond 1", td_dropout(s->x, 1.5));
}

static void values(scene *s) {
    MISTAKE("a negative size", td_zeros(s->cx, TD_SHAPE(2, -3)));
    MISTAKE("more memory than there is", td_zeros(s->cx, TD_SHAPE((int64_t)1 << 48)));
    MISTAKE("more elements than can be counted",
            td_zeros(s->cx, TD_SHAPE((int64_t)1 << 40, (int64_t)1 << 30)));
    MISTAKE("the size of a dim that is not there", td_size(s->x, 7));
    MISTAKE("autocast to f64", td_autocast_begin(s->cx, TD_F64));
    MISTAKE("a mode popped that is not pushed",
            td_mode_pop(s->cx, &(td_mode_hook){.name = "count"}));
    MISTAKE("no DLPack tensor", td_from_dlpack(s->cx, NULL));
    MISTAKE("item of many elements", td_item(s->x));
    MISTAKE("read into too small a buffer", {
        float f[2];
        td_read(s->x, TD_F32, f, sizeof f);
    });
    MISTAKE("an array of double as f32", {
        double v[] = {1, 2};
        td_from(s->cx, TD_F32, TD_SHAPE(2), v);
    });
    MISTAKE("an array that is too short for the shape",
            td_from(s->cx, TD_F32, TD_SHAPE(2, 2), (float[]){1, 2, 3}));
    MISTAKE("read f32 into an array of double", {
        double v[12];
        td_read(s->x, TD_F32, v, sizeof v);
    });
    MISTAKE("a count of bytes that the buffer does not have", {
        float f[4];
        td_read(s->x, TD_F32, f, 48);
    });
    MISTAKE("an expanded view of too many elements",
            td_expand(td_sum(s->x), TD_SHAPE((int64_t)1 << 62)));
    MISTAKE("an object of a type with other characters",
            td_object(s->cx, &(td_object_opts){TD_OBJECT_OPTS, .type = "My Obj",
                                               .data = s->cx}));
    MISTAKE("a checkpoint onto a folder",
            td_checkpoint_save(s->cx, "/",
                               &(td_checkpoint_parts){TD_CHECKPOINT_PARTS}));
    MISTAKE("a module saved where no folder is",
            td_module_save(s->net, "/nonexistent/net.safetensors", NULL));
    MISTAKE("a matrix that is not positive-definite",
            td_linalg_cholesky(td_neg(td_eye(s->cx, 2))));
    MISTAKE("a singular matrix", td_linalg_inv(td_zeros(s->cx, TD_SHAPE(2, 2))));
}

static void gradients(scene *s) {
    MISTAKE("backward of many elements", td_backward(td_mul(s->leaf, 2)));
    MISTAKE("backward without gradients", td_backward(td_sum(s->x)));
    MISTAKE("backward twice", {
        td_tensor *l = td_sum(td_exp(s->leaf));
        td_backward(l);
        td_backward(l);
    });
    MISTAKE("a leaf written in place", td_add_(s->leaf, 1));
    MISTAKE("a saved value written before backward", {
        td_tensor *h = td_exp(s->leaf);
        td_tensor *l = td_sum(td_mul(h, h));
        td_add_(h, 1);
        td_backward(l);
    });
    MISTAKE("a result written before backward", {
        td_tensor *h = td_exp(s->leaf);
        td_mul_(h, 2);
        td_backward(td_sum(h));
    });
    MISTAKE("requires_grad of integers", td_requires_grad_(s->i));
    MISTAKE("requires_grad off on a result",
            td_set_requires_grad(td_mul(s->leaf, 2), false));
    MISTAKE("td_grad of an unused input",
            td_grad(TD_LIST(td_sum(td_exp(s->leaf))),
                    TD_LIST(td_requires_grad_(td_clone(s->x))), s->out, NULL));
    MISTAKE("td_grad by a tensor without gradients",
            td_grad(TD_LIST(td_sum(s->leaf)), TD_LIST(s->x), s->out, NULL));
    MISTAKE("td_grad of an output that is NULL",
            td_grad(TD_LIST(td_sum(s->leaf), NULL), TD_LIST(s->leaf), s->out, NULL));
    MISTAKE("td_grad by an input that is NULL",
            td_grad(TD_LIST(td_sum(s->leaf)), TD_LIST(s->leaf, NULL), s->out, NULL));
    MISTAKE("td_grad by a list that is NULL",
            td_grad(TD_LIST(td_sum(s->leaf)), (td_tensors){NULL, 2}, s->out, NULL));
    MISTAKE("a write to an expanded tensor",
            td_add_(td_expand(td_ones(s->cx, TD_SHAPE(1, 3)), TD_SHAPE(4, 3)), 1));
    MISTAKE("in place with a larger result",
            td_add_(s->y, td_ones(s->cx, TD_SHAPE(2, 5))));
    MISTAKE("in place into integers", td_add_(s->i, 0.5));
}

static void lifetimes(scene *s) {
    MISTAKE("a tensor of a context that was closed", {
        td_ctx    *other = td_open();
        td_tensor *t = td_keep(td_ones(other, TD_SHAPE(4, 3)));
        td_close(other);
        td_add(s->x, t);
    });
    MISTAKE("a tensor of a scope that ended", {
        td_scope_begin(s->cx, "step");
        td_tensor *t = td_exp(s->x);
        td_scope_end(s->cx, "step", NULL);
        td_neg(t);
    });
    MISTAKE("a weight after its module was freed", {
        td_module *m = td_nn_linear(s->cx, 3, 3, NULL);
        td_tensor *w = td_module_get(m, "weight");
        td_module_free(m);
        td_exp(w);
    });
    MISTAKE("one td_drop too many", {
        td_tensor *t = td_keep(td_ones(s->cx, TD_SHAPE(2)));
        for (int i = 0; i < 3; i++) td_drop(t);
    });
    MISTAKE("td_drop of a parameter that was not kept",
            td_drop(td_module_get(s->net, "weight")));
    MISTAKE("the gradient of a result", {
        td_tensor *h = td_mul(s->leaf, 2);
        td_backward(td_sum(td_mul(h, h)));
        td_neg(td_grad_of(h));
    });
    MISTAKE("a gradient before backward", td_neg(td_grad_of(s->leaf)));
    MISTAKE("a context that is closed twice", {
        td_ctx *other = td_open();
        td_close(other);
        td_scope_begin(s->cx, NULL); /* names the context */
        td_scope_end(s->cx, NULL, NULL);
        td_close(other);
    });
}

static void options(scene *s) {
    td_backend  none = {.name = "mine"};
    td_aot_opts o = {TD_AOT_OPTS, .forward = &none};
    MISTAKE("a backend without compile", td_aot_function(s->cx, body_ok, NULL, &o));
    o = (td_aot_opts){TD_AOT_OPTS, .pass = {.name = "mine"}};
    MISTAKE("a pass without run", td_aot_function(s->cx, body_ok, NULL, &o));
    o = (td_aot_opts){TD_AOT_OPTS, .chooser = {.name = "mine"}};
    MISTAKE("a chooser without choose", td_aot_function(s->cx, body_ok, NULL, &o));
    o = (td_aot_opts){TD_AOT_OPTS, .partition = (td_partition)77};
    MISTAKE("a partition that is none", td_aot_function(s->cx, body_ok, NULL, &o));
    o = (td_aot_opts){TD_AOT_OPTS, .dynamic = (td_shapes)99};
    MISTAKE("shapes that are none", td_aot_function(s->cx, body_ok, NULL, &o));
    o = (td_aot_opts){TD_AOT_OPTS, .limit = -1};
    MISTAKE("a limit below 0", td_aot_function(s->cx, body_ok, NULL, &o));
}

static void training(scene *s) {
    MISTAKE("a learning rate below 0",
            td_optim_free(td_optim_module(s->net, td_adam(-1))));
    MISTAKE("another dtype after the optimizer was made", {
        td_module *m = td_nn_linear(s->cx, 3, 3, NULL);
        td_optim  *opt = td_optim_module(m, td_adamw(0.1));
        td_module_to(m, TD_F64);
        td_tensor *x = td_to(s->x, TD_F64);
        td_backward(td_sum(td_module_call(m, TD_ARGS(x))));
        td_optim_step(opt);
        td_optim_free(opt);
        td_module_free(m);
    });
}

static void modules(scene *s) {
    static const td_module_type nameless = {.bytes = 8};
    MISTAKE("a module type without a name", td_module_make(s->cx, &nameless));
    MISTAKE("more arguments than a layer takes",
            td_module_call(s->net, TD_ARGS(s->x, s->x, s->x)));
    MISTAKE("an input of another size for an LSTM", {
        td_module *m = td_nn_lstm(s->cx, 3, 4, NULL);
        td_module_call(m, TD_ARGS(td_ones(s->cx, TD_SHAPE(5, 2, 7))));
        td_module_free(m);
    });
    MISTAKE("a convolution without a kernel",
            td_nn_conv2d(s->cx, 3, 4, (td_ints){NULL, 0}, NULL));
    MISTAKE("a layer appended to a layer", td_nn_append(s->net, td_nn_relu(s->cx)));
    MISTAKE("a layer of size 0", td_module_free(td_nn_linear(s->cx, 0, 2, NULL)));
    MISTAKE("a layer called with other sizes", td_module_call(s->net, TD_ARGS(s->y)));
    MISTAKE("a layer called without arguments",
            td_module_call(s->net, (td_values){NULL, 0}));
    MISTAKE("a member that is not there", td_module_get(s->net, "wieght"));
    MISTAKE("a file that is not there",
            td_module_load(s->net, "no/such.safetensors", NULL));
    MISTAKE("a setting that is not there", td_config_set(s->cx, "thread", "2"));
    MISTAKE("a setting of another kind", td_config_set(s->cx, "partition", "fast"));
}

static void bodies(scene *s) {
    MISTAKE("item in a compiled body", call(s, body_item, TD_ARGS(s->x)));
    MISTAKE("a branch on a value in a compiled body",
            call(s, body_branch, TD_ARGS(s->x)));
    MISTAKE("a body that returns nothing", call(s, body_nothing, TD_ARGS(s->x)));
    MISTAKE("a body that returns false", call(s, body_false, TD_ARGS(s->x)));
    MISTAKE("an argument that was not passed", call(s, body_far, TD_ARGS(s->x)));
    MISTAKE("a number where the body wants a tensor", call(s, body_ok, TD_ARGS(2.0)));
    MISTAKE("a mistake inside a compiled body", call(s, body_shape, TD_ARGS(s->x)));
    MISTAKE("a seed set inside a compiled body", call(s, body_seed, TD_ARGS(s->x)));
    td_aot_opts two = {TD_AOT_OPTS, .limit = 2};
    MISTAKE("a number that changes from call to call", {
        td_fn *f = td_aot_function(s->cx, body_number, NULL, &two);
        for (int i = 0; i < 3; i++) td_invoke(f, TD_ARGS(s->x, 0.5 * i), s->out, 1);
        td_fn_drop(f);
    });
    MISTAKE("a size that the body reads as a number", {
        td_fn *f = td_aot_function(s->cx, body_size, NULL, &two);
        for (int i = 0; i < 3; i++)
            td_invoke(f, TD_ARGS(td_ones(s->cx, TD_SHAPE(3 + i))), s->out, 1);
        td_fn_drop(f);
    });
    MISTAKE("a layer whose arguments change from call to call", {
        td_aot_opts one = {TD_AOT_OPTS, .limit = 1, .dynamic = TD_SHAPES_STATIC};
        td_fn      *f = td_aot_module(s->net, &one);
        td_invoke(f, TD_ARGS(s->x), s->out, 1);
        td_invoke(f, TD_ARGS(td_ones(s->cx, TD_SHAPE(5, 3))), s->out, 1);
        td_fn_drop(f);
    });
    MISTAKE("a parameter with a dynamic size", {
        td_module *m = td_nn_linear(s->cx, 3, 2, NULL);
        td_fn     *f = td_aot_module(m, NULL);
        td_mark_dynamic(td_module_get(m, "weight"), 0);
        td_invoke(f, TD_ARGS(s->x), s->out, 1);
        td_fn_drop(f);
        td_module_free(m);
    });
    MISTAKE("an export called with other sizes", {
        td_exported *e = td_export_joint(s->cx, body_loss, NULL, TD_ARGS(s->y), NULL);
        td_value     v;
        td_exported_run(e, TD_ARGS(td_ones(s->cx, TD_SHAPE(4))), &v, 1);
        td_exported_drop(e);
    });
    MISTAKE("an export for all sizes called with size 1", {
        td_export_opts o = {TD_EXPORT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
        td_exported   *e = td_export_joint(s->cx, body_loss, NULL, TD_ARGS(s->y), &o);
        td_value       v;
        td_exported_run(e, TD_ARGS(td_ones(s->cx, TD_SHAPE(1))), &v, 1);
        td_exported_drop(e);
    });
    MISTAKE("backward of the loss of a compiled step", {
        td_fn *f = td_aot_step(s->cx, body_loss, NULL, NULL);
        td_invoke(f, TD_ARGS(s->leaf), s->out, 1);
        td_backward(s->out[0]);
        td_fn_drop(f);
    });
    MISTAKE("a compiled body that calls itself without an end", {
        endless = td_aot_function(s->cx, body_endless, NULL, NULL);
        td_invoke(endless, TD_ARGS(s->x), s->out, 1);
        td_fn_drop(endless);
    });
}

static void call_with(scene *s, td_body *body, td_body *inner, td_tensor *x) {
    td_fn *f = td_aot_function(s->cx, body, &inner, NULL);
    td_invoke(f, TD_ARGS(x), s->out, 1);
    td_fn_drop(f);
}

static void control(scene *s) {
    noted = td_keep(td_zeros(s->cx, TD_SHAPE(2)));
    MISTAKE("branches that return other strides",
            call_with(s, body_cond, columns, s->x));
    MISTAKE("a loop that writes a tensor it was not given",
            call_with(s, body_while, notes, s->x));
    MISTAKE("a loop whose body returns nothing",
            call_with(s, body_while, body_nothing, s->x));
    MISTAKE("a custom function in C in a compiled body",
            call(s, body_custom, TD_ARGS(s->x)));
    td_drop(noted);
}

/* The whole file, or NULL. */
static char *read_all(void) {
    FILE  *f = fopen(FILE_NAME, "r");
    char  *text = calloc(1, 1 << 16);
    size_t n = f && text ? fread(text, 1, (1 << 16) - 1, f) : 0;
    if (f) fclose(f);
    if (text) text[n] = 0;
    return text;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--bless")) to = fopen(FILE_NAME, "w");
    char *text = to ? NULL : read_all();
    scene s = {.cx = td_open()};
    td_config_set(s.cx, "cache_disk_mb", "0"); /* it keeps no places */
    s.net = td_nn_linear(s.cx, 3, 2, NULL);
    from = text;
    shapes(&s);
    indices(&s);
    losses(&s);
    values(&s);
    gradients(&s);
    lifetimes(&s);
    modules(&s);
    options(&s);
    training(&s);
    bodies(&s);
    control(&s);
    if (text && from && *from) failed++, printf("FAIL more in the file: %s\n", from);
    if (to) fclose(to);
    td_module_free(s.net);
    td_close(s.cx);
    free(text);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
