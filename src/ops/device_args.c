/* device_args.c -- the device of a call, and calls that name one. A call runs where its
 * tensors are; a call without tensors, on the device of the context. */
#include "core/device.h"
#include "ops/call.h"

#include <string.h>

/* ---- which arguments count ---------------------------------------------- */

/* Seed and offset of a random op, and objects, are on the CPU whatever the op does. */
static bool counts(const td_opcall *c, int i) {
    int rng = c->info->rng;
    return (rng < 0 || i < rng || i > rng + 1) && c->info->s.in[i].type != TD_T_OBJECT;
}

/* Tensor k of argument i; NULL: it has fewer, or a hole there. */
static td_tensor *tensor_of(const td_opcall *c, int i, uint32_t k) {
    const td_value *v = &c->in[i];
    if (v->kind == TD_K_TENSORS) return k < v->n ? v->u.ts[k] : NULL;
    return v->kind == TD_K_TENSOR && k == 0 ? v->u.t : NULL;
}

static uint32_t tensors_in(const td_opcall *c, int i) {
    const td_value *v = &c->in[i];
    return v->kind == TD_K_TENSORS ? v->n : v->kind == TD_K_TENSOR;
}

/* On the CPU and without dims: it may stand beside tensors of any device, as a number
 * does. */
static bool is_number(const td_tensor *t) { return !t->st->device && t->rank == 0; }

/* The row that computes it: of a writer, its functional twin. */
static const td_opdef *row_of(const td_opcall *c) {
    return c->info->pure == TD_OP_COUNT ? c->def : td__row(c->info->pure);
}

/* ---- the device --------------------------------------------------------- */

/* Of the first tensor that is no number; of the CPU if all are numbers. */
static uint8_t device_of(const td_opcall *c) {
    bool any = false;
    for (int i = 0; i < c->n_in; i++) {
        if (!counts(c, i)) continue;
        for (uint32_t k = 0; k < tensors_in(c, i); k++) {
            const td_tensor *t = tensor_of(c, i, k);
            any |= t != NULL;
            if (t && !is_number(t)) return t->st->device;
        }
    }
    return any ? 0 : c->cx->device;
}

/* t on the device of the call, by an op that modes receive too. */
static bool bring(td_opcall *c, int i) {
    td_value in[2] = {c->in[i], td__value_str(td__device_str(c->device))};
    c->in[i] = td_value_tensor(td__call1(c->cx, TD_OP_to_device, in, 2));
    return !td_is_nil(c->in[i].u.t);
}

static bool fail_mixed(td_opcall *c, int i, const td_tensor *t) {
    int other = 0;
    while (other < c->n_in && (!counts(c, other) || !tensor_of(c, other, 0) ||
                               tensor_of(c, other, 0)->st->device != c->device))
        other++;
    return td__op_fail(
        c, TD_E_ARG,
        "argument %s is on %s and argument %s on %s; all tensors of a call must be on "
        "one device. Copy one of them with td_to_device",
        c->info->s.in[i].name, td__device_str(t->st->device),
        other < c->n_in ? c->info->s.in[other].name : "0", td__device_str(c->device));
}

/* Argument i beside those of c->device. Composites and ops with graphs leave it to the
 * ops they call. */
static bool settle(td_opcall *c, int i) {
    const td_opdef *row = row_of(c);
    bool            source = i == 1 && row->element == TD_EL_COPY_INTO;
    if (c->info->composite || row->flags & (TD_OPF_NESTS | TD_OPF_TYPED)) return true;
    for (uint32_t k = 0; counts(c, i) && k < tensors_in(c, i); k++) {
        const td_tensor *t = tensor_of(c, i, k);
        if (!t || t->st->device == c->device) continue;
        bool number = is_number(t) && row->flags & TD_OPF_POINTWISE;
        if (c->in[i].kind == TD_K_TENSOR && !c->info->s.in[i].write &&
            (number || source))
            return bring(c, i);
        return fail_mixed(c, i, t);
    }
    return true;
}

/* The device that to_device names. */
static bool named_device(td_opcall *c) {
    td_device dev;
    if (!td_device_parse(c->in[1].u.s, &dev))
        return td__op_fail(c, TD_E_ARG,
                           "\"%.40s\" is no device; devices are \"cpu\" and \"cuda:0\"",
                           c->in[1].u.s);
    c->device = td__device_code(dev);
    return !c->device || td__device_open(c->cx, c->device);
}

bool td__call_device(td_opcall *c) {
    c->device = 0;
    if (c->info->op == TD_OP_random_state) /* two numbers of the CPU */
        return !td__in(c, 0) || !td__in(c, 0)->st->device || bring(c, 0);
    if (c->info->op == TD_OP_to_device) return named_device(c);
    bool copies = row_of(c)->element == TD_EL_COPY_INTO && td__in(c, 0);
    c->device = copies ? td__in(c, 0)->st->device : device_of(c);
    for (int i = 0; i < c->n_in; i++)
        if (!settle(c, i)) return false;
    return true;
}

/* ---- calls that name a device ------------------------------------------- */

td_tensor *td__zeros_on(td_ctx *cx, uint8_t device, td_ints size, td_dtype dtype) {
    uint8_t    was = td__make_on(cx, device);
    td_tensor *t = td_op_zeros(cx, size, dtype);
    td__make_on(cx, was);
    return t;
}

td_tensor *td__empty_on(td_ctx *cx, uint8_t device, td_ints size, td_ints stride,
                        td_dtype dtype) {
    uint8_t    was = td__make_on(cx, device);
    td_tensor *t = td_op_empty_strided(cx, size, stride, dtype);
    td__make_on(cx, was);
    return t;
}

td_tensor *td_to_device(td_tensor *t, td_device dev) {
    if (!TD_ENTER(t, TENSOR)) return td_nil(td__ctx_of_any(t));
    td_ctx *cx = t->cx;
    uint8_t code = td__device_code(dev);
    if (code == TD_NO_DEVICE)
        return td_fail(cx, TD_E_ARG, "td_to_device: no such device: kind %d, index %d",
                       (int)dev.kind, dev.index);
    if (TD_IS_KEPT(t)) return td__fail_kept(cx, "td_to_device", t), td_nil(cx);
    if (t->st->device == code) return t;
    if (code && !td__device_open(cx, code)) return td_nil(cx);
    td_value in[2] = {td_value_tensor(t), td__value_str(td__device_str(code))};
    return td__call1(cx, TD_OP_to_device, in, 2);
}
