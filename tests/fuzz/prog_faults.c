/* prog_faults.c -- random programs without memory: in each way of running one, some of
 * its allocations fail, alone or with all that follow. The run must report out of
 * memory, or what it reports with all its memory, and nothing may leak. */
#include "prog.h"

#include "cli/case_run.h"

#include <stdio.h>
#include <string.h>

int prog_faults;

typedef struct job {
    const td_gfile *f;
    const td_gcase *c;
    const case_way *way;
    int64_t         all; /* allocations the last run asked for */
} job;

/* The run of a way whose n-th allocation fails, and all after it if it is sticky. */
static td_code run_without(job *j, int64_t n, bool sticky, prog_result *r) {
    td__fault_arm(n, sticky);
    td_code code = prog_run(j->f, j->c, j->way, r->why, sizeof r->why);
    j->all = td__fault_count();
    td__fault_arm(-1, false);
    return code;
}

static bool is_right(td_code got, td_code want) {
    return got == TD_OK || got == TD_E_MEMORY || got == want;
}

static bool fail_in_turn(const td_gfile *f, const td_gcase *c, const case_way *way,
                         prog_result *r) {
    job      j = {f, c, way, 0};
    char     why[sizeof r->why];
    prog_rng rng = {td__hash(c->name, strlen(c->name), strlen(way->name))};
    if (!prog_is_asked_for(way->name) || (way->of_graphs && case_needs_body(c)))
        return true;
    td_code want = run_without(&j, INT64_MAX, false, r);
    int64_t most = j.all;
    if (want != TD_OK) r->failed = true;
    for (int i = 0; i < prog_faults && most > 0; i++) {
        int64_t n = (int64_t)(prog_next(&rng) % (uint64_t)most);
        bool    sticky = prog_chance(&rng, 25);
        td_code code = run_without(&j, n, sticky, r);
        if (is_right(code, want)) continue;
        snprintf(why, sizeof why, "%.300s (allocation %lld%s)", r->why, (long long)n,
                 sticky ? " and all after it" : "");
        r->verdict = PROG_DIFFER;
        prog_sum_up(r->kind, sizeof r->kind, way->name, why);
        snprintf(r->why, sizeof r->why, "%.60s: %.400s", way->name, why);
        return false;
    }
    return true;
}

void prog_check_faults(const char *text, size_t n, prog_result *r) {
    size_t    live = td_memory_live();
    td_ctx   *cx = prog_open();
    td_gfile *f = cx ? td__gfile_parse(cx, text, n, "program.td") : NULL;
    *r = (prog_result){.verdict = td_is_nil(f) ? PROG_BROKEN : PROG_AGREE};
    for (int i = 0; r->verdict == PROG_AGREE && i < f->cases.n; i++)
        prog_each_way(f, f->cases.v[i], td__hash(text, n, 0), fail_in_turn, r);
    td__gfile_drop(f);
    if (cx) td_close(cx);
    if (r->verdict != PROG_AGREE || td_memory_live() == live) return;
    r->verdict = PROG_DIFFER;
    snprintf(r->kind, sizeof r->kind, "bytes were leaked");
    snprintf(r->why, sizeof r->why, "bytes were leaked");
}
