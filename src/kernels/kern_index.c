/* kern_index.c -- reading by index: gather, index_select, index, embedding, and the
 * offsets that index and index_put share. Each kernel checks its index values and
 * describes a walk to index_walk.c. */
#include "kernels/kern_index.h"

/* ---- describing walks --------------------------------------------------- */

void td__spots_start(td_spots *s, const td_tensor *index, const td_tensor *data,
                     const td_tensor *other) {
    s->rank = 0;
    s->along = 1;
    s->limit = 0;
    s->wide = !index || index->dtype == TD_I64;
    s->dtype = (td_dtype)data->dtype;
    s->alpha = td_value_int(1);
    s->ptr[TD_SPOT_INDEX] = index ? td__ptr(index) : NULL;
    s->ptr[TD_SPOT_DATA] = td__ptr(data);
    s->ptr[TD_SPOT_OTHER] = other ? td__ptr(other) : NULL;
}

void td__spots_dim(td_spots *s, int64_t size, int64_t index, int64_t data,
                   int64_t other) {
    s->size[s->rank] = size;
    s->stride[TD_SPOT_INDEX][s->rank] = index;
    s->stride[TD_SPOT_DATA][s->rank] = data;
    s->stride[TD_SPOT_OTHER][s->rank] = other;
    s->rank++;
}

/* Along `dim` the walk stands still in data: the index moves it. */
void td__spots_elements(td_spots *s, const td_tensor *index, const td_tensor *data,
                        const td_tensor *other, int dim) {
    td__spots_start(s, index, data, other);
    s->along = td__stride1(data, dim);
    s->limit = td__size1(data, dim);
    for (int d = 0; d < td__rank1(index); d++)
        td__spots_dim(s, td__size1(index, d), td__stride1(index, d),
                      d == dim ? 0 : td__stride1(data, d),
                      other ? td__stride1(other, d) : 0);
}

void td__spots_entries(td_spots *s, const td_tensor *index, const td_tensor *data,
                       const td_tensor *other, int dim) {
    td__spots_start(s, index, data, other);
    s->along = td__stride1(data, dim);
    s->limit = td__size1(data, dim);
    for (int d = 0; d < td__rank1(data); d++) {
        int64_t step = other ? td__stride1(other, d) : 0;
        if (d == dim) td__spots_dim(s, index->numel, td__stride1(index, 0), 0, step);
        else td__spots_dim(s, td__size1(data, d), 0, td__stride1(data, d), step);
    }
}

/* ---- along one dim ------------------------------------------------------ */

/* in: self, dim, index. */
bool td__kern_gather(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *index = td__in(c, 2);
    int              dim = td__wrap_dim(td__in_int(c, 1), self->rank);
    td_spots         s;
    if (!td__index_check(c, index, td__size1(self, dim), false, dim)) return false;
    if (index->numel == 0) return true;
    td__spots_elements(&s, index, self, c->out[0], dim);
    td__spots_run(&s, TD_SPOT_GATHER);
    return true;
}

/* in: self, dim, index. */
bool td__kern_index_select(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *index = td__in(c, 2);
    int              dim = td__wrap_dim(td__in_int(c, 1), self->rank);
    td_spots         s;
    if (!td__index_check(c, index, td__size1(self, dim), false, dim)) return false;
    td__spots_entries(&s, index, self, c->out[0], dim);
    td__spots_run(&s, TD_SPOT_GATHER);
    return true;
}

/* in: weight, indices. Entry p of the result is row indices[p] of weight. */
bool td__kern_embedding(td_opcall *c) {
    const td_tensor *weight = td__in(c, 0), *indices = td__in(c, 1), *out = c->out[0];
    td_spots         s;
    if (!td__index_check(c, indices, weight->size[0], false, 0)) return false;
    td__spots_start(&s, indices, weight, out);
    s.along = weight->stride[0];
    for (int d = 0; d < indices->rank; d++)
        td__spots_dim(&s, indices->size[d], indices->stride[d], 0, out->stride[d]);
    td__spots_dim(&s, weight->size[1], 0, weight->stride[1],
                  out->stride[indices->rank]);
    td__spots_run(&s, TD_SPOT_GATHER);
    return true;
}

/* ---- along several dims ------------------------------------------------- */

/* Every index tensor has values within its dim; negative ones count from the end. */
static bool check_indices(td_opcall *c, const td_index_plan *p) {
    const td_tensor *self = td__in(c, 0);
    for (int k = 0; k < p->indexed; k++) {
        int d = p->order[p->before + k];
        if (!td__index_check(c, c->in[1].u.ts[d], self->size[d], true, d)) return false;
    }
    return true;
}

/* off[b] += stride * index at b, over the broadcast sizes. */
static void add_offsets(const td_index_plan *p, const td_tensor *index, int64_t limit,
                        int64_t stride, int64_t *off) {
    int64_t st[TD_MAX_RANK], at[TD_MAX_RANK] = {0}, pos = 0;
    int64_t n = td__numel(p->rank, p->size), item = td__dtype_bytes[index->dtype];
    td__expand_strides(index, p->rank, p->size, st);
    for (int64_t b = 0; b < n; b++) {
        int64_t i = td__load_i((td_dtype)index->dtype, td__ptr(index) + pos * item);
        off[b] += (i < 0 ? i + limit : i) * stride;
        for (int d = p->rank - 1; d >= 0; d--) {
            pos += st[d];
            if (++at[d] < p->size[d]) break;
            pos -= at[d] * st[d];
            at[d] = 0;
        }
    }
}

/* A single index is walked as it is; several, or one that looks at the bytes being
 * written, become offsets into self first. */
bool td__indices_open(td_opcall *c, td_indices *x, const td_tensor *data) {
    const td_tensor *self = td__in(c, 0);
    td_index_plan   *p = &x->plan;
    x->off = NULL;
    if (!td__index_plan(c, p) || !check_indices(c, p)) return false;
    const td_tensor *first = c->in[1].u.ts[p->order[p->before]];
    if (p->indexed == 1 && first->st != data->st) {
        x->single = first;
        return true;
    }
    int64_t n = td__numel(p->rank, p->size);
    x->single = NULL;
    x->bytes = sizeof(int64_t) * (size_t)(n ? n : 1);
    if (!(x->off = td__block_alloc(x->bytes))) return td__fail_memory(c->cx);
    for (int64_t b = 0; b < n; b++) x->off[b] = 0;
    for (int k = 0; k < p->indexed; k++) {
        int d = p->order[p->before + k];
        add_offsets(p, c->in[1].u.ts[d], self->size[d], data->stride[d], x->off);
    }
    return true;
}

/* Frees the offsets, if any. */
void td__indices_close(td_indices *x) {
    if (x->off) td__block_free(x->off, x->bytes);
}

/* stride: of `other`, seen with the sizes of the indexed part. */
void td__indices_spots(const td_indices *x, td_spots *s, const td_tensor *data,
                       const td_tensor *other, const int64_t *stride) {
    const td_index_plan *p = &x->plan;
    int64_t              step[TD_MAX_RANK];
    int                  rest = p->before + p->indexed;
    td__spots_start(s, x->single, data, other);
    if (x->single) {
        int d = p->order[p->before];
        s->along = data->stride[d];
        s->limit = data->size[d];
        td__expand_strides(x->single, p->rank, p->size, step);
    } else {
        s->ptr[TD_SPOT_INDEX] = (char *)x->off;
        td__strides_dense(p->rank, p->size, step);
    }
    for (int i = 0; i < p->before; i++)
        td__spots_dim(s, data->size[p->order[i]], 0, data->stride[p->order[i]],
                      *stride++);
    for (int i = 0; i < p->rank; i++)
        td__spots_dim(s, p->size[i], step[i], 0, *stride++);
    for (int i = 0; i < p->after; i++) {
        int d = p->order[rest + i];
        td__spots_dim(s, data->size[d], 0, data->stride[d], *stride++);
    }
}

/* in: self, indices. */
bool td__kern_index(td_opcall *c) {
    td_indices x;
    td_spots   s;
    if (c->out[0]->numel == 0) return true; /* nothing is looked at */
    if (!td__indices_open(c, &x, td__in(c, 0))) return false;
    td__indices_spots(&x, &s, td__in(c, 0), c->out[0], c->out[0]->stride);
    td__spots_run(&s, TD_SPOT_GATHER);
    td__indices_close(&x);
    return true;
}
