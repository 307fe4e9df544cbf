/* resample_loops.h -- nearest resampling of one plane of element type T; included by
 * kern_resample.c once per T and NAME. No include guard: a template. */

static void NAME(nearest_forward)(const td_planes *p, const void *from, void *to,
                                  int64_t *index) {
    T *y = to;
    (void)index;
    for (int64_t oh = 0; oh < p->oh; oh++) {
        const T *x = (const T *)from + p->row[oh] * p->w;
        for (int64_t ow = 0; ow < p->ow; ow++) *y++ = x[p->col[ow]];
    }
}

static void NAME(nearest_backward)(const td_planes *p, const void *from, void *to,
                                   int64_t *index) {
    const T *g = from;
    (void)index;
    memset(to, 0, sizeof(T) * (size_t)(p->h * p->w));
    for (int64_t oh = 0; oh < p->oh; oh++) {
        T *x = (T *)to + p->row[oh] * p->w;
        for (int64_t ow = 0; ow < p->ow; ow++) x[p->col[ow]] += *g++;
    }
}

#undef T
#undef NAME
