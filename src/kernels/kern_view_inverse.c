/* kern_view_inverse.c -- inverses of views and their derivatives: a tensor is copied
 * into a part of another. The part is found by the function that the view uses
 * (rules/geom.h), so both agree on every element. */
#include "ops/cast.h"
#include "rules/geom.h"
#include "kernels/index_walk.h"

#include <string.h>

/* Copies src to the part of out that the meta describes. */
static bool put(td_tensor *out, const td_meta *part, const td_tensor *src) {
    td_window w;
    return td__copy_into(td__window(&w, out, part), src);
}

/* ---- inverses of views -------------------------------------------------- */

/* in: self, src, dim, index. */
bool td__kern_select_scatter(td_opcall *c) {
    td_meta m;
    td__tensor_meta(c->out[0], &m);
    return td__copy_into(c->out[0], td__in(c, 0)) &&
           td__select_part(c, &m, td__in_int(c, 2), td__in_int(c, 3)) &&
           put(c->out[0], &m, td__in(c, 1));
}

/* in: self, src, dim, start, end, step. */
bool td__kern_slice_scatter(td_opcall *c) {
    td_meta m;
    td__tensor_meta(c->out[0], &m);
    return td__copy_into(c->out[0], td__in(c, 0)) && td__slice_part(c, &m, &c->in[2]) &&
           put(c->out[0], &m, td__in(c, 1));
}

/* in: self, src, offset, dim1, dim2. */
bool td__kern_diagonal_scatter(td_opcall *c) {
    td_meta m;
    td__tensor_meta(c->out[0], &m);
    return td__copy_into(c->out[0], td__in(c, 0)) &&
           td__diagonal_part(c, &m, &c->in[2]) && put(c->out[0], &m, td__in(c, 1));
}

/* The part may lie outside the elements of self, so the whole storage is copied;
 * one whose elements share places is copied as it looks. */
bool td__kern_as_strided_scatter(td_opcall *c) {
    td_tensor *in = td__in(c, 0), *out = c->out[0];
    td_meta    m;
    td__tensor_meta(out, &m);
    size_t bytes = in->st->bytes;
    if (td__overlaps_itself(in)) {
        if (!td__copy_into(out, in)) return false;
    } else {
        if (bytes > 0) memcpy(out->st->data, in->st->data, bytes);
    }
    return td__as_strided_part(c, &m, &c->in[2], (int64_t)out->st->bytes) &&
           put(out, &m, td__in(c, 1));
}

/* ---- backwards of views ------------------------------------------------- */

/* A result of zeros, and its meta to be narrowed. */
static bool start(td_opcall *c, td_meta *m) {
    td__tensor_meta(c->out[0], m);
    return td__fill(c->out[0], td_value_int(0));
}

/* in: grad, input_sizes, dim, index. */
bool td__kern_select_backward(td_opcall *c) {
    td_meta m;
    return start(c, &m) && td__select_part(c, &m, td__in_int(c, 2), td__in_int(c, 3)) &&
           put(c->out[0], &m, td__in(c, 0));
}

/* in: grad, input_sizes, dim, start, end, step. */
bool td__kern_slice_backward(td_opcall *c) {
    td_meta m;
    return start(c, &m) && td__slice_part(c, &m, &c->in[2]) &&
           put(c->out[0], &m, td__in(c, 0));
}

/* in: grad, input_sizes, offset, dim1, dim2. */
bool td__kern_diagonal_backward(td_opcall *c) {
    td_meta m;
    return start(c, &m) && td__diagonal_part(c, &m, &c->in[2]) &&
           put(c->out[0], &m, td__in(c, 0));
}

/* out[.., w*step + k, ..] += g[.., w, .., k]: for each k one strided sum over all
 * windows. k falls, so that an element meets its windows in rising order. */
bool td__kern_unfold_backward(td_opcall *c) {
    td_tensor *out = c->out[0];
    td_tensor *g = td__in(c, 0);
    td_meta    d, s;
    int64_t    size = td__in_int(c, 3), step = td__in_int(c, 4);
    int        dim = td__wrap_dim(td__in_int(c, 2), out->rank);
    if (!start(c, &d) || g->numel == 0) return out->st != NULL;
    td__tensor_meta(g, &s);
    int64_t along = out->rank ? d.stride[dim] : 0, at = d.offset;
    s.rank--;
    if (out->rank) {
        d.size[dim] = s.size[dim];
        if (s.size[dim] > 1) d.stride[dim] *= step; /* else the step takes no part */
    }
    for (int64_t k = size - 1; k >= 0; k--) {
        td_window dw, sw;
        d.offset = at + k * along;
        s.offset = g->offset + k * g->stride[g->rank - 1];
        td__spots_sum(td__window(&dw, out, &d), td__window(&sw, g, &s));
    }
    return true;
}
