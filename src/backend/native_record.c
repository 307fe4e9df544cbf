/* native_record.c -- compiled code on a device as a recording: its work is recorded
 * once and then replayed, which costs the host one call instead of one per kernel.
 *
 * The first run is an ordinary one; it shows whether the code copies to or from the
 * host, and which inputs have the same address in the next one. The second is recorded.
 * From then on a run replays, if every input is where it was. An input that moves is
 * copied to a buffer of the recording, if it is small and not written. Outputs are
 * copied from theirs, so recordings are for code with small ones, such as training
 * steps. Numbers of a run (learning rates, random offsets) change the arguments of
 * their launches. */
#include "backend/native.h"

#include <string.h>

enum {
    LEAST_LAUNCHES = 4,    /* fewer are started one by one as fast */
    MOST_BYTES = 16 << 20, /* of an input that is copied */
    MOST_OUTPUT = 1 << 20, /* of all outputs */
    MOST_TRIES = 4
};

typedef struct td_recording {
    td_device_state *d;
    bool             never; /* the code cannot be recorded */
    bool             seen;  /* at[] is of an earlier run */
    int              tries;
    void            *made;    /* the plugin's; NULL: not recorded */
    td_keeper        kept;    /* memory that a replay uses */
    bool             suspect; /* a kernel in it may find a value out of range */
    void            *arena;
    int              n_in, n_out, n_launches;
    const void     **at;   /* by input: the address of its first element */
    int64_t         *from; /* by input: its offset in its storage */
    td_storage     **copy; /* by input: where it is copied to; NULL: nowhere */
    td_tensor      **out;  /* by output: what a replay writes; NULL: an input */
    int64_t        **word; /* by launch: its argument in the recording */
} td_recording;

/* ---- which code ---------------------------------------------------------- */

/* Does the call only start work on the device, the same in every run? */
static bool is_steady(const td_native *c, const td_gnode *n) {
    uint32_t odd = TD_OPF_NESTS | TD_OPF_DYNAMIC | TD_OPF_META | TD_OPF_WHOLE |
                   TD_OPF_HOLDS | TD_OPF_RANDOM | TD_OPF_TYPED;
    if (n->kind != TD_N_OP || n->op >= TD_OP_COUNT || td__opinfo(n->op)->writes ||
        td__row(n->op)->flags & odd)
        return false;
    for (int i = 0; i < n->n_in; i++) {
        const td_garg *a = &n->in[i];
        if (a->kind == TD_G_SYM ||
            (a->kind == TD_G_VALUE &&
             (!a->u.v->type || a->u.v->type->kind != TD_K_TENSOR ||
              a->u.v->type->device != c->low.device)))
            return false;
    }
    for (int i = 0; i < n->n_out; i++)
        if (!n->out[i]->type || n->out[i]->type->kind != TD_K_TENSOR ||
            n->out[i]->type->device != c->low.device)
            return false;
    return true;
}

static int64_t bytes_of(const td_gtype *l) {
    int64_t n = td__dtype_bytes[l->dtype];
    for (int d = 0; d < l->rank; d++) n *= l->size[d];
    return n;
}

/* Outputs are inputs, or small values of their own. */
static bool outputs_fit(const td_native *c) {
    int64_t bytes = 0;
    for (int i = 0; i < c->g->outputs.n; i++) {
        const td_garg *a = &c->g->outputs.v[i];
        const td_gval *v = a->kind == TD_G_VALUE ? a->u.v : NULL;
        if (!v) {
            if (a->kind == TD_G_NONE) continue;
            return false;
        }
        if (!v->node) continue;
        if (!v->type || v->type->kind != TD_K_TENSOR ||
            v->type->device != c->low.device || c->low.root_of[v->id] != v ||
            !v->type->dense)
            return false;
        bytes += bytes_of(v->type);
    }
    return bytes <= MOST_OUTPUT;
}

static bool can_be_recorded(const td_native *c) {
    const td_device_state *d = td__device_state(c->low.device);
    int                    launches = 0;
    if (!d->plugin || !d->plugin->record || c->g->dims.n || !outputs_fit(c))
        return false;
    for (int i = 0; i < c->steps.n; i++) {
        const td_native_step *s = &c->steps.v[i];
        const td_launch      *k = s->node ? NULL : &c->launches[s->launch];
        if (k ? !k->on : !is_steady(c, s->node)) return false;
        launches += k || td__view_operand(s->node) < 0;
    }
    return launches >= LEAST_LAUNCHES;
}

/* ---- making and dropping -------------------------------------------------- */

/* Forgets what was recorded; inputs may be where they are now in the next one. */
static void forget(td_recording *x) {
    if (!x->made) return;
    pthread_mutex_lock(&x->d->lock);
    x->d->plugin->forget(x->d->dev, x->made);
    pthread_mutex_unlock(&x->d->lock);
    x->made = NULL;
    for (int i = 0; i < x->n_out; i++)
        if (x->out[i]) td__unref(x->out[i]), x->out[i] = NULL;
    for (int i = 0; i < x->n_launches; i++) td__free(x->word[i]), x->word[i] = NULL;
    td__keeper_end(&x->kept, true);
}

void td__recording_drop(td_recording *x) {
    if (!x) return;
    forget(x);
    for (int i = 0; i < x->n_in && x->copy; i++) td__storage_drop(x->copy[i]);
    td__free(x->at);
    td__free(x->from);
    td__free(x->copy);
    td__free(x->out);
    td__free(x->word);
    td__free(x);
}

static td_recording *make(const td_native *c) {
    td_recording *x = td__zalloc(sizeof *x);
    if (!x) return NULL;
    x->d = td__device_state(c->low.device);
    x->kept.device = c->low.device;
    x->n_in = c->g->inputs.n;
    x->n_out = c->g->outputs.n;
    x->n_launches = c->n_launches;
    x->never = !can_be_recorded(c);
    x->at = td__zalloc(sizeof *x->at * (size_t)(x->n_in + 1));
    x->from = td__zalloc(sizeof *x->from * (size_t)(x->n_in + 1));
    x->copy = td__zalloc(sizeof *x->copy * (size_t)(x->n_in + 1));
    x->out = td__zalloc(sizeof *x->out * (size_t)(x->n_out + 1));
    x->word = td__zalloc(sizeof *x->word * (size_t)(c->n_launches + 1));
    if (x->at && x->from && x->copy && x->out && x->word) return x;
    td__recording_drop(x);
    return NULL;
}

/* ---- inputs -------------------------------------------------------------- */

static td_tensor *input(const td_native *c, const td_replay *r, int i) {
    const td_value *v = &r->val[c->g->inputs.v[i]->id];
    return v->kind == TD_K_TENSOR && v->u.t->st->device == c->low.device ? v->u.t
                                                                         : NULL;
}

static bool is_written(const td_native *c, const td_gval *v) {
    for (int i = 0; i < c->n_launches; i++)
        for (int k = 0; k < c->launches[i].b.writes.n; k++)
            if (c->low.bytes_of[c->launches[i].b.writes.v[k]->id] ==
                c->low.bytes_of[v->id])
                return true;
    return false;
}

static bool is_result(const td_native *c, const td_gval *v) {
    for (int i = 0; i < c->g->outputs.n; i++)
        if (c->g->outputs.v[i].kind == TD_G_VALUE && c->g->outputs.v[i].u.v == v)
            return true;
    return false;
}

/* Gives an input that has moved since the last run a buffer. False: it cannot have one.
 */
static bool make_copy(const td_native *c, td_recording *x, int i, const td_tensor *t) {
    const td_gval *v = c->g->inputs.v[i];
    if (x->copy[i]) return true;
    if (t->st->bytes > MOST_BYTES || is_written(c, v) || is_result(c, v)) return false;
    return (x->copy[i] = td__storage_on(t->st->bytes, c->low.device)) != NULL;
}

/* Copies inputs that move to their buffers; with `use` the run reads these. False: one
 * does not fit, or after td__fail. */
static bool bring_inputs(const td_native *c, td_recording *x, td_replay *r, bool use) {
    for (int i = 0; i < x->n_in; i++) {
        td_tensor *t = x->copy[i] ? input(c, r, i) : NULL;
        td_meta    m;
        if (!t) continue;
        if (t->st->bytes != x->copy[i]->bytes) return false;
        if (!td__storage_copy(c->g->cx, x->copy[i], t->st)) return false;
        if (!use) continue;
        td__tensor_meta(t, &m);
        td_tensor *there = td__tensor_over(c->g->cx, x->copy[i], &m);
        if (!there || !td__replay_set(r, c->g->inputs.v[i], td_value_tensor(there)))
            return false;
    }
    return true;
}

/* Is every input where the recording has it? */
static bool inputs_stay(const td_native *c, const td_recording *x, const td_replay *r) {
    for (int i = 0; i < x->n_in; i++) {
        const td_tensor *t = input(c, r, i);
        bool             fits = !x->copy[i] ? (t ? td__ptr(t) : NULL) == x->at[i]
                                            : t && t->st->bytes == x->copy[i]->bytes &&
                                      t->offset == x->from[i];
        if (!fits) return false;
    }
    return x->arena == (c->mem.on ? c->mem.on->data : NULL);
}

/* Notes where the inputs are; gives those that moved a buffer. False: one has none. */
static bool note_inputs(const td_native *c, td_recording *x, const td_replay *r) {
    bool ok = true;
    for (int i = 0; i < x->n_in; i++) {
        const td_tensor *t = input(c, r, i);
        const void      *at = t ? td__ptr(t) : NULL;
        if (x->seen && t && at != x->at[i]) ok = make_copy(c, x, i, t) && ok;
        x->at[i] = at;
        x->from[i] = t ? t->offset : 0;
    }
    x->arena = c->mem.on ? c->mem.on->data : NULL;
    x->seen = true;
    return ok;
}

/* ---- outputs ------------------------------------------------------------- */

/* A copy of an output, for the caller. */
static bool give_output(const td_native *c, td_replay *r, const td_gval *v,
                        const td_tensor *from) {
    td_meta m;
    td__tensor_meta(from, &m);
    td_tensor *t = td__tensor_make(c->g->cx, &m, false);
    return t && td__bytes_copy(c->g->cx, t->st, 0, from->st, 0, t->st->bytes) &&
           td__replay_set(r, v, td_value_tensor(t));
}

static bool give_outputs(const td_native *c, td_recording *x, td_replay *r) {
    for (int i = 0; i < x->n_out; i++)
        if (x->out[i] && !give_output(c, r, c->g->outputs.v[i].u.v, x->out[i]))
            return false;
    return true;
}

/* The outputs of the run that was recorded stay with the recording. */
static void keep_outputs(const td_native *c, td_recording *x, const td_replay *r) {
    for (int i = 0; i < x->n_out; i++) {
        const td_garg *a = &c->g->outputs.v[i];
        if (a->kind != TD_G_VALUE || !a->u.v->node) continue;
        bool twice = false;
        for (int k = 0; k < i; k++)
            twice |= c->g->outputs.v[k].kind == TD_G_VALUE &&
                     c->g->outputs.v[k].u.v == a->u.v;
        if (!twice) x->out[i] = td__ref(r->val[a->u.v->id].u.t);
    }
}

/* ---- recording ----------------------------------------------------------- */

/* Keeps the arguments of the launches, to see what changes. */
static bool keep_words(const td_native *c, td_recording *x) {
    for (int i = 0; i < c->n_launches; i++) {
        const td_on_device *t = c->launches[i].on;
        size_t              bytes = sizeof *t->word * (size_t)t->n_words;
        if (!t->varies) continue;
        td__free(x->word[i]);
        if (!(x->word[i] = td__alloc(bytes))) return false;
        memcpy(x->word[i], t->word, bytes);
    }
    return true;
}

static bool replay(const td_native *c, td_recording *x) {
    pthread_mutex_lock(&x->d->lock);
    bool ok = x->d->plugin->replay(x->d->dev, x->made);
    x->d->suspect |= x->suspect;
    x->d->launches++;
    pthread_mutex_unlock(&x->d->lock);
    return ok || td__fail(c->g->cx, TD_E_UNSUPPORTED, "%s: a replay failed: %s",
                          td__device_str(x->d->code), x->d->plugin->error(x->d->dev));
}

/* Records a run, and starts it. */
static bool record(td_native *c, td_recording *x, td_replay *r) {
    x->tries++;
    if (!bring_inputs(c, x, r, true)) return false;
    pthread_mutex_lock(&x->d->lock);
    bool opened = x->d->plugin->record(x->d->dev);
    pthread_mutex_unlock(&x->d->lock);
    if (!opened) return x->never = true, td__native_steps(c, r);
    td__device_keep(&x->kept);
    bool ok = td__native_steps(c, r);
    td__device_keep(NULL);
    pthread_mutex_lock(&x->d->lock);
    x->made = x->d->plugin->recorded(x->d->dev);
    pthread_mutex_unlock(&x->d->lock);
    td__keeper_end(&x->kept, !x->made);
    x->suspect = x->d->suspect;
    if (!x->made) return x->never = true, ok;
    if (!ok || !keep_words(c, x)) {
        if (ok) ok = replay(c, x);
        return forget(x), x->never = true, ok;
    }
    keep_outputs(c, x, r);
    return replay(c, x) && give_outputs(c, x, r);
}

/* ---- replaying ----------------------------------------------------------- */

static bool change(td_recording *x, int nr, int64_t *words) {
    void *args[1] = {words};
    pthread_mutex_lock(&x->d->lock);
    bool ok = nr >= 0 && x->d->plugin->change(x->d->dev, x->made, nr, args);
    pthread_mutex_unlock(&x->d->lock);
    return ok;
}

/* Gives the launch the numbers of this run. False: it cannot be changed, or after
 * td__fail. */
static bool set_numbers(const td_native *c, td_recording *x, td_replay *r, int i) {
    td_launch    *k = &c->launches[i];
    td_on_device *t = k->on;
    size_t        bytes = sizeof *k->given * (size_t)k->b.nest.n_given;
    if (!t->varies) return true;
    if (!td__launch_numbers(c, r, k)) return false;
    int64_t *to = x->word[i] + t->n_words - 2 - k->b.nest.n_given;
    if (!memcmp(to, k->given, bytes)) return true;
    memcpy(to, k->given, bytes);
    return change(x, t->nr, x->word[i]) &&
           (!t->has_end || change(x, t->end_nr, x->word[i]));
}

static bool may_write(const td_native *c, const td_replay *r) {
    for (int i = 0; i < c->n_launches; i++)
        if (!td__launch_may_write(c, r, &c->launches[i])) return false;
    return true;
}

/* Replays in place of the steps. */
static bool run_recording(const td_native *c, td_recording *x, td_replay *r) {
    if (!may_write(c, r) || !bring_inputs(c, x, r, false)) return false;
    for (int i = 0; i < c->steps.n; i++) /* numbers are drawn in this order */
        if (!c->steps.v[i].node && !set_numbers(c, x, r, c->steps.v[i].launch))
            return !td_ok(c->g->cx)
                       ? false
                       : td__fail(c->g->cx, TD_E_UNSUPPORTED,
                                  "%s: a recorded launch was not changed: %s",
                                  td__device_str(x->d->code),
                                  x->d->plugin->error(x->d->dev));
    if (!replay(c, x) || !give_outputs(c, x, r)) return false;
    for (int i = 0; i < c->n_launches; i++) td__launch_note_writes(r, &c->launches[i]);
    return true;
}

/* An ordinary run. What it copies between host and device, it copies in every run. */
static bool run_steps(td_native *c, td_recording *x, td_replay *r) {
    uint64_t to = x->d->to_device, from = x->d->to_host;
    bool     ok = td__native_steps(c, r);
    x->never |= x->d->to_device != to || x->d->to_host != from;
    return ok;
}

bool td__record_walk(td_native *c, td_replay *r) {
    td_ctx *cx = c->g->cx;
    if (!td__config(cx)->device_graphs || cx->spans.on) return td__native_steps(c, r);
    if (!c->recording && !(c->recording = make(c))) return td__fail_memory(cx);
    td_recording *x = c->recording;
    if (x->never) return td__native_steps(c, r);
    if (x->made && inputs_stay(c, x, r)) return run_recording(c, x, r);
    forget(x);
    bool again = x->seen, ok = note_inputs(c, x, r);
    if (!ok || x->tries == MOST_TRIES) return x->never = true, td__native_steps(c, r);
    return again ? record(c, x, r) : run_steps(c, x, r);
}
