/* case_report.c -- the report of a case, as text and as JSON: inputs before and after
 * each call, outputs, gradients, with types, flags and shared storage. Numbers are
 * printed exactly. */
#include "cli/case_run.h"
#include "core/typed.h"

#include "tandem/grad.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ------------------------------------------------------------ */

/* Numbers storages in order of appearance. A reference keeps each alive, so that no
 * address is reused. */
static int storage_number(case_run *run, td_storage *st) {
    for (int i = 0; i < run->storages.n; i++)
        if (run->storages.v[i] == st) return i;
    if (!td__vec_push(&run->storages, st)) return -1;
    td__storage_keep(st);
    return run->storages.n - 1;
}

static void json_ints(td_buf *b, const char *key, const int64_t *v, int n) {
    td__buf_printf(b, ",\"%s\":[", key);
    for (int i = 0; i < n; i++)
        td__buf_printf(b, i ? ",%lld" : "%lld", (long long)v[i]);
    td__buf_add(b, "]");
}

static void json_flag(td_buf *b, const char *key, bool on) {
    td__buf_printf(b, ",\"%s\":%s", key, on ? "true" : "false");
}

/* Can is_leaf and grad_fn be read? For some stale views eager fails instead; the
 * report clears that error. */
static bool has_current_history(td_tensor *t) {
    bool before = td_ok(t->cx);
    (void)td_is_leaf(t);
    if (td_ok(t->cx) || !before) return true;
    td_clear(t->cx);
    return false;
}

/* is_leaf and grad_fn of a stale view are null: reading them would recompute its
 * history and so change the case. A tensor of a type has its inner tensors and no
 * elements. */
static void json_tensor(case_run *run, td_tensor *t) {
    td_buf *b = run->out;
    bool    known = has_current_history(t);
    td__buf_printf(b, "\"dtype\":\"%s\"", td_dtype_name((td_dtype)t->dtype));
    json_ints(b, "sizes", t->size, t->rank);
    json_ints(b, "strides", t->stride, t->rank);
    td__buf_printf(b, ",\"offset\":%lld,\"storage\":%d,\"version\":%llu",
                   (long long)t->offset, storage_number(run, t->st),
                   (unsigned long long)td_version(t));
    json_flag(b, "requires_grad", td_requires_grad(t));
    if (known) json_flag(b, "is_leaf", td_is_leaf(t));
    else td__buf_add(b, ",\"is_leaf\":null");
    json_flag(b, "is_view", td_is_view(t));
    json_flag(b, "is_inference", td_is_inference(t));
    td__buf_add(b, ",\"grad_fn\":");
    if (known) td__json_string(b, td_grad_fn_name(t));
    else td__buf_add(b, "null");
    td__buf_add(b, ",\"elements\":");
    td__json_elements(b, t);
    if (!t->typed) return;
    td__buf_add(b, ",\"inner\":[");
    for (int i = 0; i < t->typed->n; i++) {
        td__buf_add(b, i ? ",{" : "{");
        json_tensor(run, t->typed->inner[i]);
        td__buf_add(b, "}");
    }
    td__buf_add(b, "]");
}

static void json_value(case_run *run, const char *name, td_value v) {
    td_buf *b = run->out;
    td__buf_add(b, "{");
    if (name) {
        td__buf_add(b, "\"name\":");
        td__json_string(b, name);
        td__buf_add(b, ",");
    }
    if (v.kind == TD_K_TENSOR) json_tensor(run, v.u.t);
    else if (v.kind == TD_K_INT) td__buf_printf(b, "\"int\":%lld", (long long)v.u.i);
    else if (v.kind == TD_K_BOOL)
        td__buf_printf(b, "\"bool\":%s", v.u.i ? "true" : "false");
    else if (v.kind == TD_K_FLOAT) {
        td__buf_add(b, "\"float\":");
        td__json_float(b, TD_F64, v.u.f);
    } else td__buf_add(b, "\"none\":true");
    td__buf_add(b, "}");
}

/* The tensor as td_print prints it, indented. */
static void show_tensor(case_run *run, td_tensor *t) {
    size_t n = td_format(t, NULL, 0);
    char  *text = malloc(n + 1);
    if (!text) return;
    td_format(t, text, n + 1);
    for (char *line = text; line;) {
        char *end = strchr(line, '\n');
        td__buf_printf(run->out, "      %.*s\n",
                       end ? (int)(end - line) : (int)strlen(line), line);
        line = end ? end + 1 : NULL;
    }
    free(text);
}

/* One value as text: type, storage number, version, flags, elements. */
static void show_value(case_run *run, const char *name, td_value v) {
    td_buf *b = run->out;
    td__buf_printf(b, "    %s%s", name ? "%" : "", name ? name : "(number)");
    if (v.kind != TD_K_TENSOR) {
        if (v.kind == TD_K_FLOAT) td__buf_printf(b, " = %.17g\n", v.u.f);
        else if (v.kind == TD_K_NONE) td__buf_add(b, " = none\n");
        else td__buf_printf(b, " = %lld\n", (long long)v.u.i);
        return;
    }
    td_tensor *t = v.u.t;
    td__buf_printf(b, ": %s, storage %d, version %llu", td__type_str(t),
                   storage_number(run, t->st), (unsigned long long)td_version(t));
    if (td_requires_grad(t)) td__buf_add(b, ", requires grad");
    if (!has_current_history(t)) td__buf_add(b, ", a stale view");
    else if (*td_grad_fn_name(t)) td__buf_printf(b, " from %s", td_grad_fn_name(t));
    if (td_is_view(t)) td__buf_add(b, ", view");
    td__buf_add(b, "\n");
    show_tensor(run, t);
}

/* ---- report parts -------------------------------------------------------------- */

static void begin_list(case_run *run, const char *key) {
    if (run->json) td__buf_printf(run->out, ",\n    \"%s\":[", key);
    else td__buf_printf(run->out, "   %s\n", key);
}

static void end_list(case_run *run) {
    if (run->json) td__buf_add(run->out, "]");
}

static void entry(case_run *run, int i, const char *name, td_value v) {
    if (!run->json) {
        show_value(run, name, v);
        return;
    }
    td__buf_add(run->out, i ? ",\n     " : "\n     ");
    json_value(run, name, v);
}

void case_report_begin(case_run *run) {
    if (!run->out) return;
    td_buf *b = run->out;
    td__buf_add(b, run->json ? "  {\"case\":" : "case ");
    td__json_string(b, run->c->name);
    if (run->json) td__buf_printf(b, ",\"way\":\"%s\"", run->way->name);
    td__buf_add(b, run->json ? ",\n   \"steps\":[" : "\n");
}

/* The error message ends with the line of the statement that failed. */
void case_report_end(case_run *run, bool ok) {
    int line = 0;
    if (!run->out) return;
    td_buf *b = run->out;
    td_ctx *cx = run->file->cx;
    if (run->open) td__buf_add(b, "}");
    if (run->json) td__buf_printf(b, "],\n   \"ok\":%s", ok ? "true" : "false");
    if (!ok && run->json) {
        td__buf_printf(b, ",\n   \"error\":{\"code\":\"%s\",\"line\":%d,\"message\":",
                       td_code_name(td_error(cx)), (td_error_place(cx, &line), line));
        td__json_string(b, td_message(cx));
        td__buf_add(b, "}");
    } else if (!ok) td__buf_printf(b, "  error: %s\n", td_message(cx));
    if (run->json) td__buf_add(b, "}");
}

static void begin_step(case_run *run) {
    td__buf_add(run->out, run->open ? "},\n   " : "\n   ");
    run->open = true;
}

void case_report_call(case_run *run, const td_gstep *s) {
    if (!run->out) return;
    td_buf *b = run->out;
    if (!run->json) {
        td__buf_printf(b, "  call @%s\n", s->fn->name);
        return;
    }
    begin_step(run);
    td__buf_add(b, "{\"call\":");
    td__json_string(b, s->fn->name);
    td__buf_printf(b, ",\"line\":%d", s->line);
}

void case_report_inputs(case_run *run, const td_gstep *s, const char *key) {
    if (!run->out || !run->json) return; /* text has outputs only */
    begin_list(run, key);
    for (int i = 0; i < s->n_args; i++) {
        const td_garg *a = &s->args[i];
        td_value       v;
        if (!td__replay_arg(&run->r, a, &v)) break;
        entry(run, i, a->kind == TD_G_VALUE ? a->u.v->name : NULL, v);
    }
    end_list(run);
}

/* Pairs of inputs and outputs of the call that share a storage. */
static void report_aliases(case_run *run, const td_gstep *s) {
    td_buf *b = run->out;
    int     n = s->n_args + s->n_out, any = 0;
    td__buf_add(b, ",\n    \"aliases\":[");
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            const td_gval *x = i < s->n_args ? s->args[i].u.v : s->out[i - s->n_args];
            const td_gval *y = k < s->n_args ? s->args[k].u.v : s->out[k - s->n_args];
            bool           named = (i >= s->n_args || s->args[i].kind == TD_G_VALUE) &&
                         (k >= s->n_args || s->args[k].kind == TD_G_VALUE);
            if (!named) continue;
            td_value a = run->r.val[x->id], c = run->r.val[y->id];
            if (a.kind != TD_K_TENSOR || c.kind != TD_K_TENSOR ||
                a.u.t->st != c.u.t->st)
                continue;
            td__buf_add(b, any++ ? ",{\"values\":[" : "{\"values\":[");
            td__json_string(b, y->name);
            td__buf_add(b, ",");
            td__json_string(b, x->name);
            td__buf_printf(b, "],\"same_tensor\":%s}",
                           a.u.t == c.u.t ? "true" : "false");
        }
    td__buf_add(b, "]");
}

/* Generator and modes after the call. */
static void report_context(case_run *run) {
    td_ctx *cx = run->file->cx;
    td__buf_printf(run->out, ",\n    \"generator\":{\"seed\":%llu,\"offset\":%llu}",
                   (unsigned long long)td_rng_seed(cx),
                   (unsigned long long)td_rng_offset(cx));
    json_flag(run->out, "grad_enabled", td_grad_enabled(cx));
    json_flag(run->out, "inference", td_inference_enabled(cx));
}

void case_report_draws(case_run *run) {
    if (run->draws.n)
        td__buf_printf(run->out, ",\n    \"draws\":[%s]", td__buf_str(&run->draws));
    run->draws.n = 0;
}

void case_report_outputs(case_run *run, const td_gstep *s) {
    if (!run->out) return;
    begin_list(run, "outputs");
    for (int i = 0; i < s->n_out; i++)
        entry(run, i, s->out[i]->name, run->r.val[s->out[i]->id]);
    end_list(run);
    if (!run->json) return;
    case_report_draws(run);
    report_aliases(run, s);
    report_context(run);
}

case_mark case_report_backward(case_run *run, const td_gstep *s, td_tensors tangents) {
    case_mark at = {run->out ? run->out->n : 0, run->open};
    if (!run->out) return at;
    if (!run->json) return td__buf_add(run->out, "  backward\n"), at;
    begin_step(run);
    td__buf_printf(run->out, "{\"backward\":%d,\"line\":%d", tangents.n, s->line);
    begin_list(run, "tangents");
    for (int i = 0; i < tangents.n; i++)
        entry(run, i, NULL, td_value_tensor(tangents.v[i]));
    end_list(run);
    return at;
}

void case_report_gradients(case_run *run, const case_mark *failed) {
    int n = 0;
    if (!run->out) return;
    if (failed) {
        run->out->n = failed->n;
        run->open = failed->open;
        return;
    }
    begin_list(run, "gradients");
    for (int i = 0; i < run->leaves.n; i++) {
        const td_gval *v = run->leaves.v[i];
        td_value       x = run->r.val[v->id];
        td_tensor     *g = x.kind == TD_K_TENSOR ? td_grad_of(x.u.t) : NULL;
        bool           there = g && !td_is_nil(g);
        entry(run, n++, v->name, there ? td_value_tensor(g) : TD_NONE);
    }
    end_list(run);
}
