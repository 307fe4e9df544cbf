/* decomp_conv.c -- convolutions as users call them, in terms of the op with 4 dims. */
#include "ops/ops.h"

/* A list of one entry serves both dims. */
static bool widen(td_opcall *c, int i, int64_t *pair) {
    td_value v = c->in[i];
    if (v.n != 1 && v.n != 2)
        return td__op_fail(c, TD_E_ARG, "%s must have 1 or 2 entries, got %u",
                           c->info->s.in[i].name, v.n);
    pair[0] = v.u.ints[0];
    pair[1] = v.u.ints[v.n - 1];
    return true;
}

static bool want_rank(td_opcall *c, int rank) {
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1);
    return ((x->rank == rank || x->rank == rank - 1) && w->rank == rank) ||
           td__op_fail(c, TD_E_SHAPE,
                       "input must have %d or %d dims and weight %d, got %s and %s",
                       rank - 1, rank, rank, td__type_str(x), td__type_str(w));
}

bool td__decomp_conv2d(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    stride[2], pad[2], dil[2];
    if (!want_rank(c, 4) || !widen(c, 3, stride) || !widen(c, 4, pad) ||
        !widen(c, 5, dil))
        return false;
    bool single = x->rank == 3;
    if (single) x = td_op_unsqueeze(x, 0);
    td_tensor *y =
        td_op_convolution(x, td__in(c, 1), td__in(c, 2), (td_ints){stride, 2},
                          (td_ints){pad, 2}, (td_ints){dil, 2}, td__in_int(c, 6));
    c->out[0] = single ? td_op_squeeze_dim(y, 0) : y;
    return true;
}

/* One dim more, of size 1, in front of the length. */
bool td__decomp_conv1d(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *w = td__in(c, 1);
    if (!want_rank(c, 3)) return false;
    for (int i = 3; i <= 5; i++)
        if (c->in[i].n != 1)
            return td__op_fail(c, TD_E_ARG, "%s must have 1 entry, got %u",
                               c->info->s.in[i].name, c->in[i].n);
    int64_t stride[2] = {1, c->in[3].u.ints[0]}, pad[2] = {0, c->in[4].u.ints[0]};
    int64_t dil[2] = {1, c->in[5].u.ints[0]};
    bool    single = x->rank == 2;
    if (single) x = td_op_unsqueeze(x, 0);
    x = td_op_contiguous(x); /* a size-1 dim must not pass for channels-last */
    w = td_op_contiguous(w);
    td_tensor *y =
        td_op_convolution(td_op_unsqueeze(x, 2), td_op_unsqueeze(w, 2), td__in(c, 2),
                          (td_ints){stride, 2}, (td_ints){pad, 2}, (td_ints){dil, 2},
                          td__in_int(c, 6));
    y = td_op_squeeze_dim(y, 2);
    c->out[0] = single ? td_op_squeeze_dim(y, 0) : y;
    return true;
}
