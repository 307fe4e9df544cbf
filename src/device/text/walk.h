/* text/walk.h -- what the texts of device kernels share. These headers are not
 * compiled with the library: src/ops/gen/gen_helpers.c keeps them as text, and
 * op_kernel.c puts together the kernel of one op and what it uses. The words in
 * capitals without a number are those of docs/cuda.md; T0, P0, A0, GET0 and PUT0 are
 * of the kernel's pointer 0: the type in memory, the pointer, the type in which it
 * is computed, and conversions. */

/* rest % size; then rest /= size. Division of 32 bits is quicker by far. */
TD_M int64_t td_k_split(int64_t *rest, int64_t size) {
    int64_t q, at = *rest;
    if (((uint64_t)at | (uint64_t)size) >> 32 == 0)
        q = (int64_t)((uint32_t)at / (uint32_t)size);
    else q = at / size;
    *rest = q;
    return at - q * size;
}

/* Adds the offsets of element `at` in row-major order to off[0..n). `s` is the rank,
 * the sizes, and the strides of each operand. */
TD_M void td_k_walk(const int64_t *s, int64_t at, int n, int64_t *off) {
    const int rank = (int)s[0];
    for (int d = rank; d > 0; d--) {
        const int64_t i = td_k_split(&at, s[d]);
        for (int k = 0; k < n; k++) off[k] += i * s[(k + 1) * rank + d];
    }
}

/* A number of the run that is a double. */
TD_M double td_k_double(int64_t bits) { return td_m_from_bits_f64((uint64_t)bits); }

/* Notes that value `k` of op `op` is out of range; the next read of the device
 * fails. */
TD_M void td_k_bad(char *status, int64_t op, int64_t k) {
    int64_t *to = (int64_t *)(void *)status;
    to[0] = op;
    to[1] = k;
}
