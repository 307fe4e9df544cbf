/* mismatch.c -- why a call fits no specialization, for logs and the error at the
 * limit. The checks run in the order of fits() in fn.c, and the first that fails is
 * the reason. */
#include "aot/aot.h"
#include "trace/sym.h"

#include <string.h>

/* Why the call does not use specialization s: another module state, another dependency,
 * another key, or a guard that fails, in the order in which a call checks them. */
void td__spec_difference(td_buf *b, td_fn *f, td_values args, const td_spec *s) {
    size_t was = b->n;
    td__state_difference(b, f, s);
    if (b->n == was) td__deps_difference(b, &s->deps);
    if (b->n == was && td__key_make(f, &f->key, args, s)) td__key_difference(b, f, s);
    if (b->n == was) td__marks_difference(b, f, s, args);
    if (b->n != was || !td_ok(f->cx)) return;
    int guard = s->guards ? td__guards_run(s->guards, args.v) : -1;
    if (guard < 0) return;
    td__buf_add(b, "the guard ");
    td__guard_line_print(&s->guards->checks.v[guard], b);
    td__buf_add(b, " does not hold");
}

/* The specialization whose key differs in the fewest words; NULL: none, or td__fail. */
static const td_spec *nearest(td_fn *f, td_values args) {
    const td_spec *best = NULL;
    int            least = 0;
    for (const td_spec *s = f->specs; s; s = s->next) {
        if (!td__key_make(f, &f->key, args, s)) return NULL;
        int far = td__key_distance(&f->key, &s->key);
        if (!best || far < least) {
            best = s;
            least = far;
        }
    }
    return best;
}

/* The guard that exists because the body read a size as a number; NULL: none. */
static const td_guard_line *read_guard(const td_spec *s) {
    for (int i = 0; s && s->guards && i < s->guards->all.n; i++) {
        const td_guard_line *l = &s->guards->all.v[i];
        if (l->why && !strcmp(l->why, "read")) return l;
    }
    return NULL;
}

/* Appends advice against more specializations like this one. */
static void add_remedy(td_buf *b, td_fn *f, td_values args, const td_spec *s) {
    bool          made = s && td__key_make(f, &f->key, args, s);
    td_key_change change = made ? td__key_change(&f->key, &s->key) : TD_CHANGE_OTHER;
    const td_guard_line *read = read_guard(s);
    if (change == TD_CHANGE_NUMBER)
        td__buf_add(
            b, "every value of a number that the body reads needs code of its own: "
               "read it with td_arg_value or td_sym_arg, or pass a 0-d tensor, "
               "td_full(cx, TD_SHAPE(), v)");
    else if (change == TD_CHANGE_SIZE && read) {
        td__buf_add(b, "the body reads this size as a number");
        if (read->here.file)
            td__buf_printf(b, " at %s:%d", read->here.file, read->here.line);
        td__buf_add(b,
                    ", so every value needs code of its own: read it with td_sym_size");
    } else td__buf_add(b, "make the calls agree in this");
    td__buf_add(b, "; or raise specialization_limit (td_aot_opts.limit)");
}

/* The specialization that differs least is named, because that difference is the one to
 * remove. */
bool td__fail_limit(td_fn *f, td_values args, int64_t limit) {
    td_buf         why = {0};
    const td_spec *s = nearest(f, args);
    if (s) td__spec_difference(&why, f, args, s);
    td__buf_add(&why, "; ");
    add_remedy(&why, f, args, s);
    td__fail(f->cx, TD_E_UNSUPPORTED,
             "%s: %d specializations exist, which is the limit (%lld); this call "
             "differs from #%d: %s",
             f->name, f->n_specs, (long long)limit, s ? s->nr : 0, td__buf_str(&why));
    td__buf_free(&why);
    return false;
}

/* Logs the difference to every specialization (TD_LOG=guards). */
void td__log_mismatch(td_fn *f, td_values args) {
    if (!f->specs || !td__log_on(f->cx, TD_LOG_guards)) return;
    for (const td_spec *s = f->specs; s; s = s->next) {
        td_buf b = {0};
        td__spec_difference(&b, f, args, s);
        if (td_ok(f->cx))
            td__log(f->cx, TD_LOG_guards, "@%s: not #%d: %s", f->name, s->nr,
                    td__buf_str(&b));
        td__buf_free(&b);
    }
}
