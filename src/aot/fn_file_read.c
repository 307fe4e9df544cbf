/* fn_file_read.c -- td_fn_load: a function of a file, which has no body. Its
 * specializations stay bytes until a call comes: their keys are compared with it, and
 * the one that fits is planned and compiled like one from the cache. The bytes may be
 * anything; every number is checked. */
#include "aot/cache_int.h"
#include "aot/fn_file.h"
#include "aot/options.h"
#include "core/config.h"
#include "core/files.h"
#include "module/modules.h"

#include <string.h>

bool td__fail_loaded(const td_fn *f, const char *what) {
    return td__fail(f->cx, TD_E_UNSUPPORTED,
                    "%s was loaded from %.200s and has no body, which %s needs; use "
                    "td_aot_function, td_aot_module or td_aot_step where the body is",
                    f->name, f->loaded, what);
}

/* ---- a call -------------------------------------------------------------- */

/* Reads settings over *c. False: the reader is bad, or after td__fail. */
static bool get_settings(td_reader *r, td_ctx *cx, td_config *c) {
    for (int i = 0; i < TD_KNOB_FIELDS; i++) {
        void *at = (char *)c + td__knobs[i].at;
        if (!td__knob_in_graphs(i)) continue;
        switch (td__knobs[i].kind) {
        case TD_KNOB_BOOL: *(bool *)at = td__get_bool(r); break;
        case TD_KNOB_INT: *(int64_t *)at = td__get_int(r); break;
        case TD_KNOB_REAL: *(double *)at = td__get_f64(r); break;
        default: *(int *)at = td__get_within(r, 0, INT32_MAX); break;
        }
    }
    return !r->bad && td__config_check(cx, "td_fn_load", c);
}

/* Appends how the call's key differs from that of s. */
static void key_difference(td_buf *why, td_fn *f, const td_spec *s, td_values args) {
    if (td__key_make(f, &f->key, args, s)) td__key_difference(why, f, s);
}

/* Reads image i into s as far as that is the same for all calls, and compares. NULL:
 * it fits so far; else why the image is unusable, "" if *why says how it differs. */
static const char *compare(td_reader *r, td_fn *f, td_spec *s, td_buf *why) {
    td_arena    a = {0};
    const char *form = td__get_text(r, &a);
    bool        ok = !r->bad && (f->state && td__state_module(f)) == (form != NULL);
    s->mode = ok && form ? td__state_form_nr(f, form) : f->mode;
    td__arena_free(&a);
    ok = ok && s->mode >= 0 && get_settings(r, f->cx, &s->set) &&
         td__get_spec_program(r, f, s) && td__key_valid(&s->key) &&
         td__key_find_grads(s, s->cache.args);
    if (!ok) return "it is damaged, or needs an op that is not registered here";
    size_t was = why->n;
    td__state_difference(why, f, s);
    if (why->n == was) key_difference(why, f, s, s->cache.args);
    return why->n == was ? NULL : "";
}

/* Reads image i for the call. True: it fits. Else the reason is appended to *why. */
static bool try_image(td_fn *f, td_spec *s, int i, td_buf *why) {
    td_reader   r = td__reader(f->images.v[i].s, f->images.v[i].n);
    td_config   set = s->set;
    const char *bad;
    td__refused_bytes = 0;
    td__buf_printf(why, "%s#%d: ", i ? "; " : "", i);
    bad = compare(&r, f, s, why);
    if (!bad && !td__get_spec_graphs(&r, f, s))
        bad = "it is damaged, or needs an op that is not registered here";
    if (!bad && td__spec_fits_call(f, s)) return true;
    if (!bad) td__spec_difference(why, f, s->cache.args, s);
    else td__buf_add(why, bad);
    bool memory = td__error(f->cx) == TD_E_MEMORY || td__refused_bytes;
    td__spec_discard(f, s, false);
    s->set = set;
    s->mode = f->mode;
    if (memory) td__fail_memory(f->cx);
    return false;
}

bool td__image_find(td_fn *f, td_spec *s, td_values args) {
    td_buf why = {0};
    bool   found = false;
    s->cache.args = args;
    for (int i = 0; !found && td_ok(f->cx) && i < f->images.n; i++)
        found = try_image(f, s, i, &why);
    if (found) td__stages_found(s);
    else if (td_ok(f->cx))
        td__fail(f->cx, TD_E_ARG,
                 "%s was loaded from %.200s and compiles no other code; this call fits "
                 "none of its %d specializations: %.600s. Pass arguments as when it "
                 "was saved, or save it after a call like this one",
                 f->name, f->loaded, f->images.n, td__buf_str(&why));
    td__buf_free(&why);
    return found;
}

/* ---- the file ------------------------------------------------------------ */

/* What a file is read into, besides the function. */
typedef struct file {
    td_ctx         *cx;
    td_reader       r;
    const char     *path;
    td_shared_opts *h; /* owned until the function has it */
} file;

/* A read that failed for lack of memory is not damage. */
static bool damaged(const file *x) {
    if (td__refused_bytes) return td__fail_memory(x->cx);
    return td__fail(x->cx, TD_E_IO,
                    "td_fn_load: %.200s is damaged, or no file of td_fn_save; save the "
                    "function again",
                    x->path);
}

/* Magic, checksum, and the build that wrote it. False after td__fail. */
static bool get_front(file *x, const void *bytes, size_t n) {
    td_hash128 sum, is;
    td_buf     key = {0};
    td_arena   a = {0};
    size_t     least = TD_FN_MAGIC_BYTES + sizeof sum;
    if (n < least || memcmp(bytes, TD_FN_MAGIC, TD_FN_MAGIC_BYTES) != 0)
        return damaged(x);
    memcpy(&sum, (const char *)bytes + n - sizeof sum, sizeof sum);
    is = td__hash128(bytes, n - sizeof sum);
    if (sum.hi != is.hi || sum.lo != is.lo) return damaged(x);
    x->r = td__reader((const char *)bytes + TD_FN_MAGIC_BYTES, n - least);
    const char *by = td__get_text(&x->r, &a);
    bool        ok = td__image_library(&key) || td__fail_memory(x->cx);
    if (ok && (x->r.bad || !by)) ok = damaged(x);
    else if (ok && strcmp(by, td__buf_str(&key)) != 0)
        ok = td__fail(x->cx, TD_E_IO,
                      "td_fn_load: %.200s was written by another build of Tandem, or "
                      "for another processor; save the function with this one. Graphs "
                      "that all versions read are written by td_exported_save",
                      x->path);
    td__buf_free(&key);
    td__arena_free(&a);
    return ok;
}

/* Options that later traces read. False after td__fail. */
static bool get_options(file *x, const char **name, bool *own) {
    td_shared_opts *h = x->h;
    *name = td__get_text(&x->r, &h->arena);
    *own = td__get_bool(&x->r);
    h->opts.decompose = td__get_text(&x->r, &h->arena);
    h->opts.n_params = td__get_within(&x->r, 0, INT32_MAX / 2);
    h->opts.n_buffers = td__get_within(&x->r, 0, INT32_MAX / 2);
    return (!x->r.bad && *name) || damaged(x);
}

static bool get_numbers(file *x, td_fn *f) {
    int n = td__get_count(&x->r);
    if (x->r.bad) return damaged(x);
    if (!td__numbers_reserve(f, n)) return false;
    for (int i = 0; i < n; i++) f->numbers[i] = (uint8_t)td__get_below(&x->r, 256);
    f->n_lifted = td__get_within(&x->r, 0, n + 1);
    return !x->r.bad || damaged(x);
}

/* Compares names of members with those of the file. False after td__fail. */
static bool same_names(file *x, const td_fn *f, int n) {
    td_arena a = {0};
    bool     ok = true;
    for (int i = 0; ok && i < n; i++) {
        const char *was = td__get_text(&x->r, &a), *now = td__state_member(f, i);
        if (x->r.bad) ok = damaged(x);
        else if (was && (!now || strcmp(was, now) != 0))
            ok = td__fail(x->cx, TD_E_ARG,
                          "td_fn_load: %.200s: member %d is %.80s where the function "
                          "was saved, and %.80s here; pass a module with the same "
                          "names, and td_aot_opts.state_names",
                          x->path, i, was, now ? now : "without a name");
    }
    td__arena_free(&a);
    return ok;
}

/* A module or a step takes its members from the options. False after td__fail. */
static bool get_state(file *x, td_fn *f) {
    const td_aot_opts *o = &f->opts;
    bool               any = td__get_bool(&x->r), module = any && td__get_bool(&x->r);
    int                n = any ? td__get_count(&x->r) : 0;
    if (x->r.bad) return damaged(x);
    if (module != (o->module != NULL))
        return td__fail(x->cx, TD_E_ARG,
                        module ? "td_fn_load: %.200s was compiled from a module; pass "
                                 "one with the same members as td_aot_opts.module"
                               : "td_fn_load: %.200s has no module; leave "
                                 "td_aot_opts.module NULL",
                        x->path);
    if (!any && !o->state.n) return true;
    if (module && !td__enter_in(x->cx, o->module, TD_H_MODULE, "td_fn_load"))
        return false;
    if (!td__state_make(f, o->module, o->state, false) || !td__state_renew(f))
        return false;
    if (f->n_state != n)
        return td__fail(x->cx, TD_E_ARG,
                        "td_fn_load: %.200s: the function was saved with %d members, "
                        "and td_aot_opts has %d (module and state)",
                        x->path, n, f->n_state);
    return same_names(x, f, n);
}

static bool get_graph(file *x, td_fn *f) {
    if (!td__get_bool(&x->r)) return !x->r.bad || damaged(x);
    td_graph *g = td__image_read(&x->r, x->cx, NULL);
    bool      ok = g && td__graph_verify(g, TD_STAGE_PROGRAM);
    f->graph = g;
    f->owns_graph = g != NULL;
    if (ok) return true;
    td_clear(x->cx);
    return damaged(x);
}

static bool get_images(file *x, td_fn *f) {
    int n = td__get_count(&x->r);
    for (int i = 0; !x->r.bad && i < n; i++) {
        td_buf   b = {0};
        uint64_t size = td__get_uint(&x->r);
        if (x->r.bad || size > (uint64_t)(x->r.end - x->r.p)) return damaged(x);
        td__buf_addn(&b, (const char *)x->r.p, (size_t)size);
        x->r.p += size;
        if (!b.failed && td__vec_push(&f->images, b)) continue;
        td__buf_free(&b);
        return td__fail_memory(x->cx);
    }
    return (!x->r.bad && n > 0 && x->r.p == x->r.end) || damaged(x);
}

td_fn *td__fn_read(td_ctx *cx, td_shared_opts *h, const void *bytes, size_t n,
                   const char *path) {
    file        x = {.cx = cx, .path = path, .h = h};
    const char *name = NULL;
    bool        own = false;
    td_fn      *f = NULL;
    td__refused_bytes = 0;
    if (!get_front(&x, bytes, n) || !get_options(&x, &name, &own))
        return td__shared_opts_drop(h), NULL;
    if (!(f = td__fn_make(cx, h, name))) return NULL;
    f->own_graph = own;
    f->loaded = td__strdup(path);
    if (!f->loaded) td__fail_memory(cx);
    if (f->loaded && get_numbers(&x, f) && get_state(&x, f) && get_graph(&x, f) &&
        get_images(&x, f))
        return f;
    td__fn_free(f);
    return NULL;
}

/* ---- options ------------------------------------------------------------- */

static bool check_options(td_ctx *cx, const td_aot_opts *o) {
    if (!td__opts_only(cx, o, TD_OPT_LOAD, "td_fn_load",
                       "was decided when the function was made; leave it zero"))
        return false;
    if (!td__has_list(cx, "td_fn_load", o->state.v, o->state.n)) return false;
    for (int i = 0; i < o->state.n; i++)
        if (!td__enter_in(cx, o->state.v[i], TD_H_TENSOR, "td_fn_load")) return false;
    return true;
}

td_fn *td_fn_load(td_ctx *cx, const char *path, const td_aot_opts *opts) {
    if (!TD_ENTER_CTX(cx)) return TD_NIL(cx, FN);
    td_shared_opts *h = td__shared_opts_make(cx, opts);
    bool            ok = h && td_ok(cx) && check_options(cx, &h->opts);
    td_mapping     *m = ok ? td__mapping_open(cx, "td_fn_load", path) : NULL;
    if (!m) {
        td__shared_opts_drop(h);
        return TD_NIL(cx, FN);
    }
    td_fn *f = td__fn_read(cx, h, m->bytes, m->n, path);
    td__mapping_drop(m);
    return td__fn_give(cx, f);
}
