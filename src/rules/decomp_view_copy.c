/* decomp_view_copy.c -- views as copies, and splits that PyTorch calls unsafe: rows
 * whose names are those of a view with something added. */
#include "ops/ops.h"

#include <string.h>

/* The most results that `view`, a split or unbind, has with the arguments of c; 0 after
 * td__fail, where a symbolic size could not become a number. */
static int most_results(const td_opcall *c, td_op view) {
    const td_tensor *t = td__in(c, 0);
    if (c->in[1].kind == TD_K_INTS) return (int)c->in[1].n;
    int arg = td__op_arg(view, "dim"), dim = td__wrap_dim(td__in_int(c, arg), t->rank);
    if (dim < 0 || dim >= t->rank) return 1;
    int64_t n = t->size[dim], piece = arg == 1 ? 1 : td__in_int(c, 1);
    if (td__dim_lt(0, piece))
        n = td__dim_div(td__dim_add(n, td__dim_sub(piece, 1)), piece);
    n = td__dim_fixed(n);
    if (!td_ok(c->cx)) return 0;
    return n < 1 ? 1 : n > INT32_MAX ? INT32_MAX : (int)n;
}

/* Calls `view` with the arguments of c and sets the results of c; each of them a copy
 * where `copies`. */
static bool call_view(td_opcall *c, td_op view, bool copies) {
    int n_in = td__opinfo(view)->s.n_in, n = 1;
    if (c->info->s.out[0].type != TD_T_TENSORS) {
        c->out[0] = td_op_clone(td__call1(c->cx, view, c->in, n_in), true);
        return !td_is_nil(c->out[0]);
    }
    int cap = most_results(c, view);
    if (!td_ok(c->cx)) return false;
    td_tensor **out =
        td__arena_zalloc(&c->cx->scratch, sizeof *out * (size_t)(cap + 1));
    if (!out) return td__fail_memory(c->cx);
    n = td__call_list(c->cx, view, c->in, n_in, out, cap);
    if (n < 0 || !td__call_results(c, n)) return false;
    for (int i = 0; i < n; i++) {
        c->out[i] = copies ? td_op_clone(out[i], true) : out[i];
        if (td_is_nil(c->out[i])) return false;
    }
    return true;
}

/* NAME_copy: NAME, then a row-major copy of each result. */
bool td__decomp_view_copy(td_opcall *c) {
    char   name[40];
    size_t n = strlen(c->def->name) - strlen("_copy");
    memcpy(name, c->def->name, n);
    name[n] = 0;
    return call_view(c, td__op_find(name), true);
}

/* unsafe_NAME: NAME. */
bool td__decomp_unsafe_split(td_opcall *c) {
    return call_view(c, td__op_find(c->def->name + strlen("unsafe_")), false);
}
