/* functionalize.c -- fails every allocation of making the functional form of a program,
 * running its graph and plan and collecting its facts, in turn. Each time out of memory
 * must be reported (or that block not have been needed), nothing leaked, and the same
 * context must do the work afterwards. Twice: one failure, and failure from there on.
 */
#include "../unit/pure_help.h"
#include "aot/facts.h"

#include <stdio.h>
#include <string.h>

static const char text[] =
    "func @f(%x: f32[4,3], %r: f32[3], %a: f32[6], %b: f32[6]+3, %m: f32[3]) {\n"
    "  %p... = unbind(%x, 0)\n"
    "  mul_(%p.2, 2.0)\n"
    "  %t = transpose(%x, 0, 1)\n"
    "  %s = select(%t, 0, 1)\n"
    "  no_grad {\n"
    "    add_(%r, 1.0)\n"
    "  }\n"
    "  %e = expand(%s, [2,4])\n"
    "  %q = select(%e, 0, 1)\n"
    "  copy_(%q, %s)\n"
    "  mul_(%a, 2.0)\n"
    "  add_(%b, 1.0)\n"
    "  %v = ones([3])\n"
    "  %y = batch_norm(%x, none, none, %m, %v, true, 0.1, 1e-5)\n"
    "  t_(%y)\n"
    "  %z = view_dtype(%a, i32)\n"
    "  %w = as_strided(%z, [2], [2], 1)\n"
    "  bitwise_xor_(%w, 1)\n"
    "  resize_(%v, [5])\n"
    "  uniform_(%v)\n"
    "  set_(%m, %v)\n"
    "  return %y, %v, %q, %p.0, %y\n"
    "}\n"
    "func @g(%x: f32[4,3]) {\n"
    "  %s = select(%x, 0, 1)\n"
    "  mul_(%s, 2.0)\n"
    "  %r = reshape(%x, [-1])\n"
    "  %m = gt(%r, 0.0)\n"
    "  %v = masked_select(%r, %m)\n"
    "  %y = add(%v, %r)\n"
    "  return %y\n"
    "}\n";

typedef struct work {
    td_ctx   *cx;
    td_gfile *file;
    td_value  in[5];
} work;

static bool work_open(work *w) {
    *w = (work){.cx = td_open()};
    if (!w->cx) return false;
    w->file = td__gfile_parse(w->cx, text, sizeof text - 1, "f.td");
    td_tensor *x = td_keep(td_op_ones(w->cx, TD_SHAPE(4, 3), TD_F32));
    td_tensor *c = td_keep(td_op_ones(w->cx, TD_SHAPE(9), TD_F32));
    td_tensor *in[5] = {x, td_op_select(x, 0, 1),
                        td_op_slice(c, 0, td_value_int(0), td_value_int(6), 1),
                        td_op_slice(c, 0, td_value_int(3), td_value_int(9), 1),
                        td_op_zeros(w->cx, TD_SHAPE(3), TD_F32)};
    for (int i = 0; i < 5; i++) w->in[i] = td_value_tensor(in[i]);
    return td_ok(w->cx);
}

static void work_close(work *w) {
    td__gfile_drop(w->file);
    td_close(w->cx);
}

/* The same with symbols for sizes. */
static bool work_symbolic(work *w) {
    td_value out[1];
    td_plan *f = pure_form(w->file->graphs.v[1], w->in, true);
    bool     ok = pure_call(f, w->in, out);
    td__plan_drop(f);
    return ok;
}

static bool work_do(work *w) {
    td_value out[5];
    td_scope_begin(w->cx, "work");
    td_plan  *f = pure_form(w->file->graphs.v[0], w->in, false);
    td_facts *facts = f ? td__facts(w->file->graphs.v[0], w->in, true) : NULL;
    td_buf    b = {0};
    bool      ok = facts && td__facts_print(&b, facts);
    ok = ok && pure_call(f, w->in, out) && work_symbolic(w);
    td__buf_free(&b);
    td__facts_drop(facts);
    td__plan_drop(f);
    td_scope_end(w->cx, "work", NULL);
    return ok;
}

static bool fail(int64_t n, const char *what) {
    printf("allocation %lld: %s\n", (long long)n, what);
    return false;
}

/* Fails allocation n. *done: it was not reached. */
static bool try_one(int64_t n, bool sticky, bool *done) {
    work   w;
    size_t live = td_memory_live();
    if (!work_open(&w)) return fail(n, "cannot open");
    td__fault_arm(n, sticky);
    bool ok = work_do(&w);
    *done = td__fault_count() <= n;
    td__fault_arm(-1, false);
    if (!ok && td_error(w.cx) != TD_OK && td_error(w.cx) != TD_E_MEMORY)
        ok = fail(n, td_message(w.cx));
    else ok = true;
    work_close(&w);
    if (!work_open(&w)) return fail(n, "does not open again");
    if (!work_do(&w)) ok = fail(n, td_message(w.cx));
    work_close(&w);
    return td_memory_live() == live ? ok : fail(n, "bytes were leaked");
}

/* The same context works after the failure. */
static bool same_context(int64_t n, bool sticky, bool *done) {
    work w;
    if (!work_open(&w)) return fail(n, "cannot open");
    td_scope_begin(w.cx, NULL);
    td__fault_arm(n, sticky);
    td_plan  *f = pure_form(w.file->graphs.v[0], w.in, false);
    td_facts *facts = td__facts(w.file->graphs.v[0], w.in, true);
    *done = td__fault_count() <= n;
    td__fault_arm(-1, false);
    td__facts_drop(facts);
    td__plan_drop(f);
    td_scope_end(w.cx, NULL, NULL);
    td_clear(w.cx);
    bool ok = work_do(&w) || fail(n, td_message(w.cx));
    work_close(&w);
    return ok;
}

/* Fails allocation 0, 1, 2... until the work needs no more. */
static void try_all(bool (*one)(int64_t, bool, bool *), bool sticky, int *tally) {
    bool done = false;
    for (int64_t n = 0; !done && n < 100000; n++)
        tally[one(n, sticky, &done) ? 0 : 1]++;
}

int main(void) {
    int tally[2] = {0, 0}; /* passed, failed */
    for (int sticky = 0; sticky < 2; sticky++) {
        try_all(try_one, sticky, tally);
        try_all(same_context, sticky, tally);
    }
    printf("%d passed, %d failed\n", tally[0], tally[1]);
    return tally[1] != 0;
}
