/* fn_facts.c -- td_fn_facts: what a function does to its inputs and what its results
 * are, as data. tests/cases/func/facts.txt pins down the facts themselves. */
#include "aot_help.h"
#include "tandem/facts.h"

/* Writes x, returns a view of it, a value, and a number. */
static bool mixed(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_mul_(x, 2.0);
    return td_return(c, td_select(x, 0, 1), td_tanh(td_mul(x, w)), 3);
}

TEST(facts_name_writes_aliases_and_tangents) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3));
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(3)));
    td_fn     *f = td_aot_function(cx, mixed, NULL, NULL);
    td_facts  *facts = td_fn_facts(f, TD_ARGS(x, w));
    TD_CHECK_THAT(facts != NULL, "%s", td_message(cx));
    CHECK(facts->n_in == 2 && facts->n_out == 3 && facts->trains && !facts->random);
    CHECK(facts->in[0].mutates_data && !facts->in[0].requires_grad);
    CHECK(facts->in[0].mutation == TD_MUTATED_OUT_GRAPH && facts->in[0].duplicate < 0);
    CHECK(!facts->in[1].mutates_data && facts->in[1].requires_grad);
    CHECK(facts->out[0].kind == TD_OUT_ALIAS_OF_INPUT && facts->out[0].base == 0);
    CHECK(facts->out[0].n_views == 1 && !strcmp(facts->out[0].views[0].op, "select"));
    CHECK(facts->out[0].views[0].in[2].u.i == 1 && facts->out[0].views[0].nr == -1);
    CHECK(facts->out[1].kind == TD_OUT_NON_ALIAS && facts->out[1].requires_grad);
    CHECK(facts->out[1].type.rank == 2 && facts->out[1].type.size[1] == 3);
    CHECK(facts->out[2].value_kind == TD_K_INT);
    CHECK(facts->n_tangents == 1 && facts->tangents[0].of == TD_TANGENT_OUTPUT &&
          facts->tangents[0].index == 1 && facts->tangents[0].type.dtype == TD_F32);
    CHECK(td_item(td_sum(x)) == 6 && td_fn_specializations(f) == 0);
    td_facts_drop(facts);
    td_facts_drop(NULL);
    td_fn_drop(f);
    td_close(cx);
}

TEST(facts_of_a_module_begin_with_its_members) {
    td_ctx    *cx = td_open();
    td_module *m = td_nn_linear(cx, 3, 2, NULL);
    td_fn     *f = td_aot_module(m, NULL);
    td_facts  *facts = td_fn_facts(f, TD_ARGS(td_ones(cx, TD_SHAPE(4, 3))));
    TD_CHECK_THAT(facts != NULL, "%s", td_message(cx));
    CHECK(facts->n_in == 3 && facts->in[0].is_static && !facts->in[2].is_static);
    CHECK(strstr(facts->in[0].name, "weight") && facts->in[0].requires_grad);
    td_close(cx); /* owns the facts, too */
}

/* Writes its arguments under no_grad, through td_detach, and as usual. */
static bool writes(td_call *c) {
    td_ctx      *cx = td_call_ctx(c);
    td_grad_mode was = td_no_grad_begin(cx);
    td_mul_(td_arg(c, 0), 2.0);
    td_no_grad_end(cx, was);
    td_mul_(td_detach(td_arg(c, 1)), 2.0);
    td_mul_(td_arg(c, 2), 2.0);
    return td_return(c, td_add(td_arg(c, 0), td_arg(c, 3)));
}

/* As PyTorch 2.15 classifies them (ViewAndMutationMeta of aot_function): only writes
 * that bypass the version counter would be hidden, and a write through an alias without
 * history, detach or .data, is counted; without any write the flag is true. */
TEST(no_write_is_hidden_from_autograd) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, writes, NULL, NULL);
    td_tensor *in[4];
    for (int i = 0; i < 4; i++)
        in[i] = td_mul(td_requires_grad_(td_ones(cx, TD_SHAPE(2))), 1.0);
    td_facts *facts = td_fn_facts(f, TD_ARGS(in[0], in[1], in[2], in[3]));
    TD_CHECK_THAT(facts != NULL, "%s", td_message(cx));
    for (int i = 0; i < 4; i++) {
        CHECK(facts->in[i].mutates_data == (i < 3));
        CHECK(facts->in[i].hidden == (i == 3));
        CHECK(facts->in[i].no_grad == (i == 0));
        CHECK(facts->in[i].mutation == (i < 3 ? TD_MUTATED_OUT_GRAPH : TD_NOT_MUTATED));
    }
    td_fn_drop(f);
    td_close(cx);
}

static bool fails(td_call *c) {
    return td_return(c, td_matmul(td_arg(c, 0), td_arg(c, 0)));
}

TEST(facts_fail_as_the_capture_does) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, fails, NULL, NULL);
    CHECK(td_fn_facts(f, TD_ARGS(td_ones(cx, TD_SHAPE(2, 3)))) == NULL);
    CHECK(td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    td_facts *facts = td_fn_facts(f, TD_ARGS(td_ones(cx, TD_SHAPE(2, 2))));
    CHECK(facts && facts->n_out == 1);
    td_facts_drop(facts);
    td_facts_drop(facts);
    CHECK(td_error(cx) == TD_E_ARG); /* dropped twice */
    td_clear(cx);
    td_close(cx);
}
