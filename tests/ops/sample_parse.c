/* sample_parse.c -- one call text to nodes and leaves. The grammar, as in
 * tools/oracle/samples.py:
 *   call   = name "(" [arg {"," arg}] ")"        arg = [name "="] value
 *   value  = number | true | false | none | dtype | "string" | "[" values "]"
 *          | tensor {view} | "&" number {view}    view = "." call
 *   tensor = dtype "[" ints "]" ["{" strides "}"]
 *            [":" hint | "%" number | "=(" numbers ")"] ["!"]            */
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    sample     *s;
    const char *p;
} parser;

static int fail(parser *p, const char *what) {
    if (!p->s->why[0])
        snprintf(p->s->why, sizeof p->s->why, "%s at '%.60s'", what, p->p);
    return -1;
}

static bool take(parser *p, const char *s) {
    size_t n = strlen(s);
    if (strncmp(p->p, s, n)) return false;
    p->p += n;
    return true;
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_';
}

static bool ident(parser *p, char *out, size_t cap) {
    size_t n = 0;
    while (is_name(p->p[n])) n++;
    if (!n || n >= cap) return fail(p, "a name expected") == 0;
    memcpy(out, p->p, n);
    out[n] = 0;
    p->p += n;
    return true;
}

static int node_make(parser *p, node_kind kind) {
    if (p->s->n_nodes == MAX_NODES) return fail(p, "too many parts");
    int at = p->s->n_nodes++;
    p->s->nodes[at] = (node){.kind = kind, .first = -1, .next = -1};
    return at;
}

/* Returns false when there is no number here. */
static bool number(parser *p, node *n) {
    size_t k = *p->p == '-';
    if (!strncmp(p->p + k, "inf", 3) || !strncmp(p->p + k, "nan", 3)) k += 3;
    else {
        if (p->p[k] < '0' || p->p[k] > '9') return fail(p, "a value expected") == 0;
        k += strspn(p->p + k, "0123456789");
        if (p->p[k] == '.' && p->p[k + 1] >= '0' && p->p[k + 1] <= '9')
            k += 1 + strspn(p->p + k + 1, "0123456789");
        if (p->p[k] == 'e') {
            k++;
            k += p->p[k] == '-' || p->p[k] == '+';
            k += strspn(p->p + k, "0123456789");
        }
    }
    char text[64];
    if (k >= sizeof text) return fail(p, "number too long") == 0;
    memcpy(text, p->p, k);
    text[k] = 0;
    p->p += k;
    bool real = strpbrk(text, ".ien") != NULL;
    n->kind = real ? NODE_FLOAT : NODE_INT;
    n->f = strtod(text, NULL);
    n->i = real ? 0 : strtoll(text, NULL, 10);
    return true;
}

static int value(parser *p);

/* Items up to `close`, chained; returns the first or -1 (none, or p->s->why). */
static int values(parser *p, const char *close, bool keywords) {
    int first = -1, last = -1;
    if (take(p, close)) return -1;
    for (;;) {
        char   name[32] = "";
        size_t k = 0;
        while (is_name(p->p[k])) k++;
        if (keywords && k && p->p[k] == '=') {
            if (!ident(p, name, sizeof name)) return -1;
            p->p++;
        }
        int v = value(p);
        if (v < 0) return -1;
        memcpy(p->s->nodes[v].name, name, sizeof name);
        if (last < 0) first = v;
        else p->s->nodes[last].next = v;
        last = v;
        if (take(p, close)) return first;
        if (!take(p, ",")) return fail(p, "',' expected");
    }
}

static int ints(parser *p, const char *close, int64_t *out) {
    int  n = 0;
    node k;
    if (take(p, close)) return 0;
    for (;;) {
        if (n == MAX_DIMS || !number(p, &k)) return fail(p, "a list of ints expected");
        out[n++] = k.i;
        if (take(p, close)) return n;
        if (!take(p, ",")) return fail(p, "',' expected");
    }
}

static bool views(parser *p, int at) {
    int last = -1;
    while (take(p, ".")) {
        int v = node_make(p, NODE_VIEW);
        if (v < 0 || !ident(p, p->s->nodes[v].str, 32)) return false;
        if (!take(p, "(")) return fail(p, "'(' expected") == 0;
        int args = values(p, ")", false);
        if (p->s->why[0]) return false;
        p->s->nodes[v].first = args;
        if (last < 0) p->s->nodes[at].first = v;
        else p->s->nodes[last].next = v;
        last = v;
    }
    return true;
}

static bool literal(parser *p, leaf *l) {
    node n;
    for (;;) {
        if (l->n_lit == 64 || !number(p, &n)) return fail(p, "numbers expected") == 0;
        l->lit_i[l->n_lit] = n.kind == NODE_INT ? n.i : (int64_t)0;
        l->lit_f[l->n_lit++] = n.f;
        if (take(p, ")")) return true;
        if (!take(p, ",")) return fail(p, "',' expected") == 0;
    }
}

static int tensor(parser *p, td_dtype dt) {
    int at = node_make(p, NODE_TENSOR);
    if (at < 0) return -1;
    if (p->s->n_leaves == MAX_LEAVES) return fail(p, "too many tensors");
    p->s->nodes[at].i = p->s->n_leaves;
    leaf *l = &p->s->leaves[p->s->n_leaves++];
    *l = (leaf){.dt = dt, .grad = td__is_differentiable(dt) && !td__is_f8(dt)};
    l->rank = ints(p, "]", l->size);
    if (l->rank < 0) return -1;
    if (take(p, "{")) {
        l->has_stride = true;
        if (ints(p, "}", l->stride) != l->rank) return fail(p, "strides do not match");
    }
    if (take(p, ":")) {
        if (!ident(p, l->hint, sizeof l->hint)) return -1;
    } else if (take(p, "%")) {
        node n;
        if (!number(p, &n)) return -1;
        l->mod = n.i;
    } else if (take(p, "=(") && !literal(p, l)) {
        return -1;
    }
    if (take(p, "!")) l->grad = false;
    return views(p, at) ? at : -1;
}

static td_dtype dtype_of(const char *w) {
    for (int d = 0; d < TD_DTYPE_COUNT; d++)
        if (!strcmp(td_dtype_name((td_dtype)d), w)) return (td_dtype)d;
    return TD_DTYPE_NONE;
}

static int word(parser *p) {
    char w[32];
    if (!ident(p, w, sizeof w)) return -1;
    if (!strcmp(w, "none")) return node_make(p, NODE_NONE);
    if (!strcmp(w, "true") || !strcmp(w, "false")) {
        int at = node_make(p, NODE_BOOL);
        if (at >= 0) p->s->nodes[at].i = w[0] == 't';
        return at;
    }
    td_dtype dt = dtype_of(w);
    if (dt == TD_DTYPE_NONE) return fail(p, "unknown word before");
    if (take(p, "[")) return tensor(p, dt);
    int at = node_make(p, NODE_DTYPE);
    if (at >= 0) p->s->nodes[at].dt = dt;
    return at;
}

static int string(parser *p) {
    int    at = node_make(p, NODE_STR);
    size_t n = strcspn(p->p, "\"");
    if (at < 0 || n >= 32 || !p->p[n]) return fail(p, "a string expected");
    memcpy(p->s->nodes[at].str, p->p, n);
    p->p += n + 1;
    return at;
}

static int value(parser *p) {
    int at;
    if (take(p, "[")) {
        at = node_make(p, NODE_LIST);
        int first = at < 0 ? -1 : values(p, "]", false);
        if (at < 0 || p->s->why[0]) return -1;
        p->s->nodes[at].first = first;
        return at;
    }
    if (take(p, "\"")) return string(p);
    if (take(p, "&")) {
        at = node_make(p, NODE_REF);
        node n;
        if (at < 0 || !number(p, &n)) return -1;
        p->s->nodes[at].i = n.i;
        return views(p, at) ? at : -1;
    }
    bool letter = is_name(*p->p) && !(*p->p >= '0' && *p->p <= '9');
    if (letter && strncmp(p->p, "inf", 3) && strncmp(p->p, "nan", 3)) return word(p);
    at = node_make(p, NODE_INT);
    return at >= 0 && number(p, &p->s->nodes[at]) ? at : -1;
}

bool sample_parse(const sample_text *t, sample *s) {
    parser p = {s, t->text};
    s->src = t;
    s->n_nodes = s->n_leaves = 0;
    s->first = -1;
    s->why[0] = 0;
    s->seed = sample_hash(t->text, strlen(t->text));
    if (!ident(&p, s->op_name, sizeof s->op_name)) return false;
    if (!take(&p, "(")) return fail(&p, "'(' expected") == 0;
    s->first = values(&p, ")", true);
    if (!s->why[0] && *p.p) fail(&p, "text after the call");
    return !s->why[0];
}
