/* aot_backward.c -- td_aot_backward does what td_backward does, through any history. */
#include "aot_backward_help.h"

/* ---- eager histories ---------------------------------------------------- */

typedef struct mlp {
    td_tensor *w1, *b1, *w2;
} mlp;

static mlp mlp_of(td_ctx *cx) {
    return (mlp){leaf(cx, TD_SHAPE(3, 4), 0.1), leaf(cx, TD_SHAPE(4), -0.2),
                 leaf(cx, TD_SHAPE(4, 2), 0.3)};
}

static td_tensor *loss_of(const mlp *m, td_tensor *x) {
    td_tensor *h = td_tanh(td_add(td_matmul(x, m->w1), m->b1));
    return td_mean(td_mul(td_matmul(h, m->w2), td_matmul(h, m->w2)));
}

static void tell_mlp(side *s, const mlp *m) {
    tell(s, "w1", td_grad_of(m->w1));
    tell(s, "b1", td_grad_of(m->b1));
    tell(s, "w2", td_grad_of(m->w2));
}

static void five_steps(side *s) {
    mlp m = mlp_of(s->cx);
    for (int step = 0; step < 5; step++) {
        td_scope_begin(s->cx, "step");
        back(loss_of(&m, values(s->cx, TD_SHAPE(2, 3), step)), NULL, false);
        tell_mlp(s, &m);
        if (step % 2) td_zero_grad(m.w1);
        td_scope_end(s->cx, "step", NULL);
    }
}
TEST(five_steps_are_traced_once_and_accumulate_as_eagers) {
    check_backward(five_steps, (counts){5, 1, 0});
}

static void other_sizes(side *s) {
    mlp m = mlp_of(s->cx);
    for (int step = 0; step < 4; step++) {
        td_ints rows = step % 2 ? TD_SHAPE(2, 3) : TD_SHAPE(5, 3);
        back(loss_of(&m, values(s->cx, rows, step)), NULL, false);
        tell_mlp(s, &m);
    }
}
TEST(another_size_is_another_history) {
    check_backward(other_sizes, (counts){4, 2, 0});
}

static void views_and_writes(side *s) {
    for (int step = 0; step < 2; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3, 4), 0.1);
        td_tensor *y = td_mul(x, 2.0);
        td_tensor *row = td_select(y, 0, 1);
        td_mul_(row, td_select(x, 0, 2));
        td_tensor *t = td_transpose(y, 0, 1);
        td_exp_(td_narrow(t, 0, 1, 2));
        td_tensor *z = td_matmul(t, td_sin(y));
        td_add_(z, 1.0);
        back(z, values(s->cx, TD_SHAPE(4, 4), 0.5), false);
        tell(s, "x", td_grad_of(x));
    }
}
TEST(views_that_are_written_send_gradients_as_eagers) {
    check_backward(views_and_writes, (counts){2, 1, 0});
}

static void shared(side *s) {
    for (int step = 0; step < 3; step++) {
        td_tensor *a = leaf(s->cx, TD_SHAPE(4), 0.1), *b = leaf(s->cx, TD_SHAPE(4), 1);
        td_tensor *g = values(s->cx, TD_SHAPE(4), 2);
        back(td_add(a, b), g, false); /* the gradient itself goes to both */
        tell(s, "a", td_grad_of(a));
        td_add_(td_grad_of(a), 1.0);
        tell(s, "b", td_grad_of(b));
        tell(s, "g", g);
        td_tensor *m = leaf(s->cx, TD_SHAPE(2, 2), 1);
        back(td_view(m, TD_SHAPE(4)), g, false); /* a view of it */
        tell(s, "m", td_grad_of(m));
        td_mul_(g, 3.0);
        tell(s, "m after g was written", td_grad_of(m));
        back(a, g, false); /* the root is a leaf */
        tell(s, "a again", td_grad_of(a));
    }
}
TEST(gradients_share_memory_as_eagers) { check_backward(shared, (counts){9, 3, 0}); }

static void twice(side *s) {
    mlp        m = mlp_of(s->cx);
    td_tensor *loss = loss_of(&m, values(s->cx, TD_SHAPE(2, 3), 0));
    back(loss, NULL, true);
    back(loss, NULL, true);
    tell_mlp(s, &m);
    back(loss, NULL, false);
    tell_mlp(s, &m);
    back(loss, NULL, false);
    tell_error(s, "a second time");
    tell_mlp(s, &m);
}
TEST(retained_graphs_run_again_and_freed_ones_fail) {
    check_backward(twice, (counts){3, 1, 1});
}

static void stale(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *w = leaf(s->cx, TD_SHAPE(3), 1);
    for (int step = 0; step < 2; step++) {
        td_tensor *h = td_mul(x, 2.0);
        td_tensor *y = td_mul(td_mul(h, h), w);
        if (step) td_add_(h, 1.0);
        back(y, values(s->cx, TD_SHAPE(3), 1), false);
        if (step) tell_error(s, "modified in place by add_");
        tell(s, "x", td_grad_of(x));
        tell(s, "w", td_grad_of(w)); /* accumulated before the error */
    }
}
TEST(a_saved_value_that_was_written_fails_where_eager_does) {
    check_backward(stale, (counts){1, 1, 1});
}

static void grads(side *s) {
    for (int step = 0; step < 2; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *w = leaf(s->cx, TD_SHAPE(3), 1);
        td_tensor *h = td_exp(td_mul(x, w)), *y = td_sum(td_mul(h, h)), *g[3];
        td_grad(TD_LIST(y), TD_LIST(h, x, w), g,
                &(td_grad_opts){TD_GRAD_OPTS, .with = with, .allow_unused = true});
        tell(s, "h", g[0]);
        tell(s, "x", g[1]);
        tell(s, "w", g[2]);
        say(s, "%d\n", td_has_grad(x));
        td_grad(TD_LIST(td_sum(x)), TD_LIST(x, w), g,
                &(td_grad_opts){TD_GRAD_OPTS, .with = with});
        tell_error(s, "was not used");
    }
}
TEST(td_grad_gets_gradients_in_the_middle_and_at_leaves) {
    check_backward(grads, (counts){4, 2, 0});
}

static void some_inputs(side *s) {
    for (int step = 0; step < 2; step++) {
        mlp        m = mlp_of(s->cx);
        td_tensor *h = td_mul(m.w1, 2.0), *y = td_sum(td_mul(h, td_sum(m.w2)));
        td_backward_with(TD_LIST(y), (td_tensors){0},
                         &(td_backward_opts){TD_BACKWARD_OPTS, .inputs = TD_LIST(h),
                                             .with = with});
        tell(s, "h", td_grad_of(h));
        tell_mlp(s, &m);
    }
}
TEST(only_the_inputs_asked_for_accumulate) {
    check_backward(some_inputs, (counts){2, 1, 0});
}

static void dropped(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(8), 1);
    for (int step = 0; step < 3; step++) {
        back(td_sum(td_mul(td_dropout(x, 0.5, true), x)), NULL, false);
        tell(s, "x", td_grad_of(x));
        tell(s, "drawn next", td_rand(s->cx, TD_SHAPE(2), TD_F64));
    }
}
TEST(dropout_is_saved_not_drawn_again) { check_backward(dropped, (counts){3, 1, 0}); }

static void no_history(side *s) {
    td_tensor *x = values(s->cx, TD_SHAPE(2), 0), *y = leaf(s->cx, TD_SHAPE(2), 0);
    back(x, NULL, false);
    tell_error(s, "does not require grad");
    back(td_mul(y, 2.0), NULL, false);
    tell_error(s, "implicit gradient");
    back(td_mul(y, 2.0), values(s->cx, TD_SHAPE(3), 0), false);
    tell_error(s, "sizes must be equal");
    tell(s, "y", td_grad_of(y));
}
TEST(roots_are_refused_as_eagers) { check_backward(no_history, (counts){0, 0, 0}); }

static void numbers(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1);
    for (int step = 0; step < 4; step++) {
        td_tensor *y = td_mul(td_pow(x, 2.0 + step % 2), 3.0);
        back(td_sum(td_sum(td_view(y, TD_SHAPE(3, 1)), TD_DIMS(step / 2), false)), NULL,
             false);
        tell(s, "x", td_grad_of(x));
    }
}
TEST(another_number_is_another_history) { check_backward(numbers, (counts){4, 4, 0}); }

/* The same nodes and edges, recorded in another order: gradients add up in it. */
static void orders(side *s) {
    for (int step = 0; step < 4; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *h = td_exp(x), *a, *b, *c;
        if (step % 2) c = td_mul(h, 1e-9), b = td_mul(h, 3.0), a = td_mul(h, -3.0);
        else a = td_mul(h, -3.0), b = td_mul(h, 3.0), c = td_mul(h, 1e-9);
        back(td_sum(td_add(td_add(a, b), c)), NULL, false);
        tell(s, "x", td_grad_of(x));
    }
}
TEST(another_order_is_another_history) { check_backward(orders, (counts){4, 2, 0}); }

/* Rows of one tensor, one after the other: their place in memory is no part of it. */
static void batches(side *s) {
    td_tensor *all = values(s->cx, TD_SHAPE(4, 2, 3), 0);
    mlp        m = mlp_of(s->cx);
    for (int step = 0; step < 4; step++) {
        back(loss_of(&m, td_select(all, 0, step)), NULL, false);
        tell_mlp(s, &m);
    }
}
TEST(parts_of_one_tensor_are_one_history) {
    check_backward(batches, (counts){4, 1, 0});
}

static void several_roots(side *s) {
    for (int step = 0; step < 2; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *h = td_exp(x);
        td_backward_with(TD_LIST(td_sum(h), h, td_sum(td_mul(h, h))),
                         TD_LIST(NULL, values(s->cx, TD_SHAPE(3), step), NULL),
                         &(td_backward_opts){TD_BACKWARD_OPTS, .with = with});
        tell(s, "x", td_grad_of(x));
    }
}
TEST(several_roots_are_one_graph) { check_backward(several_roots, (counts){2, 1, 0}); }

/* ---- hooks -------------------------------------------------------------- */

static side *hearing;

static td_tensor *doubled(void *env, td_tensor *g) {
    tell_grad(hearing, env, g);
    return td_mul(g, 2.0);
}
static bool accumulated(void *env, td_tensor *t) {
    tell_grad(hearing, env, td_grad_of(t));
    return true;
}

static void leaf_hooks(side *s) {
    hearing = s;
    mlp m = mlp_of(s->cx);
    td_on_grad(m.w1, doubled, "w1");
    td_on_accumulated(m.w1, accumulated, "w1 accumulated");
    td_on_accumulated(m.w2, accumulated, "w2 accumulated");
    for (int step = 0; step < 2; step++) {
        back(loss_of(&m, values(s->cx, TD_SHAPE(2, 3), step)), NULL, false);
        tell_mlp(s, &m);
    }
}
TEST(hooks_of_leaves_run_in_eagers_order) {
    check_backward(leaf_hooks, (counts){2, 1, 0});
}

static void inner_hooks(side *s) {
    hearing = s;
    for (int step = 0; step < 2; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *h = td_mul(x, 2.0);
        td_on_grad(h, doubled, "h");
        back(td_sum(td_exp(h)), NULL, false);
        tell(s, "x", td_grad_of(x));
    }
}
TEST(a_hook_inside_runs_between_parts_of_code) {
    check_backward(inner_hooks, (counts){2, 1, 0});
}

static void retained(side *s) {
    for (int step = 0; step < 2; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *h = td_mul(x, 2.0);
        td_retain_grad(h);
        back(td_sum(td_exp(h)), NULL, true);
        tell(s, "h", td_grad_of(h));
        tell(s, "x", td_grad_of(x));
    }
}
TEST(retained_gradients_are_stored) { check_backward(retained, (counts){2, 1, 0}); }

static void own_grad_read(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *w = leaf(s->cx, TD_SHAPE(3), 1);
    back(td_sum(td_mul(x, 2.0)), NULL, false);
    back(td_sum(td_mul(td_mul(x, w), td_grad_of(x))), NULL, false);
    tell_error(s, NULL);
    tell(s, "x", td_grad_of(x));
    tell(s, "w", td_grad_of(w));
}
TEST(a_gradient_that_the_history_reads_is_the_engines) {
    check_backward(own_grad_read, (counts){1, 1, 1});
}

static void higher(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *g;
    td_grad(TD_LIST(td_sum(td_mul(td_mul(x, x), x))), TD_LIST(x), &g,
            &(td_grad_opts){TD_GRAD_OPTS, .create_graph = true, .with = with});
    back(td_sum(g), NULL, false);
    tell(s, "x", td_grad_of(x));
}
TEST(create_graph_is_the_engines_and_its_gradients_are_code) {
    check_backward(higher, (counts){1, 1, 1});
}
