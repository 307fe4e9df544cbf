/* table.c -- the op table, and what is derived from each row once per process: parsed
 * schema, functional twin, derivative terms, decomposition. The first use of a context
 * builds it; a mistake in a row is found then, and every later call reports it
 * (td__table_why), because no op could be trusted. */
#include "ops/ops.h"
#include "ops/sparse.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define FN(x) td__##x
const td_opdef td__ops[TD_OP_COUNT] = {
#define TD_OP(id, ...) [TD_OP_##id] = {.name = #id, __VA_ARGS__},
#include "ops/ops.def"
#undef TD_OP
};

/* Written once, under `lock`; `ready` publishes them to other threads. */
static td_opinfo   infos[TD_OP_COUNT];
static td_map      by_name;
static char        why[256];
static atomic_bool ready;
static int         done; /* rows whose rules are read; a failed start goes on here */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static td_opinfo *info_at(td_op op) {
    return TD_LIKELY(op < TD_OP_COUNT) ? &infos[op] : td__user_info(op);
}

const td_opdef *td__row(td_op op) {
    return TD_LIKELY(op < TD_OP_COUNT) ? &td__ops[op] : td__user_row(op);
}

const td_opinfo *td__opinfo(td_op op) { return info_at(op); }
const char      *td__table_why(void) { return why; }

/* By name, as formulas and graph text give it. */
td_op td__op_find(const char *name) {
    const td_opdef *def = td__map_get(&by_name, name);
    return def ? (td_op)(def - td__ops) : td__user_op_find(name);
}

int td__op_arg(td_op op, const char *name) {
    const td_schema *s = &info_at(op)->s;
    for (int i = 0; i < s->n_in; i++)
        if (!strcmp(s->in[i].name, name)) return i;
    return -1;
}

td_view_kind td__op_view_kind(td_op op) {
    td_op pure = info_at(op)->pure;
    return (td_view_kind)td__row(pure == TD_OP_COUNT ? op : pure)->view;
}

/* The least edit distance; of equal ones the name of the same length, which is the
 * likelier slip. */
const char *td__op_near(const char *name) {
    const char *near = NULL;
    int         least = 99;
    for (int op = 0; op < TD_OP_COUNT; op++) {
        const char *other = td__ops[op].name;
        int d = 2 * td__edit_distance(name, other) + (strlen(name) != strlen(other));
        if (td__is_typo(name, other) && d < least) least = d, near = other;
    }
    return near;
}

/* Records the first error of the table, for td__table_why. Always false. */
static bool wrong(td_op op, const char *what) {
    char was[200];
    snprintf(was, sizeof was, "%s", what);
    snprintf(why, sizeof why, "op table: %s: %s", td__row(op)->name, was);
    return false;
}

/* Appends the arguments that make a random op a function of its arguments. They are no
 * part of the row's text: the C functions do not take them. */
static bool add_rng(td_op op) {
    static const char *const names[] = {"rng_seed", "rng_offset"};
    td_opinfo               *info = info_at(op);
    info->rng = -1;
    if (!td__row(op)->draws) return true;
    if (info->s.n_in + TD_COUNT(names) > TD_MAX_ARGS)
        return wrong(op, "too many arguments");
    info->rng = (int8_t)info->s.n_in;
    for (int i = 0; i < TD_COUNT(names); i++) {
        td_param *p = &info->s.in[info->s.n_in++];
        *p = (td_param){.type = TD_T_OPT_TENSOR, .has_default = true};
        strcpy(p->name, names[i]);
    }
    return true;
}

/* Parses the row's schema; a writer without one derives it from its functional twin. */
static bool init_schema(td_op op) {
    const td_opdef *def = td__row(op);
    td_opinfo      *info = info_at(op);
    info->op = op;
    info->def = def;
    info->pure = def->pure ? td__op_find(def->pure) : TD_OP_COUNT;
    if (def->pure && info->pure == TD_OP_COUNT) return wrong(op, "no such twin");
    char text[160];
    if (def->schema) {
        if (!td__schema_parse(def->schema, &info->s, text, sizeof text))
            return wrong(op, text);
    } else {
        td_schema twin;
        if (!def->pure) return wrong(op, "has no schema");
        if (!td__schema_parse(td__row(info->pure)->schema, &twin, text, sizeof text) ||
            !td__schema_writer(&twin, &info->s, text, sizeof text))
            return wrong(op, text);
    }
    return (!strcmp(info->s.name, def->name) || wrong(op, "schema has another name")) &&
           add_rng(op);
}

/* Which argument a view views, and whether the op writes. */
static void init_aliases(td_op op) {
    const td_opdef *def = td__row(op);
    td_opinfo      *info = info_at(op);
    info->view_of = -1;
    for (int i = 0; i < info->s.n_in; i++) {
        const td_param *p = &info->s.in[i];
        info->writes |= p->write;
        if (def->flags & TD_OPF_VIEW && p->alias && info->view_of < 0)
            info->view_of = (int8_t)i;
    }
}

/* Index of the argument called `name` in the first `n` characters; -1: none. */
static int find_arg(const td_schema *s, const char *name, size_t n) {
    for (int i = 0; i < s->n_in; i++)
        if (strlen(s->in[i].name) == n && !strncmp(s->in[i].name, name, n)) return i;
    return -1;
}

/* One term "a: formula" of a row's vjp: parses it and records which values it reads, so
 * that the tape saves these and no others. */
static bool add_term(td_op op, char *text) {
    td_opinfo *info = info_at(op);
    char       msg[160], *colon = strchr(text, ':');
    if (!colon) return wrong(op, "a derivative must be `argument: formula`");
    while (*text == ' ' || *text == '\n') text++;
    int arg = find_arg(&info->s, text, (size_t)(colon - text));
    if (arg < 0) {
        snprintf(msg, sizeof msg, "a derivative is for %.*s, which is no argument",
                 (int)(colon - text), text);
        return wrong(op, msg);
    }
    if (info->s.in[arg].type == TD_T_TENSORS)
        return wrong(op, "a list of tensors has a gradient by entry, use vjp_fn "
                         "(td_op_opts.backward)");
    td_term *t = &info->term[arg];
    t->f = td__formula_parse(colon + 1, &info->s, true, msg, sizeof msg);
    if (!t->f) return wrong(op, msg);
    t->reads_in = td__formula_reads_in(t->f);
    t->reads_out = td__formula_reads_out(t->f);
    info->saves_in |= t->reads_in;
    info->saves_out |= t->reads_out;
    return true;
}

/* A row's vjp: terms separated by semicolons. */
static bool add_terms(td_op op, const char *vjp) {
    char text[1024];
    if (strlen(vjp) >= sizeof text) return wrong(op, "vjp: too long, use vjp_fn");
    strcpy(text, vjp);
    for (char *term = text; term;) {
        char *next = strchr(term, ';');
        if (next) *next++ = 0;
        if (!add_term(op, term)) return false;
        term = next;
    }
    return true;
}

/* Adds one saved name to what the gradients of argument `of` read, -1: of all. */
static bool add_saved(td_opinfo *info, int of, const char *name, size_t n) {
    int      arg = find_arg(&info->s, name, n);
    uint32_t in = arg >= 0 ? 1u << arg : 0, out = 0;
    for (int i = 0; i < info->s.n_out && !in && !out; i++)
        if (strlen(info->s.out[i].name) == n && !strncmp(info->s.out[i].name, name, n))
            out = info->s.out[i].type == TD_T_TENSORS ? UINT32_MAX : 1u << i;
    for (int i = 0; i < info->s.n_in; i++) {
        if (of >= 0 && i != of) continue;
        info->term[i].reads_in |= in;
        info->term[i].reads_out |= out;
    }
    info->saves_in |= in;
    info->saves_out |= out;
    return in || out;
}

/* "a b out" for the gradients of all arguments, or "a: a b; b: a out" for each. */
static bool add_saves(td_op op, const char *saves) {
    td_opinfo *info = info_at(op);
    int        of = -1;
    for (const char *p = saves; *p;) {
        size_t n = strcspn(p, " :;");
        if (p[n] == ':') {
            if ((of = find_arg(&info->s, p, n)) < 0)
                return wrong(op, "saves: no such argument");
        } else if (!add_saved(info, of, p, n)) return wrong(op, "saves: unknown name");
        p += n + strspn(p + n, " :;");
    }
    return true;
}

/* Formulas, derivatives and what they save. A derivative via the twin takes the twin's
 * row. */
static bool init_rules(td_op op) {
    const td_opdef *def = td__row(op);
    td_opinfo      *info = info_at(op);
    char            msg[160];
    bool            twin_composite =
        info->pure != TD_OP_COUNT && !def->cpu &&
        (td__row(info->pure)->decomp || td__row(info->pure)->decomp_fn);
    td_work_term work[TD_WORK_TERMS];
    if (def->work && td__work_parse(&info->s, def->work, work) < 0)
        return wrong(op, "work: not a product of arguments and sizes");
    info->composite = def->decomp || def->decomp_fn || twin_composite;
    if (def->decomp) {
        info->decomp = td__formula_parse(def->decomp, &info->s, false, msg, sizeof msg);
        if (!info->decomp) return wrong(op, msg);
    }
    if (def->simpler) {
        info->simpler =
            td__formula_parse(def->simpler, &info->s, false, msg, sizeof msg);
        if (!info->simpler) return wrong(op, msg);
    }
    if (def->complex && def->complex[0] != TD_COMPLEX[0] &&
        !(def->flags & TD_OPF_POINTWISE)) {
        info->of_complex =
            td__formula_parse(def->complex, &info->s, false, msg, sizeof msg);
        if (!info->of_complex) return wrong(op, msg);
    }
    const td_opdef *own = def;
    if (info->pure != TD_OP_COUNT && !def->cpu) own = td__row(info->pure);
    info->has_simpler = info->composite || own->simpler || own->simpler_fn;
    const td_opdef *rule = def;
    if (def->vjp && !strcmp(def->vjp, TD_VIA_PURE)) {
        if (info->pure == TD_OP_COUNT) return wrong(op, "vjp: has no twin");
        rule = td__row(info->pure);
    }
    if (!rule->vjp && !rule->vjp_fn)
        return wrong(op, "has no vjp and no reason for none");
    if (rule->vjp_fn) {
        info->differentiable = true;
        return add_saves(op, rule->saves ? rule->saves : "");
    }
    if (strchr("!0@", rule->vjp[0])) return true;
    info->differentiable = true;
    return add_terms(op, rule->vjp);
}

/* Schemas first: formulas of a row may call any op. Out of memory on the way leaves a
 * table that the next call completes. */
static bool init_all(void) {
    for (int op = 0; op < TD_OP_COUNT; op++)
        if (!td__map_put(&by_name, td__ops[op].name, (void *)(uintptr_t)td__row(op))) {
            snprintf(why, sizeof why, "op table: out of memory");
            return false;
        }
    for (int op = 0; op < TD_OP_COUNT && done == 0; op++)
        if (!init_schema((td_op)op)) return false;
    for (; done < TD_OP_COUNT; done++) {
        init_aliases((td_op)done);
        if (!init_rules((td_op)done)) return false;
    }
    return true;
}

/* The row of a registered op, whose mistakes are the caller's to report: they do not
 * count as errors of the table. */
bool td__table_add(td_op op, char *msg, size_t cap) {
    pthread_mutex_lock(&lock);
    bool ok = init_schema(op);
    if (ok) init_aliases(op);
    ok = ok && init_rules(op);
    size_t name = strlen("op table: ") + strlen(td__row(op)->name) + strlen(": ");
    if (!ok) snprintf(msg, cap, "%s", strlen(why) > name ? why + name : why);
    why[0] = 0;
    pthread_mutex_unlock(&lock);
    return ok;
}

/* Idempotent and thread-safe; after the first success it costs one load. */
bool td__table_init(void) {
    if (atomic_load_explicit(&ready, memory_order_acquire)) return true;
    pthread_mutex_lock(&lock);
    if (!ready && init_all()) {
        ready = td__sparse_init();
        if (!ready) snprintf(why, sizeof why, "op table: out of memory");
    }
    pthread_mutex_unlock(&lock);
    return ready;
}
