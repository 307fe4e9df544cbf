/* unit_text.c -- the source of a unit: preamble, helper functions, kernels under
 * their names; and the names, which are hashes of all of that. */
#include "build/unit.h"
#include "kernels/loops/loops.h"
#include "tandem/version.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* No headers: including one takes longer than compiling a kernel. */
const char td__unit_preamble[] = "typedef __INT8_TYPE__ int8_t;\n"
                                 "typedef __INT16_TYPE__ int16_t;\n"
                                 "typedef __INT32_TYPE__ int32_t;\n"
                                 "typedef __INT64_TYPE__ int64_t;\n"
                                 "typedef __UINT8_TYPE__ uint8_t;\n"
                                 "typedef __UINT16_TYPE__ uint16_t;\n"
                                 "typedef __UINT32_TYPE__ uint32_t;\n"
                                 "typedef __UINT64_TYPE__ uint64_t;\n"
                                 "typedef __SIZE_TYPE__ size_t;\n"
                                 "#define INT32_MAX __INT32_MAX__\n"
                                 "#define INT32_MIN (-__INT32_MAX__ - 1)\n"
                                 "#define INT64_MAX __INT64_MAX__\n"
                                 "#define INT64_MIN (-__INT64_MAX__ - 1)\n"
                                 "#define UINT32_MAX __UINT32_MAX__\n"
                                 "#define UINT64_MAX __UINT64_MAX__\n"
                                 "typedef struct td_nest_run {\n"
                                 "    char *const *ptr;\n"
                                 "    const int64_t *size, *given;\n"
                                 "    char *parts;\n"
                                 "    int64_t part_bytes, zero;\n"
                                 "} td_nest_run;\n";

_Static_assert(offsetof(td_nest_run, ptr) == 0 && offsetof(td_nest_run, size) == 8 &&
                   offsetof(td_nest_run, given) == 16 &&
                   offsetof(td_nest_run, parts) == 24 &&
                   offsetof(td_nest_run, part_bytes) == 32 &&
                   offsetof(td_nest_run, zero) == 40 && sizeof(td_nest_run) == 48,
               "the preamble says how td_nest_run is laid out");

/* ---- names -------------------------------------------------------------- */

/* A hash of the op table's definitions. Two threads may both compute it; the result
 * is equal. */
static uint64_t hash_ops(void) {
    static _Atomic uint64_t known;
    uint64_t                h = atomic_load_explicit(&known, memory_order_relaxed);
    if (h) return h;
    h = 1;
    for (int i = 0; i < TD_OP_COUNT; i++) {
        const td_opdef   *o = td__row(i);
        const char *const fields[] = {o->name, o->schema, o->expr, o->simpler};
        for (int k = 0; k < TD_COUNT(fields); k++)
            if (fields[k]) h = td__hash(fields[k], strlen(fields[k]) + 1, h);
    }
    atomic_store_explicit(&known, h, memory_order_relaxed);
    return h;
}

bool td__unit_library(td_buf *b) {
    td__buf_printf(b, "tandem %s\nops %016llx\nlevel %s\n", TD_VERSION_STRING,
                   (unsigned long long)hash_ops(), td__isa()->name);
    return !b->failed;
}

bool td__unit_key(td_buf *b, const td_cc *cc) {
    td__unit_library(b);
    td__buf_printf(b, "compiler %s\nflags %s\n", cc->identity, cc->flags);
    return !b->failed;
}

/* Appends helper functions. False after td__fail. */
static bool add_helpers(td_ctx *cx, td_buf *b, const char *names) {
    if (!names || !*names) return true;
    if (td__helpers_text(b, names)) return true;
    if (b->failed) return td__fail_memory(cx);
    return td__fail(cx, TD_E_UNSUPPORTED,
                    "native code: internal error: unknown helper among: %.300s", names);
}

bool td__unit_name(td_ctx *cx, const char *key, const td_kernel *k, char *name) {
    td_buf b = {0};
    td__buf_add(&b, key);
    td__buf_add(&b, td__unit_preamble);
    bool ok = add_helpers(cx, &b, k->helpers);
    td__buf_add(&b, k->has_end ? "\n2 functions\n" : "\n1 function\n");
    td__buf_add(&b, k->text);
    if (ok && b.failed) ok = td__fail_memory(cx);
    if (ok) {
        td_hash128 h = td__hash128(b.s, b.n);
        snprintf(name, TD_UNIT_NAME, "k_%016llx%016llx", (unsigned long long)h.hi,
                 (unsigned long long)h.lo);
    }
    td__buf_free(&b);
    return ok;
}

/* ---- texts -------------------------------------------------------------- */

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The text with `name` in place of the word KERNEL, also in KERNEL_end. */
static void add_named(td_buf *b, const char *text, const char *name) {
    const char *from = text;
    for (const char *p = text; (p = strstr(p, "KERNEL"));) {
        const char *next = p + strlen("KERNEL");
        bool        whole = p == text || !in_word(p[-1]);
        if (whole) {
            td__buf_addn(b, from, (size_t)(p - from));
            td__buf_add(b, name);
            from = next;
        }
        p = next;
    }
    td__buf_add(b, from);
}

/* Appends the note as a comment that it cannot end: names come from files. A backslash,
 * also as the trigraph ??/, could join a star with a slash of the next line, so it is
 * replaced, as are question marks and control characters; a star and a slash are
 * separated. */
static void add_note(td_buf *b, const char *note) {
    if (!note || !*note) return;
    td__buf_add(b, "/* ");
    for (const char *p = note; *p; p++) {
        bool plain = (unsigned char)*p >= ' ' && *p != '\\' && *p != '?';
        td__buf_addn(b, plain || *p == '\n' ? p : ".", 1);
        if (p[0] == '*' && p[1] == '/') td__buf_add(b, " ");
    }
    td__buf_add(b, " */\n");
}

/* Writes the kernels with of[i] == u. False after td__fail. */
static bool write_unit(td_ctx *cx, td_buf *b, const td_named_kernel *k, const int *of,
                       int n, int u) {
    td_buf names = {0};
    td__buf_add(b, td__unit_preamble);
    for (int i = 0; i < n; i++)
        if (of[i] == u && k[i].k->helpers) {
            td__buf_add(&names, k[i].k->helpers);
            td__buf_add(&names, "\n");
        }
    bool ok = !names.failed || td__fail_memory(cx);
    ok = ok && add_helpers(cx, b, td__buf_str(&names));
    td__buf_free(&names);
    for (int i = 0; i < n && ok; i++)
        if (of[i] == u) {
            td__buf_add(b, "\n");
            add_note(b, k[i].k->note);
            add_named(b, k[i].k->text, k[i].name);
            td__buf_add(b, "\n");
        }
    return ok && (!b->failed || td__fail_memory(cx));
}

/* ---- distribution ------------------------------------------------------------ */

/* Starting a compiler costs as much as compiling this many bytes. */
enum { START_COST = 600 };

static size_t cost_of(const td_named_kernel *k) { return strlen(k->k->text) + 100; }

/* The number of units that pays: each further one must save more than its start. */
static int count_units(const size_t *cost, int n, int most) {
    size_t total = 0;
    for (int i = 0; i < n; i++) total += cost[i];
    size_t units = total / START_COST;
    if (units > (size_t)most) units = (size_t)most;
    if (units > (size_t)n) units = (size_t)n;
    return units < 1 ? 1 : (int)units;
}

/* Greedy: the largest remaining kernel goes to the unit with the least load. of[i] is
 * the unit of kernel i. */
static void spread(const size_t *cost, int n, int units, size_t *load, int *of) {
    for (int i = 0; i < n; i++) of[i] = -1;
    for (int done = 0; done < n; done++) {
        int big = -1, u = 0;
        for (int i = 0; i < n; i++)
            if (of[i] < 0 && (big < 0 || cost[i] > cost[big])) big = i;
        for (int i = 1; i < units; i++)
            if (load[i] < load[u]) u = i;
        of[big] = u;
        load[u] += cost[big];
    }
}

bool td__unit_texts(td_ctx *cx, const td_named_kernel *k, int n, td_buf *text, int most,
                    int *units) {
    size_t *cost = td__alloc(sizeof *cost * (size_t)n);
    size_t *load = td__zalloc(sizeof *load * (size_t)most);
    int    *of = td__alloc(sizeof *of * (size_t)n);
    bool    ok = (cost && load && of) || td__fail_memory(cx);
    for (int i = 0; i < n && ok; i++) cost[i] = cost_of(&k[i]);
    *units = ok ? count_units(cost, n, most) : 0;
    if (ok) spread(cost, n, *units, load, of);
    for (int u = 0; u < *units && ok; u++) ok = write_unit(cx, &text[u], k, of, n, u);
    td__free(cost);
    td__free(load);
    td__free(of);
    return ok;
}
