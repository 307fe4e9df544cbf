/* case_ways.c -- the ways to execute a function: eagerly, the reference, and those
 * that must give the same results. */
#include "cli/case_run.h"

static bool call_eager(case_run *run, const td_graph *fn, const td_value *in,
                       td_value *out) {
    (void)fn;
    return case_body(run, run->step, in, out);
}

const case_way case_eager = {.name = "eager", .call = call_eager};
const case_way case_backward = {.name = "backward",
                                .call = call_eager,
                                .backward = true,
                                .slack = 4,
                                .grad_slack = 256};

const case_way *const case_ways[] = {
    &case_compiled[0], &case_compiled[1], &case_compiled[2],
    &case_compiled[3], &case_compiled[4], &case_compiled[5],
    &case_compiled[6], &case_backward,    NULL};
