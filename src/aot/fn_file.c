/* fn_file.c -- td_fn_save: a function as one file. Every specialization is kept as
 * bytes when it is compiled (spec_image.c), because the plan modifies its graphs; a
 * file is these bytes, and what a function has besides: name, options that later
 * traces read, names of members, what is known of number arguments, a user's graph. */
#include "aot/cache_int.h"
#include "aot/fn_file.h"
#include "core/config.h"
#include "core/files.h"

#include <string.h>

/* ---- what is kept -------------------------------------------------------- */

void td__images_drop(td_fn *f) {
    for (int i = 0; i < f->images.n; i++) td__buf_free(&f->images.v[i]);
    td__vec_free(&f->images);
    td__free(f->unsaved);
    f->unsaved = NULL;
}

/* Notes why the function cannot be saved; the first reason stays. */
static bool cannot_save(td_fn *f, const char *why) {
    if (!f->unsaved) f->unsaved = td__strdup(why);
    return f->unsaved || td__fail_memory(f->cx);
}

/* Why the program cannot run in a process without the body; NULL: it can. */
static const char *needs_process(const td_spec *s, const td_graph *program) {
    if (program->consts.n)
        return "it closes over tensors, which no file has; pass them as arguments, or "
               "as members of td_aot_opts.module or td_aot_opts.state";
    if (td__deps_any(&s->deps))
        return "its body calls modules or watches values; compile the module itself "
               "(td_aot_module), or pass it as td_aot_opts.module";
    if (s->sizes.n) return "a specialization is for sizes that depend on values alone";
    return NULL;
}

bool td__image_serialize(td_fn *f, td_spec *s) {
    const char *why = NULL;
    if (!f->opts.savable || f->inner || f->loaded) return true;
    why = needs_process(s, td__spec_program(f, s));
    s->image.n = 0;
    if (!why && td__put_spec(&s->image, f, s, true, &why)) return true;
    td_clear(f->cx);
    td__buf_free(&s->image);
    s->image = (td_buf){0};
    return why ? cannot_save(f, why) : td__fail_memory(f->cx);
}

/* Settings that are no texts and influence graphs: later traces must have them. */
static void put_settings(td_buf *b, const td_config *c) {
    for (int i = 0; i < TD_KNOB_FIELDS; i++) {
        const char *at = (const char *)c + td__knobs[i].at;
        if (!td__knob_in_graphs(i)) continue;
        switch (td__knobs[i].kind) {
        case TD_KNOB_BOOL: td__put_uint(b, *(const bool *)(const void *)at); break;
        case TD_KNOB_INT: td__put_int(b, *(const int64_t *)(const void *)at); break;
        case TD_KNOB_REAL: td__put_f64(b, *(const double *)(const void *)at); break;
        default: td__put_int(b, *(const int *)(const void *)at); break;
        }
    }
}

/* An image is the module's form, settings, head, and what was serialized. */
bool td__image_keep(td_fn *f, td_spec *s) {
    td_buf b = {0};
    if (!s->image.n) return true;
    td__put_text(&b, td__state_form(f));
    put_settings(&b, &s->set);
    bool ok = td__put_spec_head(&b, s);
    td__buf_addn(&b, s->image.s, s->image.n);
    td__buf_free(&s->image);
    s->image = (td_buf){0};
    if (ok && !b.failed && td__vec_push(&f->images, b)) return true;
    td__buf_free(&b);
    return td__fail_memory(f->cx);
}

/* ---- the file ------------------------------------------------------------ */

/* Members by name: the function takes them before its arguments. */
static void put_state(td_buf *b, const td_fn *f) {
    td__put_uint(b, f->state != NULL);
    if (!f->state) return;
    td__put_uint(b, td__state_module(f) != NULL);
    td__put_uint(b, (uint64_t)f->n_state);
    for (int i = 0; i < f->n_state; i++) td__put_text(b, td__state_member(f, i));
}

static void put_numbers(td_buf *b, const td_fn *f) {
    td__put_uint(b, (uint64_t)f->n_numbers);
    for (int i = 0; i < f->n_numbers; i++) td__put_uint(b, f->numbers[i]);
    td__put_int(b, f->n_lifted);
}

/* A user's graph is the program of every specialization. */
static bool put_graph(td_buf *b, const td_fn *f, const char **why) {
    td_image m = {0};
    td__put_uint(b, f->graph != NULL);
    if (!f->graph) return true;
    bool ok = td__image_begin(&m, b, NULL, false) && td__image_graph(&m, f->graph);
    *why = m.why;
    td__image_end(&m);
    return ok;
}

/* td__get_file reads it in the same order. False: out of memory, or *why. */
static bool put_file(td_buf *b, const td_fn *f, const char **why) {
    td_buf key = {0};
    bool   own =
        f->own_graph || f->staged || f->opts.pass.run || f->opts.n_decompositions;
    bool ok = td__image_library(&key);
    td__buf_addn(b, TD_FN_MAGIC, TD_FN_MAGIC_BYTES);
    td__put_text(b, td__buf_str(&key));
    td__put_text(b, f->name);
    td__put_uint(b, own);
    td__put_text(b, f->opts.decompose);
    td__put_int(b, f->opts.n_params);
    td__put_int(b, f->opts.n_buffers);
    put_numbers(b, f);
    put_state(b, f);
    ok = ok && put_graph(b, f, why);
    td__put_uint(b, (uint64_t)f->images.n);
    for (int i = 0; i < f->images.n; i++) {
        td__put_uint(b, f->images.v[i].n);
        td__buf_addn(b, f->images.v[i].s, f->images.v[i].n);
    }
    td__buf_free(&key);
    if (!ok || b->failed) return false;
    td_hash128 sum = td__hash128(b->s, b->n);
    td__buf_addn(b, (const char *)&sum, sizeof sum);
    return !b->failed;
}

/* Is everything there that a file needs? False after td__fail. */
static bool check_savable(const td_fn *f) {
    static const char who[] = "td_fn_save";
    if (!f->opts.savable && !f->loaded)
        return td__fail(f->cx, TD_E_ARG,
                        "%s: %s was made without td_aot_opts.savable, so its graphs as "
                        "traced are gone; set it where the function is made",
                        who, f->name);
    if (f->unsaved)
        return td__fail(f->cx, TD_E_UNSUPPORTED, "%s: %s: %s", who, f->name,
                        f->unsaved);
    for (const td_spec *s = f->specs; s; s = s->next)
        if (!s->plan)
            return td__fail(f->cx, TD_E_UNSUPPORTED,
                            "%s: specialization #%d of %s runs eagerly (the setting "
                            "fallback), and a file has no body",
                            who, s->nr, f->name);
    return f->images.n > 0 ||
           td__fail(f->cx, TD_E_ARG,
                    "%s: %s has no specialization yet; call it with arguments like "
                    "those it will get",
                    who, f->name);
}

bool td_fn_save(const td_fn *f, const char *path) {
    if (!TD_ENTER(f, FN)) return false;
    td_buf      b = {0};
    td_out      o;
    const char *why = NULL;
    bool        ok = td_ok(f->cx) && td__may_change(f->cx, "td_fn_save", "a file") &&
              check_savable(f);
    if (ok && !put_file(&b, f, &why)) {
        td_clear(f->cx);
        ok = why ? td__fail(f->cx, TD_E_UNSUPPORTED, "td_fn_save: %s: %s", f->name, why)
                 : td__fail_memory(f->cx);
    }
    ok = ok && td__out_open(&o, f->cx, "td_fn_save", path) &&
         td__out_write(&o, b.s, b.n) && td__out_finish(&o);
    td__buf_free(&b);
    return ok;
}
