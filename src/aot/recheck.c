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
static td_graph *recapture(td_fn *f, const td_spec *s, td_values args) {
    td_deps      deps = {0}; /* those of the specialization stay */
    td_dim_given given = td__dim_give((td_dim_given){s->sizes.v, s->sizes.n, 0});
    td_graph    *now = td__spec_recapture(f, s, args, &deps);
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
static bool same_consts(td_fn *f, const td_spec *s, const td_graph *now) {
    char text[160];
    for (int i = 0; i < now->consts.n && i < s->program->consts.n; i++) {
        if (now->consts.v[i] == s->program->consts.v[i]) continue;
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
         (other ? fail_changed(f, s, td__buf_str(&text)) : same_consts(f, s, now));
    td__buf_free(&a);
    td__buf_free(&b);
    td__buf_free(&text);
    return ok;
}

/* With debug_asserts: fails if the body does something else than at the first call. It
 * is captured again with the same sizes as symbols, because the gradient of a region is
 * captured in another way for symbols than for numbers (part/region.c), and both
 * programs are compared for the sizes of this call. If the compiled program is a
 * replay, so is the other one: a replay reads a saved value by its name, which the body
 * read as an alias without history, and its views have other flags. */
bool td__spec_recheck(td_fn *f, td_spec *s, td_values args) {
    if (!s->set.debug_asserts || !s->program || f->inner || f->loaded || !is_due(s))
        return true;
    td_graph *now = recapture(f, s, args);
    if (!now) return false;
    bool      replays = s->guards || s->replayed;
    td_graph *was = s->guards ? replay(f, s, s->program, args) : NULL;
    td_graph *again = replays ? replay(f, s, now, args) : NULL;
    bool      ok = td_ok(f->cx), skip = (s->guards && !was) || (replays && !again);
    if (ok && !skip)
        ok = same_programs(f, s, was ? was : s->program, again ? again : now);
    td__graph_drop(was);
    td__graph_drop(again);
    td__graph_drop(now);
    return ok;
}
