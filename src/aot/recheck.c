/* recheck.c -- with debug_asserts, the body is captured again at some calls. If the
 * capture differs from the compiled program, the body read something that its key
 * does not contain; the call fails and names the op that changed. */
#include "aot/aot.h"

#include <stdio.h>
#include <string.h>

/* ---- when --------------------------------------------------------------- */

/* At calls 2, 4, 8 and so on of a specialization. */
static bool is_due(td_spec *s) {
    uint64_t n = ++s->n_calls;
    return n >= 2 && (n & (n - 1)) == 0;
}

/* ---- the two programs --------------------------------------------------- */

/* A replay of the program for the sizes of this call. NULL: it cannot be replayed for
 * these sizes, or td__fail for lack of memory. */
static td_graph *replay(td_fn *f, const td_spec *s, const td_graph *program,
                        td_values args) {
    td_value    *in = td__spec_inputs(s, program, args);
    td_dim_given given = td__dim_give((td_dim_given){s->sizes.v, s->sizes.n, 0});
    td_graph    *g = in ? td__capture_replay(program, in) : NULL;
    td__dim_give(given);
    td__free(in);
    if (td__error(f->cx) != TD_E_MEMORY) td_clear(f->cx);
    return g;
}

/* Captures the body again. The dependencies of the call are recorded and thrown
 * away. */
static td_graph *recapture(td_fn *f, const td_spec *s, td_values args,
                           td_recapture how) {
    td_deps      deps = {0}; /* those of the specialization stay */
    td_dim_given given = td__dim_give((td_dim_given){s->sizes.v, s->sizes.n, 0});
    td_graph    *now = td__spec_recapture(f, s, args, how, &deps);
    td__dim_give(given);
    td__deps_free(&deps);
    return now;
}

/* ---- comparing ---------------------------------------------------------- */

/* Line k of a text without indentation and newline; its length goes to *n. Past the
 * last line: "". */
static const char *line_at(const char *text, int k, int *n) {
    while (k-- > 0 && *text) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    while (*text == ' ') text++;
    *n = (int)strcspn(text, "\n");
    return text;
}

/* A check of a size that depends on data: the trace adds it where it needs one, which a
 * capture with other sizes may not. */
static bool is_expect(const char *line, int n) {
    return n > 7 && !strncmp(line, "expect(", 7);
}

/* The first lines after the head in which two texts differ, at[0] of a and at[1] of b;
 * false: none. Checks of sizes are passed over. */
static bool first_difference(const char *a, const char *b, int at[2]) {
    for (at[0] = at[1] = 1;; at[0]++, at[1]++) {
        int         n, m;
        const char *x = line_at(a, at[0], &n), *y = line_at(b, at[1], &m);
        while (is_expect(x, n)) x = line_at(a, ++at[0], &n);
        while (is_expect(y, m)) y = line_at(b, ++at[1], &m);
        if (n != m || memcmp(x, y, (size_t)n)) return true;
        if (!*x) return false;
    }
}

/* Appends line k of the graph's text, with types and the user's source line. */
static void add_line(td_buf *to, const td_graph *g, int k) {
    td_buf b = {0};
    int    n;
    td__graph_print(&b, g,
                    TD_PRINT_TYPES | TD_PRINT_PLACES | TD_PRINT_BARE | TD_PRINT_OPS);
    const char *line = line_at(td__buf_str(&b), k, &n);
    td__buf_printf(to, "`%.*s`", n, n ? line : "nothing");
    td__buf_free(&b);
}

/* Fails with what changed and what to do. Returns false. */
static bool fail_changed(td_fn *f, const td_spec *s, const char *what) {
    return td__fail(
        f->cx, TD_E_GUARD,
        "debug_asserts: %s: at call %llu the body does something else than "
        "what was compiled: %s. It reads a value that compiled calls do not "
        "check: pass it as an argument, td_watch it, or call td_fn_forget "
        "after changing it",
        f->name, (unsigned long long)s->n_calls, what);
}

/* Does the body close over the same tensors? False after td__fail. */
static bool same_consts(td_fn *f, const td_spec *s, const td_graph *was,
                        const td_graph *now) {
    char text[160];
    for (int i = 0; i < now->consts.n && i < was->consts.n; i++) {
        if (now->consts.v[i] == was->consts.v[i]) continue;
        snprintf(text, sizeof text, "closed-over tensor %d is another tensor, %s", i,
                 td__type_str(now->consts.v[i]));
        return fail_changed(f, s, text);
    }
    return true;
}

/* Compares the two programs as text, then their consts. False after td__fail. Types
 * are left out with guards, as sizes are symbols in one of them. */
static bool same_programs(td_fn *f, const td_spec *s, const td_graph *was,
                          const td_graph *now) {
    unsigned how = TD_PRINT_BARE | TD_PRINT_OPS | (s->guards ? 0 : TD_PRINT_TYPES);
    td_buf   a = {0}, b = {0}, text = {0};
    bool     ok = td__graph_print(&a, was, how) && td__graph_print(&b, now, how);
    int      at[2];
    bool     other = ok && first_difference(td__buf_str(&a), td__buf_str(&b), at);
    if (other) {
        add_line(&text, was, at[0]);
        td__buf_add(&text, " is now ");
        add_line(&text, now, at[1]);
    }
    ok = (ok || td__fail_memory(f->cx)) &&
         (other ? fail_changed(f, s, td__buf_str(&text)) : same_consts(f, s, was, now));
    td__buf_free(&a);
    td__buf_free(&b);
    td__buf_free(&text);
    return ok;
}

/* Compares two captures of the body for the sizes of this call. Where one of them has
 * symbols, or is a replay, both are replayed: a replay reads a saved value by its name,
 * which the body read as an alias without history, and its views have other flags.
 * False after td__fail. */
static bool same_captures(td_fn *f, const td_spec *s, td_values args,
                          const td_graph *was, const td_graph *now) {
    if (!s->guards && !s->replayed) return same_programs(f, s, was, now);
    td_graph *a = replay(f, s, was, args), *b = replay(f, s, now, args);
    bool      ok = td_ok(f->cx) && (!a || !b || same_programs(f, s, a, b));
    td__graph_drop(a);
    td__graph_drop(b);
    return ok;
}

/* Captures the body again and compares. False after td__fail. */
static bool same_again(td_fn *f, const td_spec *s, td_values args, const td_graph *was,
                       td_recapture how) {
    td_graph *now = recapture(f, s, args, how);
    bool      ok = now && same_captures(f, s, args, was, now);
    td__graph_drop(now);
    return ok;
}

/* The gradient of a region is captured as its ops where its sizes are symbols, else as
 * one op (part/region.c). So a capture with symbols is compared with one with the same
 * symbols, and one with numbers only if all regions are their ops in both. */
static bool same_with_symbols(td_fn *f, const td_spec *s, td_values args) {
    td_recapture symbols = {.symbols = true}, all = {.symbols = true, .whole = true};
    if (!same_again(f, s, args, s->program, symbols)) return false;
    td_graph *whole = recapture(f, s, args, all);
    bool ok = whole && same_again(f, s, args, whole, (td_recapture){.whole = true});
    td__graph_drop(whole);
    return ok;
}

/* With debug_asserts: fails if the body does something else than at the first call. A
 * capture with numbers also finds what C computes from a handle for a size. */
bool td__spec_recheck(td_fn *f, td_spec *s, td_values args) {
    if (!s->set.debug_asserts || !s->program || f->inner || f->loaded || !is_due(s))
        return true;
    if (same_again(f, s, args, s->program, (td_recapture){0})) return true;
    if (!s->marks.n || td__error(f->cx) != TD_E_GUARD) return false;
    td_clear(f->cx);
    return same_with_symbols(f, s, args);
}
