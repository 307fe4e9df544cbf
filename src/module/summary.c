/* summary.c -- a module as a table. */
#include "module/modules.h"

/* The table so far, and its totals. */
typedef struct summary {
    td_buf  text;
    int64_t params, trained, bytes; /* each tensor once */
    int64_t buffers;
} summary;

/* How many parameters the module itself has. */
static int64_t own_params(const td_module *m) {
    int64_t n = 0;
    for (int i = 0; i < m->tensors.n; i++)
        if (m->tensors.v[i].t && !m->tensors.v[i].buffer)
            n += td_numel(m->tensors.v[i].t);
    return n;
}

static bool add_module(void *env, td_module *m, const char *name) {
    summary *s = env;
    int64_t  n = own_params(m);
    size_t   start = s->text.n;
    td__buf_printf(&s->text, "%s%s%s", name, *name ? ": " : "", m->type->name);
    for (int i = 0; i < m->tensors.n; i++) {
        const td_own_tensor *own = &m->tensors.v[i];
        if (!own->t) continue;
        td__buf_printf(&s->text, "%s%s %s", i ? ", " : "  ", own->name,
                       td__type_str(own->t));
    }
    int pad = 72 - (int)(s->text.n - start);
    if (n) td__buf_printf(&s->text, "%*s%lld", pad > 2 ? pad : 2, "", (long long)n);
    td__buf_add(&s->text, "\n");
    return !s->text.failed;
}

static bool count(void *env, const td_member *m) {
    summary *s = env;
    int64_t  n = td_numel(m->t);
    if (m->buffer) s->buffers += n;
    else s->params += n;
    if (!m->buffer && td_requires_grad(m->t)) s->trained += n;
    s->bytes += n * td__dtype_bytes[m->t->dtype];
    return true;
}

size_t td_module_summary(td_module *m, char *out, size_t cap) {
    if (!TD_ENTER(m, MODULE)) return td__text_out("", 0, out, cap);
    summary s = {0};
    bool    ok = td_module_apply(m, add_module, &s) &&
              td_module_visit(m, TD_VISIT_ALL, count, &s);
    td__buf_printf(&s.text,
                   "%lld parameters, %lld of them require grad; %lld elements in "
                   "buffers; %lld bytes\n",
                   (long long)s.params, (long long)s.trained, (long long)s.buffers,
                   (long long)s.bytes);
    if (s.text.failed) td__fail_memory(m->cx);
    bool   whole = ok && !s.text.failed;
    size_t n =
        td__text_out(whole ? td__buf_str(&s.text) : "", whole ? s.text.n : 0, out, cap);
    td__buf_free(&s.text);
    return n;
}
