/* case_draws.c -- records the results of random ops for the JSON report, with a mode
 * that sees the ops of an eager call or of the case itself. Another implementation
 * can run the same case with these numbers. */
#include "cli/case_run.h"

/* Appends the result of a random op to run->draws. Out of memory shows in the buffer.
 */
static bool record_draw(void *env, td_mode_call *h) {
    case_run *run = env;
    td_op     op = td__op_find(td_mode_call_name(h));
    if (!td_mode_call_go(h)) return false;
    if (op == TD_OP_COUNT || !td__op_draws(op) || td_mode_call_results(h) < 1)
        return true;
    td_tensor *t = td_mode_call_result(h, 0);
    td_buf    *b = &run->draws;
    td__buf_printf(b, "%s\n     {\"op\":\"%s\",\"dtype\":\"%s\",\"sizes\":[",
                   b->n ? "," : "", td__row(op)->name,
                   td_dtype_name((td_dtype)t->dtype));
    for (int d = 0; d < t->rank; d++)
        td__buf_printf(b, d ? ",%lld" : "%lld", (long long)t->size[d]);
    td__buf_add(b, "],\"elements\":");
    td__json_elements(b, t);
    td__buf_add(b, "}");
    return true;
}

/* With --json and eagerly only: a mode records the results of random ops, so that
 * another implementation can be given the same numbers. */
bool case_draws_begin(case_run *run, bool draws) {
    bool wanted = run->out && run->json && run->way == &case_eager;
    if (!wanted || !draws) return true;
    run->listener = (td_mode_hook){.name = "draws",
                                   .call = record_draw,
                                   .env = run,
                                   .composites = true};
    return td_mode_push(run->file->cx, &run->listener);
}

bool case_draws_end(case_run *run) {
    if (!run->listener.link) return true;
    return td_mode_pop(run->file->cx, &run->listener);
}
