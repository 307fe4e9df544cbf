/* text/rows.h -- kernels that give a line of a dim to a block: softmax, norms, losses,
 * where the extreme is. A tensor is [outer, n, inner], row-major. */

/* softmax, log_softmax, their derivatives from the result, softmax with zeros for a
 * line of -inf: WAY 0 to 4. Pointer 0: x or the gradient; 1: the result of the
 * forward; 2: the result. given: lines, n, inner; STEP(i): i * inner. */
TD_KERNEL td_k_softmax(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t lines = r->given[0], n = r->given[1], inner = r->given[2];
    for (int64_t line = TD_ROW; line < lines; line += TD_ROWS) {
        int64_t       outer = line;
        const int64_t first = td_k_split(&outer, inner),
                      base = outer * n * inner + first;
        A0 sum = 0;
#if WAY == 2 || WAY == 3
        TD_UNROLL
        for (int64_t i = TD_LANE; i < n; i += TD_LANES) {
            const A0 g = GET0(P0[base + STEP(i)]);
            sum += WAY == 2 ? g * GET1(P1[base + STEP(i)]) : g;
        }
        TD_TOGETHER(A0, sum, (a + b));
        TD_UNROLL
        for (int64_t i = TD_LANE; i < n; i += TD_LANES) {
            const A0 g = GET0(P0[base + STEP(i)]), y = GET1(P1[base + STEP(i)]);
            P2[base + STEP(i)] =
                PUT2(WAY == 2 ? (g - sum) * y : g - td_m_exp_M0(y) * sum);
        }
#else
        A0 most = -(A0)__builtin_inf();
        TD_UNROLL
        for (int64_t i = TD_LANE; i < n; i += TD_LANES) {
            const A0 a = most, b = GET0(P0[base + STEP(i)]);
            most = (a > b || a != a) ? a : b;
        }
        TD_TOGETHER(A0, most, ((a > b || a != a) ? a : b));
        TD_UNROLL
        for (int64_t i = TD_LANE; i < n; i += TD_LANES)
            sum += td_m_exp_M0(GET0(P0[base + STEP(i)]) - most);
        TD_TOGETHER(A0, sum, (a + b));
        const bool dead = WAY == 4 && most == -(A0)__builtin_inf();
        const A0   scale = 1 / sum, shift = WAY == 1 ? td_m_log_M0(sum) : 0;
        TD_UNROLL
        for (int64_t i = TD_LANE; i < n; i += TD_LANES) {
            const A0 x = GET0(P0[base + STEP(i)]) - most;
            P2[base + STEP(i)] = PUT2(dead       ? 0
                                      : WAY == 1 ? x - shift
                                                 : td_m_exp_M0(x) * scale);
        }
#endif
    }
}

/* Layer norm (WAY 0) and group norm (WAY 1). Pointers: x, weight, bias, out, mean,
 * rstd; weight and bias may be NULL. given: rows, n, eps, groups, channels of a
 * group, elements of a channel. */
TD_KERNEL td_k_norm(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t rows = r->given[0], n = r->given[1];
    for (int64_t row = TD_ROW; row < rows; row += TD_ROWS) {
        const T0 *x = P0 + row * n;
        T3       *to = P3 + row * n;
        const A0 near = GET0(x[0]); /* sums of differences are exact if all are equal */
        A0       sum = 0, squares = 0;
        TD_UNROLL
        for (int64_t i = TD_LANE; i < n; i += TD_LANES) sum += GET0(x[i]) - near;
        TD_TOGETHER(A0, sum, (a + b));
        const A0 mean = near + sum / (A0)n;
        TD_UNROLL
        for (int64_t i = TD_LANE; i < n; i += TD_LANES) {
            const A0 d = GET0(x[i]) - mean;
            squares += d * d;
        }
        TD_TOGETHER(A0, squares, (a + b));
        const A0 rstd =
            1 / td_m_sqrt_M0(squares / (A0)n + (A0)td_k_double(r->given[2]));
        TD_UNROLL
        for (int64_t i = TD_LANE; i < n; i += TD_LANES) {
            int64_t k = i;
            if (WAY == 1) {
                td_k_split(&k, r->given[5]);
                k += row % r->given[3] * r->given[4];
            }
            A0 y = (GET0(x[i]) - mean) * rstd;
            if (r->ptr[1]) y *= GET1(P1[k]);
            if (r->ptr[2]) y += GET2(P2[k]);
            to[i] = PUT3(y);
        }
        if (TD_LANE == 0) {
            P4[row] = PUT4(mean);
            P5[row] = PUT5(rstd);
        }
    }
}

/* dx = rstd (g w - s0 / n - h s1 / n), h = (x - mean) rstd, s0 and s1 the sums of g
 * w and g w h. Pointers: g, x, weight or NULL, mean, rstd, dx. given: rows, n. */
TD_KERNEL td_k_norm_grad(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t rows = r->given[0], n = r->given[1];
    for (int64_t row = TD_ROW; row < rows; row += TD_ROWS) {
        const T0 *g = P0 + row * n;
        const T1 *x = P1 + row * n;
        T5       *to = P5 + row * n;
        const A0  mean = GET3(P3[row]), rstd = GET4(P4[row]);
        A0        s0 = 0, s1 = 0;
        TD_UNROLL
        for (int64_t i = TD_LANE; i < n; i += TD_LANES) {
            A0 gw = GET0(g[i]);
            if (r->ptr[2]) gw *= GET2(P2[i]);
            s0 += gw;
            s1 += gw * ((GET1(x[i]) - mean) * rstd);
        }
        TD_TOGETHER(A0, s0, (a + b));
        TD_TOGETHER(A0, s1, (a + b));
        s0 /= (A0)n;
        s1 /= (A0)n;
        TD_UNROLL
        for (int64_t i = TD_LANE; i < n; i += TD_LANES) {
            A0 gw = GET0(g[i]);
            if (r->ptr[2]) gw *= GET2(P2[i]);
            to[i] = PUT5(rstd * (gw - s0 - (GET1(x[i]) - mean) * rstd * s1));
        }
    }
}

/* Sums over rows for the gradients of weight and bias, by parts: thread (part,
 * column) takes the rows part, part + parts, ... Pointers: g, x, mean, rstd, sums
 * [parts][2][n] of A0. given: rows, n, parts. */
TD_KERNEL td_k_norm_sums(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t rows = r->given[0], n = r->given[1], parts = r->given[2];
    for (int64_t at = TD_FIRST; at < n * parts; at += TD_STEP) {
        int64_t       part = at;
        const int64_t i = td_k_split(&part, n);
        A0            dw = 0, db = 0;
        TD_UNROLL
        for (int64_t row = part; row < rows; row += parts) {
            const A0 g = GET0(P0[row * n + i]);
            dw += g * ((GET1(P1[row * n + i]) - GET2(P2[row])) * GET3(P3[row]));
            db += g;
        }
        P4[2 * part * n + i] = dw;
        P4[(2 * part + 1) * n + i] = db;
    }
}

/* Sums of columns by parts, of [outer, rows, n]. Pointers: x, sums [outer][parts][n].
 * given: rows, n, parts, outer. */
TD_KERNEL td_k_column_sums(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t rows = r->given[0], n = r->given[1], parts = r->given[2];
    for (int64_t at = TD_FIRST; at < n * parts * r->given[3]; at += TD_STEP) {
        int64_t       outer = at;
        const int64_t i = td_k_split(&outer, n), part = td_k_split(&outer, parts);
        const T0     *x = P0 + outer * rows * n + i;
        A0            sum = 0;
        TD_UNROLL
        for (int64_t row = part; row < rows; row += parts) sum += GET0(x[row * n]);
        P1[at] = sum;
    }
}

/* Adds the parts in order. Pointers: sums [outer][parts][step], to. given: n, parts,
 * step, the first column, outer. */
TD_KERNEL td_k_fold_parts(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t n = r->given[0], parts = r->given[1], step = r->given[2];
    for (int64_t at = TD_FIRST; at < n * r->given[4]; at += TD_STEP) {
        int64_t       outer = at;
        const int64_t i = td_k_split(&outer, n);
        const T0     *x = P0 + outer * parts * step + r->given[3] + i;
        T0            sum = 0;
        for (int64_t part = 0; part < parts; part++) sum += x[part * step];
        P1[at] = PUT1(sum);
    }
}

/* Negative log likelihood by one block; sums in double. Pointers: scores, target,
 * weight or NULL, out, total. The walk is over the target: its offset and that of
 * class 0. given: places, classes, step of a class, ignored, 0: each, 1: mean, 2:
 * sum; op. */
TD_KERNEL td_k_nll(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t places = r->given[0];
    for (int64_t row = TD_ROW; row < 1; row += TD_ROWS) {
        double sum = 0, total = 0;
        for (int64_t k = TD_LANE; k < places; k += TD_LANES) {
            int64_t off[2] = {0, 0};
            td_k_walk(r->size, k, 2, off);
            const int64_t y = P1[off[0]];
            double        w = 0, loss = 0;
            if (y != r->given[3] && (y < 0 || y >= r->given[1])) {
                td_k_bad(r->ptr[7], r->given[5], y);
            } else if (y != r->given[3]) {
                w = r->ptr[2] ? (double)GET2(P2[y * r->given[6]]) : 1;
                loss = -w * (double)GET0(P0[off[1] + y * r->given[2]]);
            }
            if (r->given[4] == 0) P3[k] = PUT3(loss);
            sum += loss;
            total += w;
        }
        TD_TOGETHER(double, sum, (a + b));
        TD_TOGETHER(double, total, (a + b));
        if (TD_LANE == 0) {
            if (r->given[4] != 0) P3[0] = PUT3(r->given[4] == 1 ? sum / total : sum);
            P4[0] = PUT4(r->given[4] == 0 ? 0 : total);
        }
    }
}

/* Its gradient, into zeros. Pointers: g, target, weight or NULL, total, out. The
 * walk: the target, out, g. given: as td_k_nll. */
TD_KERNEL td_k_nll_grad(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t places = r->given[0];
    for (int64_t k = TD_FIRST; k < places; k += TD_STEP) {
        int64_t off[3] = {0, 0, 0};
        td_k_walk(r->size, k, 3, off);
        const int64_t y = P1[off[0]];
        if (y == r->given[3]) continue;
        if (y < 0 || y >= r->given[1]) {
            td_k_bad(r->ptr[7], r->given[5], y);
            continue;
        }
        const double w = r->ptr[2] ? (double)GET2(P2[y * r->given[6]]) : 1;
        const double v = -w * (double)GET0(P0[off[2]]);
        P4[off[1] + y * r->given[2]] =
            PUT4(r->given[4] == 1 ? v / (double)GET3(P3[0]) : v);
    }
}

/* An element and where it is; nowhere: -1. */
typedef struct td_k_spot {
    A0      x;
    int64_t at;
} td_k_spot;

/* The first of the greatest, or, WAY 1, of the least; a NaN is before all else. */
TD_M td_k_spot td_k_first(td_k_spot a, td_k_spot b) {
    if (b.at < 0) return a;
    if (a.at < 0) return b;
    if (a.x != a.x || b.x != b.x) {
        if (a.x != a.x && b.x != b.x) return a.at < b.at ? a : b;
        return a.x != a.x ? a : b;
    }
    if (a.x == b.x) return a.at < b.at ? a : b;
    return (WAY == 1 ? a.x < b.x : a.x > b.x) ? a : b;
}

/* Where the extreme of a line is. Pointers: x, values or NULL, indices. given:
 * lines, n, inner. */
TD_KERNEL td_k_extreme(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t lines = r->given[0], n = r->given[1], inner = r->given[2];
    for (int64_t line = TD_ROW; line < lines; line += TD_ROWS) {
        int64_t       outer = line;
        const int64_t first = td_k_split(&outer, inner),
                      base = outer * n * inner + first;
        td_k_spot best = {0, -1};
        for (int64_t i = TD_LANE; i < n; i += TD_LANES) {
            const td_k_spot x = {GET0(P0[base + i * inner]), i};
            best = td_k_first(best, x);
        }
        TD_TOGETHER(td_k_spot, best, (td_k_first(a, b)));
        if (TD_LANE == 0) {
            if (r->ptr[1]) P1[line] = P0[base + best.at * inner];
            P2[line] = best.at;
        }
    }
}

/* Is a before b in ascending order? NaN comes last. */
TD_M bool td_k_before(A0 a, A0 b) { return a < b || (a == a && b != b); }

/* Sorting by counting how many come before: wanted are the ranks from `low` to
 * before `high`. Pointers: x, values, indices (of i64), each [outer, high - low,
 * inner]. given: outer * n * inner, n, inner, low, high, descending. */
TD_KERNEL td_k_rank(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t n = r->given[1], inner = r->given[2], low = r->given[3];
    const int64_t high = r->given[4];
    for (int64_t at = TD_FIRST; at < r->given[0]; at += TD_STEP) {
        int64_t       outer = at, rank = 0;
        const int64_t first = td_k_split(&outer, inner), i = td_k_split(&outer, n);
        const T0     *x = P0 + outer * n * inner + first;
        const A0      own = GET0(x[i * inner]);
        TD_UNROLL
        for (int64_t k = 0; k < n; k++) {
            const A0   other = GET0(x[k * inner]);
            const bool before =
                r->given[5] ? td_k_before(own, other) : td_k_before(other, own);
            const bool after =
                r->given[5] ? td_k_before(other, own) : td_k_before(own, other);
            rank += before || (!after && k < i);
        }
        if (rank < low || rank >= high) continue;
        const int64_t to = (outer * (high - low) + rank - low) * inner + first;
        if (r->ptr[1]) P1[to] = x[i * inner];
        if (r->ptr[2]) P2[to] = i;
    }
}

/* Running sums, products, log-sums of exponentials, maxima, minima: WAY 0 to 4. A
 * thread takes a line. Pointers: x, out, indices or NULL. given: lines, n, inner. */
TD_KERNEL td_k_scan(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t lines = r->given[0], n = r->given[1], inner = r->given[2];
    for (int64_t line = TD_FIRST; line < lines; line += TD_STEP) {
        int64_t       outer = line, where = 0;
        const int64_t first = td_k_split(&outer, inner),
                      base = outer * n * inner + first;
        RUN run = (RUN)GET0(P0[base]);
        if (WAY == 0) run += 0;
        for (int64_t i = 0; i < n; i++) {
            const RUN x = (RUN)GET0(P0[base + i * inner]);
            if (i > 0) {
                if (WAY == 0) run += x;
                if (WAY == 1) run *= x;
#if WAY == 2
                const double hi = run > x || run != run ? run : x;
                const double lo = run > x || run != run ? x : run;
                if (hi != lo || (hi - hi == 0))
                    run = hi + td_m_log1p_f64(td_m_exp_f64(lo - hi));
                else run = hi;
#endif
                if (WAY > 2 && (x != x || (WAY == 3 ? x >= run : x <= run))) {
                    run = x;
                    where = i;
                }
            }
            P1[base + i * inner] = PUT1(run);
            if (WAY > 2) P2[base + i * inner] = where;
        }
    }
}

/* |x|^p, as WAY says: 0: x itself, 1: |x|, 2: its square, 3: any power, 4: 1 if it
 * is not zero, 5: |x| for the greatest, 6: for the least. */
TD_M SUM td_k_power(SUM x, double p) {
    const SUM size = x < 0 ? -x : x;
    if (WAY == 2) return x * x;
#if WAY == 3
    return (SUM)__builtin_pow((double)size, p);
#endif
    if (WAY == 4) return x != 0;
    return WAY == 0 ? x : size;
}

/* A NaN stays. */
TD_M SUM td_k_fold(SUM a, SUM b) {
    if (WAY == 5) return a > b || a != a ? a : b;
    if (WAY == 6) return a < b || a != a ? a : b;
    return a + b;
}

/* Folds long rows in parts, a part to a block. Pointers: x [rows][n], folds
 * [rows][parts] of SUM. given: rows * parts, n, parts, p. */
TD_KERNEL td_k_row_parts(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t n = r->given[1], parts = r->given[2], each = (n + parts - 1) / parts;
    for (int64_t at = TD_ROW; at < r->given[0]; at += TD_ROWS) {
        int64_t       row = at;
        const int64_t part = td_k_split(&row, parts), first = part * each;
        const int64_t end = first + each < n ? first + each : n;
        const T0     *x = P0 + row * n;
        SUM           sum = WAY < 5 ? 0 : WAY == 5 ? -1 : (SUM)__builtin_inf();
        TD_UNROLL
        for (int64_t i = first + TD_LANE; i < end; i += TD_LANES)
            sum = td_k_fold(sum, td_k_power((SUM)GET0(x[i]), td_k_double(r->given[3])));
        TD_TOGETHER(SUM, sum, (td_k_fold(a, b)));
        if (TD_LANE == 0) P1[at] = sum;
    }
}

/* Folds the parts in order and, with given[2], takes the root. given: rows, parts,
 * has a root, 1 / p. */
TD_KERNEL td_k_row_end(TD_RUN(td_nest_run)) {
    TD_OPEN
    for (int64_t row = TD_FIRST; row < r->given[0]; row += TD_STEP) {
        SUM sum = P0[row * r->given[1]];
        for (int64_t part = 1; part < r->given[1]; part++)
            sum = td_k_fold(sum, P0[row * r->given[1] + part]);
        if (r->given[2] == 1) sum = (SUM)__builtin_sqrt((double)sum);
        if (r->given[2] == 2)
            sum = (SUM)__builtin_pow((double)sum, td_k_double(r->given[3]));
        P1[row] = PUT1(sum);
    }
}

/* Zeroes the elements of matrices beside a diagonal. Pointer 0. The walk is over the
 * dims before the last two. given: elements of the stack, rows, columns, their
 * strides, the diagonal, 1: above it. */
TD_KERNEL td_k_triangle(TD_RUN(td_nest_run)) {
    TD_OPEN
    for (int64_t at = TD_FIRST; at < r->given[0]; at += TD_STEP) {
        int64_t       rest = at, off[1] = {0};
        const int64_t j = td_k_split(&rest, r->given[2]);
        const int64_t i = td_k_split(&rest, r->given[1]);
        if (r->given[6] ? j <= i + r->given[5] : j >= i + r->given[5]) continue;
        td_k_walk(r->size, rest, 1, off);
        P0[off[0] + i * r->given[3] + j * r->given[4]] = 0;
    }
}

/* A sequence of integers. given: elements, first, step. */
TD_KERNEL td_k_integers(TD_RUN(td_nest_run)) {
    TD_OPEN
    for (int64_t at = TD_FIRST; at < r->given[0]; at += TD_STEP)
        P0[at] = PUT0(
            (int64_t)((uint64_t)r->given[1] + (uint64_t)at * (uint64_t)r->given[2]));
}

/* Where the vector of element i begins; see td__range_vector. */
TD_M int64_t td_k_range_vector(int64_t n, int64_t i, int64_t lanes) {
    return i < n / (2 * lanes) * (2 * lanes) ? i / lanes * lanes : i;
}

/* arange of floats, rounded as on the CPU. given: elements, start, step; LANES. */
TD_KERNEL td_k_range(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t n = r->given[0];
    const double  start = td_k_double(r->given[1]), step = td_k_double(r->given[2]);
    for (int64_t i = TD_FIRST; i < n; i += TD_STEP) {
        const int64_t v = td_k_range_vector(n, i, LANES);
#if LANES == 16
        const A0 base = GET0(PUT0(__builtin_fmaf((float)step, (float)v, (float)start)));
        P0[i] = PUT0(__builtin_fmaf((float)step, (float)(i - v), base));
#else
        const A0 base = (A0)__builtin_fma(step, (double)v, start);
        P0[i] = PUT0(__builtin_fma(step, (double)(i - v), (double)base));
#endif
    }
}

/* A matrix whose rows are contiguous, copied, with zeros behind it. Pointers: x,
 * out. given: rows and columns of out, rows and columns of x, elements from a row to
 * the next of x and of out. */
TD_KERNEL td_k_extend(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t rows = r->given[0], cols = r->given[1], n = r->given[3];
    for (int64_t row = TD_ROW; row < rows; row += TD_ROWS) {
        const T0     *x = P0 + row * r->given[4];
        T1           *to = P1 + row * r->given[5];
        const int64_t end = row >= r->given[2] ? 0 : n < cols ? n : cols;
        TD_UNROLL
        for (int64_t i = TD_LANE; i < end; i += TD_LANES) to[i] = x[i];
        for (int64_t i = end + TD_LANE; i < cols; i += TD_LANES) to[i] = 0;
    }
}
