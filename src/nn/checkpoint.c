/* checkpoint.c -- module, optimizer, schedule, loader and generator in one file.
 * Loading checks every part before it writes any. */
#include "nn/optim.h"
#include "core/files.h"
#include "tandem/checkpoint.h"

#include <stdio.h>

/* Are the parts of this context? False after td__fail. */
static bool take_parts(td_ctx *cx, const char *who, td_checkpoint_parts *o,
                       const td_checkpoint_parts *parts) {
    if (!td__opts_take(cx, who, o, sizeof *o, parts, "TD_CHECKPOINT_PARTS"))
        return false;
    return (!o->module || td__enter_in(cx, o->module, TD_H_MODULE, who)) &&
           (!o->optim || td__enter_in(cx, o->optim, TD_H_OPTIM, who)) &&
           (!o->average || td__enter_in(cx, o->average, TD_H_MODULE, who)) &&
           (!o->loader || td__enter_in(cx, o->loader, TD_H_LOADER, who)) &&
           td__may_change(cx, who, "a checkpoint");
}

/* ---- saving ------------------------------------------------------------- */

/* Adds numbers under a name. False after td__fail. */
static bool add_numbers(td_state_out *s, const char *name, td_dtype dtype,
                        td_ints shape, const void *values) {
    td_tensor *t = td_from(s->cx, dtype, shape, values);
    return !td_is_nil(t) && td__state_add(s, "", name, t);
}

static bool add_all(td_state_out *s, const td_checkpoint_parts *o) {
    int64_t generator[] = {(int64_t)td_rng_seed(s->cx), (int64_t)td_rng_offset(s->cx)};
    if (o->module && !td__module_state(o->module, "module.", s)) return false;
    if (o->average && !td__module_state(o->average, "average.", s)) return false;
    if (o->optim && !td__optim_state(o->optim, "optim.", s)) return false;
    if (o->step && !add_numbers(s, "step", TD_I64, TD_SHAPE(), o->step)) return false;
    if (o->plateau) {
        double of[] = {o->plateau->best, o->plateau->bad, o->plateau->cooling};
        if (!add_numbers(s, "plateau", TD_F64, TD_SHAPE(3), of)) return false;
    }
    if (o->loader) {
        td_loader_place at = td_loader_tell(o->loader);
        int64_t         of[] = {at.epoch, at.batch};
        if (!add_numbers(s, "loader", TD_I64, TD_SHAPE(2), of)) return false;
    }
    return o->no_generator ||
           add_numbers(s, "generator", TD_I64, TD_SHAPE(2), generator);
}

bool td_checkpoint_save(td_ctx *cx, const char *path,
                        const td_checkpoint_parts *parts) {
    static const char        who[] = "td_checkpoint_save";
    static const char *const notes[] = {"format", "tandem checkpoint", NULL};
    td_checkpoint_parts      o;
    if (!TD_ENTER_CTX(cx) || !td_ok(cx) || !take_parts(cx, who, &o, parts))
        return false;
    td_state_out s = {.cx = cx};
    td_scope_begin(cx, who);
    bool ok = add_all(&s, &o) &&
              td__safetensors_save(cx, who, path, s.names.v,
                                   td__nn_list(s.tensors.v, s.tensors.n), notes);
    td_scope_end(cx, who, NULL);
    td__state_end(&s);
    return ok;
}

/* ---- loading ------------------------------------------------------------ */

/* What a file contains, checked and not yet written. */
typedef struct loading {
    td_state_in          in;
    td_module_load_plan *module, *average;
    td_optim_load_plan  *optim;
    int64_t              step, loader[2], generator[2];
    double               plateau[3];
} loading;

/* Reads the numbers of that name. False after td__fail. */
static bool read_numbers(loading *l, const char *name, td_dtype dtype, int n,
                         void *out) {
    td_tensor *t = td__state_get(&l->in, name);
    size_t     bytes = (size_t)n * td_dtype_size(dtype);
    if (!t)
        return td__fail(l->in.cx, TD_E_ARG,
                        "%s: %s has no \"%s\"; it was saved without that part",
                        l->in.who, l->in.path, name);
    if (td_is_nil(t)) return false;
    if (td_dtype_of(t) != dtype || td_numel(t) != n)
        return td__fail(l->in.cx, TD_E_SHAPE, "%s: %s: \"%s\" is %s; it must be %s[%d]",
                        l->in.who, l->in.path, name, td__type_str(t),
                        td_dtype_name(dtype), n);
    return td_read(t, dtype, out, bytes);
}

/* Checks a module's part. False after td__fail. */
static bool check_module(loading *l, td_module *m, const char *prefix,
                         td_module_load_plan **out) {
    static const td_load_opts plain = {TD_LOAD_OPTS};
    td_state_in               in = l->in;
    if (!m) return true;
    in.prefix = prefix;
    return (*out = td__module_load_begin(m, &in, &plain)) != NULL;
}

static bool check_all(loading *l, const td_checkpoint_parts *o) {
    td_state_in in = l->in;
    in.prefix = "optim.";
    return check_module(l, o->module, "module.", &l->module) &&
           check_module(l, o->average, "average.", &l->average) &&
           (!o->optim || (l->optim = td__optim_load_begin(o->optim, &in))) &&
           (!o->step || read_numbers(l, "step", TD_I64, 1, &l->step)) &&
           (!o->plateau || read_numbers(l, "plateau", TD_F64, 3, l->plateau)) &&
           (!o->loader || read_numbers(l, "loader", TD_I64, 2, l->loader)) &&
           (o->no_generator || read_numbers(l, "generator", TD_I64, 2, l->generator));
}

/* The loader first, which checks its numbers itself. */
static bool write_all(loading *l, const td_checkpoint_parts *o) {
    td_loader_place at = {l->loader[0], l->loader[1]};
    if (o->loader && !td_loader_seek(o->loader, at)) return false;
    bool ok = (!l->module || td__module_load_write(l->module)) &&
              (!l->average || td__module_load_write(l->average)) &&
              (!l->optim || td__optim_load_write(l->optim));
    if (!ok) return false;
    if (o->step) *o->step = l->step;
    if (o->plateau) {
        o->plateau->best = l->plateau[0];
        o->plateau->bad = (int)l->plateau[1];
        o->plateau->cooling = (int)l->plateau[2];
    }
    if (!o->no_generator)
        td_rng_set(l->in.cx, (uint64_t)l->generator[0], (uint64_t)l->generator[1]);
    return true;
}

bool td_checkpoint_load(td_ctx *cx, const char *path,
                        const td_checkpoint_parts *parts) {
    static const char   who[] = "td_checkpoint_load";
    td_checkpoint_parts o;
    if (!TD_ENTER_CTX(cx) || !td_ok(cx) || !take_parts(cx, who, &o, parts))
        return false;
    td_scope_begin(cx, who);
    loading l = {.in = {cx, who, path, td__safetensors_open(cx, who, path), ""}};
    bool    ok = !td_is_nil(l.in.file) && check_all(&l, &o) && write_all(&l, &o);
    td__module_load_end(l.module);
    td__module_load_end(l.average);
    td__optim_load_end(l.optim);
    td_safetensors_close(l.in.file);
    td_scope_end(cx, who, NULL);
    return ok;
}
