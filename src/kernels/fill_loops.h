/* fill_loops.h -- vector loops that compute elements from their index alone: random
 * words and what is made of them, and ranges. Compiled once per CPU level, with the
 * same results at each. */
#ifndef TD_FILL_LOOPS_H
#define TD_FILL_LOOPS_H

#include <stdint.h>

/* A sequence start, start + step, ... of n elements; see kern_create.c. */
typedef struct td_range {
    double  start, step;
    int64_t n;
} td_range;

typedef struct td_fresh_loops {
    /* The four words of each Philox block from `first` on. */
    void (*words)(uint64_t seed, uint64_t first, int64_t blocks, uint32_t *out);
    /* One element per word; n is a multiple of 4. */
    void (*uniform_f32)(const uint32_t *w, int64_t n, float from, float width,
                        float *out);
    void (*normal_f32)(const uint32_t *w, int64_t n, float mean, float std, float *out);
    /* Two elements per block; n is a multiple of 2. */
    void (*normal_f64)(const uint32_t *w, int64_t n, double mean, double std,
                       double *out);
    void (*coins)(const uint32_t *w, int64_t n, double p, uint8_t *out);
    /* Elements [begin, end) of r, out being the place of element 0. */
    void (*range_f32)(const td_range *r, int64_t begin, int64_t end, float *out);
    void (*range_f64)(const td_range *r, int64_t begin, int64_t end, double *out);
    /* from + step (first + i) for i < n, rounded once. */
    void (*line_f32)(float from, float step, int64_t first, int64_t n, float *out);
} td_fresh_loops;

/* The loops for this machine (kern_random.c). */
const td_fresh_loops *td__fresh_loops(void);

/* PyTorch makes a range in pairs of 32-byte vectors: the first lane of a vector is
 * rounded to the dtype and the others count from it; what is left behind the last
 * pair has no vector. Doing the same gives the same bits. Returns where the vector
 * of element i starts, or i itself. */
static inline int64_t td__range_vector(const td_range *r, int64_t i, int64_t lanes) {
    return i < r->n / (2 * lanes) * (2 * lanes) ? i / lanes * lanes : i;
}

#endif
