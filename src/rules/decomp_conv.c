/* decomp_conv.c -- convolutions as users call them, in terms of the op with 4 dims. */
#include "ops/ops.h"

/* pair[0] and pair[1] are the entries of list argument i; a list of one entry serves
 * both dims. False after td__op_fail for any other length. */
static bool widen(td_opcall *c, int i, int64_t *pair) {
    td_value v = c->in[i];
    if (v.n != 1 && v.n != 2)
        return td__op_fail(c, TD_E_ARG, "%s must have 1 or 2 entries, got %u",
                           c->info->s.in[i].name, v.n);
    pair[0] = v.u.ints[0];
    pair[1] = v.u.ints[v.n - 1];
    return true;
}

/* input is [N,C,..] with `rank` dims or one sample [C,..] without N; weight always has
 * `rank` dims. */
static bool want_rank(td_opcall *c, int rank) {
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1);
    return ((x->rank == rank || x->rank == rank - 1) && w->rank == rank) ||
           td__op_fail(c, TD_E_SHAPE,
                       "input must have %d or %d dims and weight %d, got %s and %s",
                       rank - 1, rank, rank, td__type_str(x), td__type_str(w));
}

/* in: input [N,C,H,W] or [C,H,W], weight, bias, stride, padding, dilation, groups. A
 * sample without N gets an N of 1 for the call. */
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

/* in: as conv2d, of [N,C,L] or [C,L]. A dim of size 1 is put in front of L, and the op
 * with 4 dims computes on [N,C,1,L]. */
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
