/* text/image.h -- pools, convolutions and batch norm of row-major volumes [.., d, h,
 * w]. Each thread computes one element of the result, in the order of the CPU's
 * sums. */

/* Numbers of a pool in size[]: td_planes, from d on. Dim i is 0 to 2. */
TD_M int64_t td_k_in(const td_nest_run *r, int i) { return r->size[i]; }
TD_M int64_t td_k_out(const td_nest_run *r, int i) { return r->size[3 + i]; }
TD_M int64_t td_k_window(const td_nest_run *r, int i) { return r->size[6 + i]; }
TD_M int64_t td_k_step(const td_nest_run *r, int i) { return r->size[9 + i]; }
TD_M int64_t td_k_pad(const td_nest_run *r, int i) { return r->size[12 + i]; }
TD_M int64_t td_k_gap(const td_nest_run *r, int i) { return r->size[15 + i]; }

/* Elements [from, to) of a window, and how many it has with its padding. */
typedef struct td_k_span {
    int64_t from, to, all;
} td_k_span;

/* Window o along dim i of a maximum. */
TD_M td_k_span td_k_taps(const td_nest_run *r, int i, int64_t o) {
    const int64_t gap = td_k_gap(r, i), size = td_k_in(r, i), k = td_k_window(r, i);
    int64_t       from = o * td_k_step(r, i) - td_k_pad(r, i);
    const int64_t to = from + (k - 1) * gap + 1;
    if (from < 0) from += (gap - 1 - from) / gap * gap;
    const td_k_span s = {from, to < size ? to : size, k};
    return s;
}

/* Window o along dim i of an average, or, WAY 1, of an adaptive one. */
TD_M td_k_span td_k_part(const td_nest_run *r, int i, int64_t o) {
    const int64_t size = td_k_in(r, i), n = td_k_out(r, i), pad = td_k_pad(r, i);
#if WAY == 1
    const int64_t   from = o / n * size + o % n * size / n;
    const int64_t   to = 1 + ((o + 1) * size - 1) / n;
    const td_k_span s = {from, to, to - from};
#else
    const int64_t   from = o * td_k_step(r, i) - pad, k = from + td_k_window(r, i);
    const int64_t   to = k < size + pad ? k : size + pad;
    const td_k_span s = {from > 0 ? from : 0, to < size ? to : size, to - from};
#endif
    return s;
}

/* The windows along dim i that may have element at: [from, to). */
TD_M td_k_span td_k_windows(const td_nest_run *r, int i, int64_t at) {
    const int64_t n = td_k_out(r, i), size = td_k_in(r, i);
#if WAY == 1
    const td_k_span s = {at * n / size, ((at + 1) * n - 1) / size + 1, 0};
#else
    const int64_t   step = td_k_step(r, i), last = at + td_k_pad(r, i);
    const int64_t   first = last - (td_k_window(r, i) - 1) * td_k_gap(r, i);
    const int64_t   to = last / step + 1;
    const td_k_span s = {first > 0 ? (first + step - 1) / step : 0, to < n ? to : n, 0};
#endif
    return s;
}

/* Pointers: x, out, indices. given: elements of out; least. */
TD_KERNEL td_k_max_pool(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t d = td_k_in(r, 0), h = td_k_in(r, 1), w = td_k_in(r, 2);
    for (int64_t at = TD_FIRST; at < r->given[0]; at += TD_STEP) {
        int64_t         n = at;
        const td_k_span u = td_k_taps(r, 2, td_k_split(&n, td_k_out(r, 2)));
        const td_k_span v = td_k_taps(r, 1, td_k_split(&n, td_k_out(r, 1)));
        const td_k_span b = td_k_taps(r, 0, td_k_split(&n, td_k_out(r, 0)));
        const T0       *x = P0 + n * d * h * w;
        A0              most = LEAST(r->given[1]);
        int64_t         best = (b.from * h + v.from) * w + u.from;
        for (int64_t z = b.from; z < b.to; z += td_k_gap(r, 0))
            for (int64_t i = v.from; i < v.to; i += td_k_gap(r, 1))
                for (int64_t k = u.from; k < u.to; k += td_k_gap(r, 2)) {
                    const A0 e = GET0(x[(z * h + i) * w + k]);
                    if (!(e > most) && e == e) continue;
                    most = e;
                    best = (z * h + i) * w + k;
                }
        P1[at] = PUT1(most);
        P2[at] = best;
    }
}

/* Dilation can step over a small input: then a window has no element, and its index may
 * lie outside. */
TD_M bool td_k_has_taps(const td_nest_run *r, int64_t o, int64_t p, int64_t q) {
    const td_k_span b = td_k_taps(r, 0, o), v = td_k_taps(r, 1, p),
                    u = td_k_taps(r, 2, q);
    return b.from < b.to && v.from < v.to && u.from < u.to;
}

/* Pointers: g, indices, out. given: elements of out, op. */
TD_KERNEL td_k_max_pool_grad(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t d = td_k_in(r, 0), h = td_k_in(r, 1), w = td_k_in(r, 2);
    const int64_t od = td_k_out(r, 0), oh = td_k_out(r, 1), ow = td_k_out(r, 2);
    for (int64_t at = TD_FIRST; at < r->given[0]; at += TD_STEP) {
        int64_t         n = at;
        const int64_t   k = td_k_split(&n, w), i = td_k_split(&n, h);
        const int64_t   z = td_k_split(&n, d), own = (z * h + i) * w + k;
        const td_k_span b = td_k_windows(r, 0, z), v = td_k_windows(r, 1, i);
        const td_k_span u = td_k_windows(r, 2, k);
        A0              sum = 0;
        for (int64_t o = b.from; o < b.to; o++)
            for (int64_t p = v.from; p < v.to; p++)
                for (int64_t q = u.from; q < u.to; q++) {
                    const int64_t to = ((n * od + o) * oh + p) * ow + q;
                    const int64_t from = P1[to];
                    if ((from < 0 || from >= d * h * w) && td_k_has_taps(r, o, p, q))
                        td_k_bad(r->ptr[7], r->given[1], from);
                    if (from == own) sum += GET0(P0[to]);
                }
        P2[at] = PUT2(sum);
    }
}

/* What the average of a window divides by. given[1]: counts padding, [2]: the
 * override. */
TD_M int64_t td_k_divisor(const td_nest_run *r, td_k_span b, td_k_span v, td_k_span u) {
    if (r->given[2]) return r->given[2];
    if (r->given[1]) return b.all * v.all * u.all;
    return (b.to - b.from) * (v.to - v.from) * (u.to - u.from);
}

/* Pointers: x, out. given: elements of out, and those of td_k_divisor. */
TD_KERNEL td_k_avg_pool(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t d = td_k_in(r, 0), h = td_k_in(r, 1), w = td_k_in(r, 2);
    for (int64_t at = TD_FIRST; at < r->given[0]; at += TD_STEP) {
        int64_t         n = at;
        const td_k_span u = td_k_part(r, 2, td_k_split(&n, td_k_out(r, 2)));
        const td_k_span v = td_k_part(r, 1, td_k_split(&n, td_k_out(r, 1)));
        const td_k_span b = td_k_part(r, 0, td_k_split(&n, td_k_out(r, 0)));
        const T0       *x = P0 + n * d * h * w;
        A0              sum = 0;
        for (int64_t z = b.from; z < b.to; z++)
            for (int64_t i = v.from; i < v.to; i++)
                for (int64_t k = u.from; k < u.to; k++)
                    sum += GET0(x[(z * h + i) * w + k]);
        P1[at] = PUT1(sum / (A0)td_k_divisor(r, b, v, u));
    }
}

/* Pointers: g, out. given: as td_k_avg_pool. */
TD_KERNEL td_k_avg_pool_grad(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t d = td_k_in(r, 0), h = td_k_in(r, 1), w = td_k_in(r, 2);
    const int64_t od = td_k_out(r, 0), oh = td_k_out(r, 1), ow = td_k_out(r, 2);
    for (int64_t at = TD_FIRST; at < r->given[0]; at += TD_STEP) {
        int64_t         n = at;
        const int64_t   k = td_k_split(&n, w), i = td_k_split(&n, h);
        const int64_t   z = td_k_split(&n, d);
        const td_k_span bs = td_k_windows(r, 0, z), vs = td_k_windows(r, 1, i);
        const td_k_span us = td_k_windows(r, 2, k);
        A0              sum = 0;
        for (int64_t o = bs.from; o < bs.to; o++)
            for (int64_t p = vs.from; p < vs.to; p++)
                for (int64_t q = us.from; q < us.to; q++) {
                    const td_k_span b = td_k_part(r, 0, o), v = td_k_part(r, 1, p);
                    const td_k_span u = td_k_part(r, 2, q);
                    if (z < b.from || z >= b.to || i < v.from || i >= v.to ||
                        k < u.from || k >= u.to)
                        continue;
                    const A0 g = GET0(P0[((n * od + o) * oh + p) * ow + q]);
                    sum += g / (A0)td_k_divisor(r, b, v, u);
                }
        P1[at] = PUT1(sum);
    }
}

/* A convolution without a library. size: n, c, o, groups, then by threes: input d h
 * w, output, kernel, stride, padding, dilation. Pointers: x, weight, y, bias or
 * NULL; WAY 0 makes y, 1 x, 2 the weight; the bias is added in WAY 0 and 1. given:
 * elements made. */
TD_M int64_t td_k_conv(const td_nest_run *r, int what, int i) {
    return r->size[4 + 3 * what + i];
}

/* The input place of tap k for output place o along dim i; -1: padding. */
TD_M int64_t td_k_conv_in(const td_nest_run *r, int i, int64_t o, int64_t k) {
    const int64_t at =
        o * td_k_conv(r, 3, i) - td_k_conv(r, 4, i) + k * td_k_conv(r, 5, i);
    return at < td_k_conv(r, 0, i) ? at : -1;
}

/* The output place whose tap k is input place at; -1: none. */
TD_M int64_t td_k_conv_out(const td_nest_run *r, int i, int64_t at, int64_t k) {
    const int64_t o = at + td_k_conv(r, 4, i) - k * td_k_conv(r, 5, i);
    const int64_t step = td_k_conv(r, 3, i);
    return o >= 0 && o % step == 0 && o / step < td_k_conv(r, 1, i) ? o / step : -1;
}

TD_M int64_t td_k_volume(const td_nest_run *r, int what, int64_t n, int64_t d,
                         int64_t h, int64_t w) {
    return ((n * td_k_conv(r, what, 0) + d) * td_k_conv(r, what, 1) + h) *
               td_k_conv(r, what, 2) +
           w;
}

TD_KERNEL td_k_convolution(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t N = r->size[0], C = r->size[1], O = r->size[2], G = r->size[3];
    const int64_t cs = C / G, os = O / G;
    const int64_t kd = td_k_conv(r, 2, 0), kh = td_k_conv(r, 2, 1),
                  kw = td_k_conv(r, 2, 2);
    const int64_t od = td_k_conv(r, 1, 0), oh = td_k_conv(r, 1, 1),
                  ow = td_k_conv(r, 1, 2);
    for (int64_t at = TD_FIRST; at < r->given[0]; at += TD_STEP) {
        int64_t n = at;
        A0      sum = 0;
        (void)N, (void)od, (void)oh, (void)ow;
#if WAY == 0
        const int64_t q = td_k_split(&n, ow), p = td_k_split(&n, oh);
        const int64_t z = td_k_split(&n, od), o = td_k_split(&n, O);
        for (int64_t c = 0; c < cs; c++)
            for (int64_t k = 0; k < kd * kh * kw; k++) {
                int64_t       a = k;
                const int64_t w = td_k_conv_in(r, 2, q, td_k_split(&a, kw));
                const int64_t h = td_k_conv_in(r, 1, p, td_k_split(&a, kh));
                const int64_t d = td_k_conv_in(r, 0, z, a);
                if (d < 0 || h < 0 || w < 0) continue;
                sum += GET0(P0[td_k_volume(r, 0, n * C + o / os * cs + c, d, h, w)]) *
                       GET1(P1[(o * cs + c) * kd * kh * kw + k]);
            }
        if (r->ptr[3]) sum += GET3(P3[o]);
        P2[at] = PUT2(sum);
#elif WAY == 1
        const int64_t w = td_k_split(&n, td_k_conv(r, 0, 2));
        const int64_t h = td_k_split(&n, td_k_conv(r, 0, 1));
        const int64_t d = td_k_split(&n, td_k_conv(r, 0, 0)), c = td_k_split(&n, C);
        for (int64_t i = 0; i < os; i++)
            for (int64_t k = 0; k < kd * kh * kw; k++) {
                int64_t       a = k;
                const int64_t o = c / cs * os + i;
                const int64_t q = td_k_conv_out(r, 2, w, td_k_split(&a, kw));
                const int64_t p = td_k_conv_out(r, 1, h, td_k_split(&a, kh));
                const int64_t z = td_k_conv_out(r, 0, d, a);
                if (z < 0 || p < 0 || q < 0) continue;
                sum += GET2(P2[td_k_volume(r, 1, n * O + o, z, p, q)]) *
                       GET1(P1[(o * cs + c % cs) * kd * kh * kw + k]);
            }
        if (r->ptr[3]) sum += GET3(P3[c]);
        P0[at] = PUT0(sum);
#else
        const int64_t x = td_k_split(&n, kw), y = td_k_split(&n, kh);
        const int64_t v = td_k_split(&n, kd), c = td_k_split(&n, cs), o = n;
        for (int64_t b = 0; b < N; b++)
            for (int64_t k = 0; k < od * oh * ow; k++) {
                int64_t       a = k;
                const int64_t w = td_k_conv_in(r, 2, td_k_split(&a, ow), x);
                const int64_t h = td_k_conv_in(r, 1, td_k_split(&a, oh), y);
                const int64_t d = td_k_conv_in(r, 0, a, v);
                if (d < 0 || h < 0 || w < 0) continue;
                sum += GET0(P0[td_k_volume(r, 0, b * C + o / os * cs + c, d, h, w)]) *
                       GET2(P2[(b * O + o) * od * oh * ow + k]);
            }
        P1[at] = PUT1(sum);
#endif
    }
}

/* Adds one number of a channel to each element of [n, c, s]. Pointers: y, bias. given:
 * elements, c, s. */
TD_KERNEL td_k_add_bias(TD_RUN(td_nest_run)) {
    TD_OPEN
    for (int64_t at = TD_FIRST; at < r->given[0]; at += TD_STEP) {
        int64_t n = at;
        td_k_split(&n, r->given[2]);
        const int64_t c = td_k_split(&n, r->given[1]);
        P0[at] = PUT0(GET0(P0[at]) + GET1(P1[c]));
    }
}

/* Statistics of the channels of [n, c, s], and the running ones. Pointers: x, mean,
 * rstd, running mean and variance or NULL. given: n, c, s, eps, momentum. */
TD_KERNEL td_k_batch_stats(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t C = r->given[1], S = r->given[2], count = r->given[0] * S;
    for (int64_t c = TD_ROW; c < C; c += TD_ROWS) {
        const A0 near = GET0(P0[c * S]);
        A0       sum = 0, squares = 0;
        TD_UNROLL
        for (int64_t i = TD_LANE; i < count; i += TD_LANES) {
            int64_t       n = i;
            const int64_t s = td_k_split(&n, S);
            sum += GET0(P0[(n * C + c) * S + s]) - near;
        }
        TD_TOGETHER(A0, sum, (a + b));
        const A0 mean = near + sum / (A0)count;
        TD_UNROLL
        for (int64_t i = TD_LANE; i < count; i += TD_LANES) {
            int64_t       n = i;
            const int64_t s = td_k_split(&n, S);
            const A0      e = GET0(P0[(n * C + c) * S + s]) - mean;
            squares += e * e;
        }
        TD_TOGETHER(A0, squares, (a + b));
        if (TD_LANE == 0) {
            const double m = td_k_double(r->given[4]), keep = 1 - m;
            const A0     eps = (A0)td_k_double(r->given[3]);
            P1[c] = PUT1(mean);
            P2[c] = PUT2(1 / td_m_sqrt_M0(squares / (A0)count + eps));
            if (r->ptr[3]) P3[c] = PUT3(m * (double)mean + keep * (double)GET3(P3[c]));
            if (r->ptr[4])
                P4[c] = PUT4(m * ((double)squares / ((double)count - 1)) +
                             keep * (double)GET4(P4[c]));
        }
    }
}

/* (x - mean) rstd w + b. WAY 1: rstd is a variance, and given[3] its eps. Pointers: x,
 * mean, rstd, weight, bias or NULL, out. given: elements, c, s, eps. */
TD_KERNEL td_k_batch_apply(TD_RUN(td_nest_run)) {
    TD_OPEN
    for (int64_t at = TD_FIRST; at < r->given[0]; at += TD_STEP) {
        int64_t n = at;
        td_k_split(&n, r->given[2]);
        const int64_t c = td_k_split(&n, r->given[1]);
        A0            k = GET2(P2[c]);
        if (WAY == 1) k = 1 / td_m_sqrt_M0(k + (A0)td_k_double(r->given[3]));
        if (r->ptr[3]) k *= GET3(P3[c]);
        A0 y = (GET0(P0[at]) - GET1(P1[c])) * k;
        if (r->ptr[4]) y += GET4(P4[c]);
        P5[at] = PUT5(y);
    }
}

/* Sums of g and g h of the channels, h = (x - mean) rstd. Pointers: g, x, mean,
 * rstd, sums [2][c] of A0. given: n, c, s. */
TD_KERNEL td_k_batch_sums(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t C = r->given[1], S = r->given[2], count = r->given[0] * S;
    for (int64_t c = TD_ROW; c < C; c += TD_ROWS) {
        const A0 mean = GET2(P2[c]), rstd = GET3(P3[c]);
        A0       s0 = 0, s1 = 0;
        TD_UNROLL
        for (int64_t i = TD_LANE; i < count; i += TD_LANES) {
            int64_t       n = i;
            const int64_t s = td_k_split(&n, S), k = (n * C + c) * S + s;
            const A0      g = GET0(P0[k]);
            s0 += g;
            s1 += g * ((GET1(P1[k]) - mean) * rstd);
        }
        TD_TOGETHER(A0, s0, (a + b));
        TD_TOGETHER(A0, s1, (a + b));
        if (TD_LANE == 0) {
            P4[c] = s0;
            P4[C + c] = s1;
        }
    }
}

/* dx = w rstd (g - s0 / m - h s1 / m). Pointers: g, x, mean, rstd, sums, dx, weight or
 * NULL. given: elements, c, s, m. */
TD_KERNEL td_k_batch_grad(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t C = r->given[1];
    for (int64_t at = TD_FIRST; at < r->given[0]; at += TD_STEP) {
        int64_t n = at;
        td_k_split(&n, r->given[2]);
        const int64_t c = td_k_split(&n, C);
        const A0      rstd = GET3(P3[c]), m = (A0)r->given[3];
        const A0      h = (GET1(P1[at]) - GET2(P2[c])) * rstd;
        const A0      w = r->ptr[6] ? GET6(P6[c]) : 1;
        P5[at] = PUT5(w * rstd * (GET0(P0[at]) - P4[c] / m - h * (P4[C + c] / m)));
    }
}
