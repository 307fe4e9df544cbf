/* exec_device.c -- runs one op on a device. A kernel of the device computes it if there
 * is one (td__device_kernel), or the ops of its simpler form; else the CPU's kernel
 * runs on host copies of all storages it reads, and those it writes are copied back. */
#include "core/device.h"
#include "ops/call.h"
#include "ops/cast.h"
#include "ops/device_kernel.h"

/* ---- host copies of storages -------------------------------------------- */

/* A storage of a device and its copy on the host. */
typedef struct mirror {
    td_storage *real, *host;
    bool        written;
} mirror;

/* The tensors of a run, with the storages they have. */
typedef struct mirrors {
    td_ctx     *cx;
    td_tensor **t;
    int         n, n_mirrors;
    mirror     *v;   /* [n] */
    int        *own; /* [n] by tensor: its mirror; -1: it was on the host */
} mirrors;

/* Is every byte of a new result written by its kernel? */
static bool is_covered(const td_tensor *t) {
    return (size_t)t->numel * td__dtype_bytes[t->dtype] == t->st->bytes;
}

/* The mirror of t's storage, made at its first use. `fresh`: its bytes are not read. */
static int find_mirror(mirrors *m, const td_tensor *t, bool fresh) {
    for (int i = 0; i < m->n_mirrors; i++)
        if (m->v[i].real == t->st) return i;
    td_storage *host = td__storage_apart(t->st->bytes);
    if (!host) return td__fail_memory(m->cx), -1;
    m->v[m->n_mirrors] = (mirror){t->st, host, false};
    if (fresh && is_covered(t)) return m->n_mirrors++;
    if (td__storage_copy(m->cx, host, t->st)) return m->n_mirrors++;
    td__storage_drop(host);
    return -1;
}

/* Tensors keep their storages until give_back; those from `first` on are written. */
static bool take_mirrors(mirrors *m, int first) {
    for (int i = 0; i < m->n; i++) m->own[i] = -1;
    for (int i = 0; i < m->n; i++) {
        if (!m->t[i]->st->device) continue;
        if ((m->own[i] = find_mirror(m, m->t[i], i >= first)) < 0) return false;
        m->v[m->own[i]].written |= i >= first;
    }
    for (int i = 0; i < m->n; i++)
        if (m->own[i] >= 0) m->t[i]->st = m->v[m->own[i]].host;
    return true;
}

/* Restores the storages and, if the run was `ok`, copies those written back. */
static bool give_back(mirrors *m, bool ok, bool taken) {
    for (int i = 0; taken && i < m->n; i++)
        if (m->own[i] >= 0) m->t[i]->st = m->v[m->own[i]].real;
    for (int i = 0; i < m->n_mirrors; i++) {
        if (ok && m->v[i].written)
            ok = td__storage_copy(m->cx, m->v[i].real, m->v[i].host);
        td__storage_drop(m->v[i].host);
    }
    return ok;
}

bool td__run_on_host(td_ctx *cx, td_tensor **t, int n, int first, td_host_fn *fn,
                     void *env) {
    size_t  room = (size_t)n + 1;
    mirrors m = {.cx = cx, .t = t, .n = n};
    m.v = td__arena_alloc(&cx->scratch, sizeof *m.v * room);
    m.own = td__arena_alloc(&cx->scratch, sizeof *m.own * room);
    if (!m.v || !m.own) return td__fail_memory(cx);
    bool    taken = take_mirrors(&m, first);
    uint8_t was = td__make_on(cx, 0);
    bool    ok = taken && fn(env);
    td__make_on(cx, was);
    return give_back(&m, ok, taken);
}

/* ---- ops ---------------------------------------------------------------- */

static bool run_cpu(void *env) {
    td_opcall *c = env;
    return c->def->cpu(c);
}

/* Adds the tensors of argument i to list[n..]; returns their number. */
static int add_tensors(const td_opcall *c, int i, td_tensor **list, int n) {
    const td_value   *v = &c->in[i];
    td_tensor *const *t = v->kind == TD_K_TENSORS ? v->u.ts : &v->u.t;
    uint32_t          k = v->kind == TD_K_TENSORS ? v->n : v->kind == TD_K_TENSOR;
    for (uint32_t e = 0; e < k; e++)
        if (t[e]) list[n++] = t[e];
    return n;
}

/* All tensors of the call: arguments, then those it writes. *first is the number of
 * the former. NULL after td__fail. */
static td_tensor **tensors_of(td_opcall *c, int *n, int *first) {
    size_t most = (size_t)c->n_out + 1;
    for (int i = 0; i < c->n_in; i++)
        most += 2 * (c->in[i].kind == TD_K_TENSORS ? c->in[i].n : 1);
    td_tensor **list = td__arena_alloc(&c->cx->scratch, sizeof *list * most);
    if (!list) return td__fail_memory(c->cx), NULL;
    *n = 0;
    for (int i = 0; i < c->n_in; i++) *n = add_tensors(c, i, list, *n);
    *first = *n;
    for (int i = 0; i < c->n_in; i++)
        if (c->info->s.in[i].write) *n = add_tensors(c, i, list, *n);
    for (int i = 0; i < c->n_out; i++)
        if (c->out[i]) list[(*n)++] = c->out[i];
    return list;
}

/* Results that the kernel made itself are on the host. */
static bool results_to_device(td_opcall *c) {
    for (int i = 0; i < c->n_out; i++)
        if (c->out[i] && c->out[i]->st->device != c->device &&
            !td__storage_move(c->cx, c->out[i]->st, c->device))
            return false;
    return true;
}

/* Counts an op that runs on the host; on a device with kernels it is a warning, once
 * per op. */
static void note_host_run(const td_opcall *c, td_device_state *d) {
    d->on_host++;
    uint64_t once = td__hash(&c->info->op, sizeof c->info->op, c->device);
    bool     none = c->n_out > 0 && c->out[0] && c->out[0]->numel == 0;
    if (d->plugin->build && !none && td__is_news(once))
        td__warn(
            c->cx,
            "%s has no kernel on %s for these arguments; it runs on the host, with "
            "copies",
            c->info->s.name, td__device_str(c->device));
}

/* On a device with kernels, an op without one whose row has a simpler form is computed
 * by the ops of that form, which stay on the device. */
static bool has_simpler(const td_opcall *c) {
    bool own = c->def == c->info->def && (c->def->simpler_fn || c->info->simpler);
    for (int i = 0; own && i < c->n_out; i++) own = c->out[i] != NULL;
    return own && c->n_out <= TD_MAX_RESULTS && !c->info->writes &&
           !(c->def->flags & TD_OPF_RANDOM);
}

static bool run_simpler(td_opcall *c) {
    td_tensor *out[TD_MAX_RESULTS];
    td_value   in[TD_MAX_ARGS];
    for (int i = 0; i < c->n_out; i++) out[i] = c->out[i];
    for (int i = 0; i < c->n_in; i++) in[i] = c->in[i];
    bool ok = td__scope_push(c->cx);
    if (!ok) return false;
    ok = td__call_simpler(NULL, c);
    for (int i = 0; ok && i < c->n_out; i++) ok = td__copy_into(out[i], c->out[i]);
    td__scope_pop(c->cx, NULL, 0);
    for (int i = 0; i < c->n_out; i++) c->out[i] = out[i];
    for (int i = 0; i < c->n_in; i++) c->in[i] = in[i];
    return ok;
}

bool td__exec_on_device(td_opcall *c) {
    if (c->info->op == TD_OP_to_device) return c->def->cpu(c);
    if (c->def->flags & TD_OPF_HOLDS)
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "unsupported: the tensor is on %s, and a store takes "
                           "tensors of the CPU; copy it with td_to_device",
                           td__device_str(c->device));
    if (c->def->cpu == td__kern_empty) return true; /* there is nothing to compute */
    td_device_state *d = td__device_state(c->device);
    bool             ok = false;
    if (d->plugin->build && td__device_kernel(c, d, &ok)) return ok;
    if (d->plugin->build && has_simpler(c)) return run_simpler(c);
    int         n = 0, first = 0;
    td_tensor **t = tensors_of(c, &n, &first);
    note_host_run(c, d);
    return t && td__run_on_host(c->cx, t, n, first, run_cpu, c) && results_to_device(c);
}
