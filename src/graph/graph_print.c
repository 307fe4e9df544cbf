/* graph_print.c -- graphs as text (docs/text-format.md). The text parses back
 * to the same graph: names are made unique, and storages that several values
 * share are numbered. */
#include "core/device.h"
#include "graph/graph_int.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- labels ------------------------------------------------------------- */

/* A name in use, and the last number appended to make others unique. */
typedef struct taken {
    int next;
} taken;

/* May the name be printed without quotes? A dot at the end would read as %name... */
static bool is_name(const char *s) {
    for (const char *p = s; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.",
                    *p))
            return false;
    size_t n = strlen(s);
    return n > 0 && s[n - 1] != '.';
}

/* `want` if it is free, else want_1, want_2... NULL: out of memory. */
static const char *unique(td_labels *l, td_map *names, const char *want) {
    const char *got = want;
    taken      *t = td__map_get(names, want);
    while (t) {
        got = td__arena_printf(&l->arena, "%s_%d", want, ++t->next);
        if (!got) return NULL;
        if (!td__map_get(names, got)) break;
    }
    taken *mine = td__arena_zalloc(&l->arena, sizeof *mine);
    return mine && td__map_put(names, got, mine) ? got : NULL;
}

/* Names one value: its own name, or its number. names NULL: numbers only. */
static bool label(td_labels *l, td_map *names, const td_gval *v, int nr) {
    const char *want = v->name;
    bool        free = !names || !want || !is_name(want);
    if (free) want = td__arena_printf(&l->arena, "%d", names ? v->id : nr);
    if (want && names) want = unique(l, names, want);
    return (l->name[v->id] = want) != NULL;
}

static void note_read(void *env, td_gval *v) { ((bool *)env)[v->id] = true; }

/* Names values in order of appearance: parameters, literals, results. */
static bool label_all(td_labels *l, td_map *names) {
    const td_graph *g = l->g;
    int             nr = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < g->inputs.n; i++)
            if (td__is_literal(g, i) == (pass == 1) &&
                !label(l, names, g->inputs.v[i], nr++))
                return false;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        for (int k = 0; k < n->n_out && !n->dead; k++)
            if (!label(l, names, n->out[k], nr++)) return false;
    }
    return true;
}

static void count_storage(int32_t *count, const td_gval *v) {
    if (v->type && v->type->storage >= 0) count[v->type->storage]++;
}

static void name_storage(int32_t *count, const td_gval *v, int32_t *next) {
    int32_t *c = v->type && v->type->storage >= 0 ? &count[v->type->storage] : NULL;
    if (c && *c > 1) *c = -2 - (*next)++; /* named: -2, -3, ... */
}

/* Numbers storages that at least two values share, in order of appearance. Without
 * types, inputs are the only values whose types are printed. l->storage counts values
 * first, then holds -2 - number. */
static void label_storages(td_labels *l, bool types) {
    const td_graph *g = l->g;
    int32_t         next = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < g->inputs.n; i++) {
            if (pass == 0) count_storage(l->storage, g->inputs.v[i]);
            else name_storage(l->storage, g->inputs.v[i], &next);
        }
        for (int i = 0; types && i < g->nodes.n; i++) {
            const td_gnode *n = g->nodes.v[i];
            for (int k = 0; k < n->n_out && !n->dead; k++) {
                if (pass == 0) count_storage(l->storage, n->out[k]);
                else name_storage(l->storage, n->out[k], &next);
            }
        }
    }
    for (int i = 0; i < g->n_storages; i++)
        l->storage[i] = l->storage[i] <= -2 ? -2 - l->storage[i] : -1;
}

/* Assigns printed names: a value's own name if it is unique, else its number. `storage`
 * is -1 for a storage that only one value has: its number is not printed. how: as for
 * td__graph_print; TD_PRINT_BARE: numbers only, for comparing graphs. */
bool td__labels_make(td_labels *l, const td_graph *g, unsigned how) {
    size_t n = (size_t)g->n_values + 1;
    td_map names = {0};
    *l = (td_labels){.g = g};
    l->name = td__arena_zalloc(&l->arena, sizeof *l->name * n);
    l->read = td__arena_zalloc(&l->arena, n);
    l->storage =
        td__arena_zalloc(&l->arena, sizeof *l->storage * ((size_t)g->n_storages + 1));
    bool ok = l->name && l->read && l->storage &&
              label_all(l, how & TD_PRINT_BARE ? NULL : &names);
    td__map_free(&names);
    if (!ok) return td__labels_free(l), td__fail_memory(g->cx);
    label_storages(l, how & TD_PRINT_TYPES);
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_in && !g->nodes.v[i]->dead; k++)
            td__garg_each(&g->nodes.v[i]->in[k], note_read, l->read);
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_each(&g->outputs.v[i], note_read, l->read);
    return true;
}

void td__labels_free(td_labels *l) { td__arena_free(&l->arena); }

bool td__is_const_input(const td_graph *g, int i) {
    const td_desc *d = &g->in_desc.v[i];
    return d->kind == TD_D_CONST && d->index >= 0 && d->index < g->consts.n &&
           !td__is_fake(g->consts.v[d->index]);
}

bool td__is_literal(const td_graph *g, int i) {
    return td__is_const_input(g, i) && !g->consts.v[g->in_desc.v[i].index]->typed;
}

/* ---- types and arguments ------------------------------------------------ */

static void dims_text(td_buf *b, const td_graph *g, const int64_t *v, int n) {
    for (int i = 0; i < n; i++) {
        if (i) td__buf_add(b, ",");
        td__text_dim(b, g, v[i]);
    }
}

/* ` of name("metadata", type, type)`: what a tensor of a type consists of. */
static void typed_text(td_buf *b, const td_labels *l, const td_gtyped *of) {
    td__buf_printf(b, " of %s(", of->name);
    td__text_string(b, of->metadata);
    for (int i = 0; i < of->n; i++) {
        td__buf_add(b, ", ");
        td__text_type(b, l, of->inner[i]);
    }
    td__buf_add(b, ")");
}

/* dtype[sizes]{strides}+offset on device grad @storage; strides only if not row-major,
 * the device if it is not the default device, the storage only if shared. */
void td__text_type(td_buf *b, const td_labels *l, const td_gtype *type) {
    static const char *const kinds[] = {
        [TD_K_INT] = "int", [TD_K_FLOAT] = "float", [TD_K_BOOL] = "bool"};
    if (type->kind != TD_K_TENSOR) {
        td__buf_add(b, kinds[type->kind]);
        if (td__dim_is_sym(type->offset)) td__buf_add(b, "=");
        if (td__dim_is_sym(type->offset)) td__text_dim(b, l->g, type->offset);
        return;
    }
    td__buf_printf(b, "%s[", td_dtype_name((td_dtype)type->dtype));
    dims_text(b, l->g, type->size, type->rank);
    td__buf_add(b, "]");
    if (!type->dense) {
        td__buf_add(b, "{");
        dims_text(b, l->g, type->stride, type->rank);
        td__buf_add(b, "}");
    }
    if (type->offset != 0) {
        td__buf_add(b, "+");
        td__text_dim(b, l->g, type->offset);
    }
    if (type->of) typed_text(b, l, type->of);
    if (type->device != l->g->cx->device)
        td__buf_printf(b, " on %s", td__device_str(type->device));
    if (type->grad) td__buf_add(b, " grad");
    if (type->storage >= 0 && l->storage[type->storage] >= 0)
        td__buf_printf(b, " @%d", (int)l->storage[type->storage]);
}

/* A type on its own, without storage number and grad, for messages. */
void td__gtype_print(td_buf *b, const td_graph *g, const td_gtype *type) {
    td_labels l = {.g = g};
    td_gtype  plain = *type;
    plain.grad = false;
    plain.storage = -1;
    td__text_type(b, &l, &plain);
}

static void list_text(td_buf *b, const td_labels *l, const td_garg *a, unsigned how) {
    td__buf_add(b, "[");
    if (a->kind == TD_G_INTS) dims_text(b, l->g, a->u.ints, (int)a->n);
    for (uint32_t i = 0; a->kind == TD_G_LIST && i < a->n; i++) {
        if (i) td__buf_add(b, ", ");
        td__text_arg(b, l, &a->u.list[i], how);
    }
    td__buf_add(b, "]");
}

static void print_func(td_buf *b, const td_graph *g, unsigned how, int indent,
                       td_defined *defined);

/* Is g the last graph of its name that the text defines? */
static bool is_defined(const td_labels *l, const td_graph *g) {
    for (int i = l->defined ? l->defined->n - 1 : -1; i >= 0; i--)
        if (!strcmp(l->defined->v[i]->name, g->name)) return l->defined->v[i] == g;
    return false;
}

/* A nested graph is printed in place, indented, at its first use, and by its name at
 * later ones. Without names, for comparisons, it is printed at each. */
static void text_nested(td_buf *b, const td_labels *l, const td_graph *g,
                        unsigned how) {
    if (how & TD_PRINT_BARE || !l->defined) {
        print_func(b, g, how, l->indent + 2, NULL);
    } else if (is_defined(l, g)) td__text_name(b, g->name);
    else {
        print_func(b, g, how, l->indent + 2, l->defined);
        if (!td__vec_push(l->defined, g)) b->failed = true;
    }
}

/* An argument as the parser reads it. */
void td__text_arg(td_buf *b, const td_labels *l, const td_garg *a, unsigned how) {
    switch ((td_gkind)a->kind) {
    case TD_G_NONE: td__buf_add(b, "none"); break;
    case TD_G_VALUE:
        td__buf_add(b, "%");
        td__buf_add(b, l->name[a->u.v->id]);
        break;
    case TD_G_INT: td__buf_printf(b, "%lld", (long long)a->u.i); break;
    case TD_G_SYM: td__text_dim(b, l->g, a->u.i); break;
    case TD_G_FLOAT: td__text_float(b, a->u.f); break;
    case TD_G_BOOL: td__buf_add(b, a->u.i ? "true" : "false"); break;
    case TD_G_DTYPE: td__buf_add(b, td_dtype_name(a->u.dt)); break;
    case TD_G_INTS:
    case TD_G_LIST: list_text(b, l, a, how); break;
    case TD_G_STR: td__text_string(b, a->u.s); break;
    case TD_G_GRAPH: text_nested(b, l, a->u.g, how); break;
    }
}

/* ---- statements --------------------------------------------------------- */

/* Prints a type; with TD_PRINT_OPS without the offset, which belongs to the
 * tensors passed and not to the graph. */
static void type_text(td_buf *b, const td_labels *l, const td_gtype *type,
                      unsigned how) {
    td_gtype any = *type;
    if (how & TD_PRINT_OPS && any.kind == TD_K_TENSOR) any.offset = 0;
    td__text_type(b, l, &any);
}

/* Types of results behind a statement; `_` for a result without one. */
static void types_text(td_buf *b, const td_labels *l, const td_gnode *n, unsigned how) {
    int known = 0;
    for (int i = 0; i < n->n_out; i++) known += n->out[i]->type != NULL;
    if (!known) return;
    td__buf_add(b, n->n_out > 1 ? " : (" : " : ");
    for (int i = 0; i < n->n_out; i++) {
        if (i) td__buf_add(b, ", ");
        if (n->out[i]->type) type_text(b, l, n->out[i]->type, how);
        else td__buf_add(b, "_");
    }
    if (n->n_out > 1) td__buf_add(b, ")");
}

/* Are the results omitted? If nothing reads them and they have no name. */
static bool is_bare(const td_labels *l, const td_gnode *n, unsigned how) {
    for (int i = 0; i < n->n_out; i++)
        if (l->read[n->out[i]->id] || (n->out[i]->name && !(how & TD_PRINT_BARE)))
            return false;
    return true;
}

/* One statement: results, op, arguments, then types, source line and scope if `how` has
 * their flags. Origin and checkpoint policy are always printed, because passes depend
 * on them. */
void td__text_node(td_buf *b, const td_labels *l, const td_gnode *n, unsigned how) {
    bool bare = is_bare(l, n, how);
    for (int i = 0; i < n->n_out && !bare; i++) {
        td__buf_add(b, i ? ", %" : "%");
        td__buf_add(b, l->name[n->out[i]->id]);
    }
    if (!bare) td__buf_add(b, " = ");
    td__buf_add(b, td__row(n->op)->name);
    td__buf_add(b, "(");
    for (int i = 0; i < n->n_in; i++) {
        if (i) td__buf_add(b, ", ");
        td__text_arg(b, l, &n->in[i], how);
    }
    td__buf_add(b, ")");
    if (how & TD_PRINT_TYPES) types_text(b, l, n, how);
    if (n->origin == TD_FROM_BACKWARD) td__buf_add(b, " backward");
    if (n->origin == TD_FROM_AGAIN) td__buf_add(b, " again");
    if (n->tags)
        td__buf_printf(b, " %s %d", td__policy_words[TD_TAG_POLICY(n->tags)],
                       TD_TAG_REGION(n->tags));
    if (how & TD_PRINT_PLACES && n->here.file) {
        td__buf_add(b, " @");
        td__text_string(b, n->here.file);
        td__buf_printf(b, ":%d", n->here.line);
    }
    if (how & TD_PRINT_STACKS && n->here.file)
        for (const td_place *p = n->stack; p; p = p->up) {
            td__buf_add(b, " < ");
            td__text_string(b, p->here.file);
            td__buf_printf(b, ":%d", p->here.line);
        }
    if (how & TD_PRINT_SCOPES && n->scope) {
        td__buf_add(b, " in ");
        td__text_string(b, n->scope);
    }
}

/* A call without its first argument, `transpose(0, 1)`: how a view is made of its
 * base. */
void td__gnode_call_print(td_buf *b, const td_graph *g, const td_gnode *n) {
    td_labels l;
    if (!td__labels_make(&l, g, TD_PRINT_TYPES)) {
        b->failed = true;
        return;
    }
    td__buf_printf(b, "%s(", td__row(n->op)->name);
    for (int i = 1; i < n->n_in; i++) {
        if (i > 1) td__buf_add(b, ", ");
        td__text_arg(b, &l, &n->in[i], 0);
    }
    td__buf_add(b, ")");
    td__labels_free(&l);
}

/* Indentation is bounded, or a million nested regions would print
 * quadratically. */
static void begin_line(td_buf *b, int indent) {
    td__buf_printf(b, "%*s", indent > 32 ? 32 : indent, "");
}

/* A literal has its type from its elements; it is printed only if the storage is
 * shared, or on a device. */
static void literal_type(td_buf *b, const td_labels *l, const td_gtype *type) {
    bool shared = type && type->storage >= 0 && l->storage[type->storage] >= 0;
    if (!type || (!shared && type->device == l->g->cx->device)) return;
    if (!type->dense || type->offset != 0)
        return; /* a literal is row-major when it is parsed */
    td__buf_add(b, " : ");
    td__text_type(b, l, type);
}

/* Consts as statements: %c0 = tensor([...], f32, [2]). */
static void literals(td_buf *b, const td_labels *l, unsigned how, int indent) {
    const td_graph *g = l->g;
    for (int i = 0; i < g->inputs.n; i++) {
        if (!td__is_literal(g, i)) continue;
        td_tensor *t = g->consts.v[g->in_desc.v[i].index];
        begin_line(b, indent);
        td__buf_printf(b, "%%%s = tensor([", l->name[g->inputs.v[i]->id]);
        if (how & TD_PRINT_BRIEF && t->numel > 16) td__buf_add(b, "...");
        else td__text_elements(b, t);
        td__buf_printf(b, "], %s, [", td_dtype_name((td_dtype)t->dtype));
        dims_text(b, g, t->size, t->rank);
        td__buf_add(b, "])");
        literal_type(b, l, g->inputs.v[i]->type);
        td__buf_add(b, "\n");
    }
}

static void statements(td_buf *b, td_labels *l, unsigned how, int indent) {
    for (int i = 0; i < l->g->nodes.n; i++) {
        const td_gnode *n = l->g->nodes.v[i];
        if (n->dead) continue;
        if (n->kind == TD_N_LEAVE && indent > 2) indent -= 2;
        begin_line(b, indent);
        l->indent = indent;
        if (n->kind == TD_N_OP) td__text_node(b, l, n, how);
        else if (n->kind == TD_N_LEAVE) td__buf_add(b, "}");
        else {
            td__buf_printf(b, "%s {", td__region_words[n->region]);
            indent += 2;
        }
        td__buf_add(b, "\n");
    }
}

/* ---- functions ---------------------------------------------------------- */

/* The parameter list; indent > 0: one per line. */
static void params(td_buf *b, const td_labels *l, int indent) {
    const td_graph *g = l->g;
    bool            any = false;
    for (int i = 0; i < g->inputs.n; i++) {
        if (td__is_literal(g, i)) continue;
        if (any) td__buf_add(b, indent ? "," : ", ");
        if (indent) td__buf_printf(b, "\n%*s", indent, "");
        td__buf_printf(b, "%%%s", l->name[g->inputs.v[i]->id]);
        if (g->inputs.v[i]->type) {
            td__buf_add(b, ": ");
            td__text_type(b, l, g->inputs.v[i]->type);
        }
        td_desc d = g->in_desc.v[i];
        if (d.kind == TD_D_CONST) d.index = -1; /* a const without bytes */
        td__text_desc(b, &d);
        any = true;
    }
}

/* func @f(...) {, on one line if it fits. */
static void header(td_buf *b, const td_labels *l, unsigned how, int indent) {
    size_t start = b->n;
    td__buf_add(b, "func ");
    if (!(how & TD_PRINT_BARE)) td__text_name(b, l->g->name);
    td__buf_add(b, "(");
    size_t open = b->n;
    if (!(how & TD_PRINT_OPS)) params(b, l, 0);
    if (b->n - start > 80 && !b->failed) {
        b->n = open;
        b->s[b->n] = 0;
        params(b, l, indent + 2);
    }
    td__buf_add(b, ") {\n");
}

void td__gfact_text(td_buf *b, const td_graph *g, const td_gfact *f) {
    td__text_dim(b, g, f->a);
    td__buf_printf(b, " %s ", td__rel_signs[f->rel]);
    td__text_dim(b, g, f->b);
}

/* `given s0 >= 2, s1 == 16`: the facts about symbolic sizes. */
static void facts(td_buf *b, const td_graph *g, int indent) {
    if (!g->facts.n) return;
    begin_line(b, indent);
    for (int i = 0; i < g->facts.n; i++) {
        td__buf_add(b, i ? ", " : "given ");
        td__gfact_text(b, g, &g->facts.v[i]);
    }
    td__buf_add(b, "\n");
}

/* The whole function; names are assigned first, over all values. */
static void print_func(td_buf *b, const td_graph *g, unsigned how, int indent,
                       td_defined *defined) {
    td_labels l;
    if (!td__labels_make(&l, g, how)) {
        b->failed = true;
        return;
    }
    l.defined = defined;
    header(b, &l, how, indent);
    facts(b, g, indent);
    if (!(how & TD_PRINT_OPS)) literals(b, &l, how, indent);
    statements(b, &l, how, indent);
    begin_line(b, indent);
    if (g->left) {
        td__buf_printf(b, "leaves %s\n", td__region_words[g->left - 1]);
        begin_line(b, indent);
    }
    td__buf_add(b, "return");
    for (int i = 0; i < g->outputs.n; i++) {
        td__buf_add(b, i ? ", " : " ");
        td__text_arg(b, &l, &g->outputs.v[i], how);
        td__text_desc(b, &g->out_desc.v[i]);
    }
    td__buf_add(b, "\n");
    begin_line(b, indent - 2);
    td__buf_add(b, "}");
    td__labels_free(&l);
}

bool td__graph_print(td_buf *b, const td_graph *g, unsigned how) {
    td_defined defined = {0};
    print_func(b, g, how, 2, &defined);
    td__vec_free(&defined);
    td__buf_add(b, "\n");
    return !b->failed || td__fail_memory(g->cx);
}
