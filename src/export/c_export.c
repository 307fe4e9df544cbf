/* c_export.c -- td_export_c: a compiled function as C files (docs/artefact.md). */
#include "export/c_model.h"

#include "core/files.h"
#include "tandem/export.h"
#include "trace/trace.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { ROUNDS = 4, ARRAY_BYTES = 1 << 20 };

static const char who[] = "td_export_c";

/* ---- ops without a C function --------------------------------------------- */

static bool is_known(const td_graph *g, const td_gnode *n) {
    return td__c_is_nothing(n) || td__c_has_call(g, n);
}

/* Lists ops that are called, have no C function and can be decomposed. */
static void list_simpler(const td_native *n, td_buf *names) {
    bool seen[TD_OP_LIMIT] = {0};
    for (int i = 0; i < n->steps.n; i++) {
        const td_gnode *node = n->steps.v[i].node;
        if (!node || is_known(n->g, node) || seen[node->op]) continue;
        seen[node->op] = true;
        if (td__opinfo(node->op)->has_simpler)
            td__buf_printf(names, "%s%s", names->n ? "," : "", td__row(node->op)->name);
    }
}

/* The first op of the code that has no C function. */
static bool check_calls(const td_native *n) {
    for (int i = 0; i < n->steps.n; i++) {
        const td_gnode *node = n->steps.v[i].node;
        if (!node || is_known(n->g, node)) continue;
        td_buf type = {0};
        if (node->n_out && node->out[0]->type)
            td__gtype_print(&type, n->g, node->out[0]->type);
        td__fail(n->g->cx, TD_E_UNSUPPORTED,
                 "%s: @%.60s: %s with result %.80s has no C function; "
                 "docs/artefact.md lists the ops that have one",
                 who, n->g->name, td__row(node->op)->name,
                 type.n ? td__buf_str(&type) : "none");
        td__buf_free(&type);
        return false;
    }
    for (int i = 0; i < n->n_launches; i++)
        if (n->launches[i].b.run_numbers.n)
            return td__fail(n->g->cx, TD_E_UNSUPPORTED,
                            "%s: @%.60s: unsupported in C: a number that is known at "
                            "run time only; pass it as a 0-d tensor",
                            who, n->g->name);
    return true;
}

/* The graph with ops decomposed; takes over g. NULL after td__fail. */
static td_graph *decompose(td_graph *g, const char *names) {
    bool grad = g->cx->grad_enabled;
    g->cx->grad_enabled = false; /* autograd is outside of compiled code */
    td_graph *s = td__graph_decompose(g, names);
    g->cx->grad_enabled = grad;
    td__graph_drop(g);
    return s;
}

/* Steps and kernels of t->g, whose ops are decomposed until all have a C function. NULL
 * after td__fail. */
static td_native *lower(td_traced *t) {
    for (int round = 0; t->g; round++) {
        td_buf     names = {0};
        td_native *n = td__native_texts(t->g);
        if (!n) return NULL;
        if (round < ROUNDS) list_simpler(n, &names);
        bool again = names.n > 0 && !names.failed;
        if (!again && check_calls(n)) return td__buf_free(&names), n;
        td__native_drop(n);
        if (again) t->g = decompose(t->g, td__buf_str(&names));
        td__buf_free(&names);
        if (!again) return NULL;
    }
    return NULL;
}

/* ---- files ---------------------------------------------------------------- */

static bool write_file(const td_c_model *m, const char *dir, const char *name,
                       const td_buf *b) {
    td_out o;
    td_buf path = {0};
    td__buf_printf(&path, "%s/%s", dir, name);
    bool ok = (!b->failed && !path.failed) || td__fail_memory(m->cx);
    ok = ok && td__out_open(&o, m->cx, who, td__buf_str(&path)) &&
         td__out_write(&o, b->s, b->n) && td__out_finish(&o);
    td__buf_free(&path);
    return ok;
}

static bool write_files(const td_c_model *m, const char *dir) {
    td_buf b[5] = {{0}};
    bool   ok = td__c_source(m, &b[0]);
    td__c_header(m, &b[1]);
    td__c_main(m, &b[2]);
    td__c_makefile(m, &b[3]);
    if (m->file) td__c_weight_bytes(m, &b[4]);
    else td__c_weights(m, &b[4]);
    ok = ok && write_file(m, dir, "model.c", &b[0]) &&
         write_file(m, dir, "model.h", &b[1]) && write_file(m, dir, "main.c", &b[2]) &&
         write_file(m, dir, "Makefile", &b[3]) &&
         write_file(m, dir, m->file ? "weights.bin" : "weights.c", &b[4]);
    for (int i = 0; i < TD_COUNT(b); i++) td__buf_free(&b[i]);
    return ok;
}

static bool make_dir(td_ctx *cx, const char *dir) {
    if (!td__has(cx, who, "the directory", dir) || !td__may_change(cx, who, "a file"))
        return false;
    if (mkdir(dir, 0777) == 0 || errno == EEXIST) return true;
    return td__fail(cx, TD_E_IO, "%s: cannot make %.200s: %s", who, dir,
                    strerror(errno));
}

/* ---- options -------------------------------------------------------------- */

/* Is it a C identifier? */
static bool check_name(td_ctx *cx, const char *name) {
    bool ok = *name && !isdigit((unsigned char)*name) && strlen(name) <= 40;
    for (const char *p = name; *p; p++) ok &= isalnum((unsigned char)*p) || *p == '_';
    return ok || td__fail(cx, TD_E_ARG,
                          "%s: td_export_c_opts.name is \"%.60s\"; the prefix of C "
                          "names must be an identifier of at most 40 characters",
                          who, name);
}

/* Traces, plans and writes, for arguments that begin with the state. */
static bool export_c(td_fn *f, td_values all, const char *dir,
                     const td_export_c_opts *o) {
    td_export_opts e = {TD_EXPORT_OPTS, .what = o->what, .loss = o->loss};
    td_traced      t = {0};
    td_c_model     m = {.cx = f->cx, .name = o->name ? o->name : "model"};
    if (e.what == TD_EXPORT_AUTO) e.what = TD_EXPORT_FORWARD;
    bool ok = check_name(f->cx, m.name) && td__export_trace(f, all, &e, &t) &&
              td__c_merge(&t) && (m.n = lower(&t)) != NULL;
    if (ok) m.g = m.n->g;
    ok = ok && td__c_plan(&m, &t);
    if (ok) {
        m.file = o->weights == TD_C_WEIGHTS_FILE ||
                 (o->weights == TD_C_WEIGHTS_AUTO && m.weight_bytes > ARRAY_BYTES);
        ok = make_dir(f->cx, dir) && write_files(&m, dir);
    }
    if (m.n) td__native_drop(m.n);
    td__arena_free(&m.arena);
    td__graph_drop(t.g);
    td__graph_drop(t.epilogue);
    td__free(t.in);
    return ok;
}

bool td_export_c(td_fn *f, td_values args, const char *dir,
                 const td_export_c_opts *opts) {
    td_export_c_opts o;
    td_values        all = args;
    if (!TD_ENTER(f, FN) || !td__has_args(f->cx, who, args) ||
        !td__opts_take(f->cx, who, &o, sizeof o, opts, "TD_EXPORT_C_OPTS"))
        return false;
    if (!td_ok(f->cx)) return false;
    if (!f->body && !f->graph)
        return td__fail(f->cx, TD_E_UNSUPPORTED,
                        "%s: %s has no body, because it was loaded from a file; export "
                        "the function that was saved",
                        who, f->name);
    if (!f->state) return export_c(f, args, dir, &o);
    if (!td__state_renew(f) || !td__state_args(f, args, &all)) return false;
    bool ok = export_c(f, all, dir, &o);
    td__state_give(f, all);
    return ok;
}
