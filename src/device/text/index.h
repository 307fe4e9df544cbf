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

/* other = data at the index, rows of whole vectors. The walk: the rows; a row's
 * elements follow each other. given: count of vectors, vectors from an index to the
 * next, limit, least index, op, vectors of a row. */
TD_KERNEL td_k_gather_rows(TD_RUN(td_nest_run)) {
    TD_OPEN
    const td_k_vector *from = (const td_k_vector *)(const void *)r->ptr[1];
    td_k_vector       *to = (td_k_vector *)(void *)r->ptr[2];
    const int64_t      count = r->given[0], along = r->given[1], limit = r->given[2];
    TD_UNROLL_TWO
    for (int64_t at = TD_FIRST; at < count; at += TD_STEP) {
        int64_t       row = at, off[3] = {0, 0, 0};
        const int64_t i = td_k_split(&row, r->given[5]);
        td_k_walk(r->size, row, 3, off);
        int64_t    k = P0[off[0]];
        const bool ok = k >= r->given[3] && k < limit;
        if (!ok) td_k_bad(r->ptr[7], r->given[4], k);
        if (k < 0) k += limit;
        td_k_vector x = {{0, 0}};
        if (ok) x = TD_TAKE(td_k_vector, from + (off[1] + k * along + i));
        TD_GIVE(td_k_vector, to + (off[2] + i), x);
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

/* ---- positions by their index --------------------------------------------
 *
 * Sums over one index: positions of the same index follow each other in `sorted`, in
 * order, so that what belongs to a place is summed by one thread in the order of the
 * CPU. A bucket has the positions whose indices have one hash; its counts come from
 * sums in memory, whose order decides only where a bucket lies. given of all: count,
 * stride of the index, bits of a hash. Pointers: 0 the index, 1 slots, 2 sizes of
 * buckets and their total, 3 where buckets begin, 4 what a kernel below says. */

TD_M uint32_t td_k_hash(int64_t key, int64_t bits) {
    return (uint32_t)((uint64_t)key * 0x9E3779B97F4A7C15u >> (64 - bits));
}

/* The number of a position in its bucket, in any order. */
TD_KERNEL td_k_bucket_count(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t count = r->given[0], step = r->given[1];
    for (int64_t at = TD_FIRST; at < count; at += TD_STEP)
        P1[at] = TD_FETCH_ADD(P2 + td_k_hash(P0[at * step], r->given[2]), 1);
}

/* Its first position gives a bucket a place. */
TD_KERNEL td_k_bucket_begin(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t count = r->given[0], step = r->given[1], bits = r->given[2];
    for (int64_t at = TD_FIRST; at < count; at += TD_STEP) {
        if (P1[at]) continue;
        const uint32_t b = td_k_hash(P0[at * step], bits);
        P3[b] = TD_FETCH_ADD(P2 + ((int64_t)1 << bits), P2[b]);
    }
}

/* Pointer 4: the positions of all buckets. */
TD_KERNEL td_k_bucket_fill(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t count = r->given[0], step = r->given[1];
    for (int64_t at = TD_FIRST; at < count; at += TD_STEP)
        P4[P3[td_k_hash(P0[at * step], r->given[2])] + P1[at]] = (int32_t)at;
}

/* Pointer 5: the positions by bucket, index and position; 1: where each is, or, where
 * another of the same index is before it, -1; 6: how many have its index. */
TD_KERNEL td_k_bucket_sort(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t count = r->given[0], step = r->given[1];
    for (int64_t at = TD_FIRST; at < count; at += TD_STEP) {
        const int64_t  key = P0[at * step];
        const uint32_t b = td_k_hash(key, r->given[2]);
        const int32_t  n = P2[b], begin = P3[b];
        int32_t        before = 0, earlier = 0, same = 0;
        TD_UNROLL
        for (int32_t i = 0; i < n; i++) {
            const int32_t other = P4[begin + i];
            const int64_t k = P0[other * step];
            before += k < key;
            same += k == key;
            earlier += k == key && other < (int32_t)at;
        }
        P5[begin + before + earlier] = (int32_t)at;
        P1[at] = earlier ? -1 : begin + before;
        P6[at] = same;
    }
}

/* Like td_k_put with ADD, where the serial part is one dim and the index the same for
 * all lines. Pointers 3, 4 and 5 are 5, 1 and 6 of td_k_bucket_sort. given: as
 * td_k_put. */
TD_KERNEL td_k_put_sorted(TD_RUN(td_nest_run)) {
    TD_OPEN
    const int64_t lines = r->given[0], count = r->given[1], along = r->given[2];
    const int64_t end = lines * count, *walk = r->size + 32;
    const A1      factor = (A1)FACTOR(r->given[6]);
    for (int64_t i = TD_FIRST; i < end; i += TD_STEP) {
        int64_t       rest = i, base[3] = {0, 0, 0};
        const int64_t line = td_k_split(&rest, lines);
        const int32_t begin = P4[rest], n = P5[rest];
        if (begin < 0) continue;
        td_k_walk(r->size, line, 3, base);
        int64_t k = P0[base[0] + rest * walk[2]];
        if (k < r->given[4] || k >= r->given[3]) {
            td_k_bad(r->ptr[7], r->given[5], k);
            continue;
        }
        if (k < 0) k += r->given[3];
        T1 *to = &P1[base[1] + k * along];
        A1  sum = GET1(*to);
        TD_UNROLL
        for (int32_t j = 0; j < n; j++) {
            A1 x = GET2(P2[base[2] + P3[begin + j] * walk[4]]);
            if (factor != 1) x = GET1(PUT1(factor * x));
            sum = ONCE ? sum + x : GET1(PUT1(sum + x));
        }
        *to = PUT1(sum);
    }
}

/* The same, EACH elements of a line at a time: those of data and other follow each
 * other along the line. given: as td_k_put; lines counts vectors. */
TD_KERNEL td_k_put_rows(TD_RUN(td_nest_run)) {
    TD_OPEN
    typedef struct to_vector {
        T1 v[EACH];
    } __attribute__((aligned(EACH * sizeof(T1)))) to_vector;
    typedef struct from_vector {
        T2 v[EACH];
    } __attribute__((aligned(EACH * sizeof(T2)))) from_vector;
    const int64_t lines = r->given[0], count = r->given[1], along = r->given[2];
    const int64_t end = lines * count, *walk = r->size + 32;
    const A1      factor = (A1)FACTOR(r->given[6]);
    for (int64_t i = TD_FIRST; i < end; i += TD_STEP) {
        int64_t       rest = i;
        const int64_t line = td_k_split(&rest, lines);
        const int32_t begin = P4[rest], n = P5[rest];
        if (begin < 0) continue;
        int64_t k = P0[rest * walk[2]];
        if (k < r->given[4] || k >= r->given[3]) {
            td_k_bad(r->ptr[7], r->given[5], k);
            continue;
        }
        if (k < 0) k += r->given[3];
        T1       *to = P1 + (k * along + line * EACH);
        to_vector v = TD_TAKE(to_vector, to);
        A1        sum[EACH];
        TD_UNROLL_ALL
        for (int u = 0; u < EACH; u++) sum[u] = GET1(v.v[u]);
        TD_UNROLL
        for (int32_t j = 0; j < n; j++) {
            const from_vector w =
                TD_TAKE(from_vector, P2 + (P3[begin + j] * walk[4] + line * EACH));
            TD_UNROLL_ALL
            for (int u = 0; u < EACH; u++) {
                A1 x = GET2(w.v[u]);
                if (factor != 1) x = GET1(PUT1(factor * x));
                sum[u] = ONCE ? sum[u] + x : GET1(PUT1(sum[u] + x));
            }
        }
        TD_UNROLL_ALL
        for (int u = 0; u < EACH; u++) v.v[u] = PUT1(sum[u]);
        TD_GIVE(to_vector, to, v);
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
