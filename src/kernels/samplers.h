/* samplers.h -- distributions whose samplers reject: an element reads as many random
 * words as it takes, from a stream of its own. So it is a function of seed, offset and
 * index alone, whatever the others read. */
#ifndef TD_SAMPLERS_H
#define TD_SAMPLERS_H

#include "kernels/philox.h"

/* The words of one element. Its block number fills the low half of Philox's counter;
 * the high half counts the blocks that the element has read. */
typedef struct td_stream {
    uint32_t ctr[4], key[2], w[4];
    int      left; /* pairs of words in w that are not read yet */
} td_stream;

td_stream td__stream(uint64_t seed, uint64_t block);
double    td__stream_uniform(td_stream *s); /* in [0, 1) */

/* A sampler of parameters a and b. */
typedef double td_sampler_fn(td_stream *s, double a, double b);
double         td__sample_gamma(td_stream *s, double alpha, double unused);
double         td__sample_poisson(td_stream *s, double rate, double unused);
double         td__sample_binomial(td_stream *s, double count, double prob);

/* How a gamma variable x moves with its shape alpha, its quantile held: -(dF/dalpha) /
 * (dF/dx), where F is the distribution function. */
double td__gamma_grad(double alpha, double x);

#endif
