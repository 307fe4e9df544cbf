/* text/draw.h -- draws: a thread makes what a Philox block gives (kernels/draw.h). */

/* One value from words w[..] of a block, for element e of the block. WAY: the kinds of
 * td_device_draw. */
TD_M DRAWN td_k_drawn(const td_nest_run *r, const uint32_t *w, int e, double p) {
    const double a = td_k_double(r->given[3]), b = td_k_double(r->given[4]);
#if WAY == 0 && WIDE
    return td_uniform_f64(w[2 * e], w[2 * e + 1]) * b + a;
#elif WAY == 0
    return UNIFORM(w[e]) * (float)b + (float)a;
#elif WAY == 1 && WIDE
    double two[2];
    td_normal_f64(w, two);
    return two[e] * b + a;
#elif WAY == 1
    float two[2];
    td_normal_f32(w[e & 2], w[(e & 2) + 1], two);
    return two[e & 1] * (float)b + (float)a;
#elif WAY == 2
    return w[e] < (uint64_t)r->given[5];
#elif WAY == 3
    return td_draw_exponential(w[2 * e], w[2 * e + 1], a);
#elif WAY == 4
    return (int64_t)(td_draw_below(w[2 * e], w[2 * e + 1], (uint64_t)r->given[6]) +
                     (uint64_t)r->given[5]);
#else
    return td_draw_bernoulli(w[e], p);
#endif
}

/* Pointer 0: the result; 1: probabilities of coins, or the mask of dropout; 2: what
 * dropout drops from. given: elements, seed, offset, two doubles, two integers. */
TD_KERNEL td_k_draw(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t count = r->given[0], blocks = (count + PER - 1) / PER;
    for (int64_t block = TD_FIRST; block < blocks; block += TD_STEP) {
        uint32_t w[4];
        td_philox((uint64_t)r->given[1], (uint64_t)r->given[2] + (uint64_t)block, w);
        for (int e = 0; e < PER && block * PER + e < count; e++) {
            int64_t off[3] = {0, 0, 0};
            double  p = 0;
            td_k_walk(r->size, block * PER + e, 3, off);
#if WAY == 5
            p = (double)GET1(P1[off[1]]);
            if (!(p >= 0 && p <= 1)) td_k_bad(r->ptr[7], r->given[7], block * PER + e);
#endif
            const DRAWN x = td_k_drawn(r, w, e, p);
#if WAY == 2 && DROPS
            const A0 scale = (A0)td_k_double(r->given[4]);
            P1[off[1]] = (uint8_t)x;
            P0[off[0]] = PUT0(GET2(P2[off[2]]) * (A0)x * scale);
#else
            P0[off[0]] = PUT0(x);
#endif
        }
    }
}

/* Choices with weights; a row to a block. Pointer 0: weights, 1: choices, 2: room for n
 * doubles a row. given: rows, n, choices, seed, offset, with replacement, op. */
typedef struct td_k_choice {
    double  w;
    int64_t at;
} td_k_choice;

TD_M td_k_choice td_k_heavier(td_k_choice a, td_k_choice b) {
    const bool second = b.w > a.w || (b.w == a.w && b.at < a.at);
    return second ? b : a;
}

TD_M void td_k_choice_words(const td_nest_run *r, int64_t i, uint32_t *w) {
    uint32_t four[4];
    td_philox((uint64_t)r->given[3], (uint64_t)(r->given[4] + i / 2), four);
    w[0] = four[i % 2 * 2];
    w[1] = four[i % 2 * 2 + 1];
}

/* The first place whose running sum is over a draw. */
TD_M void td_k_choose_again(const td_nest_run *r, int64_t row, const double *sum) {
    const int64_t n = r->given[1], k = r->given[2];
    for (int64_t s = TD_LANE; s < k; s += TD_LANES) {
        uint32_t u[2];
        td_k_choice_words(r, row * k + s, u);
        const double x = td_uniform_f64(u[0], u[1]) * sum[n - 1];
        int64_t      lo = 0, hi = n - 1;
        while (lo < hi) {
            const int64_t mid = lo + (hi - lo) / 2;
            if (sum[mid] > x) hi = mid;
            else lo = mid + 1;
        }
        ((int64_t *)(void *)r->ptr[1])[row * k + s] = lo;
    }
}

TD_KERNEL td_k_choose(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t rows = r->given[0], n = r->given[1], k = r->given[2];
    for (int64_t row = TD_ROW; row < rows; row += TD_ROWS) {
        double *w = (double *)(void *)r->ptr[2] + row * n, sum = 0;
        int64_t bad = 0;
        for (int64_t i = TD_LANE; i < n; i += TD_LANES) {
            const double x = (double)GET0(P0[row * n + i]);
            uint32_t     u[2];
            bad |= !(x >= 0) || x == __builtin_inf();
            sum += x;
            w[i] = x;
            if (r->given[5]) continue;
            td_k_choice_words(r, row * n + i, u);
            w[i] = x / (td_draw_exponential(u[0], u[1], 1) + 0x1p-1000);
        }
        TD_TOGETHER(double, sum, (a + b));
        TD_TOGETHER(int64_t, bad, (a | b));
        if (bad || !(sum > 0)) td_k_bad(r->ptr[7], r->given[6], row);
        if (r->given[5]) {
            if (TD_LANE == 0)
                for (int64_t i = 1; i < n; i++) w[i] += w[i - 1];
            TD_SYNC;
            td_k_choose_again(r, row, w);
            continue;
        }
        for (int64_t s = 0; s < k; s++) {
            td_k_choice best = {-2, 0};
            for (int64_t i = TD_LANE; i < n; i += TD_LANES) {
                const td_k_choice x = {w[i], i};
                best = td_k_heavier(best, x);
            }
            TD_TOGETHER(td_k_choice, best, (td_k_heavier(a, b)));
            if (TD_LANE == 0) {
                P1[row * k + s] = best.at;
                w[best.at] = -1;
            }
            TD_SYNC;
        }
    }
}
