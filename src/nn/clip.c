/* clip.c -- gradient clipping. */
#include "nn/optim.h"
#include "ops/ops.h"
#include "tandem/sparse.h"
#include "tandem/type.h"

#include <math.h>

/* ---- clipping ----------------------------------------------------------- */

/* A gradient exists: neither NULL nor nil. */
static bool is_present(const td_tensor *t) { return t && !td_is_nil(t); }

/* The elements of a gradient; of a sparse one the values, of which those of one place
 * count as their sum. */
static td_tensor *elements(td_tensor *g) {
    if (!td_is_sparse(g) && !td_is_sparse_csr(g)) return g;
    if (!td_is_sparse_csr(g) && !td_is_coalesced(g)) g = td_op_sparse_mask(g, g);
    return td_type_inner(g, td_type_inner_count(g) - 1);
}

/* The p-norm of all gradients together, 0-d; zero if there are none. */
static td_tensor *total_norm(td_ctx *cx, td_tensors grads, double p) {
    td_tensor **norms = td__alloc(sizeof *norms * ((size_t)grads.n + 1));
    int         n = 0;
    if (!norms) return td__fail_memory(cx), td_nil(cx);
    for (int i = 0; i < grads.n; i++)
        if (is_present(grads.v[i])) norms[n++] = td_norm(elements(grads.v[i]), p);
    td_tensor *all = n == 0   ? td_zeros(cx, TD_SHAPE())
                     : n == 1 ? norms[0]
                              : td_norm(td_stack(td__nn_list(norms, n)), p);
    td__free(norms);
    return all;
}

td_tensor *td_clip_norm(td_ctx *cx, td_tensors grads, double most, double p) {
    if (!TD_ENTER_CTX(cx)) return &td__current_ctx()->nil;
    if (!td_ok(cx) || !td__has_list(cx, "td_clip_norm", grads.v, grads.n))
        return td_nil(cx);
    if (!(most >= 0) || !(p > 0))
        return td_fail(cx, TD_E_ARG,
                       "td_clip_norm: order %g, bound %g; the order must be above 0, "
                       "the bound at least 0",
                       p, most);
    td_grad_mode was = td_no_grad_begin(cx);
    td_scope_begin(cx, "td_clip_norm");
    td_tensor *norm = total_norm(cx, grads, p);
    /* min(1, most / (norm + 1e-6)): no branch, so that it can be captured */
    td_tensor *by = td_clamp_max(td_mul(td_reciprocal(td_add(norm, 1e-6)), most), 1.0);
    for (int i = 0; i < grads.n; i++)
        if (is_present(grads.v[i])) td_mul_(grads.v[i], by);
    norm = td_scope_end(cx, "td_clip_norm", norm);
    td_no_grad_end(cx, was);
    return td_ok(cx) ? norm : td_nil(cx);
}

bool td_clip_value(td_ctx *cx, td_tensors grads, double most) {
    if (!TD_ENTER_CTX(cx)) return false;
    if (!td_ok(cx) || !td__has_list(cx, "td_clip_value", grads.v, grads.n))
        return false;
    if (!(most >= 0))
        return td__fail(cx, TD_E_ARG,
                        "td_clip_value: the bound is %g; it must be at least 0", most);
    for (int i = 0; i < grads.n; i++)
        if (is_present(grads.v[i]) && td_type_of(grads.v[i]))
            return td__fail(cx, TD_E_GRAD,
                            "td_clip_value: gradient %d is of type %s and cannot be "
                            "clamped; clip the norm (td_clip_norm), or pass plain "
                            "gradients",
                            i, td_type_name(td_type_of(grads.v[i])));
    td_grad_mode was = td_no_grad_begin(cx);
    for (int i = 0; i < grads.n; i++)
        if (is_present(grads.v[i])) td_clamp_(grads.v[i], -most, most);
    td_no_grad_end(cx, was);
    return td_ok(cx);
}

td_tensor *td_optim_clip_norm(td_optim *o, double most) {
    if (!TD_ENTER(o, OPTIM)) return TD_NIL_BY(o, TENSOR);
    if (!td__optim_grads(o)) return td_nil(o->cx);
    return td_clip_norm(o->cx, td__nn_list(o->grads.v, o->grads.n), most, 2);
}

bool td_optim_clip_value(td_optim *o, double most) {
    if (!TD_ENTER(o, OPTIM)) return false;
    return td__optim_grads(o) &&
           td_clip_value(o->cx, td__nn_list(o->grads.v, o->grads.n), most);
}
