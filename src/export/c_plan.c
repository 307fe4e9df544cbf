/* c_plan.c -- inputs and results of an artefact, their C names, and where every value
 * is: in the caller's arrays, in the weights, or at an offset of the model's memory.
 * The memory begins with the state that the function writes; values and workspaces
 * follow, placed by their live ranges. */
#include "export/c_model.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 64, PART = 65536, MOST_PARTS = 32 }; /* the latter as in native_run.c */

static int64_t lines(int64_t n) { return (n + LINE - 1) / LINE * LINE; }

/* ---- names ---------------------------------------------------------------- */

/* Words that C or model.c use. */
static bool is_reserved(const char *s) {
    static const char *const words[] = {
        "auto",    "break",  "case",     "char",   "const",    "continue", "default",
        "do",      "double", "else",     "enum",   "extern",   "float",    "for",
        "goto",    "if",     "inline",   "int",    "long",     "register", "restrict",
        "return",  "short",  "signed",   "sizeof", "static",   "struct",   "switch",
        "typedef", "union",  "unsigned", "void",   "volatile", "while",    "bool",
        "true",    "false",  "m",        "mem",    "p",        "r",        "given"};
    for (int i = 0; i < TD_COUNT(words); i++)
        if (!strcmp(s, words[i])) return true;
    return false;
}

/* A C identifier of the name, unlike those of the slots before. */
static void name_slot(td_c_model *m, td_c_slot *s, const char *lead, const char *name) {
    char   text[48];
    size_t n = 0;
    for (const char *p = name; *p && n < sizeof text - 1; p++)
        text[n++] = isalnum((unsigned char)*p) && (unsigned char)*p < 128 ? *p : '_';
    text[n] = 0;
    const char *mark = !*lead && (isdigit((unsigned char)*text) || !*text) ? "x" : "";
    snprintf(s->name, sizeof s->name, "%.12s%s%s%s", lead, mark, text,
             is_reserved(text) && !*lead ? "_" : "");
    size_t end = strlen(s->name);
    for (int k = 2, again = 1; again; k++) {
        again = 0;
        for (int i = 0; i < m->n_in + m->n_out; i++) {
            const td_c_slot *o = i < m->n_in ? &m->in[i] : &m->out[i - m->n_in];
            again |= o != s && !strcmp(o->name, s->name);
        }
        if (again) snprintf(s->name + end, sizeof s->name - end, "_%d", k);
    }
}

/* ---- slots ---------------------------------------------------------------- */

/* Bytes from the first element to the end of the last. */
static int64_t span_of(const td_gtype *l) {
    int64_t last = 0;
    for (int d = 0; d < l->rank; d++) {
        if (l->size[d] == 0) return 0;
        last += (l->size[d] - 1) * l->stride[d];
    }
    return (last + 1) * td__dtype_bytes[l->dtype];
}

static bool refuse(const td_c_model *m, const char *what, const td_c_slot *s) {
    return td__fail(m->cx, TD_E_UNSUPPORTED, "td_export_c: @%.60s: %s %s", m->g->name,
                    s->name, what);
}

/* Does a copy_ node write the input? */
static bool is_written(const td_graph *g, const td_gval *v) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind == TD_N_OP && n->op == TD_OP_copy_ && n->in[0].kind == TD_G_VALUE &&
            n->in[0].u.v == v)
            return true;
    }
    return false;
}

/* Parameters, buffers and tensors closed over are the model's. */
static bool find_inputs(td_c_model *m, const td_traced *t) {
    for (int i = 0, args = 0; i < m->n_in; i++) {
        td_c_slot     *s = &m->in[i];
        const td_desc *d = &m->g->in_desc.v[i];
        char           nr[24];
        s->v = m->g->inputs.v[i];
        s->state =
            d->kind == TD_D_PARAM || d->kind == TD_D_BUFFER || d->kind == TD_D_CONST;
        s->written = is_written(m->g, s->v);
        s->bytes = span_of(s->v->type);
        bool tangent = d->kind == TD_D_TANGENT;
        s->value = tangent || t->in[i].kind != TD_K_TENSOR ? NULL : t->in[i].u.t;
        s->given = s->state && d->name ? d->name : s->v->name;
        snprintf(nr, sizeof nr, "x%d", i); /* the name that a capture gives */
        if (s->given && !strcmp(s->given, nr)) s->given = NULL;
        snprintf(nr, sizeof nr,
                 tangent    ? "tangent_%d"
                 : s->state ? "state_%d"
                            : "arg_%d",
                 tangent    ? d->index
                 : s->state ? i
                            : args++);
        name_slot(m, s, "", s->given && !tangent ? s->given : nr);
        if (s->state && (!s->value || !s->value->st->data) && s->bytes)
            return refuse(m,
                          "has no elements in memory, so there are no weights to "
                          "write",
                          s);
    }
    for (int i = 0; i < m->n_in; i++)
        for (int k = 0; k < m->n_in; k++)
            if (i != k && m->in[i].written && m->in[i].v->type->storage >= 0 &&
                m->in[i].v->type->storage == m->in[k].v->type->storage)
                return refuse(m,
                              "is written and shares bytes with another input, which "
                              "is unsupported in C; pass a clone",
                              &m->in[i]);
    return true;
}

/* "loss", "grad_fc_weight", "result_0". */
static void find_outputs(td_c_model *m) {
    for (int i = 0; i < m->n_out; i++) {
        td_c_slot     *s = &m->out[i];
        const td_desc *d = &m->g->out_desc.v[i];
        char           nr[24];
        s->v = m->g->outputs.v[i].u.v;
        s->bytes = span_of(s->v->type);
        s->given = d->name;
        snprintf(nr, sizeof nr, "result_%d", d->index);
        if (d->kind == TD_D_LOSS) name_slot(m, s, "", "loss");
        else if (d->kind == TD_D_GRAD && d->index >= 0 && d->index < m->n_in)
            name_slot(m, s, "grad_", m->in[d->index].name);
        else name_slot(m, s, "", nr);
    }
}

static void name_function(td_c_model *m) {
    bool grads = false, step = false;
    for (int i = 0; i < m->n_out; i++) grads |= m->g->out_desc.v[i].kind == TD_D_GRAD;
    for (int i = 0; i < m->n_in; i++)
        step |= m->in[i].written && m->g->in_desc.v[i].kind == TD_D_PARAM;
    m->function = grads ? "forward_backward" : step ? "step" : "forward";
}

/* ---- memory --------------------------------------------------------------- */

static int64_t extent(td_extent e) { return e.c; }

td_c_shape td__c_shape(const td_launch *k) {
    const td_nest *n = &k->b.nest;
    td_c_shape     s = {extent(n->rows), extent(n->inside), 1, 0};
    if (n->n_outer == 0 && n->n_dims == 1) {
        s.rows = s.inside;
        s.inside = 1;
    }
    if (!k->kernel.has_end) return s;
    s.parts = s.rows * (s.inside > 0 ? s.inside : 1) / PART;
    s.parts = s.parts > MOST_PARTS ? MOST_PARTS : s.parts;
    s.parts = s.parts > s.rows ? s.rows : s.parts;
    s.parts = s.parts < 1 ? 1 : s.parts;
    s.part_bytes = lines(8 * (k->n_wide * s.inside + k->n_single));
    return s;
}

static const td_gval *root_of(const td_c_model *m, const td_gval *v) {
    return m->n->low.root_of[v->id];
}

/* A result is computed in the caller's array if it is a whole contiguous value and no
 * other result is the same. Otherwise it is copied there at the end. */
static void bind_results(td_c_model *m) {
    for (int i = 0; i < m->n_range; i++) m->to_result[i] = -1;
    for (int i = 0; i < m->n_out; i++) {
        td_c_slot      *s = &m->out[i];
        const td_gtype *l = s->v->type;
        int             r = m->n->mem.range_of[root_of(m, s->v)->id];
        s->copied = r < 0 || root_of(m, s->v) != s->v || m->to_result[r] >= 0 ||
                    l->offset != 0 || !td__is_packed(l->rank, l->size, l->stride) ||
                    m->range[r].bytes > s->bytes;
        if (!s->copied) m->to_result[r] = i;
    }
    for (int i = 0; i < m->n_range; i++) m->range[i].own = m->to_result[i] >= 0;
    for (int i = 0; i < m->n_out; i++) {
        int r = m->n->mem.range_of[root_of(m, m->out[i].v)->id];
        if (m->out[i].copied && r >= 0) m->range[r].last = m->n->steps.n;
    }
}

/* Live ranges of the native code, and one for each workspace. */
static bool find_ranges(td_c_model *m) {
    const td_native *n = m->n;
    size_t           most = (size_t)(n->mem.ranges.n + n->steps.n + 1);
    m->range = td__arena_zalloc(&m->arena, sizeof *m->range * most);
    m->to_result = td__arena_zalloc(&m->arena, sizeof *m->to_result * most);
    m->work = td__arena_zalloc(&m->arena, sizeof *m->work * (size_t)(n->steps.n + 1));
    if (!m->range || !m->to_result || !m->work) return td__fail_memory(m->cx);
    m->n_range = n->mem.ranges.n;
    if (m->n_range)
        memcpy(m->range, n->mem.ranges.v, sizeof *m->range * (size_t)m->n_range);
    for (int i = 0; i < m->n_range; i++)
        m->range[i].bytes = span_of(m->range[i].v->type);
    bind_results(m);
    for (int i = 0; i < n->steps.n; i++) {
        const td_native_step *s = &n->steps.v[i];
        td_c_shape            shape = {0};
        m->work[i] = -1;
        if (!s->node) shape = td__c_shape(&n->launches[s->launch]);
        if (shape.parts * shape.part_bytes == 0) continue;
        m->work[i] = m->n_range;
        m->to_result[m->n_range] = -1;
        m->range[m->n_range++] =
            (td_live_range){.first = i,
                            .last = i,
                            .bytes = shape.parts * shape.part_bytes};
    }
    return true;
}

/* State that is written is at the start of the memory, other state in the weights;
 * the weights have the first elements of both. */
static bool place(td_c_model *m) {
    for (int i = 0; i < m->n_in; i++) {
        td_c_slot *s = &m->in[i];
        if (!s->state) continue;
        s->at = s->written ? m->state_bytes : m->weight_bytes;
        if (s->written) m->state_bytes += lines(s->bytes);
        m->weight_bytes += lines(s->bytes);
    }
    int64_t arena = td__arena_place_all(m->range, m->n_range);
    if (arena < 0) return td__fail_memory(m->cx);
    m->bytes = m->state_bytes + arena;
    for (int i = 0; i < m->n_range; i++)
        m->range[i].at = (m->range[i].at < 0 ? 0 : m->range[i].at) + m->state_bytes;
    for (int i = 0; i < m->n->n_launches; i++)
        m->draws |= m->n->launches[i].b.draws.n > 0;
    for (int i = 0; i < m->n->steps.n; i++)
        m->draws |= m->n->steps.v[i].node && td__c_draws(m->n->steps.v[i].node);
    return true;
}

static const td_c_slot *input_of(const td_c_model *m, const td_gval *root) {
    return root->node ? NULL : &m->in[root->nr];
}

int64_t td__c_bytes(const td_c_model *m, const td_gval *root) {
    const td_c_slot *s = input_of(m, root);
    if (s) return s->bytes;
    int r = m->n->mem.range_of[root->id];
    return r < 0 ? 0 : m->range[r].bytes;
}

void td__c_address(const td_c_model *m, td_buf *b, const td_gval *root, int64_t at) {
    const td_c_slot *s = input_of(m, root);
    int              r = s ? -1 : m->n->mem.range_of[root->id];
    if (s && s->state && !s->written && m->file)
        td__buf_printf(b, "(char *)m->weights + %lld", (long long)(s->at + at));
    else if (s && s->state && s->written)
        td__buf_printf(b, "mem + %lld", (long long)(s->at + at));
    else if (r >= 0 && m->to_result[r] < 0)
        td__buf_printf(b, "mem + %lld", (long long)(m->range[r].at + at));
    else {
        const td_c_slot *o = s || r < 0 ? s : &m->out[m->to_result[r]];
        td__buf_printf(b, "(char *)%s%s%s", s && s->state ? m->name : "",
                       s && s->state ? "_" : "", o ? o->name : "td_none");
        if (at) td__buf_printf(b, " + %lld", (long long)at);
    }
}

bool td__c_plan(td_c_model *m, const td_traced *t) {
    m->n_in = m->g->inputs.n;
    m->n_out = m->g->outputs.n;
    m->in = td__arena_zalloc(&m->arena, sizeof *m->in * (size_t)(m->n_in + 1));
    m->out = td__arena_zalloc(&m->arena, sizeof *m->out * (size_t)(m->n_out + 1));
    if (!m->in || !m->out) return td__fail_memory(m->cx);
    if (!find_inputs(m, t)) return false;
    find_outputs(m);
    name_function(m);
    for (int i = 0; i < m->n_out; i++) {
        const td_c_slot *s = input_of(m, root_of(m, m->out[i].v));
        if (s && s->written)
            return refuse(m,
                          "is written and returned as a view, which is unsupported "
                          "in C; return a clone",
                          s);
    }
    return find_ranges(m) && place(m);
}
