/* call_index.c -- the index family on a device: the walks of kernels/kern_index.h,
 * run by the kernels of text/index.h. Writes happen in the order of the CPU, so
 * results are equal to the bit. A value out of range is found by the kernel and
 * reported when the device is read next. */
#include "device/op_kernel.h"
#include "kernels/kern_index.h"
#include "ops/cast.h"
#include "rules/geom.h"
#include "rules/shape_rules.h"

#include <stdio.h>
#include <string.h>

/* FEW: positions that one thread walks as fast; VECTOR: bytes that a thread moves. */
enum { INDEX, DATA, OTHER, FEW = 32, MOST_BITS = 24, VECTOR = 16 };

/* A walk and the tensors it goes over. */
typedef struct walk {
    td_spots         s;
    const td_tensor *index, *data, *other;
    int64_t          least; /* the least value that the index may have */
} walk;

static void begin(td_op_kernel *k, td_opcall *c, const char *name, const walk *w) {
    *k = (td_op_kernel){.name = name, .c = c, .picky = true};
    td__op_ptr(k, w->index);
    td__op_ptr(k, w->data);
    td__op_ptr(k, w->other);
    for (int i = INDEX; i <= OTHER; i++) k->run.ptr[i] = w->s.ptr[i];
}

/* ---- reading ------------------------------------------------------------ */

/* Do the elements of all rows begin at vectors, one after the other? The last dim is
 * that of a row. */
static bool has_rows(const walk *w) {
    const td_spots *s = &w->s;
    int             last = s->rank - 1;
    int64_t         item = td__dtype_bytes[w->data->dtype];
    if (last < 0 || s->stride[INDEX][last] || s->stride[DATA][last] != 1 ||
        s->stride[OTHER][last] != 1 || s->size[last] * item % VECTOR ||
        s->along * item % VECTOR || w->data->dtype != w->other->dtype)
        return false;
    for (int o = DATA; o <= OTHER; o++) {
        if ((uintptr_t)s->ptr[o] % VECTOR) return false;
        for (int i = 0; i < last; i++)
            if (s->stride[o][i] * item % VECTOR) return false;
    }
    return true;
}

/* Copies whole rows, a vector a thread. */
static bool gather_rows(td_opcall *c, td_device_state *d, walk *w, bool *ok) {
    td_spots      *s = &w->s;
    int64_t        each = VECTOR / td__dtype_bytes[w->data->dtype];
    int64_t        vectors = s->size[s->rank - 1] / each;
    const int64_t *stride[3] = {s->stride[0], s->stride[1], s->stride[2]};
    td_op_kernel   k;
    for (int o = DATA; o <= OTHER; o++)
        for (int i = 0; i < s->rank - 1; i++) s->stride[o][i] /= each;
    begin(&k, c, "td_k_gather_rows", w);
    if (!td__op_walk(&k, 0, s->rank - 1, s->size, stride, 3)) return false;
    int64_t count = td__numel(s->rank - 1, s->size) * vectors;
    int64_t given[] = {count,    s->along / each, s->limit,
                       w->least, td__op_mark(c),  vectors};
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, count, 0, ok);
}

static bool run_gather(td_opcall *c, td_device_state *d, walk *w, bool *ok) {
    if (has_rows(w)) return gather_rows(c, d, w, ok);
    const int64_t *stride[3] = {w->s.stride[0], w->s.stride[1], w->s.stride[2]};
    td_op_kernel   k;
    begin(&k, c, "td_k_gather", w);
    if (!td__op_walk(&k, 0, w->s.rank, w->s.size, stride, 3)) return false;
    int64_t count = td__numel(w->s.rank, w->s.size);
    int64_t given[] = {count, w->s.along, w->s.limit, w->least, td__op_mark(c)};
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, count, 0, ok);
}

/* in: self, dim, index. */
static bool along(td_opcall *c, td_device_state *d, bool entries, bool *ok) {
    td_tensor *self = td__in(c, 0), *index = td__in(c, 2), *out = c->out[0];
    int        dim = td__wrap_dim(td__in_int(c, 1), self->rank);
    walk       w = {.index = index, .data = self, .other = out};
    if (out->numel == 0 || self->numel == 0) return false;
    (entries ? td__spots_entries : td__spots_elements)(&w.s, index, self, out, dim);
    return run_gather(c, d, &w, ok);
}

bool td__op_gather(td_opcall *c, td_device_state *d, bool *ok) {
    return along(c, d, false, ok);
}

bool td__op_index_select(td_opcall *c, td_device_state *d, bool *ok) {
    return along(c, d, true, ok);
}

/* in: weight, indices. */
bool td__op_embedding(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *weight = td__in(c, 0), *index = td__in(c, 1), *out = c->out[0];
    walk       w = {.index = index, .data = weight, .other = out};
    if (out->numel == 0 || weight->numel == 0) return false;
    td__spots_start(&w.s, index, weight, out);
    w.s.along = weight->stride[0];
    w.s.limit = weight->size[0];
    for (int i = 0; i < index->rank; i++)
        td__spots_dim(&w.s, index->size[i], index->stride[i], 0, out->stride[i]);
    td__spots_dim(&w.s, weight->size[1], 0, weight->stride[1],
                  out->stride[index->rank]);
    return run_gather(c, d, &w, ok);
}

/* in: self, least, most, what. Integers of an op that `what` names: the device reports
 * an op and a value. */
bool td__op_expect_range(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor     *x = td__in(c, 0);
    td_op          of = td__op_find(c->in[3].u.s);
    td_op_kernel   k = {.name = "td_k_expect", .c = c, .picky = true};
    const int64_t *stride[1] = {x->stride};
    if (of == TD_OP_COUNT || x->numel == 0 || td__is_float((td_dtype)x->dtype))
        return false;
    td__op_ptr(&k, x);
    td__op_ptr(&k, c->out[0]);
    if (!td__op_walk(&k, 0, x->rank, x->size, stride, 1)) return false;
    int64_t given[] = {x->numel, td__double_bits(td__in_f(c, 1)),
                       td__double_bits(td__in_f(c, 2)),
                       (int64_t)(uintptr_t)td__opinfo(of)->s.name};
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, x->numel, 0, ok);
}

/* Adds stride * index to the offsets, over the broadcast sizes. */
static bool add_offsets(td_opcall *c, td_device_state *d, const td_index_plan *p,
                        const td_tensor *index, int64_t limit, int64_t stride,
                        td_tensor *off, bool first, bool *ok) {
    int64_t        step[TD_MAX_RANK];
    const int64_t *steps[1] = {step};
    td_op_kernel   k = {.name = "td_k_offsets", .c = c, .picky = true};
    td__expand_strides(index, p->rank, p->size, step);
    td__op_ptr(&k, index);
    td__op_ptr(&k, off);
    if (!td__op_walk(&k, 0, p->rank, p->size, steps, 1)) return false;
    int64_t given[] = {off->numel, stride, limit, first, td__op_mark(c)};
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, off->numel, 0, ok);
}

/* The walk of index and index_put; stride: of `other`. Several indices become offsets
 * first. False as in td_op_fn. */
static bool open_indices(td_opcall *c, td_device_state *d, td_tensor *data,
                         const td_tensor *other, const int64_t *stride, walk *w,
                         bool *ok) {
    td_indices     x = {.single = NULL};
    td_index_plan *p = &x.plan;
    if (!td__index_plan(c, p)) return *ok = false, true;
    td_tensor *index = c->in[1].u.ts[p->order[p->before]];
    if (p->indexed == 1) x.single = index;
    else {
        index = td__op_room(c, TD_I64, td__numel(p->rank, p->size));
        if (!index) return *ok = false, true;
        for (int i = 0; i < p->indexed; i++) {
            int at = p->order[p->before + i];
            if (!add_offsets(c, d, p, c->in[1].u.ts[at], data->size[at],
                             data->stride[at], index, i == 0, ok))
                return false;
            if (!*ok) return true;
        }
        x.off = (void *)td__ptr(index);
    }
    *w = (walk){.index = index, .data = data, .other = other};
    td__indices_spots(&x, &w->s, data, other, stride);
    if (x.single) w->least = -w->s.limit;
    else w->s.limit = INT64_MAX, w->s.along = 1;
    return *ok = true;
}

/* in: self, indices. */
bool td__op_index(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *self = td__in(c, 0), *out = c->out[0];
    walk       w;
    if (out->numel == 0 || self->numel == 0) return false;
    if (!open_indices(c, d, self, out, out->stride, &w, ok)) return false;
    return !*ok || run_gather(c, d, &w, ok);
}

/* ---- writing ------------------------------------------------------------ */

/* self into the result, unless they are one. */
static bool copy_self(td_opcall *c) {
    return c->out[0] == td__in(c, 0) || td__copy_into(c->out[0], td__in(c, 0));
}

/* The dims in which data stands still can meet: they are the serial part. */
static bool set_walks(td_op_kernel *k, const walk *w, int64_t *lines, int64_t *count) {
    int64_t         size[2][TD_MAX_RANK], stride[2][3][TD_MAX_RANK];
    int             rank[2] = {0, 0};
    const td_spots *s = &w->s;
    for (int i = 0; i < s->rank; i++) {
        int serial = s->stride[DATA][i] == 0, at = rank[serial]++;
        size[serial][at] = s->size[i];
        for (int o = 0; o < 3; o++) stride[serial][o][at] = s->stride[o][i];
    }
    *lines = td__numel(rank[0], size[0]);
    *count = td__numel(rank[1], size[1]);
    for (int j = 0; j < 2; j++) {
        const int64_t *at[3] = {stride[j][0], stride[j][1], stride[j][2]};
        if (!td__op_walk(k, j ? TD_WALK_AT : 0, rank[j], size[j], at, 3)) return false;
    }
    return true;
}

/* `count` positions by their index, `step` elements apart (text/index.h). */
typedef struct order {
    int64_t    count, step;
    td_tensor *slots, *sizes, *begins, *buckets, *sorted, *same;
    int        bits;
} order;

static bool make_order(td_opcall *c, order *o) {
    int64_t count = o->count;
    o->bits = 4;
    while ((int64_t)1 << o->bits < 2 * count && o->bits < MOST_BITS) o->bits++;
    o->slots = td__op_room(c, TD_I32, count);
    o->sizes = td__op_room(c, TD_I32, ((int64_t)1 << o->bits) + 1);
    o->begins = td__op_room(c, TD_I32, (int64_t)1 << o->bits);
    o->buckets = td__op_room(c, TD_I32, count);
    o->sorted = td__op_room(c, TD_I32, count);
    o->same = td__op_room(c, TD_I32, count);
    return o->slots && o->sizes && o->begins && o->buckets && o->sorted && o->same &&
           td__fill(o->sizes, td_value_int(0));
}

/* Sorts the positions of the index. False: there is no kernel. */
static bool sort_positions(td_opcall *c, td_device_state *d, const walk *w, order *o,
                           bool *ok) {
    static const char *const names[] = {"td_k_bucket_count", "td_k_bucket_begin",
                                        "td_k_bucket_fill", "td_k_bucket_sort"};
    *ok = make_order(c, o);
    for (int i = 0; *ok && i < TD_COUNT(names); i++) {
        td_op_kernel k = {.name = names[i], .c = c};
        td__op_ptr(&k, w->index);
        k.run.ptr[INDEX] = w->s.ptr[INDEX];
        td__op_ptr(&k, o->slots);
        td__op_ptr(&k, o->sizes);
        td__op_ptr(&k, o->begins);
        td__op_ptr(&k, o->buckets);
        td__op_ptr(&k, o->sorted);
        td__op_ptr(&k, o->same);
        int64_t given[] = {o->count, o->step, o->bits};
        memcpy(k.run.given, given, sizeof given);
        if (!td__op_start(&k, d, o->count, 0, ok)) return false;
    }
    return true;
}

/* Can positions be sorted? The walk has one serial dim that alone moves the index. */
static bool is_sortable(const td_op_kernel *put, const walk *w, int64_t count) {
    for (int i = 0; i < w->s.rank; i++)
        if (w->s.size[i] > 1 && w->s.stride[DATA][i] && w->s.stride[INDEX][i])
            return false;
    return count >= FEW && count <= INT32_MAX / 2 && put->run.size[TD_WALK_AT] == 1;
}

/* Elements of a line that a thread sums at once; 0: lines are no vectors. */
static int64_t vector_of(const td_op_kernel *k, const walk *w, int64_t lines) {
    const int64_t *line = k->run.size, *serial = line + TD_WALK_AT;
    int64_t        one = td__dtype_bytes[w->data->dtype];
    int64_t        two = td__dtype_bytes[w->other->dtype];
    int64_t        each = VECTOR / (one > two ? one : two);
    bool follows = line[0] == 1 && line[2] == 0 && line[3] == 1 && line[4] == 1;
    if (!follows || each < 2 || lines % each || w->s.along % each || serial[4] % each ||
        serial[3] != 0 || (uintptr_t)w->s.ptr[DATA] % (uintptr_t)(each * one) ||
        (uintptr_t)w->s.ptr[OTHER] % (uintptr_t)(each * two))
        return 0;
    return each;
}

/* once: a sum of halves is rounded once, at its end. */
static bool run_put(td_opcall *c, td_device_state *d, walk *w, td_spot_op op, bool once,
                    bool *ok) {
    td_op_kernel k;
    int64_t      lines, count, each = 0;
    td_dtype     dt = (td_dtype)w->data->dtype;
    td_value     alpha = w->s.alpha;
    order        o;
    char         defines[200];
    begin(&k, c, "td_k_put", w);
    k.way = op;
    if (!set_walks(&k, w, &lines, &count)) return false;
    bool sorted = op == TD_SPOT_ADD && is_sortable(&k, w, count);
    if (once && td__is_half(dt) && !sorted) return false;
    if (sorted) {
        o.count = count;
        o.step = k.run.size[TD_WALK_AT + 2];
        if (!sort_positions(c, d, w, &o, ok)) return false;
        if (!*ok) return true;
        each = vector_of(&k, w, lines);
        k.name = each ? "td_k_put_rows" : "td_k_put_sorted";
        td__op_ptr(&k, o.sorted);
        td__op_ptr(&k, o.slots);
        td__op_ptr(&k, o.same);
    }
    snprintf(defines, sizeof defines,
             "#define FACTOR(x) %s(x)\n#define ONCE %d\n#define EACH %d\n",
             td__is_float(dt) ? "td_k_double" : "", once && td__is_half(dt), (int)each);
    k.defines = defines;
    if (each) lines /= each;
    int64_t given[] = {lines,
                       count,
                       w->s.along,
                       w->s.limit,
                       w->least,
                       td__op_mark(c),
                       td__is_float(dt) ? td__double_bits(td__value_f(alpha))
                                        : td__value_i(alpha)};
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, sorted ? lines * count : lines, 0, ok);
}

/* td__spots_elements or td__spots_entries. */
typedef void spots_fn(td_spots *s, const td_tensor *index, const td_tensor *data,
                      const td_tensor *other, int dim);

/* in: self, dim, index, and `other`. */
static bool put_along(td_opcall *c, td_device_state *d, spots_fn *spots,
                      const td_tensor *other, td_spot_op op, td_value alpha, bool once,
                      bool negative, bool *ok) {
    td_tensor *out = c->out[0], *index = td__in(c, 2);
    int        dim = td__wrap_dim(td__in_int(c, 1), out->rank);
    walk       w = {.index = index, .data = out, .other = other};
    if (out->numel == 0 || index->numel == 0 || other->numel == 0 ||
        td__may_share_places(out) || (op != TD_SPOT_PUT && out->dtype == TD_BOOL))
        return false;
    if (!copy_self(c)) return *ok = false, true;
    spots(&w.s, index, out, other, dim);
    if (other->numel == 1 && other->rank == 0) /* one number for all entries */
        memset(w.s.stride[OTHER], 0, sizeof w.s.stride[OTHER]);
    if (negative) w.least = -w.s.limit;
    w.s.alpha = alpha;
    return run_put(c, d, &w, op, once, ok);
}

bool td__op_scatter(td_opcall *c, td_device_state *d, bool *ok) {
    return put_along(c, d, td__spots_elements, td__in(c, 3), TD_SPOT_PUT,
                     td_value_int(1), false, false, ok);
}

bool td__op_scatter_add(td_opcall *c, td_device_state *d, bool *ok) {
    if (td__is_half((td_dtype)c->out[0]->dtype)) return false;
    return put_along(c, d, td__spots_elements, td__in(c, 3), TD_SPOT_ADD,
                     td_value_int(1), false, false, ok);
}

/* A number as a tensor without dims, of the dtype of the result. */
static td_tensor *number_tensor(td_opcall *c, td_value number) {
    td_meta m;
    td__meta_dense(&m, (td_dtype)c->out[0]->dtype, 0, NULL);
    td_tensor *t = td__op_make(c, &m);
    return t && td__fill(t, number) ? t : NULL;
}

bool td__op_scatter_value(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *x = number_tensor(c, c->in[3]);
    if (!x) return *ok = false, true;
    return put_along(c, d, td__spots_elements, x, TD_SPOT_PUT, td_value_int(1), false,
                     false, ok);
}

/* in: self, dim, index, source, alpha; see td__kern_index_add for the rounding. */
bool td__op_index_add(td_opcall *c, td_device_state *d, bool *ok) {
    int  rank = c->out[0]->rank, dim = td__wrap_dim(td__in_int(c, 1), rank);
    bool ends = dim == 0 || dim == rank - 1;
    bool once = rank > 1 && ends && td__value_f(c->in[4]) == 1;
    return put_along(c, d, td__spots_entries, td__in(c, 3), TD_SPOT_ADD, c->in[4], once,
                     false, ok);
}

bool td__op_index_copy(td_opcall *c, td_device_state *d, bool *ok) {
    return put_along(c, d, td__spots_entries, td__in(c, 3), TD_SPOT_PUT,
                     td_value_int(1), false, false, ok);
}

/* in: self, dim, index, value. */
bool td__op_index_fill(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *x = td__in(c, 3), *cast = x;
    if (!x) cast = number_tensor(c, c->in[3]);
    else if (x->dtype != c->out[0]->dtype) {
        cast = number_tensor(c, td_value_int(0));
        if (cast && !td__copy_into(cast, x)) cast = NULL;
    }
    if (!cast) return *ok = false, true;
    return put_along(c, d, td__spots_entries, cast, TD_SPOT_PUT, td_value_int(1), false,
                     true, ok);
}

/* in: self, indices, values, accumulate. */
bool td__op_index_put(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *values = td__in(c, 2), *out = c->out[0];
    td_meta    part;
    int64_t    stride[TD_MAX_RANK];
    bool       adds = td__in_bool(c, 3);
    walk       w;
    if (out->numel == 0 || values->numel == 0 || td__may_share_places(out) ||
        (adds && out->dtype == TD_BOOL))
        return false;
    if (!td__index_part(c, &part)) return *ok = false, true;
    if (td__numel(part.rank, part.size) == 0) return false;
    td__expand_strides(values, part.rank, part.size, stride);
    if (!open_indices(c, d, out, values, stride, &w, ok)) return false;
    if (*ok) *ok = copy_self(c);
    return !*ok || run_put(c, d, &w, adds ? TD_SPOT_ADD : TD_SPOT_PUT, false, ok);
}

/* in: grad, indices, num_weights, padding_idx, scale_grad_by_freq. A table whose
 * padding gets nothing has its row zeroed at the end. */
bool td__op_embedding_backward(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *g = td__in(c, 0), *index = td__in(c, 1), *out = c->out[0];
    int64_t    rows = td__in_int(c, 2), pad = td__in_int(c, 3);
    if (td__in_bool(c, 4) || out->numel == 0 || g->numel == 0) return false;
    if (!(index = td__op_dense(c, index))) return *ok = false, true;
    if (!(g = td__op_dense(c, g))) return *ok = false, true;
    walk w = {.index = index, .data = out, .other = g};
    if (!td__fill(out, td_value_int(0))) return *ok = false, true;
    td__spots_start(&w.s, index, out, g);
    w.s.along = out->stride[0];
    w.s.limit = rows;
    td__spots_dim(&w.s, index->numel, 1, 0, out->size[1]);
    td__spots_dim(&w.s, out->size[1], 0, out->stride[1], 1);
    if (!run_put(c, d, &w, TD_SPOT_ADD, false, ok)) return false;
    if (*ok && pad >= 0 && pad < rows) {
        td_meta   m;
        td_window row;
        td__tensor_meta(out, &m);
        m.rank = 1;
        m.size[0] = out->size[1];
        m.stride[0] = out->stride[1];
        m.offset += pad * out->stride[0];
        *ok = td__fill(td__window(&row, out, &m), td_value_int(0));
    }
    return true;
}
