/* text/index.h -- reading and writing by index; see kernels/index_walk.h. Pointer 0
 * is the index, 1 the data, 2 the other operand, 7 the status word. */

/* other = data at the index. given: count, along, limit, least index, op. */
TD_KERNEL td_k_gather(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t count = r->given[0], along = r->given[1], limit = r->given[2];
    for (int64_t at = TD_FIRST; at < count; at += TD_STEP) {
        int64_t off[3] = {0, 0, 0};
        td_k_walk(r->size, at, 3, off);
        int64_t    k = P0[off[0]];
        const bool ok = k >= r->given[3] && k < limit;
        if (!ok) td_k_bad(r->ptr[7], r->given[4], k);
        if (k < 0) k += limit;
        T2 x = 0;
        if (ok) x = P1[off[1] + k * along];
        P2[off[2]] = x;
    }
}

/* Pointer 1 = pointer 0, integers from `least` to `most`. The walk: pointer 0. given:
 * count, least, most, op. */
TD_KERNEL td_k_expect(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t count = r->given[0];
    for (int64_t at = TD_FIRST; at < count; at += TD_STEP) {
        int64_t off[1] = {0};
        td_k_walk(r->size, at, 1, off);
        const int64_t x = P0[off[0]];
        const bool    ok = (double)x >= td_k_double(r->given[1]) &&
                        (double)x <= td_k_double(r->given[2]);
        if (!ok) td_k_bad(r->ptr[7], r->given[3], x);
        P1[at] = (T1)x;
    }
}

/* a op b in the type of computation; WAY: PUT, ADD, MUL, MAX, MIN of td_spot_op. A NaN
 * wins, on either side. */
TD_M A1 td_k_meet(A1 a, A1 b) {
    if (WAY == 2) return a + b;
    if (WAY == 3) return a * b;
    if (WAY == 4) return a != a || a >= b ? a : b;
    if (WAY == 5) return a != a || a <= b ? a : b;
    return b;
}

/* data at the index op= other. Places that may meet are the serial part of the walk, at
 * size[32]; the lines beside it are independent. given: lines, serial count, along,
 * limit, least index, op, factor. */
TD_KERNEL td_k_put(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t lines = r->given[0], count = r->given[1], along = r->given[2];
    const A1      factor = (A1)FACTOR(r->given[6]);
    for (int64_t line = TD_FIRST; line < lines; line += TD_STEP) {
        int64_t base[3] = {0, 0, 0};
        td_k_walk(r->size, line, 3, base);
        for (int64_t at = 0; at < count; at++) {
            int64_t off[3] = {base[0], base[1], base[2]};
            td_k_walk(r->size + 32, at, 3, off);
            int64_t k = P0[off[0]];
            if (k < r->given[4] || k >= r->given[3]) {
                td_k_bad(r->ptr[7], r->given[5], k);
                continue;
            }
            if (k < 0) k += r->given[3];
            T1 *to = &P1[off[1] + k * along];
            if (WAY == 1) {
                *to = P2[off[2]];
                continue;
            }
            A1 x = GET2(P2[off[2]]);
            if (WAY == 2 && factor != 1) x = GET1(PUT1(factor * x));
            *to = PUT1(td_k_meet(GET1(*to), x));
        }
    }
}

/* For every position of an index of `count` entries, at a stride: the next position
 * with the same value, or -1; and whether it is the first. given: count, stride. */
TD_KERNEL td_k_chain(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t count = r->given[0], step = r->given[1];
    for (int64_t at = TD_ROW; at < count; at += TD_ROWS) {
        const int64_t key = P0[at * step];
        int32_t       next = INT32_MAX, first = 1;
        TD_UNROLL
        for (int64_t i = TD_LANE; i < count; i += TD_LANES) {
            const bool same = P0[i * step] == key;
            if (same && i < at) first = 0;
            if (same && i > at && (int32_t)i < next) next = (int32_t)i;
        }
        TD_TOGETHER(int32_t, next, (a < b ? a : b));
        TD_TOGETHER(int32_t, first, (a & b));
        if (TD_LANE == 0) P1[at] = next == INT32_MAX ? -1 : next;
        if (TD_LANE == 0) P2[at] = (uint8_t)first;
    }
}

/* Like td_k_put with ADD, where the serial part is one dim and the index the same
 * for all lines: chains of equal indices are independent, too. Pointers 3 and 4 are
 * those that td_k_chain wrote. given: as td_k_put. */
TD_KERNEL td_k_put_chains(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t lines = r->given[0], count = r->given[1], along = r->given[2];
    const int64_t end = lines * count, *walk = r->size + 32;
    const A1      factor = (A1)FACTOR(r->given[6]);
    for (int64_t i = TD_FIRST; i < end; i += TD_STEP) {
        int64_t       rest = i, base[3] = {0, 0, 0};
        const int64_t line = td_k_split(&rest, lines);
        if (!P4[rest]) continue;
        td_k_walk(r->size, line, 3, base);
        int64_t k = P0[base[0] + rest * walk[2]];
        if (k < r->given[4] || k >= r->given[3]) {
            td_k_bad(r->ptr[7], r->given[5], k);
            continue;
        }
        if (k < 0) k += r->given[3];
        T1 *to = &P1[base[1] + k * along];
        A1  sum = GET1(*to);
        for (int64_t at = rest; at >= 0; at = P3[at]) {
            A1 x = GET2(P2[base[2] + at * walk[4]]);
            if (factor != 1) x = GET1(PUT1(factor * x));
            sum = ONCE ? sum + x : GET1(PUT1(sum + x));
        }
        *to = PUT1(sum);
    }
}

/* Offsets of the elements that several indices name: off += stride * index, or = if
 * it is the first. given: count, stride, limit, first, op. */
TD_KERNEL td_k_offsets(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t count = r->given[0], limit = r->given[2];
    for (int64_t at = TD_FIRST; at < count; at += TD_STEP) {
        int64_t off[1] = {0};
        td_k_walk(r->size, at, 1, off);
        int64_t k = P0[off[0]];
        if (k < -limit || k >= limit) {
            td_k_bad(r->ptr[7], r->given[4], k);
            k = 0;
        }
        if (k < 0) k += limit;
        P1[at] = k * r->given[1] + (r->given[3] ? 0 : P1[at]);
    }
}
