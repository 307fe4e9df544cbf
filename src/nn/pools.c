/* pools.c -- pools over 1 to 3 dims: maxima, means, powers, adaptive and fractional
 * ones, and the inverse of maxima. */
#include "nn/plain.h"

bool td__plain_list(td_ctx *cx, const char *who, td_plain_list l, int dims,
                    int64_t *to) {
    td_ints g = l.given;
    if (!g.v && !l.none)
        return td__fail(cx, TD_E_ARG, "%s: %s is missing; pass 1 or %d numbers", who,
                        l.what, dims);
    if (g.v && g.n != 1 && g.n != dims)
        return td__fail(cx, TD_E_ARG, "%s: %s has %d entries; it must have 1 or %d",
                        who, l.what, g.n, dims);
    for (int i = 0; i < dims; i++) {
        to[i] = g.v ? g.v[g.n == 1 ? 0 : i] : l.none[i];
        if (to[i] < l.least)
            return td__fail(cx, TD_E_ARG, "%s: %s is %lld; it must be at least %lld",
                            who, l.what, (long long)to[i], (long long)l.least);
    }
    return true;
}

#define LIST(v) ((td_ints){(v), p->dims})
/* The arguments that all pools share. */
#define WINDOW LIST(p->kernel), LIST(p->stride), LIST(p->padding)

/* ---- functions --------------------------------------------------------------- */

static td_value divisor(const td_plain *p) {
    return p->i ? td_value_int(p->i) : TD_NONE;
}
static td_tensor *avg_pool1(const td_plain *p, td_tensor *x) {
    return td_avg_pool1d(x, WINDOW, p->flag, p->j == 0);
}
static td_tensor *avg_pool2(const td_plain *p, td_tensor *x) {
    return td_avg_pool2d(x, WINDOW, p->flag, p->j == 0, divisor(p));
}
static td_tensor *avg_pool3(const td_plain *p, td_tensor *x) {
    return td_avg_pool3d(x, WINDOW, p->flag, p->j == 0, divisor(p));
}

#define POOLS(n)                                                                     \
    static td_tensor *max_pool##n(const td_plain *p, td_tensor *x) {                 \
        return td_max_pool##n##d(x, WINDOW, LIST(p->dilation), p->flag);             \
    }                                                                                \
    static td_tensor *max_indices##n(const td_plain *p, td_tensor *x,                \
                                     td_tensor **at) {                               \
        return td_max_pool##n##d_with_indices(x, WINDOW, LIST(p->dilation), p->flag, \
                                              at);                                   \
    }                                                                                \
    static td_tensor *unpool##n(const td_plain *p, td_tensor *x, td_tensor *at,      \
                                td_ints out) {                                       \
        return td_max_unpool##n##d(x, at, WINDOW, out);                              \
    }                                                                                \
    static td_tensor *lp_pool##n(const td_plain *p, td_tensor *x) {                  \
        return td_lp_pool##n##d(x, p->a, LIST(p->kernel), LIST(p->stride), p->flag); \
    }                                                                                \
    static td_tensor *adaptive_avg##n(const td_plain *p, td_tensor *x) {             \
        return td_adaptive_avg_pool##n##d(x, LIST(p->kernel));                       \
    }                                                                                \
    static td_tensor *adaptive_max##n(const td_plain *p, td_tensor *x) {             \
        return td_adaptive_max_pool##n##d(x, LIST(p->kernel), NULL);                 \
    }
POOLS(1)
POOLS(2)
POOLS(3)
#undef POOLS

/* ---- several arguments or results --------------------------------------------- */

/* MaxPool with return_indices: the maxima and their places. */
static bool indices_forward(td_module *m, td_call *c) {
    const td_plain *p = td_module_state(m);
    td_tensor      *x = td__nn_arg(m, c), *at = td_nil(td_module_ctx(m));
    if (td_is_nil(x)) return false;
    td_tensor *y = p->dims == 1   ? max_indices1(p, x, &at)
                   : p->dims == 2 ? max_indices2(p, x, &at)
                                  : max_indices3(p, x, &at);
    return td_return(c, y, at);
}

/* Arguments: maxima, places, and optionally a tensor with the sizes of the result. */
static bool unpool_forward(td_module *m, td_call *c) {
    const td_plain *p = td_module_state(m);
    td_tensor      *x = td_arg(c, 0), *at = td_arg(c, 1);
    if (!td__nn_takes(m, c, 3) || td_is_nil(x) || td_is_nil(at)) return false;
    td_tensor *like = td__nn_optional(c, 2);
    int64_t    size[3];
    td_ints    out = like ? (td_ints){size, p->dims} : TD_ALL;
    if (like && td_rank(like) < p->dims)
        return td__fail(td_module_ctx(m), TD_E_SHAPE,
                        "%s: argument 2 is %s; its last %d sizes are the sizes of the "
                        "result",
                        td_module_name(m), td__type_str(like), p->dims);
    for (int i = 0; like && i < p->dims; i++) size[i] = td_sym_size(like, i - p->dims);
    return td_return(c, p->dims == 1   ? unpool1(p, x, at, out)
                        : p->dims == 2 ? unpool2(p, x, at, out)
                                       : unpool3(p, x, at, out));
}

/* kernel; stride has the sizes of the result, or is 0: a, b, c are its ratios. flag:
 * the places are a second result. */
typedef struct fractional {
    td_plain   p;
    td_tensor *samples; /* [N,C,dims]; NULL: drawn in each call */
} fractional;

static bool fractional_forward(td_module *m, td_call *c) {
    const fractional *f = td_module_state(m);
    const td_plain   *p = &f->p;
    td_tensor        *x = td__nn_arg(m, c), *at = td_nil(td_module_ctx(m));
    double            ratio[3] = {p->a, p->b, p->c};
    int64_t           size[3];
    if (td_is_nil(x)) return false;
    int rank = td_rank(x), d = p->dims;
    if (rank != d + 1 && rank != d + 2)
        return td__fail(td_module_ctx(m), TD_E_SHAPE,
                        "%s: the input is %s; it must have %d or %d dims",
                        td_module_name(m), td__type_str(x), d + 1, d + 2);
    for (int i = 0; i < d; i++)
        size[i] = p->stride[i] ? p->stride[i]
                               : (int64_t)((double)td_size(x, i - d) * ratio[i]);
    td_tensor *u = f->samples;
    td_ints    draws = TD_SHAPE(rank == d + 1 ? 1 : td_sym_size(x, 0),
                             td_sym_size(x, rank - d - 1), d);
    if (!u) u = td_rand(td_module_ctx(m), draws, td_dtype_of(x));
    td_tensor *y =
        d == 2 ? td_fractional_max_pool2d(x, LIST(p->kernel), LIST(size), u, &at)
               : td_fractional_max_pool3d(x, LIST(p->kernel), LIST(size), u, &at);
    return p->flag ? td_return(c, y, at) : td_return(c, y);
}

/* ---- rows ---------------------------------------------------------------------- */

/* Kinds of pools; each has rows for 1, 2 and 3 dims. */
typedef enum kind {
    MAX_POOL,
    MAX_INDICES,
    MAX_UNPOOL,
    AVG_POOL,
    LP_POOL,
    ADAPTIVE_AVG,
    ADAPTIVE_MAX,
    KINDS
} kind;

#define ROWS(name, fn)                                          \
    {                                                           \
        TD_PLAIN(name "1d", fn##1), TD_PLAIN(name "2d", fn##2), \
            TD_PLAIN(name "3d", fn##3)                          \
    }
#define ROWS_BY(name, forward)                                                        \
    {                                                                                 \
        TD_PLAIN_BY(name "1d", forward, NULL), TD_PLAIN_BY(name "2d", forward, NULL), \
            TD_PLAIN_BY(name "3d", forward, NULL)                                     \
    }
static const td_plain_row rows[KINDS][3] = {
    [MAX_POOL] = ROWS("MaxPool", max_pool),
    [MAX_INDICES] = ROWS_BY("MaxPool", indices_forward),
    [MAX_UNPOOL] = ROWS_BY("MaxUnpool", unpool_forward),
    [AVG_POOL] = ROWS("AvgPool", avg_pool),
    [LP_POOL] = ROWS("LPPool", lp_pool),
    [ADAPTIVE_AVG] = ROWS("AdaptiveAvgPool", adaptive_avg),
    [ADAPTIVE_MAX] = ROWS("AdaptiveMaxPool", adaptive_max),
};
static const td_module_type fractional_types[2] = {{.name = "FractionalMaxPool2d",
                                                    .bytes = sizeof(fractional),
                                                    .forward = fractional_forward},
                                                   {.name = "FractionalMaxPool3d",
                                                    .bytes = sizeof(fractional),
                                                    .forward = fractional_forward}};

/* ---- making ------------------------------------------------------------- */

/* The op checks the numbers when it is called. */
static td_module *make(td_ctx *cx, kind k, td_plain p, td_ints kernel,
                       const td_nn_pool_opts *opts) {
    static const int64_t zero[3] = {0, 0, 0}, one[3] = {1, 1, 1};
    const td_plain_row  *row = &rows[k][p.dims - 1];
    const char          *who = row->type.name;
    td_nn_pool_opts      o;
    if (!td__opts_take(td__ctx_of_any(cx), who, &o, sizeof o, opts, "TD_NN_POOL_OPTS"))
        return TD_NIL(cx, MODULE);
    if (k == MAX_POOL && o.return_indices) row = &rows[MAX_INDICES][p.dims - 1];
    p.flag = o.ceil_mode;
    p.i = o.divisor_override;
    p.j = o.exclude_pad;
    td_plain_list size = {"kernel", kernel, NULL, 0},
                  stride = {"stride", o.stride, p.kernel, 1},
                  padding = {"padding", o.padding, zero, 0},
                  dilation = {"dilation", o.dilation, one, 1};
    if (k == ADAPTIVE_AVG || k == ADAPTIVE_MAX) size.what = "the output size";
    else size.least = 1;
    if (!td__plain_list(cx, who, size, p.dims, p.kernel)) return TD_NIL(cx, MODULE);
    if (size.least && (!td__plain_list(cx, who, stride, p.dims, p.stride) ||
                       !td__plain_list(cx, who, padding, p.dims, p.padding) ||
                       !td__plain_list(cx, who, dilation, p.dims, p.dilation)))
        return TD_NIL(cx, MODULE);
    return td__plain_make(cx, row, p);
}

/* The constructors without options. */
static td_module *make_plain(td_ctx *cx, kind k, int dims, td_ints kernel,
                             td_ints stride, td_ints padding) {
    td_nn_pool_opts o = {TD_NN_POOL_OPTS, .stride = stride, .padding = padding};
    return make(cx, k, (td_plain){.dims = dims}, kernel, &o);
}

#define POOLS(n)                                                                  \
    td_module *td_nn_max_pool##n##d(td_ctx *cx, td_ints kernel, td_ints stride,   \
                                    td_ints padding) {                            \
        return make_plain(cx, MAX_POOL, n, kernel, stride, padding);              \
    }                                                                             \
    td_module *td_nn_avg_pool##n##d(td_ctx *cx, td_ints kernel, td_ints stride,   \
                                    td_ints padding) {                            \
        return make_plain(cx, AVG_POOL, n, kernel, stride, padding);              \
    }                                                                             \
    td_module *td_nn_max_pool##n##d_with(td_ctx *cx, td_ints kernel,              \
                                         const td_nn_pool_opts *opts) {           \
        return make(cx, MAX_POOL, (td_plain){.dims = (n)}, kernel, opts);         \
    }                                                                             \
    td_module *td_nn_avg_pool##n##d_with(td_ctx *cx, td_ints kernel,              \
                                         const td_nn_pool_opts *opts) {           \
        return make(cx, AVG_POOL, (td_plain){.dims = (n)}, kernel, opts);         \
    }                                                                             \
    td_module *td_nn_lp_pool##n##d(td_ctx *cx, double norm_type, td_ints kernel,  \
                                   const td_nn_pool_opts *opts) {                 \
        return make(cx, LP_POOL, (td_plain){.dims = (n), .a = norm_type}, kernel, \
                    opts);                                                        \
    }                                                                             \
    td_module *td_nn_max_unpool##n##d(td_ctx *cx, td_ints kernel, td_ints stride, \
                                      td_ints padding) {                          \
        return make_plain(cx, MAX_UNPOOL, n, kernel, stride, padding);            \
    }                                                                             \
    td_module *td_nn_adaptive_avg_pool##n##d(td_ctx *cx, td_ints out) {           \
        return make_plain(cx, ADAPTIVE_AVG, n, out, TD_ALL, TD_ALL);              \
    }                                                                             \
    td_module *td_nn_adaptive_max_pool##n##d(td_ctx *cx, td_ints out) {           \
        return make_plain(cx, ADAPTIVE_MAX, n, out, TD_ALL, TD_ALL);              \
    }
POOLS(1)
POOLS(2)
POOLS(3)
#undef POOLS

/* The sizes of the result or their ratios. False after td__fail. */
static bool read_fractional(td_ctx *cx, const char *who, td_plain *p,
                            const td_nn_fractional_opts *o) {
    const double *r = o->output_ratio;
    bool          sized = o->output_size.v != NULL;
    if (sized == (r[0] != 0))
        return td__fail(cx, TD_E_ARG,
                        "%s: pass either output_size or output_ratio; %s given", who,
                        sized ? "both are" : "neither is");
    p->a = r[0];
    p->b = r[1] != 0 ? r[1] : r[0];
    p->c = r[2] != 0 ? r[2] : r[0];
    for (int i = 0; !sized && i < p->dims; i++) {
        double at = i == 0 ? p->a : i == 1 ? p->b : p->c;
        if (!(at > 0 && at < 1))
            return td__fail(cx, TD_E_ARG,
                            "%s: output_ratio is %g; it must be above 0 and below 1",
                            who, at);
    }
    return !sized ||
           td__plain_list(cx, who,
                          (td_plain_list){"output_size", o->output_size, NULL, 1},
                          p->dims, p->stride);
}

static td_module *make_fractional(td_ctx *cx, int dims, td_ints kernel,
                                  const td_nn_fractional_opts *opts) {
    const td_module_type *type = &fractional_types[dims - 2];
    td_nn_fractional_opts o;
    td_plain              p = {.dims = dims};
    if (!td__opts_take(td__ctx_of_any(cx), type->name, &o, sizeof o, opts,
                       "TD_NN_FRACTIONAL_OPTS") ||
        !td__plain_list(cx, type->name, (td_plain_list){"kernel", kernel, NULL, 1},
                        dims, p.kernel) ||
        !read_fractional(cx, type->name, &p, &o))
        return TD_NIL(cx, MODULE);
    p.flag = o.return_indices;
    td_making   k = td__nn_begin(cx, type);
    fractional *f = k.m ? td_module_state(k.m) : NULL;
    if (f) {
        f->p = p;
        td__nn_buffer(&k, "_random_samples", o.random_samples, &f->samples);
    }
    return td__nn_end(&k);
}

td_module *td_nn_fractional_max_pool2d(td_ctx *cx, td_ints kernel,
                                       const td_nn_fractional_opts *opts) {
    return make_fractional(cx, 2, kernel, opts);
}
td_module *td_nn_fractional_max_pool3d(td_ctx *cx, td_ints kernel,
                                       const td_nn_fractional_opts *opts) {
    return make_fractional(cx, 3, kernel, opts);
}
