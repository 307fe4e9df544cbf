/* prog_noise.c -- do two ways differ by rounding alone? Native code adds up in another
 * order than eager, and so do gradients that passes have rewritten; a program may make
 * much of the last digit. Two measures tell rounding from a mistake: with more digits
 * it shrinks, and eager itself moves as far when its arguments change by one unit. */
#include "prog.h"

#include "cli/case_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- with more digits --------------------------------------------------- */

/* The program with f64 in place of every other float, up to a line of its case. */
static bool widen(td_buf *to, const char *text, size_t n, int line) {
    static const char *const names[] = {"bf16", "f16", "f32"};
    for (size_t i = 0; i < n && line > 0;) {
        line -= text[i] == '\n';
        size_t len = 0;
        for (int k = 0; k < 3 && !len; k++)
            if (!strncmp(text + i, names[k], strlen(names[k]))) len = strlen(names[k]);
        if (len) td__buf_add(to, "f64");
        else td__buf_addn(to, text + i, 1);
        i += len ? len : 1;
    }
    if (to->n && strcmp(td__buf_str(to) + to->n - 2, "}\n")) td__buf_add(to, "}\n");
    return !to->failed;
}

/* A difference that comes of rounding is smaller with more digits by as much as their
 * unit is: from f32 to f64 2^29 times. Elements are drawn anew in f64 and may cancel
 * more, so a part of that will do. */
enum { SMALLER = 1 << 20 };

static bool shrinks_with_digits(const char *text, size_t n, double off) {
    prog_result more;
    prog_rounding = isfinite(off) ? off / SMALLER : 0;
    prog_check_text(text, n, TD_F64, &more);
    prog_rounding = 0;
    return more.verdict == PROG_AGREE && !more.failed;
}

/* ---- with other last digits --------------------------------------------- */

/* Moves every element of an f32 storage to the next number. Whole numbers stay: ops
 * that jump there (floor, comparisons) would make a small change a large one. */
static void nudge(const td_storage *st) {
    float *at = st->data;
    for (size_t i = 0; i < st->bytes / sizeof *at; i++)
        if (isfinite(at[i]) && at[i] != rintf(at[i]))
            at[i] = nextafterf(at[i], INFINITY);
}

static bool call_nudged(case_run *run, const td_graph *fn, const td_value *in,
                        td_value *out) {
    for (int i = 0; i < fn->inputs.n; i++)
        if (in[i].kind == TD_K_TENSOR && in[i].u.t->dtype == TD_F32)
            nudge(in[i].u.t->st);
    return case_body(run, run->step, in, out);
}

/* Does eager move at least as far as `off` when its arguments do by one unit? Then no
 * digit of the result is known, as of the logarithm of a sum that cancels. */
static bool is_unstable(const char *text, size_t n, double off) {
    static const case_way nudged = {.name = "nudged", .call = call_nudged};
    td_ctx               *cx = td_open();
    td_gfile             *f = cx ? td__gfile_parse(cx, text, n, "program.td") : NULL;
    bool                  moves = false;
    for (int i = 0; f && !td_is_nil(f) && i < f->cases.n; i++) {
        case_verdict v = {0};
        case_check(f, f->cases.v[i], &nudged, &v);
        moves |= v.off >= off / 4;
        td__buf_free(&v.why);
    }
    td__gfile_drop(f);
    if (cx) td_close(cx);
    return moves;
}

/* ---- both --------------------------------------------------------------- */

/* Only numbers may differ, and only where sums may be in another order: in native code
 * and in gradients. */
bool prog_is_noise(const char *text, size_t n, const prog_result *r) {
    td_buf      wide = {0};
    const char *why = strstr(r->why, ": ");
    int         line = 0;
    bool        native = prog_native; /* of the run that differed */
    if (r->verdict != PROG_DIFFER || (!native && !strstr(text, "backward")) || !why ||
        !prog_only_numbers(why + 2) || sscanf(why, ": line %d:", &line) != 1)
        return false;
    bool noise = widen(&wide, text, n, line) &&
                 shrinks_with_digits(td__buf_str(&wide), wide.n, r->off);
    td__buf_free(&wide);
    return noise || (native && is_unstable(text, n, r->off));
}
