/* tree.c -- td_tree: nested lists, tuples and dictionaries of values (a
 * pytree): built entry by entry, flattened to leaves and a spec string, and
 * rebuilt from both. Entries are in one array in insertion order (depth first),
 * each with the index of its parent, so nothing recurses. */
#include "trace/trace.h"

#include "tandem/tree.h"

#include <string.h>

/* One leaf or container. Indices into td_tree.entries; -1: none. */
typedef struct entry {
    td_tree_kind kind;
    int          parent, first, last, next; /* first and last child; next sibling */
    int          n;                         /* number of children */
    const char  *key;                       /* in a dictionary; else NULL */
    int          leaf;                      /* a leaf's index in leaves */
} entry;

struct td_tree {
    TD_OWNED_FIELDS;
    td_arena arena;
    TD_VEC(entry) entries;
    TD_VEC(td_value) leaves; /* owned: one reference per tensor */
    int    open;             /* the innermost container being built; -1: none */
    td_buf spec;             /* made on first use */
};

static void end(void *object) {
    td_tree *t = object;
    for (int i = 0; i < t->leaves.n; i++)
        if (t->leaves.v[i].kind == TD_K_TENSOR) td__unref(t->leaves.v[i].u.t);
    td__vec_free(&t->leaves);
    td__vec_free(&t->entries);
    td__buf_free(&t->spec);
    td__arena_free(&t->arena);
    td__handle_free(t, TD_H_TREE);
}

td_tree *td_tree_make(td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return TD_NIL(cx, TREE);
    td_tree *t = td__handle_make(cx, TD_H_TREE, sizeof *t);
    if (!t) return TD_NIL(cx, TREE);
    t->open = -1;
    return td__handle_own(t, end);
}

void td_tree_drop(td_tree *t) {
    if (!TD_MAY_FREE(t, TREE)) return;
    td__handle_disown(t);
    end(t);
}

/* ---- building ----------------------------------------------------------- */

/* The child of dictionary `at` whose key is the first n characters of key; -1: none. */
static int child(const td_tree *t, int at, const char *key, size_t n) {
    for (int i = t->entries.v[at].first; i >= 0; i = t->entries.v[i].next) {
        const char *k = t->entries.v[i].key;
        if (k && !strncmp(k, key, n) && !k[n]) return i;
    }
    return -1;
}

/* Checks that an entry fits here: one root; keys in dictionaries and nowhere else. */
static bool may_add(td_tree *t, const char *key) {
    if (t->open < 0)
        return t->entries.n == 0 ||
               td__fail(t->cx, TD_E_ARG,
                        "td_tree: the tree has a root already; begin a list, tuple or "
                        "dictionary to add more than one entry");
    bool dict = t->entries.v[t->open].kind == TD_TREE_DICT;
    if (dict != (key != NULL))
        return td__fail(t->cx, TD_E_ARG, "%s",
                        dict ? "td_tree: an entry of a dictionary needs a key"
                             : "td_tree: only entries of a dictionary have a key; pass "
                               "NULL as key");
    if (dict && (!*key || child(t, t->open, key, strlen(key)) >= 0))
        return td__fail(t->cx, TD_E_ARG,
                        "td_tree: key \"%s\" is empty or in the dictionary already",
                        key);
    return true;
}

/* Appends an entry to the open container. On failure the tree is unchanged. */
static bool add(td_tree *t, td_tree_kind kind, const char *key) {
    entry e = {.kind = kind, .parent = t->open, .first = -1, .last = -1, .next = -1};
    if (!may_add(t, key)) return false;
    if (key && !(e.key = td__arena_strdup(&t->arena, key)))
        return td__fail_memory(t->cx);
    if (!td__vec_push(&t->entries, e)) return td__fail_memory(t->cx);
    int at = t->entries.n - 1;
    if (t->open < 0) return true;
    entry *up = &t->entries.v[t->open];
    if (up->last >= 0) t->entries.v[up->last].next = at;
    else up->first = at;
    up->last = at;
    up->n++;
    return true;
}

bool td_tree_begin(td_tree *t, td_tree_kind kind, const char *key) {
    if (!TD_ENTER(t, TREE) || !td__may_change_object(t, "td_tree_begin", "a tree"))
        return false;
    if (kind != TD_TREE_LIST && kind != TD_TREE_TUPLE && kind != TD_TREE_DICT)
        return td__fail(
            t->cx, TD_E_ARG,
            "td_tree_begin: the kind is %d; use TD_TREE_LIST, TD_TREE_TUPLE "
            "or TD_TREE_DICT",
            (int)kind);
    if (!add(t, kind, key)) return false;
    t->open = t->entries.n - 1;
    return true;
}

bool td_tree_end(td_tree *t) {
    if (!TD_ENTER(t, TREE) || !td__may_change_object(t, "td_tree_end", "a tree"))
        return false;
    if (t->open < 0)
        return td__fail(t->cx, TD_E_ARG,
                        "td_tree_end: no list, tuple or dictionary is open");
    t->open = t->entries.v[t->open].parent;
    return true;
}

bool td_tree_put(td_tree *t, const char *key, td_value leaf) {
    if (!TD_ENTER(t, TREE) || !td__may_change_object(t, "td_tree_put", "a tree"))
        return false;
    if (leaf.kind == TD_K_TENSOR && !leaf.u.t) leaf = TD_NONE;
    if (leaf.kind > TD_K_DTYPE)
        return td__fail(t->cx, TD_E_ARG,
                        "td_tree_put: a leaf is a tensor, a number, a dtype or NULL");
    if (leaf.kind == TD_K_TENSOR && !TD_ENTER(leaf.u.t, TENSOR)) return false;
    if (leaf.kind == TD_K_TENSOR && leaf.u.t->cx != t->cx)
        return td__fail(
            t->cx, TD_E_ARG,
            "td_tree_put: the leaf belongs to another context than the tree");
    if (!td__vec_reserve(&t->leaves)) return td__fail_memory(t->cx);
    if (!add(t, TD_TREE_LEAF, key)) return false;
    t->entries.v[t->entries.n - 1].leaf = t->leaves.n;
    t->leaves.v[t->leaves.n++] = leaf;
    if (leaf.kind == TD_K_TENSOR) td__ref(leaf.u.t);
    return true;
}

/* ---- specs -------------------------------------------------------------- */

/* Can the key be printed without quotes? */
static bool plain_key(const char *k) {
    size_t n = strspn(k, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_.");
    return n > 0 && !k[n];
}

static void write_key(td_buf *b, const char *k) {
    if (plain_key(k)) {
        td__buf_printf(b, "%s: ", k);
        return;
    }
    td__buf_add(b, "\"");
    for (; *k; k++) {
        if (*k == '"' || *k == '\\') td__buf_add(b, "\\");
        td__buf_addn(b, k, 1);
    }
    td__buf_add(b, "\": ");
}

static const char opening[] = "*[({", closing[] = "*])}";

/* Writes "{a: *, b: [*, *]}". Entries are in the order of the text; containers
 * that end are closed on the way up to the next entry's parent. */
static void write_spec(td_tree *t) {
    td_buf *b = &t->spec;
    int     open = -1;
    for (int i = 0; i < t->entries.n; i++) {
        const entry *e = &t->entries.v[i];
        for (; open != e->parent; open = t->entries.v[open].parent)
            td__buf_addn(b, &closing[t->entries.v[open].kind], 1);
        if (open >= 0 && t->entries.v[open].first != i) td__buf_add(b, ", ");
        if (e->key) write_key(b, e->key);
        td__buf_addn(b, &opening[e->kind], 1);
        if (e->kind != TD_TREE_LEAF) open = i;
    }
    for (; open >= 0; open = t->entries.v[open].parent)
        td__buf_addn(b, &closing[t->entries.v[open].kind], 1);
}

static bool finished(td_tree *t) {
    return (t->open < 0 && t->entries.n > 0) ||
           td__fail(t->cx, TD_E_ARG,
                    "td_tree: the tree is empty, or a container is still open; call "
                    "td_tree_end for each td_tree_begin");
}

const char *td_tree_spec(td_tree *t) {
    if (!TD_ENTER(t, TREE)) return NULL;
    if (!finished(t)) return NULL;
    if (!t->spec.n) write_spec(t);
    if (!t->spec.failed) return td__buf_str(&t->spec);
    td__buf_free(&t->spec);
    td__fail_memory(t->cx);
    return NULL;
}

td_values td_tree_leaves(td_tree *t) {
    if (!TD_ENTER(t, TREE)) return (td_values){NULL, 0};
    if (!finished(t)) return (td_values){NULL, 0};
    return (td_values){t->leaves.v, t->leaves.n};
}

/* ---- from a spec -------------------------------------------------------- */

/* A parser of specs that builds the tree through the public functions. */
typedef struct reader {
    td_tree    *t;
    const char *text, *p; /* the spec; the next character */
    td_values   leaves;   /* values for its leaves, in order */
    int         used;     /* how many of them are in the tree */
    td_buf      key;      /* the last key read, unquoted */
} reader;

static bool wrong(reader *r, const char *what) {
    return td__fail(r->t->cx, TD_E_ARG, "tree spec, column %d: %s",
                    (int)(r->p - r->text) + 1, what);
}

static void skip(reader *r) { r->p += strspn(r->p, " \t\n"); }

/* Reads `key:` or `"key":` into r->key. */
static bool read_key(reader *r) {
    r->key.n = 0;
    if (*r->p == '"') {
        for (r->p++; *r->p && *r->p != '"'; r->p++) {
            if (*r->p == '\\' && r->p[1]) r->p++;
            td__buf_addn(&r->key, r->p, 1);
        }
        if (*r->p++ != '"') return r->p--, wrong(r, "the key does not end");
    } else {
        size_t n = strcspn(r->p, ":*[](){}, \t\n\"");
        td__buf_addn(&r->key, r->p, n);
        r->p += n;
    }
    skip(r);
    if (r->key.failed) return td__fail_memory(r->t->cx);
    if (*r->p != ':') return wrong(r, "expected key and ':'");
    r->p++;
    skip(r);
    return true;
}

/* Reads one leaf, or the beginning of a container. */
static bool read_entry(reader *r) {
    td_tree *t = r->t;
    bool     dict = t->open >= 0 && t->entries.v[t->open].kind == TD_TREE_DICT;
    if (dict && !read_key(r)) return false;
    const char *key = dict ? td__buf_str(&r->key) : NULL;
    const char *c = *r->p ? strchr(opening, *r->p) : NULL;
    if (!c) return wrong(r, "expected *, [, ( or {");
    r->p++;
    if (c != opening) return td_tree_begin(t, (td_tree_kind)(c - opening), key);
    if (r->used >= r->leaves.n)
        return td__fail(
            t->cx, TD_E_ARG,
            "td_tree_from: the spec has more leaves than the %d values given",
            r->leaves.n);
    return td_tree_put(t, key, r->leaves.v[r->used++]);
}

/* Closes the containers that end here. Afterwards an entry or the end of the
 * text must follow. */
static bool read_ends(reader *r) {
    td_tree *t = r->t;
    bool     fresh = t->open >= 0 && t->entries.v[t->open].n == 0;
    for (;;) {
        skip(r);
        if (t->open < 0) return true;
        if (*r->p == closing[t->entries.v[t->open].kind]) {
            r->p++;
            td_tree_end(t);
            fresh = false;
        } else if (fresh) return true;
        else if (*r->p == ',') {
            r->p++;
            skip(r);
            return true;
        } else return wrong(r, "expected ',' or the end of the group");
    }
}

static bool read_all(reader *r) {
    skip(r);
    do
        if (!read_entry(r) || !read_ends(r)) return false;
    while (r->t->open >= 0);
    if (*r->p) return wrong(r, "text after the tree");
    return r->used == r->leaves.n ||
           td__fail(r->t->cx, TD_E_ARG,
                    "td_tree_from: the spec has %d leaves, but %d values were given",
                    r->used, r->leaves.n);
}

td_tree *td_tree_from(td_ctx *cx, const char *spec, td_values leaves) {
    if (!TD_ENTER_CTX(cx) || !td__has(cx, "td_tree_from", "the spec", spec) ||
        !td__has_list(cx, "td_tree_from", leaves.v, leaves.n))
        return TD_NIL(cx, TREE);
    reader r = {.t = td_tree_make(cx), .text = spec, .p = spec, .leaves = leaves};
    if (td_is_nil(r.t)) return r.t;
    bool ok = read_all(&r);
    td__buf_free(&r.key);
    if (ok) return r.t;
    td_tree_drop(r.t);
    return TD_NIL(cx, TREE);
}

/* ---- reading ------------------------------------------------------------ */

static bool is_entry(const td_tree *t, int at) { return at >= 0 && at < t->entries.n; }

int td_tree_length(const td_tree *t, int at) {
    if (!TD_ENTER(t, TREE)) return 0;
    return is_entry(t, at) ? t->entries.v[at].n : 0;
}

int td_tree_entry(const td_tree *t, int at, int i) {
    if (!TD_ENTER(t, TREE)) return -1;
    if (!is_entry(t, at) || i < 0) return -1;
    int k = t->entries.v[at].first;
    while (k >= 0 && i-- > 0) k = t->entries.v[k].next;
    return k;
}

/* The child of entry `at` that one component of a path names: a key, or an index. */
static int path_step(const td_tree *t, int at, const char *word, size_t n) {
    if (t->entries.v[at].kind == TD_TREE_DICT) return child(t, at, word, n);
    int i = 0;
    for (size_t k = 0; k < n; k++) {
        if (word[k] < '0' || word[k] > '9' || i > 100000000) return -1;
        i = 10 * i + (word[k] - '0');
    }
    return n ? td_tree_entry(t, at, i) : -1;
}

int td_tree_find(const td_tree *t, const char *path) {
    if (!TD_ENTER(t, TREE) || !td__has(t->cx, "td_tree_find", "the path", path))
        return -1;
    int at = t->entries.n ? 0 : -1;
    while (at >= 0 && *path) {
        size_t n = strcspn(path, ".");
        at = path_step(t, at, path, n);
        path += n + (path[n] == '.');
    }
    return at;
}

td_tree_kind td_tree_kind_of(const td_tree *t, int at) {
    if (!TD_ENTER(t, TREE)) return TD_TREE_LEAF;
    return is_entry(t, at) ? t->entries.v[at].kind : TD_TREE_LEAF;
}

const char *td_tree_key(const td_tree *t, int at) {
    if (!TD_ENTER(t, TREE)) return NULL;
    return is_entry(t, at) ? t->entries.v[at].key : NULL;
}

td_value td_tree_value(const td_tree *t, int at) {
    if (!TD_ENTER(t, TREE)) return TD_NONE;
    bool leaf = is_entry(t, at) && t->entries.v[at].kind == TD_TREE_LEAF;
    return leaf ? t->leaves.v[t->entries.v[at].leaf] : TD_NONE;
}
