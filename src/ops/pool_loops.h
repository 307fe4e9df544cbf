/* pool_loops.h -- pooling of one plane of element type T; included by kern_pool.c
 * once per T, NAME, LEAST (the value below all others) and IS_NAN. No include guard:
 * a template. */

/* The place and value of the maximum of one window. Where all are -inf it is the
 * first, of several NaN the last. */
static int64_t NAME(maximum)(const td_planes *p, const T *x, const span *v,
                             const span *u, T *value) {
    int64_t best = v->from * p->w + u->from;
    T       most = LEAST;
    for (int64_t i = v->from; i < v->to; i += p->dh)
        for (int64_t k = u->from; k < u->to; k += p->dw) {
            T e = x[i * p->w + k];
            if (e > most || IS_NAN(e)) most = e, best = i * p->w + k;
        }
    *value = most;
    return best;
}

static void NAME(max_forward)(const td_planes *p, const void *from, void *to,
                              int64_t *index) {
    const T *x = from;
    T       *y = to;
    for (int64_t oh = 0; oh < p->oh; oh++) {
        span v = taps(oh, p->sh, p->ph, p->kh, p->dh, p->h);
        for (int64_t ow = 0; ow < p->ow; ow++) {
            span u = taps(ow, p->sw, p->pw, p->kw, p->dw, p->w);
            *index++ = NAME(maximum)(p, x, &v, &u, y++);
        }
    }
}

static void NAME(max_backward)(const td_planes *p, const void *from, void *to,
                               int64_t *index) {
    const T *g = from;
    T       *x = to;
    memset(x, 0, sizeof(T) * (size_t)(p->h * p->w));
    for (int64_t k = 0; k < p->oh * p->ow; k++)
        if (index[k] >= 0 && index[k] < p->h * p->w) x[index[k]] += g[k];
}

static void NAME(avg_forward)(const td_planes *p, const void *from, void *to,
                              int64_t *index) {
    const T *x = from;
    T       *y = to;
    (void)index;
    for (int64_t oh = 0; oh < p->oh; oh++) {
        span v = window(oh, p->sh, p->ph, p->kh, p->h);
        for (int64_t ow = 0; ow < p->ow; ow++) {
            span u = window(ow, p->sw, p->pw, p->kw, p->w);
            T    sum = 0;
            for (int64_t i = v.from; i < v.to; i++)
                for (int64_t k = u.from; k < u.to; k++) sum += x[i * p->w + k];
            *y++ = sum / (T)divisor(p, &v, &u);
        }
    }
}

static void NAME(avg_backward)(const td_planes *p, const void *from, void *to,
                               int64_t *index) {
    const T *g = from;
    T       *x = to;
    (void)index;
    memset(x, 0, sizeof(T) * (size_t)(p->h * p->w));
    for (int64_t oh = 0; oh < p->oh; oh++) {
        span v = window(oh, p->sh, p->ph, p->kh, p->h);
        for (int64_t ow = 0; ow < p->ow; ow++) {
            span u = window(ow, p->sw, p->pw, p->kw, p->w);
            T    part = *g++ / (T)divisor(p, &v, &u);
            for (int64_t i = v.from; i < v.to; i++)
                for (int64_t k = u.from; k < u.to; k++) x[i * p->w + k] += part;
        }
    }
}

static void NAME(adaptive_forward)(const td_planes *p, const void *from, void *to,
                                   int64_t *index) {
    const T *x = from;
    T       *y = to;
    (void)index;
    for (int64_t oh = 0; oh < p->oh; oh++) {
        span v = share(oh, p->h, p->oh);
        for (int64_t ow = 0; ow < p->ow; ow++) {
            span u = share(ow, p->w, p->ow);
            T    sum = 0;
            for (int64_t i = v.from; i < v.to; i++)
                for (int64_t k = u.from; k < u.to; k++) sum += x[i * p->w + k];
            *y++ = sum / (T)v.all / (T)u.all;
        }
    }
}

static void NAME(adaptive_backward)(const td_planes *p, const void *from, void *to,
                                    int64_t *index) {
    const T *g = from;
    T       *x = to;
    (void)index;
    memset(x, 0, sizeof(T) * (size_t)(p->h * p->w));
    for (int64_t oh = 0; oh < p->oh; oh++) {
        span v = share(oh, p->h, p->oh);
        for (int64_t ow = 0; ow < p->ow; ow++) {
            span u = share(ow, p->w, p->ow);
            T    part = *g++ / (T)v.all / (T)u.all;
            for (int64_t i = v.from; i < v.to; i++)
                for (int64_t k = u.from; k < u.to; k++) x[i * p->w + k] += part;
        }
    }
}

#undef T
#undef NAME
#undef LEAST
#undef IS_NAN
