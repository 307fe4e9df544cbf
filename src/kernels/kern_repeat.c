/* kern_repeat.c -- index lists: repeated indices and combinations. */
#include "kernels/dense_as.h"
#include "rules/index_args.h"
#include "rules/shape_rules.h"

/* The sum of repeats, all of which must not be negative; -1 after td__op_fail. */
static int64_t sum_repeats(td_opcall *c, const int64_t *repeats, int64_t count) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t n = repeats[i];
        if (n < 0) {
            td__op_fail(c, TD_E_ARG,
                        "repeats must not be negative, and entry %lld is "
                        "%lld",
                        (long long)i, (long long)n);
            return -1;
        }
        sum = td__dim_add(sum, n);
    }
    return sum;
}

/* Makes result 0 from dense repeats. */
static bool repeat_into(td_opcall *c, const int64_t *repeats, int64_t count) {
    td_dtype dt = (td_dtype)td__in(c, 0)->dtype;
    int64_t  n = sum_repeats(c, repeats, count), at = 0;
    td_meta  m;
    if (n < 0) return false;
    if (!td__in_none(c, 1) && td__in_int(c, 1) != n)
        return td__op_fail(c, TD_E_ARG,
                           "output_size is %lld, and repeats add up to %lld",
                           (long long)td__in_int(c, 1), (long long)n);
    td__meta_dense(&m, dt, 1, &n);
    if (!(c->out[0] = td__tensor_make(c->cx, &m, false))) return false;
    int64_t *wide = (int64_t *)(void *)td__ptr(c->out[0]);
    int32_t *narrow = (int32_t *)(void *)td__ptr(c->out[0]);
    for (int64_t i = 0; i < count; i++)
        for (int64_t end = at + repeats[i]; at < end; at++)
            if (dt == TD_I64) wide[at] = i;
            else narrow[at] = (int32_t)i;
    return true;
}

/* in: repeats, output_size or none. The size depends on values, so this kernel checks
 * what a shape rule would and makes the result. */
bool td__kern_repeat_interleave(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *dense;
    if (!td__repeats_check(c) || !(dense = td__dense_as(t, TD_I64))) return false;
    bool ok = repeat_into(c, (const int64_t *)(const void *)td__ptr(dense), t->numel);
    td__dense_drop(dense, t);
    return ok;
}

/* in: n, r, with_replacement. Each row is the one before it with the last index that
 * can grow one greater and those after it as small as they may be. */
bool td__kern_combinations(td_opcall *c) {
    td_tensor *t = c->out[0];
    int64_t    n = td__in_int(c, 0), r = td__in_int(c, 1), rows = t->size[0];
    int64_t   *to = (int64_t *)(void *)td__ptr(t), step = !td__in_bool(c, 2);
    for (int64_t k = 0; k < r && rows > 0; k++) to[k] = k * step;
    for (int64_t row = 1; row < rows; row++) {
        int64_t *now = to + row * r, *last = now - r, k = r - 1;
        while (last[k] == n - 1 - (r - 1 - k) * step) k--;
        for (int64_t i = 0; i < k; i++) now[i] = last[i];
        now[k] = last[k] + 1;
        for (int64_t i = k + 1; i < r; i++) now[i] = now[i - 1] + step;
    }
    return true;
}
