/* index_loops.h -- lines of one element type; included by index_walk.c once per T and
 * NAME, with MOVE for moves, ALPHA and its type FACTOR for sums, ORDERED for products,
 * maxima and minima. No include guard: a template. */

/* Does `what` for each element of line l: `at` is its place in data, `by` in other. The
 * usual line is along a dim of dense data with a row of int64_t as its index. */
#define EACH_PICKED(what)                                                       \
    if (l->wide && l->index_step == 1 && l->other_step == 1 && l->along == 1 && \
        l->data_step == 0) {                                                    \
        const int64_t *index = (const int64_t *)(const void *)l->index;         \
        for (int64_t by = 0, n = l->n, limit = l->limit; by < n; by++) {        \
            int64_t at = index[by] + (index[by] < 0 ? limit : 0);               \
            what;                                                               \
        }                                                                       \
    } else                                                                      \
        for (int64_t j = 0, n = l->n; j < n; j++) {                             \
            int64_t at = j * l->data_step + pick(l, j) * l->along;              \
            int64_t by = j * l->other_step;                                     \
            what;                                                               \
        }

#ifdef MOVE
/* other[j] = data[j + index[j] * along]; a line with one index for all is a copy. */
static void NAME(gather)(const line *l) {
    const T *from = (const T *)l->data;
    T       *to = (T *)l->other;
    int64_t  step = l->data_step, to_step = l->other_step;
    if (l->index_step == 0) {
        from += pick(l, 0) * l->along;
        if (step == 1 && to_step == 1) memcpy(to, from, sizeof(T) * (size_t)l->n);
        else
            for (int64_t j = 0; j < l->n; j++) to[j * to_step] = from[j * step];
        return;
    }
    EACH_PICKED(to[by] = from[at])
}

/* The same by offsets in elements, made before. */
static void NAME(take)(const line *l, const int64_t *offset) {
    const T *from = (const T *)l->data;
    T       *to = (T *)l->other;
    if (l->other_step == 1)
        for (int64_t j = 0; j < l->n; j++) to[j] = from[offset[j]];
    else
        for (int64_t j = 0; j < l->n; j++) to[j * l->other_step] = from[offset[j]];
}

/* data[j + index[j] * along] = other[j], in order: the last of equal indices wins. */
static void NAME(put)(const line *l) {
    const T *from = (const T *)l->other;
    T       *to = (T *)l->data;
    if (l->index_step == 0 && l->data_step == 1 && l->other_step == 1) {
        memmove(to + pick(l, 0) * l->along, from, sizeof(T) * (size_t)l->n);
        return;
    }
    EACH_PICKED(to[at] = from[by])
}
#endif

#ifdef ALPHA
/* data[j + index[j] * along] += alpha * other[j], in order. */
static void NAME(sum)(const line *l) {
    const T *from = (const T *)l->other;
    T       *to = (T *)l->data;
    FACTOR   alpha = (FACTOR)ALPHA(l);
    EACH_PICKED(to[at] = to[at] + alpha * from[by])
}
#endif

#ifdef ORDERED
/* The same with products, maxima and minima, as reduce_f has them. */
static void NAME(mul)(const line *l) {
    const T *from = (const T *)l->other;
    T       *to = (T *)l->data;
    EACH_PICKED(to[at] = to[at] * from[by])
}
static void NAME(max)(const line *l) {
    const T *from = (const T *)l->other;
    T       *to = (T *)l->data;
    EACH_PICKED(T a = to[at]; T b = from[by]; to[at] = (a != a) | (a >= b) ? a : b)
}
static void NAME(min)(const line *l) {
    const T *from = (const T *)l->other;
    T       *to = (T *)l->data;
    EACH_PICKED(T a = to[at]; T b = from[by]; to[at] = (a != a) | (a <= b) ? a : b)
}
#endif

#undef EACH_PICKED
#undef T
#undef NAME
#undef MOVE
#undef ALPHA
#undef ORDERED
#undef FACTOR
