/* tandem/user_op.h -- ops that a program adds to the table. A registered op is called,
 * captured, printed, differentiated, compiled and cached as the library's own ops are.
 *
 *     static bool cube(const td_op_run *r) {
 *         const float *x = td_data(r->in[0].u.t);
 *         float       *y = td_data(r->out[0]);
 *         for (int64_t i = 0; i < td_numel(r->out[0]); i++) y[i] = x[i] * x[i] * x[i];
 *         return true;
 *     }
 *     td_register_op(cx, &(td_op_opts){TD_OP_OPTS,
 *         .schema = "my_cube(Tensor x) -> Tensor", .shape = "x",
 *         .kernel = cube, .derivative = "x: 3 * g * x * x",
 *         .dtypes = TD_ONLY(TD_F32), .version = 1});
 *     td_tensor *y;
 *     td_call_op(cx, "my_cube", TD_ARGS(x), &y, 1);
 *
 * docs/user-ops.md explains schemas, shapes, derivatives and effects. */
#ifndef TANDEM_USER_OP_H
#define TANDEM_USER_OP_H

#include "tandem/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an op does besides computing its results. An op with an effect runs as often as
 * the program calls it and in its place among others with one, also where nothing reads
 * its results; it is never recomputed. */
typedef enum td_effect {
    TD_EFFECT_NONE,
    TD_EFFECT_ORDERED,  /* prints, sends, counts: order matters */
    TD_EFFECT_UNORDERED /* runs once for each call, at any time; kept in order today */
} td_effect;

/* Sizes and dtype of one result, for td_op_opts.shape_fn to fill. */
typedef struct td_op_result {
    td_dtype dtype;
    int      rank;
    int64_t  size[TD_MAX_RANK];
} td_op_result;

/* What a callback of an op gets; valid until it returns. */
typedef struct td_op_run {
    td_ctx           *cx;
    void             *env; /* td_op_opts.env */
    const td_value   *in; /* arguments in the order of the schema, defaults filled in */
    int               n_in, n_out;
    /* kernel: the results, to fill. backward: results that .saves names, others NULL */
    td_tensor *const *out;
    td_op_result     *result; /* shape_fn: to fill */
    td_tensor *const *g;      /* backward: by result; NULL: no gradient arrived */
    const bool       *need;   /* backward: by argument: its gradient is wanted */
    td_tensor       **grad;   /* backward: by argument, to fill; NULL: none */
    /* The same for arguments of type Tensor[]: by argument, then by entry of its list;
     * NULL for arguments of other types. */
    const bool *const *list_need;
    td_tensor       ***list_grad;
    void              *call; /* of the library */
} td_op_run;

/* In the shape_fn of an op whose result is a list ("-> Tensor[]"): the call has n
 * results. Returns where they are filled in; NULL after a failure, or in another place.
 */
TD_API td_op_result *td_op_results(const td_op_run *r, int n);

/* False: the call fails, with the error that the callback recorded (td_fail), or with
 * one that names the op. */
typedef bool td_op_fn(const td_op_run *r);

typedef struct td_op_opts {
    TD_SIZE(td_op_opts);
    /* "name(Tensor x, Tensor[] list, float s=1.0) -> Tensor", or "-> (Tensor a, Tensor
     * b)", "-> Tensor[]", "-> ()". Results are new tensors; arguments are not written.
     */
    const char *schema     TD_0;
    const char *doc        TD_0;
    /* Sizes and dtype of the results, one formula for each, separated by `;`: an
     * argument ("x"), or ops on arguments that give such a tensor ("matmul(x, w)"). Of
     * a list of results, one formula that gives a list: "xs", "unbind(x, 0)". */
    const char *shape      TD_0;
    td_op_fn *shape_fn     TD_0; /* or as C code: sizes are numbers there; a list of
                                  * results begins with td_op_results */
    td_op_fn *kernel       TD_0; /* fills the elements of the results, row-major */
    /* Gradients by argument: "x: g * y; y: g * x". `out` is the result and g its
     * gradient; of several results, NAME and g_NAME; of a list, set .backward. An op
     * without a derivative fails in backward. */
    const char *derivative TD_0;
    td_op_fn *backward     TD_0; /* or as C code that calls ops */
    const char *saves      TD_0; /* with backward: the names it reads, "x out" */
    td_effect effect       TD_0;
    /* Of tensor arguments: TD_ONLY(...) | ...; 0: any but complex ones. */
    uint32_t dtypes        TD_0;
    bool strided  TD_0; /* kernel and backward take any strides; else row-major ones */
    bool in_place TD_0; /* also registers NAME_, which writes its first argument */
    /* Stands for the C functions in cached code: change it when they change. 0:
     * functions that call the op are not cached on disk. */
    uint64_t version TD_0;
    void *env        TD_0;
} td_op_opts;
#define TD_OP_OPTS .td_op_opts_size = sizeof(td_op_opts)
#define TD_ONLY(dtype) ((uint32_t)1 << (dtype))

/* Adds an op to the table of this process, for all contexts and for good. Registering
 * the same again is harmless; another op of a name that exists is an error.
 *   fails  TD_E_ARG  the schema, a formula or the name is wrong */
TD_API bool            td_register_op(td_ctx *cx, const td_op_opts *opts);
/* Arguments that TD_ARGS does not convert. The list and the string must live as long as
 * the call. */
static inline td_value td_value_dtype(td_dtype dtype) {
    td_value v = td_value_none();
    v.kind = TD_K_DTYPE;
    v.u.dt = dtype;
    return v;
}
static inline td_value td_value_ints(const int64_t *list, int n) {
    td_value v = td_value_none();
    v.kind = TD_K_INTS;
    v.n = (uint32_t)(n < 0 ? 0 : n);
    v.u.ints = list;
    return v;
}
static inline td_value td_value_tensors(td_tensor *const *list, int n) {
    td_value v = td_value_none();
    v.kind = TD_K_TENSORS;
    v.n = (uint32_t)(n < 0 ? 0 : n);
    v.u.ts = list;
    return v;
}
static inline td_value td_value_str(const char *s) {
    td_value v = td_value_none();
    v.kind = TD_K_STR;
    v.u.s = s;
    return v;
}

/* Calls any op by its name: registered ones and those of docs/ops.md. Arguments left
 * out at the end take their defaults. False after a failure: all results are nil.
 *   fails  TD_E_ARG  no op has the name; it has other arguments, or another number of
 *                    results than n_out */
TD_API bool td_call_op(td_ctx *cx, const char *name, td_values args, td_tensor **out,
                       int n_out);

/* PyTorch's out=: the same with results written into tensors of the caller; a kernel
 * writes into them directly where it can (docs/out.md). A tensor of other sizes is
 * resized, with a warning if it has elements. A capture records the op and the write.
 *   fails  TD_E_DTYPE  a result cannot be cast to the dtype of its tensor
 *          TD_E_GRAD   an argument requires grad, and gradients are on: there is no
 *                      derivative */
TD_API bool       td_call_out(td_ctx *cx, const char *name, td_values args,
                              td_tensor *const *out, int n_out);
/* The same for one result; returns out, nil after a failure. td_out(y, add, a, b)
 * writes a + b into y. */
TD_API td_tensor *td_call_into(td_tensor *out, const char *name, td_values args);
#define td_out(out, op, ...) td_call_into((out), #op, TD_ARGS(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
