/* cache_joint.c -- joint graphs as bytes: what was written is read back alike, and what
 * says things that cannot be is not read at all. */
#include "aot/cache_int.h"
#include "aot_help.h"

/* Its plan has every step but those of custom functions. */
static const char text[] = "func @f(%x: f32[2,3], %w: f32[2,3], %n: f32[2,3]) {\n"
                           "  mul_(%x, %w)\n"
                           "  %y = mul(%x, 2.0)\n"
                           "  %v = select(%y, 0, 0)\n"
                           "  add_(%v, 1.0)\n"
                           "  t_(%n)\n"
                           "  %p = ones([2,3])\n"
                           "  requires_grad_(%p)\n"
                           "  %z = mul(%p, %w)\n"
                           "  return %v, %p, %z, 3\n"
                           "}\n";

typedef struct sample {
    td_gfile       *file;
    const td_graph *program;
    td_value        in[3];
    td_joint       *j;
} sample;

static sample take(td_ctx *cx) {
    sample s = {.file = td__gfile_parse(cx, text, sizeof text - 1, "f.td")};
    CHECK(!td_is_nil(s.file));
    s.program = s.file->graphs.v[0];
    td_tensor *t[3];
    for (int i = 0; i < 3; i++) t[i] = td_ones(cx, TD_SHAPE(2, 3));
    td_requires_grad_(t[1]);
    t[0] = td_mul(t[1], 3.0);
    for (int i = 0; i < 3; i++) s.in[i] = td_value_tensor(t[i]);
    s.j = td__joint(s.program, s.in,
                    &(td_joint_opts){.train = true,
                                     .merge_writes = true,
                                     .merge_made = true,
                                     .assign_writes = true});
    CHECK_OK(cx);
    CHECK(s.j && s.j->epilogue);
    return s;
}

static void let_go(sample *s) {
    td__joint_drop(s->j);
    td__gfile_drop(s->file);
}

static td_buf put_down(const sample *s) {
    td_image m;
    td_buf   b = {0};
    CHECK(td__image_begin(&m, &b, s->program, false) && td__put_joint(&m, s->j));
    td__image_end(&m);
    return b;
}

/* NULL: it was refused. */
static td_joint *read_back(const sample *s) {
    td_buf    b = put_down(s);
    td_reader r = td__reader(b.s, b.n);
    td_joint *j = td__get_joint(&r, s->j->cx, s->program, s->in);
    CHECK((j != NULL) == !r.bad && (!j || r.p == r.end));
    td__buf_free(&b);
    td_clear(s->j->cx);
    return j;
}

TEST(a_joint_graph_that_is_read_back_is_written_alike) {
    td_ctx *cx = td_open();
    sample  s = take(cx), again = s;
    td_buf  a = put_down(&s);
    again.j = read_back(&s);
    CHECK(again.j != NULL);
    td_buf b = put_down(&again);
    CHECK(a.n == b.n && !memcmp(a.s, b.s, a.n));
    td__buf_free(&a);
    td__buf_free(&b);
    td__joint_drop(again.j);
    let_go(&s);
    td_close(cx);
}

/* ---- forged ------------------------------------------------------------- */

static td_gnode *node(const sample *s, td_op op) {
    const td_graph *g = s->j->epilogue;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i]->kind == TD_N_OP && g->nodes.v[i]->op == op)
            return g->nodes.v[i];
    CHECK(false);
    return NULL;
}

static td_fwd *with_tangent(const sample *s) {
    int i = 0;
    while (s->j->fwd[i].tangent < 0) i++;
    return &s->j->fwd[i];
}

static td_target *leaf(const sample *s) {
    int i = 0;
    while (!s->j->targets[i].leaf) i++;
    return &s->j->targets[i];
}

/* The value of another kind than `of`: an input, not the forward code's. */
static void take_input(const sample *s, td_garg *of) {
    of->u.v = s->j->epilogue->inputs.v[0];
}

/* The last input of the epilogue, which stands for the compiled node. */
static void take_node(const sample *s, td_garg *of) {
    const td_graph *e = s->j->epilogue;
    CHECK(e->inputs.n == s->j->n_primals + s->j->n_fwd + 1);
    of->u.v = e->inputs.v[e->inputs.n - 1];
}

enum { FORGERIES = 28 };

static void forge(sample *s, int nr) {
    td_joint *j = s->j;
    td_graph *e = j->epilogue;
    switch (nr) {
    case 0: node(s, TD_OP__bind)->in[2].u.i = j->n_targets; break;
    case 1: node(s, TD_OP__bind)->in[2].u.i = -1; break;
    case 2: node(s, TD_OP__bind)->in[2].u.i = 0; break; /* no leaf's */
    case 3: take_input(s, &node(s, TD_OP__bind)->in[1]); break;
    case 4: take_input(s, &node(s, TD_OP__made)->in[0]); break;
    case 5: take_input(s, &node(s, TD_OP__assign)->in[1]); break;
    case 6: node(s, TD_OP__assign)->in[2].u.i = 0; break;
    case 7: node(s, TD_OP__bump)->in[1].u.i = -1; break;
    case 8: node(s, TD_OP_t_)->op = TD_OP_exp; break; /* computes */
    case 9: node(s, TD_OP_t_)->op = TD_OP_neg_; break;
    case 10: e->inputs.n--, e->in_desc.n--; break;
    case 11: e->outputs.n--, e->out_desc.n--; break;
    case 12: e->outputs.v[0] = td__garg_int(1); break;
    case 13: e->outputs.v[3] = e->outputs.v[0]; break;
    case 14: e->inputs.v[0]->type = NULL; break; /* what a step takes is a tensor */
    case 15: e->inputs.v[3]->type = NULL; break;
    case 16: with_tangent(s)->tangent = j->n_tangents; break;
    case 17: with_tangent(s)->tangent = -1; break;
    case 18: j->order = -1; break;
    case 19: j->tangents[0].index = j->n_fwd; break;
    case 20: j->tangents[1].index = j->tangents[0].index; break;
    case 21: j->targets[0].input = -1; break;
    case 22: leaf(s)->base = true; break;
    case 23: j->targets[0].input = j->n_primals; break;
    case 24: j->primals[2].same = -1; break;
    case 25: take_node(s, &node(s, TD_OP__made)->in[0]); break;
    case 26: take_node(s, &node(s, TD_OP__assign)->in[1]); break;
    case 27: node(s, TD_OP__bind)->in[1] = td__garg_value(e->inputs.v[3]); break;
    default: break;
    }
}

TEST(forged_plans_are_not_read) {
    td_ctx *cx = td_open();
    for (int i = 0; i <= FORGERIES; i++) {
        sample s = take(cx);
        forge(&s, i);
        td_joint *j = read_back(&s);
        TD_CHECK_THAT((j == NULL) == (i < FORGERIES), "forgery %d", i);
        td__joint_drop(j);
        let_go(&s);
    }
    td_close(cx);
}

TEST(a_plan_for_another_type_is_not_read) {
    td_ctx *cx = td_open();
    sample  s = take(cx);
    s.in[2] = td_value_tensor(td_ones(cx, TD_SHAPE(6)));
    CHECK(read_back(&s) == NULL);
    s.in[2] = td_value_tensor(td_zeros(cx, TD_SHAPE(2, 3), TD_F64));
    CHECK(read_back(&s) == NULL);
    let_go(&s);
    td_close(cx);
}
