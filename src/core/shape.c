/* shape.c -- arithmetic of sizes and strides: density, broadcasting, overlap,
 * and which reshapes need no copy. Pure functions. */
#include "core/geometry.h"

#include <string.h>

int64_t td__numel(int rank, const int64_t *size) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n = td__dim_mul(n, size[i]);
    return n; /* a size of 0 makes it 0, also after the product saturated */
}

void td__strides_dense(int rank, const int64_t *size, int64_t *stride) {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        stride[i] = step;
        step = td__dim_mul(step, td__dim_max(size[i], 1));
    }
}

bool td__is_dense(int rank, const int64_t *size, const int64_t *stride) {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        if (td__dim_seems_eq(size[i], 0)) return true; /* no elements */
        if (td__dim_seems_eq(size[i], 1)) continue;
        if (!td__dim_seems_eq(stride[i], step))
            return td__dim_seems_eq(td__numel(rank, size), 0);
        step = td__dim_mul(step, size[i]);
    }
    return true;
}

/* Dims by decreasing stride, ties in their order, without dims of size 0 and 1,
 * whose strides do not matter. Returns their number. */
static int sort_dims(int rank, const int64_t *size, const int64_t *stride, int *order) {
    int n = 0;
    for (int i = 0; i < rank; i++) {
        if (td__dim_seems_lt(size[i], 2)) continue;
        int k = n++;
        for (; k > 0 && td__dim_seems_lt(stride[order[k - 1]], stride[i]); k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    return n;
}

bool td__is_packed(int rank, const int64_t *size, const int64_t *stride) {
    if (td__is_dense(rank, size, stride)) return true;
    int     order[TD_MAX_RANK], n = sort_dims(rank, size, stride, order);
    int64_t step = 1;
    for (int k = n - 1; k >= 0; k--) {
        if (!td__dim_seems_eq(stride[order[k]], step)) return false;
        step = td__dim_mul(step, size[order[k]]);
    }
    return true;
}

/* Is dim a outside of dim b in memory? 1 yes, -1 no, 0 undecided (a stride is
 * 0). */
static int lies_outside(const int64_t *size, const int64_t *stride, int a, int b) {
    if (td__dim_seems_eq(stride[a], 0) || td__dim_seems_eq(stride[b], 0)) return 0;
    if (td__dim_seems_lt(stride[a], stride[b])) return -1;
    if (td__dim_seems_lt(stride[b], stride[a])) return 1;
    return td__dim_seems_lt(size[b], size[a]);
}

/* A packed tensor keeps its strides. Others get those of a dense tensor with
 * the same order of dims, computed as ATen does: an insertion sort from the
 * innermost dim, in which expanded dims keep their position. */
void td__strides_like(int rank, const int64_t *size, const int64_t *stride,
                      int64_t *out) {
    if (td__is_packed(rank, size, stride)) {
        memmove(out, stride, sizeof(int64_t) * (size_t)rank);
        return;
    }
    int     perm[TD_MAX_RANK], order;
    int64_t step = 1;
    for (int i = 0; i < rank; i++) perm[i] = rank - 1 - i;
    for (int i = 1; i < rank; i++)
        for (int at = i, k = i - 1; k >= 0; k--) {
            if ((order = lies_outside(size, stride, perm[k], perm[at])) < 0) break;
            if (order == 0) continue;
            int swap = perm[k];
            perm[k] = perm[at];
            perm[at] = swap;
            at = k;
        }
    for (int i = 0; i < rank; i++) {
        out[perm[i]] = step;
        step = td__dim_mul(step, td__dim_max(size[perm[i]], 1));
    }
}

int td__wrap_dim(int64_t dim, int rank) {
    int n = rank > 0 ? rank : 1;
    dim = td__dim_fixed(dim);
    if (dim < -n || dim >= n) return -1;
    return (int)(dim < 0 ? dim + n : dim);
}

bool td__broadcast(int *rank, int64_t *size, int rank_b, const int64_t *size_b) {
    int n = *rank > rank_b ? *rank : rank_b, add = n - *rank;
    if (add > 0) {
        memmove(size + add, size, sizeof(int64_t) * (size_t)*rank);
        for (int i = 0; i < add; i++) size[i] = 1;
    }
    for (int i = n - rank_b; i < n; i++) {
        int64_t b = size_b[i - (n - rank_b)];
        if (size[i] == 1) size[i] = b; /* without comparing b, which may be unbacked */
        if (size[i] == b) continue;
        if (td__dim_eq(b, 1) || td__dim_eq(size[i], b)) continue;
        if (!td__dim_eq(size[i], 1)) return false;
        size[i] = b;
    }
    *rank = n;
    return true;
}

bool td__expand_strides(const td_tensor *t, int rank, const int64_t *size,
                        int64_t *stride) {
    int add = rank - t->rank;
    if (add < 0) return false;
    for (int i = 0; i < add; i++) stride[i] = 0;
    for (int i = add; i < rank; i++) {
        bool same = td__dim_eq(t->size[i - add], size[i]);
        if (!same && !td__dim_eq(t->size[i - add], 1)) return false;
        stride[i] = same ? t->stride[i - add] : 0;
    }
    return true;
}

/* A stride 0 over more than one element overlaps. Other overlaps (unfold-like
 * windows) are not detected, as in ATen. */
bool td__overlaps_itself(const td_tensor *t) {
    if (td__dim_seems_lt(t->numel, 2)) return false;
    for (int i = 0; i < t->rank; i++)
        if (td__dim_seems_eq(t->stride[i], 0) && td__dim_seems_lt(1, t->size[i]))
            return true;
    return false;
}

/* Strides nest if each one, in ascending order, is larger than the extent of the dims
 * with smaller strides. */
bool td__may_share_places(const td_tensor *t) {
    int64_t  reach = 0;
    uint64_t done = 0;
    for (int n = 0; n < t->rank; n++) {
        int next = 0;
        while (done >> next & 1) next++;
        for (int d = next + 1; d < t->rank; d++)
            if (!(done >> d & 1) && t->stride[d] < t->stride[next]) next = d;
        done |= (uint64_t)1 << next;
        if (t->size[next] == 1) continue;
        if (t->stride[next] <= reach) return t->numel > 1;
        reach += (t->size[next] - 1) * t->stride[next];
    }
    return false;
}

int td__dims_apart(int rank, const int64_t *size, const int64_t *stride,
                   int64_t *kept_size, int64_t *kept_stride, bool *again) {
    int n = 0;
    for (int i = 0; i < rank; i++) {
        again[i] = td__dim_seems_eq(stride[i], 0) && td__dim_seems_lt(1, size[i]);
        if (again[i]) continue;
        kept_size[n] = size[i];
        kept_stride[n++] = stride[i];
    }
    return n;
}

/* Byte offsets of the first and the last element. */
static void byte_range(const td_tensor *t, int64_t *first, int64_t *last) {
    int64_t bytes = td__dtype_bytes[t->dtype], span = 0;
    for (int i = 0; i < t->rank; i++)
        span = td__dim_add(span, td__dim_mul(td__dim_sub(t->size[i], 1), t->stride[i]));
    *first = td__dim_mul(t->offset, bytes);
    *last = td__dim_add(*first, td__dim_mul(span, bytes));
}

static bool same_strides(const td_tensor *a, const td_tensor *b) {
    return a->rank == b->rank && td__dims_seem_eq(a->stride, b->stride, a->rank);
}

/* Computed from offsets alone, so that fake tensors fail at the same writes as
 * real ones. */
td_overlap td__overlap(const td_tensor *a, const td_tensor *b) {
    if (a == b) return TD_OVERLAP_FULL;
    if (a->st != b->st || td__dim_seems_eq(a->numel, 0) ||
        td__dim_seems_eq(b->numel, 0))
        return TD_OVERLAP_NO;
    td_geom ga = td__geom_of(a), gb = td__geom_of(b);
    if (td__geom_seems_eq(&ga, &gb)) return TD_OVERLAP_FULL;
    if (!td__is_packed(a->rank, a->size, a->stride) ||
        !td__is_packed(b->rank, b->size, b->stride))
        return TD_OVERLAP_NO; /* undecided: allowed, as in ATen */
    int64_t a0, a1, b0, b1;
    byte_range(a, &a0, &a1);
    byte_range(b, &b0, &b1);
    a1 = td__dim_add(a1, td__dtype_bytes[a->dtype] - 1);
    b1 = td__dim_add(b1, td__dtype_bytes[b->dtype] - 1);
    if (td__dim_seems_eq(a0, b0) && td__dim_seems_eq(a1, b1))
        return same_strides(a, b) ? TD_OVERLAP_FULL : TD_OVERLAP_PARTIAL;
    return !td__dim_seems_lt(b1, a0) && !td__dim_seems_lt(a1, b0) ? TD_OVERLAP_PARTIAL
                                                                  : TD_OVERLAP_NO;
}

/* Walks the old dims from the right in runs of contiguous dims and splits each
 * run into new dims; a new dim that would span two runs needs a copy. */
bool td__view_strides(int rank, const int64_t *size, const int64_t *stride,
                      int new_rank, const int64_t *new_size, int64_t *new_stride) {
    if (td__dim_seems_eq(td__numel(rank, size), 0)) {
        if (rank == new_rank && td__dims_seem_eq(size, new_size, rank))
            memcpy(new_stride, stride, sizeof(int64_t) * (size_t)rank);
        else td__strides_dense(new_rank, new_size, new_stride);
        return true;
    }
    int     view_d = new_rank - 1;
    int64_t step = rank > 0 ? stride[rank - 1] : 1, run = 1, cut = 1;
    for (int d = rank - 1; d >= 0; d--) {
        run = td__dim_mul(run, size[d]);
        bool ends =
            d == 0 || (!td__dim_seems_eq(size[d - 1], 1) &&
                       !td__dim_seems_eq(stride[d - 1], td__dim_mul(run, step)));
        if (!ends) continue;
        while (view_d >= 0 &&
               (td__dim_lt(cut, run) || td__dim_eq(new_size[view_d], 1))) {
            new_stride[view_d] = td__dim_mul(cut, step);
            cut = td__dim_mul(cut, new_size[view_d]);
            view_d--;
        }
        if (!td__dim_eq(cut, run)) return false;
        if (d > 0) {
            step = stride[d - 1];
            run = cut = 1;
        }
    }
    for (; rank == 0 && view_d >= 0; view_d--) new_stride[view_d] = 1;
    return view_d == -1;
}
