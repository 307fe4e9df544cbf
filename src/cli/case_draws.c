/* case_draws.c -- what random ops draw, for the JSON report: a mode hears the ops of
 * an eager call, or a draw of the case itself, and writes down the result of each
 * random one with the values it has then. Another implementation, given these numbers,
 * can run the same case. */
#include "cli/case_run.h"

/* Appends the result to the report's list. Memory that runs out shows in the buffer. */
static bool hear(void *env, td_heard *h) {
    case_run *run = env;
    td_op     op = td__op_find(td_heard_name(h));
    if (!td_heard_go(h)) return false;
    if (op == TD_OP_COUNT || !td__op_draws(op) || td_heard_results(h) < 1) return true;
    td_tensor *t = td_heard_result(h, 0);
    td_buf    *b = &run->draws;
    td__buf_printf(b, "%s\n     {\"op\":\"%s\",\"dtype\":\"%s\",\"sizes\":[",
                   b->n ? "," : "", td__ops[op].name,
                   td_dtype_name((td_dtype)t->dtype));
    for (int d = 0; d < t->rank; d++)
        td__buf_printf(b, d ? ",%lld" : "%lld", (long long)t->size[d]);
    td__buf_add(b, "],\"elements\":");
    td__json_elements(b, t);
    td__buf_add(b, "}");
    return true;
}

bool case_draws_begin(case_run *run, bool draws) {
    bool wanted = run->out && run->json && run->way == &case_eager;
    if (!wanted || !draws) return true;
    run->listener =
        (td_mode_hook){.name = "draws", .call = hear, .env = run, .composites = true};
    return td_mode_push(run->file->cx, &run->listener);
}

bool case_draws_end(case_run *run) {
    if (!run->listener.link) return true;
    return td_mode_pop(run->file->cx, &run->listener);
}
