/* prog_noise.c -- do two ways differ by rounding alone? Native code adds up in another
 * order than eager, and so do gradients that passes have rewritten; a program may make
 * much of the last digit. Two measures tell rounding from a mistake: with more digits
 * it shrinks, and eager itself moves as far when arguments, sums and factorizations
 * change by one unit. */
#include "prog.h"
#include "tandem/type.h"

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

/* How the elements of a run move. */
typedef struct rounding {
    uint64_t draw;
    bool     halves; /* those of halves, too */
} rounding;

/* The unit of a dtype whose elements move; 0: they do not. */
static double unit_of(const rounding *r, td_dtype dt) {
    switch (dt) {
    case TD_F64: return 0x1p-52;
    case TD_F32: return 0x1p-23;
    case TD_F16: return r->halves ? 0x1p-10 : 0;
    case TD_BF16: return r->halves ? 0x1p-7 : 0;
    default: return 0;
    }
}

/* How certain a result is. */
typedef enum origin {
    SHORT,  /* an argument, or added up of numbers with few digits */
    LONG,   /* added up of others */
    FACTOR, /* of a factorization */
} origin;

/* Moves x by one unit of the last place, up or down at random. Of a whole result of
 * sums of short numbers, and of pointwise ops, no digit is uncertain, unless it is too
 * large for others, and ops that jump there (floor, comparisons) would make a small
 * change a large one. A factorization iterates and divides: its errors are units of the
 * largest element. */
static double moved(rounding *r, double x, double largest, origin of, double unit) {
    r->draw = r->draw * 6364136223846793005u + 1442695040888963407u;
    double sign = r->draw >> 63 ? 1 : -1;
    bool   whole = x == rint(x) && fabs(x) * unit < 1;
    if (!isfinite(x) || (whole && of == SHORT)) return x;
    return x + sign * unit * (of == FACTOR || x == 0 ? largest : ldexp(1, ilogb(x)));
}

/* Moves every element of t's storage, if that is the host's; of a tensor of a type,
 * which has no elements, its parts. */
static void nudge(td_tensor *t, origin of, rounding *r) {
    for (int i = 0; i < td_type_inner_count(t); i++) nudge(td_type_inner(t, i), of, r);
    td_dtype dt = (td_dtype)t->dtype;
    double   unit = unit_of(r, dt), largest = 0;
    if (t->typed || unit == 0 || !td__ptr(t) || t->st->device) return;
    size_t item = td__dtype_bytes[dt], n = t->st->bytes / item;
    char  *at = t->st->data;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(td__load_f(dt, at + i * item)));
    for (size_t i = 0; i < n; i++) {
        double x = td__load_f(dt, at + i * item);
        td__store_f(dt, at + i * item, moved(r, x, largest, of, unit));
    }
}

/* Have all elements of float arguments few digits, so that their sums have no error?
 * Those of a storage stand for those of a view of it. */
static bool are_short(const td_mode_call *h) {
    for (int i = 0; i < td_mode_call_args(h); i++) {
        td_value a = td_mode_call_arg(h, i);
        if (a.kind != TD_K_TENSOR || !a.u.t) continue;
        td_dtype dt = (td_dtype)a.u.t->dtype;
        size_t   item = td__dtype_bytes[dt];
        bool     read = td__is_float(dt) && !a.u.t->typed && td__ptr(a.u.t);
        if (!read || a.u.t->st->device) continue;
        for (size_t k = 0; k < a.u.t->st->bytes / item; k++) {
            double x = 0x1p10 * td__load_f(dt, (char *)a.u.t->st->data + k * item);
            if (isfinite(x) && x != rint(x)) return false;
        }
    }
    return true;
}

static bool is_written(const td_mode_call *h) {
    bool written = false;
    for (int i = 0; i < td_mode_call_args(h); i++) written |= td_mode_call_writes(h, i);
    return written;
}

/* A mode, env is a rounding: results of sums and factorizations move. They
 * are new tensors, on which nothing depends yet. */
static bool round_otherwise(void *env, td_mode_call *h) {
    td_op           op = td__op_find(td_mode_call_name(h));
    const td_opdef *row = op == TD_OP_COUNT ? NULL : td__row(op);
    bool            sums = row && row->flags & TD_OPF_SUMS;
    origin          of = !sums ? FACTOR : are_short(h) ? SHORT : LONG;
    if (!td_mode_call_go(h)) return false;
    if (!row || is_written(h)) return true;
    for (int i = 0; (sums || row->work) && i < td_mode_call_results(h); i++) {
        td_tensor *t = td_mode_call_result(h, i);
        if (!td_is_nil(t)) nudge(t, of, env);
    }
    return true;
}

/* Eager with arguments that have moved, too. */
static bool call_nudged(case_run *run, const td_graph *fn, const td_value *in,
                        td_value *out) {
    for (int i = 0; i < fn->inputs.n; i++)
        if (in[i].kind == TD_K_TENSOR) nudge(in[i].u.t, SHORT, run->way->env);
    return case_body(run, run->step, in, out);
}

/* Does `nudged` name a value of an earlier line than `why` does first, or the same
 * value? Both are descriptions of differences. */
static bool is_behind(const char *nudged, const char *why) {
    int         at = 0, line = 0;
    char        value[80];
    const char *name = strchr(why, '%'), *end = strstr(why, ": element ");
    if (!end) end = strstr(why, " is ");
    sscanf(nudged, "line %d", &at);
    sscanf(why, "line %d", &line);
    if (!name || !end || end < name || at < line) return at < line;
    snprintf(value, sizeof value, "%.*s", (int)(end - name) + 1, name);
    return strstr(nudged, value) != NULL;
}

/* Does the value move by `off`, or one before it, when both runs round otherwise, each
 * in its own way? */
static bool moves(const td_gfile *f, const td_gcase *c, const char *why, double off,
                  rounding r) {
    td_mode_hook mode = {.name = "rounding", .call = round_otherwise, .env = &r};
    case_way     nudged = {.name = "nudged", .call = call_nudged, .env = &r};
    case_verdict v = {0};
    nudged.slack = nudged.grad_slack = off * 0x1p23; /* in units of f32 */
    if (!td_mode_push(f->cx, &mode)) return false;
    bool differs = case_check(f, c, &nudged, &v) == CASE_DIFFERS;
    td_mode_pop(f->cx, &mode);
    const char *by = td__buf_str(&v.why);
    bool        far = differs && v.off >= off && prog_only_values(by);
    far = far && is_behind(by, why);
    td__buf_free(&v.why);
    return far;
}

enum { ROUNDINGS = 4 };

static bool has_backward(const td_gcase *c) {
    bool has = false;
    for (int i = 0; i < c->steps.n; i++) has |= c->steps.v[i].kind == TD_STEP_BACKWARD;
    return has;
}

/* Does eager itself move at least a quarter as far as `off` under another rounding?
 * Then no digit of the result is known, as of the logarithm of a sum that cancels, or
 * of a derivative of singular vectors where singular values are equal. */
bool prog_is_unstable(const td_gfile *f, const td_gcase *c, const char *why,
                      double off) {
    bool unstable = false;
    bool halves = strstr(why, "'s gradient") != NULL; /* cast by autocast */
    if (!prog_only_values(why) || !(prog_native || has_backward(c))) return false;
    for (uint64_t k = 0; k < ROUNDINGS && !unstable; k++)
        unstable = moves(f, c, why, off / 4, (rounding){k + 1, halves});
    return unstable;
}

/* ---- with more digits, of a whole program ------------------------------- */

/* Only numbers may differ, and only where sums may be in another order: in native code
 * and in gradients. */
bool prog_is_noise(const char *text, size_t n, const prog_result *r) {
    td_buf      wide = {0};
    const char *why = strstr(r->why, ": ");
    int         line = 0;
    bool        sums = prog_native || strstr(text, "backward");
    if (r->verdict != PROG_DIFFER || !sums || !why || !prog_only_numbers(why + 2) ||
        sscanf(why, ": line %d:", &line) != 1)
        return false;
    bool noise = widen(&wide, text, n, line) &&
                 shrinks_with_digits(td__buf_str(&wide), wide.n, r->off);
    td__buf_free(&wide);
    return noise;
}
