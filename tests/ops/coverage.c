/* coverage.c -- the table checked against the samples: every row has one, every
 * differentiable row has been through gradcheck, every row that takes complex tensors
 * has run on some, or a reason is given here. */
#include "sample.h"

#include <stdio.h>
#include <string.h>

typedef struct excuse {
    const char *op, *why;
} excuse;

/* Rows without a sample of their own. */
static const excuse no_sample[] = {
#define NO_SAMPLE(op, why) {#op, why},
#define NO_GRADCHECK(op, why)
#include "excuses.def"
#undef NO_SAMPLE
#undef NO_GRADCHECK
    {NULL, NULL}};

/* Differentiable rows no sample can gradcheck. */
static const excuse no_gradcheck[] = {
#define NO_SAMPLE(op, why)
#define NO_GRADCHECK(op, why) {#op, why},
#include "excuses.def"
#undef NO_SAMPLE
#undef NO_GRADCHECK
    {NULL, NULL}};

static bool excused(const excuse *list, const char *op) {
    for (; list->op; list++)
        if (!strcmp(list->op, op)) return true;
    return false;
}

/* An inverse of a view is checked by each sample of the view (check_twins.c). */
static bool is_inverse(const char *op) {
    for (int i = 0; i < TD_OP_COUNT; i++)
        if (td__ops[i].inverse && !strcmp(td__ops[i].inverse, op)) return true;
    return false;
}

/* The rows NAME_copy share one rule, which calls the view. */
static bool is_view_copy(const td_opdef *d) {
    return d->decomp_fn == td__decomp_view_copy;
}

static int complain(const char *op, const char *what) {
    printf("FAIL table: %s: %s\n", op, what);
    return 1;
}

static int check_row(td_op op) {
    const td_opdef  *d = &td__ops[op];
    const td_opinfo *info = td__opinfo(op);
    int              bad = 0;
    if (!d->doc || !*d->doc) bad += complain(d->name, "no .doc");
    if (!d->vjp && !d->vjp_fn) bad += complain(d->name, "no derivative and no reason");
    if (strcmp(info->s.name, d->name))
        bad += complain(d->name, "schema has another name");
    if (d->inverse && td__op_find(d->inverse) == TD_OP_COUNT)
        bad += complain(d->name, "unknown .inverse");
    for (int i = 0; i < info->s.n_out; i++) {
        char a = info->s.out[i].alias;
        bool found = !a;
        for (int k = 0; k < info->s.n_in; k++) found |= info->s.in[k].alias == a;
        if (!found) bad += complain(d->name, "a result's alias letter has no argument");
    }
    return bad;
}

int check_table(const bool *seen, const bool *graded, const bool *complex) {
    int bad = 0;
    for (int i = 0; i < TD_OP_COUNT; i++) {
        const td_opdef  *d = &td__ops[i];
        const td_opinfo *info = td__opinfo((td_op)i);
        bad += check_row((td_op)i);
        if (!seen[i] && !excused(no_sample, d->name) && !is_inverse(d->name))
            bad += complain(d->name, "no sample in tests/ops/samples_*.def");
        bool own = d->vjp_fn || (d->vjp && !strchr("!0@", d->vjp[0]));
        bool known = d->vjp_fn != td__vjp_unknown;
        if (own && info->differentiable && known && seen[i] && !graded[i] &&
            !excused(no_gradcheck, d->name))
            bad += complain(d->name, "no f64 sample went through gradcheck");
        if (d->complex && strcmp(d->complex, TD_MOVES) != 0 && !complex[i] &&
            !excused(no_sample, d->name) && !is_inverse(d->name) && !is_view_copy(d))
            bad += complain(d->name, "takes complex tensors, and no sample has any");
    }
    return bad;
}
