/* call_attention.c -- attention by the plugin's library, where it offers it; without it
 * the simpler form runs, whose products the library computes. */
#include "device/op_kernel.h"
#include "ops/cast.h"

enum { Q, K, V, OUT, LSE, GRAD, DQ, DK, DV };

/* Operands [B,H,T,D] whose rows are contiguous and whose heads are apart. */
static bool put(td_device_attention *a, int role, const td_tensor *t) {
    a->at[role] = td__ptr(t);
    if (t->rank != 4 || t->stride[3] != 1) return false;
    for (int i = 0; i < 3; i++) {
        a->stride[role][i] = t->stride[i];
        if (t->size[i] > 1 && t->stride[i] == 0) return false;
        if (t->stride[i] % 8 != 0) return false; /* 16 bytes */
    }
    return t->offset % 8 == 0;
}

static bool start(td_opcall *c, td_device_state *d, const td_device_attention *a,
                  bool *ok) {
    pthread_mutex_lock(&d->lock);
    int how = d->plugin->attention(d->dev, a);
    d->launches += how != 1;
    pthread_mutex_unlock(&d->lock);
    if (how == 1) return false;
    *ok = how == 0 || td__op_fail(c, TD_E_UNSUPPORTED, "%s: attention failed: %s",
                                  td__device_str(d->code), d->plugin->error(d->dev));
    return true;
}

/* Sizes, and operands from argument `first` on. */
static bool open(td_opcall *c, td_device_state *d, int first, td_device_attention *a) {
    const td_tensor *q = td__in(c, first), *k = td__in(c, first + 1);
    if (!d->plugin->attention || td__in(c, first + 3) || q->rank != 4 ||
        !td__is_half((td_dtype)q->dtype) || k->numel == 0)
        return false;
    *a = (td_device_attention){.batch = q->size[0],
                               .heads = q->size[1],
                               .queries = q->size[2],
                               .keys = k->size[2],
                               .dim = q->size[3],
                               .dtype = (td_dtype)q->dtype};
    for (int i = 0; i < 3; i++)
        if (!put(a, Q + i, td__in(c, first + i))) return false;
    return a->dim % 8 == 0 && a->dim <= 128 && a->queries > 1 && a->keys > 1;
}

/* in: query, key, value, attn_mask, is_causal, scale. */
bool td__op_attention(td_opcall *c, td_device_state *d, bool *ok) {
    td_device_attention a;
    if (!open(c, d, 0, &a) || !put(&a, OUT, c->out[0])) return false;
    a.at[LSE] = td__ptr(c->out[1]);
    a.causal = td__in_bool(c, 4);
    a.scale = td__in_f(c, 5);
    if (a.causal && a.queries != a.keys) return false;
    return start(c, d, &a, ok);
}

/* in: grad, query, key, value, attn_mask, out, logsumexp, grad_lse, is_causal,
 * scale. */
bool td__op_attention_backward(td_opcall *c, td_device_state *d, bool *ok) {
    td_device_attention a;
    td_tensor          *g = td__in(c, 0), *lse = td__in(c, 6);
    if (td__in(c, 7) || !open(c, d, 1, &a) || !put(&a, OUT, td__in(c, 5)) ||
        !td__is_dense(lse->rank, lse->size, lse->stride))
        return false;
    if (!put(&a, GRAD, g)) {
        if (!(g = td__op_dense(c, g))) return *ok = false, true;
        if (!put(&a, GRAD, g)) return false;
    }
    for (int i = 0; i < 3; i++)
        if (!put(&a, DQ + i, c->out[i])) return false;
    a.at[LSE] = td__ptr(lse);
    a.causal = td__in_bool(c, 8);
    a.scale = td__in_f(c, 9);
    a.backward = true;
    if (a.queries != a.keys) return false;
    return start(c, d, &a, ok);
}
