/* dynamic.c -- specializations for many sizes: traced with symbols in the place of
 * sizes, valid for every call that passes the guards. Symbols are: all sizes but 0
 * and 1 (setting dynamic), those that the user marked (marked.c), and, by default, the
 * sizes in which a call differs from an earlier one that agrees in everything else. */
#include "aot/aot.h"
#include "core/typed.h"
#include "trace/sym_args.h"

#include <stdio.h>
#include <string.h>

/* ---- which sizes -------------------------------------------------------- */

/* Inner tensors may differ in sizes where a size of their tensor differs, or if those
 * of the type do anyway, which is marked then. *at is the count of the words of a type,
 * and moves past these. */
static bool mark_typed(uint32_t *marks, const td_tensor *t, const td_key *now,
                       const td_key *was, int *at) {
    const int64_t *a = now->v + *at, *b = was->v + *at;
    int64_t        n = a[0];
    *at += 1 + (int)n;
    if (b[0] != n) return false;
    if (!memcmp(a + 1, b + 1, sizeof *a * (size_t)n)) return true;
    if (t->typed->type->opts.varies) *marks |= TD_SYM_INNER;
    return *marks && td__key_typed_sizes(a + 1, b + 1, (int)n);
}

/* Was a leaf read in the same sizes? *at is the rank of the sizes in which it was, -1
 * for its own, and moves past these. */
static bool read_alike(const td_key *now, const td_key *was, int *at) {
    const int64_t *a = now->v + *at, *b = was->v + *at;
    if (a[0] != b[0]) return false;
    int n = a[0] > 0 ? (int)a[0] : 0;
    *at += 1 + n;
    return !memcmp(a + 1, b + 1, sizeof *a * (size_t)n);
}

/* Marks the dims of an argument whose size differs between two keys, or is a symbol in
 * the specialization of `was`. *at is the item's first word and moves past it. False:
 * the argument differs in more than sizes and strides. */
static bool mark_arg(uint32_t *marks, td_value arg, const td_key *now,
                     const td_key *was, int *at) {
    const int64_t *a = now->v + *at, *b = was->v + *at;
    if (a[0] != b[0]) return false;
    if (a[0] != TD_K_TENSOR) {
        *at += a[0] == TD_K_NONE ? 1 : 2;
        if (a[0] != TD_K_NONE && a[1] != b[1]) *marks = 1;
        return true;
    }
    int rank = (int)(a[1] >> TD_KEY_RANK & 255);
    if (a[1] != b[1] || a[2] != b[2]) return false;
    for (int d = 0; d < rank; d++)
        if (a[3 + d] != b[3 + d] || a[3 + d] == TD_KEY_ANY) *marks |= (uint32_t)1 << d;
    *at += 3 + 2 * rank + (int)(a[1] >> TD_KEY_OFFSET & 1) +
           (int)(a[1] >> TD_KEY_REST & 1) + (int)(a[1] >> TD_KEY_OBJECT & 1);
    if (a[1] >> TD_KEY_OBJECT & 1 && now->v[*at - 1] != was->v[*at - 1]) return false;
    if (a[1] >> TD_KEY_READ & 1 && !read_alike(now, was, at)) return false;
    return !(a[1] >> TD_KEY_TYPED & 1) || mark_typed(marks, arg.u.t, now, was, at);
}

bool td__spec_changes(td_fn *f, const td_spec *s, td_values args, uint32_t *marks) {
    int at = 2;
    if (!td__key_make(f, &f->key, args, s) || f->key.n != s->key.n) return false;
    if (f->key.v[0] != s->key.v[0] || f->key.v[1] != s->key.v[1]) return false;
    for (int i = 0; i < args.n; i++)
        if (!mark_arg(&marks[i], args.v[i], &f->key, &s->key, &at)) return false;
    return !memcmp(f->key.v + at, s->key.v + at,
                   sizeof *s->key.v * (size_t)(s->key.n - at));
}

static bool numbers_differ(td_values args, const uint32_t *marks) {
    for (int i = 0; i < args.n; i++)
        if (args.v[i].kind != TD_K_TENSOR && marks[i]) return true;
    return false;
}

/* Fills marks, a bit per dim and argument: td_mark_dynamic and its kin and, if
 * `changes`, td__spec_changes against every specialization. False: nothing is marked,
 * or td__fail. */
static bool find_marks(td_fn *f, td_values args, bool changes, uint32_t *marks) {
    size_t    bytes = sizeof *marks * ((size_t)args.n + 1);
    uint32_t *more = td__alloc(bytes);
    bool      any = false;
    if (!more) return td__fail_memory(f->cx);
    for (int i = 0; i < args.n; i++) {
        const td_tensor *t = args.v[i].kind == TD_K_TENSOR ? args.v[i].u.t : NULL;
        marks[i] = t ? t->marks | t->maybe : 0;
        any |= marks[i] != 0;
    }
    for (const td_spec *s = changes ? f->specs : NULL; s; s = s->next) {
        memset(more, 0, bytes);
        if (!td__spec_changes(f, s, args, more)) continue;
        if (numbers_differ(args, more)) continue;
        for (int i = 0; i < args.n; i++) {
            marks[i] |= more[i];
            any |= more[i] != 0;
        }
    }
    td__free(more);
    return any;
}

/* A view that requires grad is rebuilt by its chain of view ops, whose arguments are
 * numbers, and so are its sizes and those of its base (trace/sym_args.c). False after
 * td__fail: one of them is marked. */
static bool may_vary(td_fn *f, td_values args) {
    char why[140], name[80];
    for (int i = 0; i < args.n; i++) {
        const td_tensor *t = args.v[i].kind == TD_K_TENSOR ? args.v[i].u.t : NULL;
        if (!t || !t->base || !td__needs_grad(t) || !t->marks) continue;
        snprintf(why, sizeof why, "%s is a view that requires grad. Pass a clone",
                 td__arg_name(f, i, name));
        if (!td__marked_refuse_one(f, args, i, why)) return false;
    }
    return true;
}

/* ---- tracing ------------------------------------------------------------ */

/* Guards from disk know the source lines of ops; those of size reads in the body are
 * filled in from the capture. */
static bool place_guards(td_spec *s, const td_symenv *e) {
    return !s->guards || td__guards_place(s->guards, e) || td__fail_memory(e->cx);
}

/* After the capture: false after td__fail if a size had to become a number. */
static bool still_varies(const td_fn *f, const td_symenv *e) {
    return !e->fixed || td__fail(f->cx, TD_E_UNSUPPORTED, "%s", e->why);
}

/* Was the geometry of an argument traced with symbols? Others depend on values. */
static bool args_vary(const td_symenv *e) {
    for (int i = 0; i < e->symbols.n; i++)
        if (e->symbols.v[i].letter != 'u') return true;
    return false;
}

static bool counts_bytes(const td_gnode *n) {
    if (n->kind != TD_N_OP) return false;
    return td__op_view_kind(n->op) == TD_VIEW_STRIDED ||
           (n->op == TD_OP_set_ && n->n_in > 2) || td__row(n->op)->flags & TD_OPF_WHOLE;
}

/* The size in bytes of an argument's storage is no function of its sizes, so that a
 * geometry over that storage is for the sizes of this call. */
static bool check_geometries(const td_graph *program, const td_symenv *e) {
    for (int i = 0; i < program->nodes.n && args_vary(e); i++)
        if (counts_bytes(program->nodes.v[i]))
            return td__fail(
                program->cx, TD_E_UNSUPPORTED,
                "%s: a geometry over a storage whose size in bytes may vary",
                td__row(program->nodes.v[i]->op)->name);
    return true;
}

/* Compiles the guards that the trace recorded. False after td__fail. */
static bool take_guards(const td_fn *f, td_spec *s, td_symenv *e) {
    if (s->cache.found) return place_guards(s, e);
    return !e->symbols.n ||
           (check_geometries(td__spec_program(f, s), e) && td__sym_facts(e, s->j->g) &&
            (s->guards = td__guards_compile(e)) != NULL);
}

/* Stores the dims that are symbols in the program, which was captured now. */
static bool keep_marks(td_ctx *cx, td_spec *s, const td_symplan *plan, int n) {
    s->marks.n = 0;
    for (int i = 0; s->varies && i < n; i++)
        if (!td__vec_push(&s->marks, plan->marks[i])) return td__fail_memory(cx);
    return true;
}

/* The stages capture to passes in a symbolic environment. plan: which sizes are
 * symbols; unused unless s->varies. */
static bool trace(td_fn *f, td_spec *s, td_values given, const td_symplan *plan) {
    td_values  args = given;
    td_symenv *e = td__symenv_make(f->cx);
    td_symargs a = {0};
    bool       ok = true, captures = !s->program;
    if (!e) return false;
    e->may_fix = plan->may_fix;
    td__symenv_begin(e);
    if (s->varies) {
        s->fakes = &a.fakes;
        ok = td__symargs_make(&a, e, args, *plan);
        args = (td_values){a.v, a.n};
    }
    ok = ok && td__stages_run(f, s, args, TD_PIPE_CAPTURE, TD_PIPE_CAPTURE) &&
         (!captures || keep_marks(f->cx, s, plan, given.n)) && still_varies(f, e) &&
         td__stages_run(f, s, args, TD_PIPE_FACTS, TD_PIPE_PASSES) &&
         td__pack_check_sizes(f, s->j) && take_guards(f, s, e) &&
         (!s->varies || td__marked_check(f, s, given, e));
    s->fakes = NULL;
    td__symargs_drop(&a);
    td__symenv_end(e);
    td__symenv_drop(e);
    return ok;
}

/* Arguments whose sizes stay numbers: parameters and buffers (setting static_params),
 * td_aot_opts.static_args, and closed-over tensors. NULL: out of memory. */
static bool *find_fixed(const td_fn *f, td_values args, bool members_too) {
    bool *fixed = td__zalloc((size_t)args.n + 1);
    int   members = f->n_state + (f->inner ? 0 : f->opts.n_params + f->opts.n_buffers);
    for (int i = 0; fixed && i < members && i < args.n; i++) fixed[i] = members_too;
    for (int i = 0; fixed && f->graph && i < args.n && i < f->graph->in_desc.n; i++) {
        uint8_t kind = f->graph->in_desc.v[i].kind;
        bool    member = kind == TD_D_PARAM || kind == TD_D_BUFFER;
        fixed[i] = kind == TD_D_CONST || (member && members_too);
    }
    for (int i = f->n_state; fixed && i < args.n; i++)
        if (td__arg_is_static(f, i)) fixed[i] = true;
    return fixed;
}

/* Sets s->varies and marks. False after td__fail. */
static bool choose_sizes(td_fn *f, td_spec *s, td_values args, td_vary how,
                         uint32_t *marks) {
    bool all = s->set.dynamic == TD_SHAPES_DYNAMIC;
    s->varies = false;
    if (how == TD_SIZES_NUMBERS || s->set.dynamic == TD_SHAPES_STATIC) return true;
    if (!may_vary(f, args)) return td_ok(f->cx);
    bool any = find_marks(f, args, s->set.dynamic == TD_SHAPES_AUTO, marks);
    s->varies = all || any;
    return td_ok(f->cx);
}

/* Which sizes are symbols: marks and fixed are by argument. */
static td_symplan plan_of(const td_fn *f, const td_spec *s, const uint32_t *marks,
                          const bool *fixed) {
    bool dynamic = s->set.dynamic == TD_SHAPES_DYNAMIC;
    return (td_symplan){.dynamic = dynamic ? TD_DYNAMIC_ALL : TD_DYNAMIC_MARKED,
                        .marks = marks,
                        .no_duck = !s->set.duck_sizes,
                        .by_argument = true,
                        .may_fix = true,
                        .named_as = f->graph,
                        .fixed = fixed};
}

/* Captures the body with the sizes chosen by `how` as symbols. */
bool td__spec_trace(td_fn *f, td_spec *s, td_values args, td_vary how) {
    uint32_t  *marks = td__zalloc(sizeof *marks * ((size_t)args.n + 1));
    bool      *fixed = find_fixed(f, args, s->set.static_params);
    td_symplan plan = plan_of(f, s, marks, fixed);
    plan.may_fix = how == TD_SIZES_MAY_VARY;
    bool ok = (marks && fixed) || td__fail_memory(f->cx);
    ok = ok && choose_sizes(f, s, args, how, marks) && trace(f, s, args, &plan);
    td__free(marks);
    td__free(fixed);
    return ok;
}

/* Captures on args with the symbols of the plan. */
static td_graph *capture_symbols(td_fn *f, td_values args, td_symenv *e,
                                 td_symplan plan, bool whole, td_deps *deps) {
    td_symargs a = {0};
    td_graph  *g = NULL;
    e->may_fix = plan.may_fix;
    if (td__symargs_make(&a, e, args, plan))
        g = td__spec_capture(f, (td_values){a.v, a.n}, (td_capture_as){&a.fakes, whole},
                             deps);
    td__symargs_drop(&a);
    return g;
}

/* Without symbols the environment only serves sizes that depend on values. */
td_graph *td__spec_recapture(td_fn *f, const td_spec *s, td_values args,
                             td_recapture how, td_deps *deps) {
    bool      *fixed = find_fixed(f, args, s->set.static_params);
    td_symenv *e = fixed ? td__symenv_make(f->cx) : NULL;
    td_graph  *g = NULL;
    if (!fixed) td__fail_memory(f->cx);
    if (e) {
        td_symplan plan = plan_of(f, s, s->marks.v, fixed);
        td__symenv_begin(e);
        g = how.symbols && s->marks.n == args.n
                ? capture_symbols(f, args, e, plan, how.whole, deps)
                : td__spec_capture(f, args, (td_capture_as){NULL, how.whole}, deps);
        td__symenv_end(e);
        td__symenv_drop(e);
    }
    td__free(fixed);
    return g;
}
