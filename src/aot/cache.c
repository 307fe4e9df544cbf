/* cache.c -- specializations on disk. The result of tracing, differentiating and
 * partitioning is stored under a hash of everything that determines it: the captured
 * program, the call's key, settings, options and the build of the library. The next
 * process captures, hashes and reads; with td_aot_opts.version it does not even
 * capture. Properties that only an entry knows (whether offsets matter, guards on
 * sizes) allow several entries per hash. No failure here fails a call: a miss
 * compiles. docs/cache.md has the details. */
#include "aot/cache_int.h"
#include "aot/options.h"
#include "build/disk.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ENTRIES = 8 }; /* per hash */

/* ---- whether ------------------------------------------------------------ */

/* Why the function is not cached; NULL: it is. */
static const char *bypass_reason(const td_fn *f) {
    const td_aot_opts *o = &f->opts;
    bool               versioned = o->version || o->stages;
    bool               own = !f->inner; /* the user's passes run */
    if (f->staged) return "it is compiled in two stages";
    if (td__log_on(f->cx, TD_LOG_facts) || td__log_on(f->cx, TD_LOG_joint))
        return "the log topics facts or joint need every stage to run";
    if (own && o->pass.run && !versioned)
        return "its pass has no version (td_aot_opts.stages)";
    if (own && o->chooser.choose && !versioned)
        return "its partitioner has no version (td_aot_opts.stages)";
    if (o->n_decompositions && !versioned)
        return "its decompositions have no version (td_aot_opts.stages)";
    if (own && o->offload.choose && !o->offload.version)
        return "its choice of offloaded values has no version "
               "(td_aot_opts.offload.version)";
    if (own && o->saved.pack && !o->saved.version)
        return "its saved-tensor hooks have no version (td_aot_opts.saved.version)";
    return NULL;
}

/* ---- names -------------------------------------------------------------- */

/* Does the setting influence the graphs? Text settings and those of the backend,
 * which has its own cache, do not. */
bool td__knob_in_graphs(int knob) {
    switch (knob) {
    case TD_KNOB_NR_specialization_limit:
    case TD_KNOB_NR_fallback:
    case TD_KNOB_NR_debug_asserts:
    case TD_KNOB_NR_backend:
    case TD_KNOB_NR_lazy_backward:
    case TD_KNOB_NR_backward_limit:
    case TD_KNOB_NR_cc_seconds:
    case TD_KNOB_NR_cache_disk_mb:
    case TD_KNOB_NR_cache_remote_ms:
    case TD_KNOB_NR_strict: return false;
    default: return td__knobs[knob].kind != TD_KNOB_TEXT;
    }
}

/* The bytes of the settings that change graphs; logs and limits do not, and are not
 * part of the key. */
static void add_settings(td_buf *b, const td_config *c) {
    static const size_t bytes[] = {sizeof(bool), sizeof(int64_t), sizeof(double),
                                   sizeof(int), 0};
    for (int i = 0; i < TD_KNOB_FIELDS; i++)
        if (td__knob_in_graphs(i))
            td__buf_addn(b, (const char *)c + td__knobs[i].at,
                         bytes[td__knobs[i].kind]);
}

/* The options that influence the graphs. An inner function (of a backward) has the
 * user's decompositions and none of the passes. */
static void add_options(td_buf *b, const td_fn *f) {
    const td_aot_opts *o = &f->opts;
    bool               own = !f->inner; /* the user's passes run */
    bool               pass = own && o->pass.run, chooser = own && o->chooser.choose;
    const bool         is[] = {f->forward, f->inner, f->step != NULL, f->graph != NULL,
                               pass,       chooser,  f->n_orders > 0};
    for (int i = 0; i < TD_COUNT(is); i++) td__put_uint(b, is[i]);
    td__put_text(b, f->name);
    td__put_text(b, own && o->offload.store ? f->shared->store : NULL);
    td__opts_put(b, o, own);
    for (int i = 0; i < f->n_orders; i++)
        for (int w = 0; w < f->orders[i].words; w++) {
            td__put_uint(b, f->orders[i].missing[w]);
            td__put_uint(b, f->orders[i].grad[w]);
        }
}

/* The hash of b's bytes; empties b. */
static uint64_t take_hash(td_buf *b) {
    uint64_t h = td__hash(td__buf_str(b), b->n, 0);
    b->n = 0;
    return h;
}

/* The hashes that make up a name; logs print each, to show which one changed. */
typedef struct parts {
    uint64_t settings, options, call, program;
} parts;

static void add_words(td_buf *b, const td_key *k) {
    td__buf_addn(b, (const char *)k->v, sizeof *k->v * (size_t)k->n);
}

/* Instead of the program: the version that the caller gives it, and the module's
 * form. */
static void add_version(td_buf *b, const td_fn *f) {
    td__put_text(b, f->opts.version);
    td__put_text(b, td__state_form(f));
}

/* The program's bytes, without source lines. */
static bool add_program(td_buf *b, const td_graph *program) {
    td_image m;
    bool     ok = td__image_begin(&m, b, NULL, true) && td__image_graph(&m, program);
    if (m.why)
        td__log(program->cx, TD_LOG_cache, "bypass: @%s: %s", program->name, m.why);
    td__image_end(&m);
    return ok;
}

/* Computes the four hashes. False: out of memory. */
static bool find_parts(td_fn *f, const td_spec *s, td_values args, parts *p) {
    td_buf b = {0};
    bool   ok = true;
    add_settings(&b, &s->set);
    p->settings = take_hash(&b);
    add_options(&b, f);
    p->options = take_hash(&b);
    if (f->opts.version) ok = td__key_make_any(f, &f->key, args);
    else ok = td__key_make(f, &f->key, args, s);
    if (ok) add_words(&b, &f->key);
    td__marks_put(&b, s->cache.args);
    p->call = take_hash(&b);
    if (f->opts.version) add_version(&b, f);
    else ok = ok && add_program(&b, td__spec_program(f, s));
    p->program = take_hash(&b);
    ok = ok && !b.failed;
    td__buf_free(&b);
    return ok;
}

/* Fills s->cache.name with "f_" and a 128-bit hash. False: out of memory. */
static bool choose_name(td_fn *f, td_spec *s, td_values args) {
    td_buf b = {0};
    parts  p = {0};
    bool   ok = find_parts(f, s, args, &p) && td__image_library(&b);
    td__buf_addn(&b, (const char *)&p, sizeof p);
    ok = ok && !b.failed;
    if (ok) {
        td_hash128 h = td__hash128(b.s, b.n);
        snprintf(s->cache.name, sizeof s->cache.name, "f_%016llx%016llx",
                 (unsigned long long)h.hi, (unsigned long long)h.lo);
        td__log(f->cx, TD_LOG_cache,
                "%s is %s: program %08x, call %08x, settings %08x, options %08x",
                f->name, s->cache.name, (unsigned)p.program, (unsigned)p.call,
                (unsigned)p.settings, (unsigned)p.options);
    }
    td__buf_free(&b);
    return ok;
}

static void entry_name(const td_spec *s, int nr, char *to, size_t cap) {
    snprintf(to, cap, "%s-%d", s->cache.name, nr);
}

/* ---- reading ------------------------------------------------------------ */

/* Reads entry number nr. 1: it fits; 0: not, but there may be others; -1: no more. */
static int try_entry(td_fn *f, td_spec *s, td_disk *d, const char *key, int nr) {
    char          name[64];
    td_disk_entry m;
    entry_name(s, nr, name, sizeof name);
    const char *bad = td__disk_read(d, name, key, &m);
    bool        none = bad != NULL, whole = false, fits = false;
    bool        captured = s->program != NULL;
    if (!bad) {
        td_reader r = td__reader(m.bytes, m.payload);
        whole = td__get_spec_program(&r, f, s) && td__get_spec_graphs(&r, f, s);
        if (!whole) bad = "is damaged, or memory ran out";
        else if (!(fits = td__spec_fits_call(f, s)))
            bad = "is for other sizes or offsets";
    }
    td__disk_entry_free(&m);
    if (fits) td__log(f->cx, TD_LOG_cache, "hit: %s, %s", name, f->name);
    else
        td__log(f->cx, TD_LOG_cache, "miss: %s %s %.200s", name, bad,
                td__message(f->cx));
    if (fits) return 1;
    td__spec_discard(f, s, captured);
    if (!whole && s->cache.slot < 0) s->cache.slot = nr; /* a whole one serves others */
    return none ? -1 : 0;
}

/* Tries the entries of this name in order; the first whose key and guards hold for the
 * call is read into s. cache.slot becomes a free or damaged slot for storing later. */
static bool find_entry(td_fn *f, td_spec *s) {
    td_disk d;
    td_buf  key = {0};
    int     got = 0;
    s->cache.slot = -1;
    td__disk_open(&d, f->cx, true);
    bool ok = td__image_library(&key) && d.fd >= 0;
    for (int i = 0; ok && got == 0 && i < MOST_ENTRIES; i++)
        got = try_entry(f, s, &d, key.s, i);
    td__disk_close(&d);
    td__buf_free(&key);
    return got > 0;
}

/* Sets s->cache.found and, if true, everything that the td__get_ functions read. */
static bool find(td_fn *f, td_spec *s, td_values args) {
    td__span_begin(f->cx, "find");
    bool ok = choose_name(f, s, args);
    if (!ok) *s->cache.name = 0;
    s->cache.found = ok && find_entry(f, s);
    td__span_arg(f->cx, "found", s->cache.found);
    td__span_end(f->cx, "find");
    td_clear(f->cx); /* a miss is no error */
    if (s->cache.found) td__stages_found(s);
    return s->cache.found;
}

/* A hash of the arguments' key without sizes; 0: out of memory. */
static uint64_t args_hash(td_fn *f, td_values args) {
    if (td__key_make_any(f, &f->key, args))
        return td__hash(f->key.v, sizeof *f->key.v * (size_t)f->key.n, 1);
    td_clear(f->cx);
    return 0;
}

/* The lookup before capture: possible only with td_aot_opts.version, because the
 * program is not known yet. Also decides whether this specialization uses the cache at
 * all. */
bool td__cache_find_version(td_fn *f, td_spec *s, td_values args) {
    const char *no =
        s->sizes.n ? "it is for sizes that depend on values" : bypass_reason(f);
    s->cache.args = args;
    s->cache.on = !no && s->set.cache_disk_mb > 0;
    s->cache.before = s->cache.on ? args_hash(f, args) : 0;
    if (no) td__log(f->cx, TD_LOG_cache, "bypass: %s: %s", f->name, no);
    return s->cache.on && f->opts.version && !f->graph && find(f, s, args);
}

bool td__cache_find(td_fn *f, td_spec *s, td_values args) {
    if (!s->cache.on || (f->opts.version && !f->graph)) return false;
    return find(f, s, args);
}

/* ---- writing ------------------------------------------------------------ */

/* Serializes the specialization into cache.bytes while the graphs still are as traced;
 * it is stored after compiling. A function that cannot be cached logs the reason and
 * goes on without. */
void td__cache_serialize(td_fn *f, td_spec *s) {
    const td_graph *program = td__spec_program(f, s);
    td_buf         *b = &s->cache.bytes;
    const char     *why = NULL;
    if (!s->cache.on || s->cache.found || !*s->cache.name) return;
    if (f->opts.version && !f->graph && program->consts.n) {
        td__log(f->cx, TD_LOG_cache,
                "bypass: %s closes over %d tensors, which td_aot_opts.version does not "
                "cover; pass them as td_aot_opts.state",
                f->name, program->consts.n);
        return;
    }
    if (f->opts.version && td__deps_any(&s->deps)) {
        td__log(f->cx, TD_LOG_cache,
                "bypass: %s calls modules or watches values, which td_aot_opts.version "
                "does not cover; pass the module as td_aot_opts.module",
                f->name);
        return;
    }
    if (td__put_spec(b, f, s, f->opts.version && !f->graph, &why)) return;
    if (why) td__log(f->cx, TD_LOG_cache, "bypass: %s: %s", f->name, why);
    td__buf_free(b);
    *b = (td_buf){0};
    td_clear(f->cx);
}

/* Writes the entry. An argument that tracing changed (a stale view whose history was
 * refreshed) would give the next process another key, so nothing is stored then. */
void td__cache_store(td_fn *f, td_spec *s) {
    td_buf  b = {0}, key = {0};
    td_disk d;
    char    name[64], note[200];
    if (!s->cache.bytes.n) return;
    if (args_hash(f, s->cache.args) != s->cache.before) {
        td__log(f->cx, TD_LOG_cache,
                "bypass: %s: an argument was a stale view, which the trace refreshed",
                f->name);
        return;
    }
    bool ok = td__put_spec_head(&b, s) && td__image_library(&key);
    td__buf_addn(&b, s->cache.bytes.s, s->cache.bytes.n);
    int slot = s->cache.slot >= 0 ? s->cache.slot : s->nr % MOST_ENTRIES;
    entry_name(s, slot, name, sizeof name);
    snprintf(note, sizeof note, "function %.60s, %d nodes%s", f->name,
             s->plan->j->g->nodes.n, s->guards ? ", for many sizes" : "");
    td__disk_open(&d, f->cx, true);
    if (ok && !b.failed) td__disk_store_entry(&d, name, key.s, note, &b);
    td__disk_close(&d);
    td__buf_free(&b);
    td__buf_free(&key);
    td__buf_free(&s->cache.bytes);
    s->cache.bytes = (td_buf){0};
}
