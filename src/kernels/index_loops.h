/* index_loops.h -- lines of one element type; included by index_walk.c once per T and
 * NAME, with MOVE for moves, ALPHA and its type FACTOR for sums. No include guard: a
 * template. */

#ifdef MOVE
/* other[j] = data[j + index[j] * along]; a line with one index for all is a copy. */
static void NAME(gather)(const line *l) {
    const T *from = (const T *)l->data;
    T       *to = (T *)l->other;
    if (l->index_step == 0) {
        from += pick(l, 0) * l->along;
        if (l->data_step == 1 && l->other_step == 1)
            memcpy(to, from, sizeof(T) * (size_t)l->n);
        else
            for (int64_t j = 0; j < l->n; j++)
                to[j * l->other_step] = from[j * l->data_step];
        return;
    }
    for (int64_t j = 0; j < l->n; j++)
        to[j * l->other_step] = from[j * l->data_step + pick(l, j) * l->along];
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
    for (int64_t j = 0; j < l->n; j++)
        to[j * l->data_step + pick(l, j) * l->along] = from[j * l->other_step];
}
#endif

#ifdef ALPHA
/* data[j + index[j] * along] += alpha * other[j], in order. */
static void NAME(sum)(const line *l) {
    const T *from = (const T *)l->other;
    T       *to = (T *)l->data;
    FACTOR   alpha = (FACTOR)ALPHA(l);
    for (int64_t j = 0; j < l->n; j++) {
        T *at = &to[j * l->data_step + pick(l, j) * l->along];
        *at = *at + alpha * from[j * l->other_step];
    }
}
#endif

#undef T
#undef NAME
#undef MOVE
#undef ALPHA
#undef FACTOR
