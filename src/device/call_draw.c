/* call_draw.c -- random ops on a device: the numbers that the CPU draws, to the bit
 * (kernels/kern_random.c, kernels/kern_multinomial.c). */
#include "device/op_kernel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* WAY of text/draw.h. */
enum { UNIFORM, NORMAL, COIN, EXPONENTIAL, INTEGERS, COINS };

/* One draw: its numbers, and operands beside the result. */
typedef struct draw {
    int        way;
    double     a, b;       /* from, width; mean, std; rate; the scale of dropout */
    int64_t    low, range; /* COIN: low is the bound of the word */
    td_tensor *p, *x;      /* probabilities or mask; what dropout drops from */
    bool       drops;
} draw;

/* Elements that a block of the generator serves. */
static int per_block(int way, td_dtype dt) {
    return way == COIN || way == COINS || (way <= NORMAL && dt != TD_F64) ? 4 : 2;
}

static void write_defines(char *to, size_t cap, const draw *w, td_dtype dt) {
    static const char *const drawn[] = {"float",  "float",   "int32_t",
                                        "double", "int64_t", "int32_t"};
    bool                     wide = dt == TD_F64;
    snprintf(to, cap,
             "#define PER %d\n#define WIDE %d\n#define DROPS %d\n#define DRAWN %s\n"
             "#define UNIFORM %s\n",
             per_block(w->way, dt), wide, w->drops,
             wide && w->way <= NORMAL ? "double" : drawn[w->way],
             dt == TD_F16    ? "td_uniform_f16"
             : dt == TD_BF16 ? "td_uniform_bf16"
                             : "td_uniform_f32");
}

static bool run(td_opcall *c, td_device_state *d, const draw *w, bool *ok) {
    td_tensor     *out = c->out[0];
    td_dtype       dt = (td_dtype)out->dtype;
    int            per = per_block(w->way, dt);
    td_op_kernel   k = {.name = "td_k_draw", .c = c, .way = w->way};
    char           defines[300];
    const int64_t *stride[3] = {out->stride, w->p ? w->p->stride : out->stride,
                                w->x ? w->x->stride : out->stride};
    if (out->numel == 0) return false;
    write_defines(defines, sizeof defines, w, dt);
    k.defines = defines;
    k.uses = "td_uniform_f16\ntd_uniform_bf16\n";
    k.picky = w->way == COINS;
    td__op_ptr(&k, out);
    td__op_ptr(&k, w->p);
    td__op_ptr(&k, w->x);
    if (!td__op_walk(&k, 0, out->rank, out->size, stride, 3)) return false;
    td__draw(c, (uint64_t)((out->numel + per - 1) / per));
    int64_t given[] = {out->numel,
                       (int64_t)c->seed,
                       (int64_t)c->offset,
                       td__double_bits(w->a),
                       td__double_bits(w->b),
                       w->low,
                       w->range,
                       td__op_mark(c)};
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, (out->numel + per - 1) / per, 0, ok) ||
           (*ok = td__op_fail(c, TD_E_UNSUPPORTED, "its kernel was not built"), true);
}

static bool uniform(td_opcall *c, td_device_state *d, double from, double to,
                    bool *ok) {
    return run(c, d, &(draw){.way = UNIFORM, .a = from, .b = to - from}, ok);
}

static bool normal(td_opcall *c, td_device_state *d, double mean, double std,
                   bool *ok) {
    return run(c, d, &(draw){.way = NORMAL, .a = mean, .b = std}, ok);
}

bool td__op_rand(td_opcall *c, td_device_state *d, bool *ok) {
    return uniform(c, d, 0, 1, ok);
}

bool td__op_randn(td_opcall *c, td_device_state *d, bool *ok) {
    return normal(c, d, 0, 1, ok);
}

bool td__op_uniform(td_opcall *c, td_device_state *d, bool *ok) {
    return uniform(c, d, td__in_f(c, 1), td__in_f(c, 2), ok);
}

bool td__op_normal(td_opcall *c, td_device_state *d, bool *ok) {
    return normal(c, d, td__in_f(c, 1), td__in_f(c, 2), ok);
}

bool td__op_exponential(td_opcall *c, td_device_state *d, bool *ok) {
    return run(c, d, &(draw){.way = EXPONENTIAL, .a = td__in_f(c, 1)}, ok);
}

static bool integers(td_opcall *c, td_device_state *d, int64_t low, int64_t high,
                     bool *ok) {
    int64_t range = (int64_t)((uint64_t)high - (uint64_t)low);
    return run(c, d, &(draw){.way = INTEGERS, .low = low, .range = range}, ok);
}

bool td__op_randint(td_opcall *c, td_device_state *d, bool *ok) {
    return integers(c, d, td__in_int(c, 0), td__in_int(c, 1), ok);
}

bool td__op_randint_like(td_opcall *c, td_device_state *d, bool *ok) {
    return integers(c, d, td__in_int(c, 1), td__in_int(c, 2), ok);
}

/* ---- coins -------------------------------------------------------------- */

/* A word below the bound is a coin that fell on true; see td__fresh_loops. */
static int64_t bound_of(double p) { return (int64_t)ceil(p * 0x1p32); }

bool td__op_bernoulli_p(td_opcall *c, td_device_state *d, bool *ok) {
    return run(c, d, &(draw){.way = COIN, .low = bound_of(td__in_f(c, 1))}, ok);
}

bool td__op_bernoulli(td_opcall *c, td_device_state *d, bool *ok) {
    return run(c, d, &(draw){.way = COINS, .p = td__in(c, 0)}, ok);
}

/* in: input, p, train. Results: out, mask. */
bool td__op_dropout(td_opcall *c, td_device_state *d, bool *ok) {
    double     p = td__in_f(c, 1);
    td_tensor *x = td__in(c, 0);
    if (!td__in_bool(c, 2) || !td__is_float((td_dtype)x->dtype)) return false;
    return run(c, d,
               &(draw){.way = COIN,
                       .low = bound_of(1 - p),
                       .b = p == 1 ? 0 : 1 / (1 - p),
                       .p = c->out[1],
                       .x = x,
                       .drops = true},
               ok);
}

/* ---- choices ------------------------------------------------------------ */

/* in: weights, choices, with replacement. */
bool td__op_multinomial(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *p = td__in(c, 0), *room;
    int64_t    n = p->size[p->rank - 1], rows = p->rank == 2 ? p->size[0] : 1;
    int64_t    k = td__in_int(c, 1);
    bool       back = td__in_bool(c, 2);
    if (p->numel == 0 || c->out[0]->numel == 0) return false;
    if (!(p = td__op_dense(c, p)) || !(room = td__op_room(c, TD_F64, rows * n)))
        return *ok = false, true;
    td_op_kernel op = {.name = "td_k_choose", .c = c, .picky = true};
    td__op_ptr(&op, p);
    td__op_ptr(&op, c->out[0]);
    td__op_ptr(&op, room);
    td__draw(c, (uint64_t)((rows * (back ? k : n) + 1) / 2));
    int64_t given[] = {rows,          n, k, (int64_t)c->seed, (int64_t)c->offset, back,
                       td__op_mark(c)};
    memcpy(op.run.given, given, sizeof given);
    return td__op_start(&op, d, n, rows, ok) ||
           (*ok = td__op_fail(c, TD_E_UNSUPPORTED, "its kernel was not built"), true);
}
