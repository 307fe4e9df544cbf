/* check_call.c -- one sample against what PyTorch said: error or not, results,
 * aliases, effects on the arguments, gradients. */
#include "tandem/device.h"
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of every base, to see what a call changed. */
typedef struct snapshot {
    uint8_t *bytes[MAX_LEAVES];
    size_t   n[MAX_LEAVES];
    int      count;
} snapshot;

static bool snapshot_take(const sample *s, const inputs *in, snapshot *p) {
    p->count = s->n_leaves;
    for (int i = 0; i < s->n_leaves; i++) {
        td_tensor *t = in->base[i];
        p->n[i] = (size_t)td_numel(t) * td_dtype_size(td_dtype_of(t));
        p->bytes[i] = malloc(p->n[i] + 1);
        if (!p->bytes[i] || !td_read(t, td_dtype_of(t), p->bytes[i], p->n[i]))
            return false;
    }
    return true;
}

static void snapshot_free(snapshot *p) {
    for (int i = 0; i < p->count; i++) free(p->bytes[i]);
}

/* Index of a leaf whose bytes differ from the snapshot and that `e` does not list
 * as changed; -1: none. */
static int changed_leaf(const sample *s, const inputs *in, const snapshot *p,
                        const expected *e) {
    for (int i = 0; i < s->n_leaves; i++) {
        bool listed = false;
        for (int k = 0; e && k < e->n_change; k++)
            listed |= e->change[k].kind == 0 && e->change[k].leaf == i;
        td_tensor *t = in->base[i];
        if (listed) continue;
        uint8_t *now = malloc(p->n[i] + 1);
        bool     same = now &&
                    (size_t)td_numel(t) * td_dtype_size(td_dtype_of(t)) == p->n[i] &&
                    td_read(t, td_dtype_of(t), now, p->n[i]) &&
                    !memcmp(now, p->bytes[i], p->n[i]);
        free(now);
        if (!same) return i;
    }
    return -1;
}

/* Passes go by the alias letters of schemas. */
static bool may_alias(const inputs *in, int nr) {
    const td_schema *s = &td__opinfo(in->op)->s;
    bool             share = td__ops[in->op].flags & TD_OPF_SHARE;
    return share || s->out[nr < s->n_out ? nr : s->n_out - 1].alias;
}

static bool right_alias(report *r, const inputs *in, int nr, const exp_tensor *e) {
    int got = 0;
    for (int i = nr - 1; i >= 0; i--)
        if (td_same_storage(in->out[nr], in->out[i])) got = 64 + i;
    for (int i = r->s->n_leaves - 1; i >= 0; i--)
        if (td_same_storage(in->out[nr], in->base[i])) got = i + 1;
    if (got > 0 && got < 64 && !may_alias(in, nr)) {
        fail_sample(r, "result %d aliases tensor %d, which the schema does not say", nr,
                    got - 1);
        return false;
    }
    if (got == e->alias || (r->s->src->tags & TAG_VALUES)) return true;
    fail_sample(
        r, "result %d aliases %d, expected %d (0 none, k+1 tensor k, 64+k result k)",
        nr, got, e->alias);
    return false;
}

static bool check_results(report *r, const inputs *in, const expected *e) {
    char what[32];
    if (in->n_out != e->n_out) {
        fail_sample(r, "%d results, expected %d", in->n_out, e->n_out);
        return false;
    }
    for (int i = 0; i < in->n_out; i++) {
        snprintf(what, sizeof what, "result %d", i);
        tolerance tol = result_tolerance(r, i, e->out[i].dt);
        if (!compare_tensor(r, what, in->out[i], &e->out[i], tol)) return false;
        if (!right_alias(r, in, i, &e->out[i])) return false;
    }
    for (int i = 0; i < e->n_change; i++) {
        const exp_change *c = &e->change[i];
        snprintf(what, sizeof what, "%s %d", c->kind ? "argument" : "base of", c->leaf);
        td_tensor *t = c->kind ? in->used[c->leaf] : in->base[c->leaf];
        tolerance  tol = base_tolerance(r, c->leaf, c->t.dt);
        if (!compare_tensor(r, what, t, &c->t, tol)) return false;
    }
    return true;
}

static void check_grads(td_ctx *cx, report *r, const inputs *in, const expected *e) {
    td_tensor *grads[MAX_LEAVES] = {NULL};
    char       what[32];
    if (!e->has_grad) return;
    if (!grad_leaves(cx, r->s, in, grads, false)) {
        fail_sample(r, "gradient: %s", td_message(cx));
        return;
    }
    for (int i = 0; i < r->s->n_leaves; i++) {
        td_dtype dt = r->s->leaves[i].dt;
        bool     there = grads[i] != NULL;
        if (there != e->grad_there[i]) {
            fail_sample(r, "gradient %d is %s, expected %s", i,
                        there ? "there" : "absent", there ? "none" : "one");
            return;
        }
        if (!there) continue;
        snprintf(what, sizeof what, "gradient %d", i);
        if (td_dtype_of(grads[i]) != dt ||
            td_numel(grads[i]) != leaf_numel(&r->s->leaves[i])) {
            fail_sample(r, "%s is %s", what, td__type_str(grads[i]));
            return;
        }
        tolerance tol = grad_tolerance(r, i, dt);
        if (!compare_values(r, what, grads[i], e->grad[i], dt, tol)) return;
    }
}

/* A refused call names its op and has written nothing. */
static void check_refusal(td_ctx *cx, report *r, const inputs *in,
                          const snapshot *before) {
    if (td_error(cx) == TD_OK) fail_sample(r, "failed without an error");
    else if (!strstr(td_message(cx), ": "))
        fail_sample(r, "message: %s", td_message(cx));
    td_clear(cx);
    int i = changed_leaf(r->s, in, before, NULL);
    if (i >= 0) fail_sample(r, "the refused call wrote tensor %d", i);
}

static void check_outcome(td_ctx *cx, report *r, const expected *e, inputs *in,
                          const snapshot *before) {
    int n = td__call_list(cx, in->op, in->in, in->n_in, in->out, 64);
    in->n_out = n;
    if (n >= 0 && e->status == EXP_ERROR) {
        /* a kernel of a device reports a value out of range when it is waited for */
        if (td_device_sync(cx, td_default_device(cx)))
            fail_sample(r, "went through, expected an error");
        td_clear(cx);
    } else if (n < 0 && e->status == EXP_OK) {
        fail_sample(r, "%s", td_message(cx));
    } else if (n < 0) {
        check_refusal(cx, r, in, before);
    } else if (e->status == EXP_OK) {
        if (!check_results(r, in, e)) return;
        int  i = changed_leaf(r->s, in, before, e);
        bool random = r->s->src->tags & TAG_RANDOM;
        if (i >= 0 && !random)
            fail_sample(r, "tensor %d was written and should not be", i);
        else check_grads(cx, r, in, e);
    }
}

void check_call(td_ctx *cx, report *r, const expected *e) {
    static inputs in;
    snapshot      before = {.count = 0};
    td_op         op = td__op_find(r->s->op_name);
    memset(&in, 0, sizeof in);
    if (!inputs_build(cx, r->s, op, NULL, &in)) {
        fail_sample(r, "cannot build the arguments: %s", in.why);
    } else if (snapshot_take(r->s, &in, &before)) {
        check_outcome(cx, r, e, &in, &before);
    }
    snapshot_free(&before);
    td_clear(cx);
}
