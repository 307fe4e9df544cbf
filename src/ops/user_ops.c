/* user_ops.c -- ops that programs register: rows behind those of the library, made from
 * td_op_opts. The functions of such a row are the same for all (user_op_run.c). Rows
 * are never removed, so that graphs may name them. */
#include "ops/user_ops.h"
#include "core/handle.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static _Atomic(td_user_op *) ops[TD_MOST_USER_OPS];
static atomic_int            n_ops; /* complete ones; changed under `lock` */
static pthread_mutex_t       lock = PTHREAD_MUTEX_INITIALIZER;

static td_user_op *at(td_op op) { return atomic_load(&ops[op - TD_OP_COUNT - 1]); }

const td_opdef *td__user_row(td_op op) { return &at(op)->def; }
td_opinfo      *td__user_info(td_op op) { return &at(op)->info; }

td_op td__user_op_find(const char *name) {
    int n = atomic_load_explicit(&n_ops, memory_order_acquire);
    for (int i = 0; i < n; i++)
        if (!strcmp(atomic_load(&ops[i])->def.name, name))
            return (td_op)(TD_OP_COUNT + 1 + i);
    return TD_OP_COUNT;
}

bool td__op_exists(td_op op) {
    return op < TD_OP_COUNT ||
           (op > TD_OP_COUNT && (int)(op - TD_OP_COUNT) <= atomic_load(&n_ops));
}

uint64_t td__user_op_mark(td_op op) { return at(op)->opts.version ? at(op)->mark : 0; }

/* The other row of op, if `token` says what op itself is; TD_OP_COUNT: none. */
static td_op other_of(td_op op, int token) {
    if (op <= TD_OP_COUNT || at(op)->token != token) return TD_OP_COUNT;
    int other = atomic_load(&at(op)->other);
    return other ? (td_op)other : TD_OP_COUNT;
}

td_op td__op_with_token(td_op op) { return other_of(op, 0); }
td_op td__op_without_token(td_op op) { return other_of(op, 1); }

/* ---- registering -------------------------------------------------------- */

static bool is_word(const char *s) {
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return n && !s[n] && !strchr("0123456789", s[0]) && s[n - 1] != '_';
}

static const char token_suffix[] = "_with_token";

/* Has the token form of an op with an ordered effect room for its token? */
static bool check_token(td_ctx *cx, const td_schema *s) {
    bool fits = strlen(s->name) + sizeof token_suffix <= sizeof s->name &&
                s->n_in < TD_MAX_ARGS && s->n_out < TD_MAX_RESULTS;
    for (int i = 0; i < s->n_in; i++)
        fits = fits && strcmp(s->in[i].name, "token") != 0;
    for (int i = 0; i < s->n_out; i++)
        fits = fits && strcmp(s->out[i].name, "token") != 0;
    return fits || td__fail(cx, TD_E_ARG,
                            "td_register_op: %s: an op with an ordered effect has a "
                            "form with a token: its name may have %d characters, it "
                            "may have %d arguments and %d results, none called token",
                            s->name, (int)(sizeof s->name - sizeof token_suffix),
                            TD_MAX_ARGS - 1, TD_MAX_RESULTS - 1);
}

/* What a registered op must be: see td_op_opts. */
static bool check_schema(td_ctx *cx, const td_schema *s, const td_op_opts *o) {
    static const char who[] = "td_register_op";
    const char       *name = s->name;
    if (!is_word(name))
        return td__fail(cx, TD_E_ARG,
                        "%s: the name %s must consist of a-z, 0-9 and _, begin with a "
                        "letter and not end with _",
                        who, name);
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].alias || s->in[i].write)
            return td__fail(cx, TD_E_ARG,
                            "%s: %s: argument %s is written or aliased; registered ops "
                            "compute new tensors (td_op_opts.in_place adds %s_)",
                            who, name, s->in[i].name, name);
        if (s->in[i].type == TD_T_GRAPH || s->in[i].type == TD_T_OPT_TENSORS)
            return td__fail(cx, TD_E_ARG,
                            "%s: %s: argument %s is a graph or a list with holes; pass "
                            "tensors, or a list of them (Tensor[])",
                            who, name, s->in[i].name);
    }
    for (int i = 0; i < s->n_out; i++) {
        bool list = s->out[i].type == TD_T_TENSORS;
        if ((list && s->n_out > 1) || s->out[i].alias)
            return td__fail(cx, TD_E_ARG,
                            "%s: %s: result %d must be a new tensor, not an alias; a "
                            "list (Tensor[]) must be the only result",
                            who, name, i);
        if (list && o->derivative)
            return td__fail(cx, TD_E_ARG,
                            "%s: %s: the gradients of a list of results have no name "
                            "in .derivative; set .backward, which gets them as r->g",
                            who, name);
    }
    if (!o->kernel || (s->n_out && !o->shape == !o->shape_fn))
        return td__fail(cx, TD_E_ARG,
                        "%s: %s: set .kernel, and one of .shape and .shape_fn", who,
                        name);
    if (!s->n_out && !o->effect)
        return td__fail(cx, TD_E_ARG,
                        "%s: %s: an op without results needs an .effect, or nothing "
                        "would call it",
                        who, name);
    if (o->derivative && o->backward)
        return td__fail(cx, TD_E_ARG, "%s: %s: set one of .derivative and .backward",
                        who, name);
    if (o->in_place && (s->n_out != 1 || s->out[0].type != TD_T_TENSOR || !s->n_in ||
                        s->in[0].type != TD_T_TENSOR || o->effect))
        return td__fail(
            cx, TD_E_ARG,
            "%s: %s: .in_place needs a tensor as first argument, one result "
            "and no effect",
            who, name);
    return o->effect != TD_EFFECT_ORDERED || check_token(cx, s);
}

/* Stands for everything that decides what a graph with the op computes. */
static uint64_t mark_of(const td_op_opts *o) {
    const char *text[] = {o->schema, o->shape, o->derivative, o->saves};
    uint64_t    n[] = {o->effect, o->dtypes, o->strided, o->in_place, o->version};
    uint64_t    h = td__hash(n, sizeof n, 7);
    for (size_t i = 0; i < TD_COUNT(text); i++)
        h = text[i] ? td__hash(text[i], strlen(text[i]), h + i) : h + 31 + i;
    return h | 1;
}

static bool same_functions(const td_op_opts *a, const td_op_opts *b) {
    return a->kernel == b->kernel && a->shape_fn == b->shape_fn &&
           a->backward == b->backward && a->env == b->env;
}

/* A copy of s behind *to, which moves on; NULL stays NULL. */
static const char *take_text(char **to, const char *s) {
    if (!s) return NULL;
    size_t n = strlen(s) + 1;
    char  *at = memcpy(*to, s, n);
    *to += n;
    return at;
}

/* A copy of the options with its own texts, and the row made from them. */
static td_user_op *make_op(const td_op_opts *o, const td_schema *s) {
    const char *text[] = {s->name,  o->schema,     o->doc,
                          o->shape, o->derivative, o->saves};
    size_t      n = 0;
    for (size_t i = 0; i < TD_COUNT(text); i++) n += text[i] ? strlen(text[i]) + 1 : 0;
    td_user_op *u = td__zalloc(sizeof *u + n);
    if (!u) return NULL;
    char *at = (char *)(u + 1);
    u->opts = *o;
    u->def.name = take_text(&at, s->name);
    u->def.schema = u->opts.schema = take_text(&at, o->schema);
    u->def.doc = u->opts.doc = take_text(&at, o->doc);
    u->opts.shape = take_text(&at, o->shape);
    u->def.vjp = u->opts.derivative = take_text(&at, o->derivative);
    u->def.saves = u->opts.saves = take_text(&at, o->saves);
    u->def.shape = td__user_op_shape;
    u->def.cpu = td__user_op_kernel;
    if (!o->derivative)
        u->def.vjp_fn = o->backward ? td__user_op_backward : td__user_op_no_backward;
    u->def.flags = o->effect ? TD_OPF_EFFECT : 0;
    if (o->dtypes & (TD_ONLY(TD_C64) | TD_ONLY(TD_C128))) u->def.complex = TD_COMPLEX;
    u->mark = mark_of(o);
    return u;
}

/* The row NAME_: writes what NAME computes into its first argument. */
static td_user_op *make_writer(const td_user_op *of) {
    size_t      n = strlen(of->def.name);
    td_user_op *u = td__zalloc(sizeof *u + n + 2);
    if (!u) return NULL;
    char *name = (char *)(u + 1);
    memcpy(name, of->def.name, n);
    name[n] = '_';
    u->def = (td_opdef){.name = name,
                        .doc = of->def.doc,
                        .pure = of->def.name,
                        .vjp = TD_VIA_PURE};
    u->opts = of->opts;
    u->mark = of->mark + 2;
    return u;
}

/* The schema of the token form: "f(Tensor x) -> Tensor" is "f_with_token(Tensor token,
 * Tensor x) -> (Tensor token, Tensor out)". In a list of results the token is the
 * first. s is the parsed schema. */
static void token_schema(char *to, size_t cap, const char *schema, const td_schema *s) {
    const char *args = strchr(schema, '(') + 1, *out = schema, *next;
    while ((next = strstr(out, "->"))) out = next + 2;
    int n_args = (int)(out - 2 - args);
    while (args[n_args - 1] != ')') n_args--; /* blanks before the arrow */
    bool list = s->n_out && s->out[0].type == TD_T_TENSORS;
    snprintf(to, cap, "%s%s(Tensor token%s%.*s -> %s", s->name, token_suffix,
             s->n_in ? ", " : "", n_args, args, list ? "Tensor[]" : "(Tensor token");
    if (list) return;
    to += strlen(to);
    for (int i = 0; i < s->n_out; i++) to += sprintf(to, ", Tensor %s", s->out[i].name);
    strcpy(to, ")");
}

/* The row NAME_with_token. Tokens are put into graphs that are differentiated already,
 * so it has no derivative. */
static td_user_op *make_token_form(const td_op_opts *o, const td_schema *s) {
    size_t      n = strlen(o->schema) + sizeof token_suffix + TD_MAX_RESULTS * 40 + 80;
    char       *text = td__alloc(n), why[120];
    td_user_op *u = NULL;
    td_op_opts  form = *o;
    td_schema   with;
    if (!text) return NULL;
    token_schema(text, n, o->schema, s);
    form.schema = text;
    form.derivative = form.saves = NULL;
    form.backward = NULL;
    if (td__schema_parse(text, &with, why, sizeof why)) u = make_op(&form, &with);
    td__free(text);
    if (!u) return NULL;
    u->token = 1;
    u->mark = mark_of(o) + 4;
    return u;
}

/* One formula for each result, separated by `;`; of a list of results, one in all. */
static bool parse_shapes(td_user_op *u, char *msg, size_t cap) {
    const char *p = u->opts.shape;
    bool        list = td__user_op_lists(u);
    if (list && p) {
        u->shape[0] = td__formula_parse(p, &u->info.s, false, msg, cap);
        return u->shape[0] != NULL;
    }
    for (int i = u->token; p && i < u->info.s.n_out; i++) {
        char   text[256];
        size_t n = strcspn(p, ";");
        if (n >= sizeof text) return snprintf(msg, cap, "shape: too long"), false;
        memcpy(text, p, n);
        text[n] = 0;
        u->shape[i] = td__formula_parse(text, &u->info.s, false, msg, cap);
        if (!u->shape[i]) return false;
        bool last = i == u->info.s.n_out - 1;
        if (last == (p[n] == ';'))
            return snprintf(msg, cap, "shape: %d formulas are needed, separated by ;",
                            u->info.s.n_out - u->token),
                   false;
        p += n + 1;
    }
    return true;
}

/* Adds the row, which then belongs to the table. Called under `lock`. */
static bool add_row(td_ctx *cx, td_user_op *u) {
    int  i = atomic_load(&n_ops);
    char msg[200] = "";
    bool ok = u != NULL;
    if (!ok) return td__fail_memory(cx);
    if (i == TD_MOST_USER_OPS) {
        ok =
            td__fail(cx, TD_E_ARG, "td_register_op: %d ops are registered, no more fit",
                     TD_MOST_USER_OPS);
    } else {
        atomic_store(&ops[i], u);
        ok = td__table_add((td_op)(TD_OP_COUNT + 1 + i), msg, sizeof msg) &&
             parse_shapes(u, msg, sizeof msg);
        if (!ok) td__fail(cx, TD_E_ARG, "td_register_op: %s: %s", u->def.name, msg);
    }
    if (ok) atomic_store_explicit(&n_ops, i + 1, memory_order_release);
    else td__free(u);
    return ok;
}

/* The token form of an op that is about to be added; TD_OP_COUNT after td__fail. One
 * that is there already belongs to a registration that ran out of memory. */
static td_op add_token_form(td_ctx *cx, const td_op_opts *o, const td_schema *s) {
    char name[sizeof s->name];
    snprintf(name, sizeof name, "%s%s", s->name, token_suffix);
    td_op op = td__op_find(name);
    bool  left = op > TD_OP_COUNT && at(op)->mark == mark_of(o) + 4 &&
                !atomic_load(&at(op)->other);
    if (left) return op;
    if (op != TD_OP_COUNT)
        return td__fail(cx, TD_E_ARG, "td_register_op: there is another op %s already",
                        name),
               TD_OP_COUNT;
    return add_row(cx, make_token_form(o, s)) ? td__op_find(name) : TD_OP_COUNT;
}

/* With the name not taken yet. The token form comes first: other threads see the op
 * complete. */
static bool add_op(td_ctx *cx, const td_op_opts *o, const td_schema *s) {
    bool  ordered = o->effect == TD_EFFECT_ORDERED;
    td_op form = ordered ? add_token_form(cx, o, s) : TD_OP_COUNT;
    if (ordered && form == TD_OP_COUNT) return false;
    td_user_op *u = make_op(o, s);
    if (u && ordered) atomic_store(&u->other, (int)form);
    if (!add_row(cx, u)) return false;
    if (ordered) atomic_store(&at(form)->other, (int)td__op_find(s->name));
    return !o->in_place || add_row(cx, make_writer(u));
}

/* Is the name free? An op that is the same counts as added; *there says so. */
static bool check_name(td_ctx *cx, const td_op_opts *o, const char *name, bool *there) {
    td_op op = td__op_find(name);
    if (op == TD_OP_COUNT) return true;
    *there = op > TD_OP_COUNT && at(op)->mark == mark_of(o) &&
             same_functions(&at(op)->opts, o);
    return *there || td__fail(cx, TD_E_ARG,
                              "td_register_op: there is another op %s already", name);
}

bool(td_register_op)(td_ctx *cx, const td_op_opts *opts) {
    static const char who[] = "td_register_op";
    td_op_opts        o = {0};
    td_schema         s;
    char              msg[200];
    if (!TD_ENTER_CTX(cx) || !td_ok(cx) || !td__has(cx, who, "opts", opts) ||
        !td__opts_take(cx, who, &o, sizeof o, opts, "TD_OP_OPTS") ||
        !td__has(cx, who, "opts.schema", o.schema))
        return false;
    if (!td__table_init()) return td__fail(cx, TD_E_ARG, "%s", td__table_why());
    if (!td__schema_parse(o.schema, &s, msg, sizeof msg))
        return td__fail(cx, TD_E_ARG, "%s: %s", who, msg);
    if (!check_schema(cx, &s, &o)) return false;
    bool there = false;
    pthread_mutex_lock(&lock);
    bool ok = check_name(cx, &o, s.name, &there);
    if (ok && !there) ok = add_op(cx, &o, &s);
    pthread_mutex_unlock(&lock);
    return ok;
}

/* ---- calling ------------------------------------------------------------ */

td_op td__op_named(td_ctx *cx, const char *who, const char *name, td_values args,
                   int n_out) {
    if (!td__has(cx, who, "the name", name) || !td__has_list(cx, who, args.v, args.n))
        return TD_OP_COUNT;
    if (!td__table_init())
        return td__fail(cx, TD_E_ARG, "%s", td__table_why()), TD_OP_COUNT;
    td_op op = td__op_find(name);
    if (op == TD_OP_COUNT) {
        const char *near = td__op_near(name);
        td__fail(cx, TD_E_ARG, "%s: there is no op %.60s%s%s", who, name,
                 near ? "; did you mean " : "", near ? near : "");
        return TD_OP_COUNT;
    }
    const td_schema *s = &td__opinfo(op)->s;
    bool             list = s->n_out == 1 && s->out[0].type == TD_T_TENSORS;
    if (td__row(op)->flags & TD_OPF_NESTS)
        td__fail(cx, TD_E_ARG,
                 "%s: op %s takes graphs; call td_cond, td_while or td_function", who,
                 name);
    else if (args.n > s->n_in || (!list && n_out != s->n_out))
        td__fail(cx, TD_E_ARG,
                 "%s: %s: arguments: %d, at most %d are allowed; results: %d, and out "
                 "is for %d",
                 who, s->name, args.n, s->n_in, s->n_out, n_out);
    else return op;
    return TD_OP_COUNT;
}

bool(td_call_op)(td_ctx *cx, const char *name, td_values args, td_tensor **out,
                 int n_out) {
    static const char who[] = "td_call_op";
    td__nil_tensors(cx, out, n_out);
    if (!TD_ENTER_CTX(cx) || !td_ok(cx) || !td__has_room(cx, who, out, n_out))
        return false;
    td_op op = td__op_named(cx, who, name, args, n_out);
    if (op == TD_OP_COUNT) return false;
    const td_schema *s = &td__opinfo(op)->s;
    bool             list = s->n_out == 1 && s->out[0].type == TD_T_TENSORS;
    return list ? td__call_list(cx, op, args.v, args.n, out, n_out) >= 0
                : td__call(cx, op, args.v, args.n, out, n_out);
}
