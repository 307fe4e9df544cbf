/* fuzz_graph.c -- any bytes as a file of the text form: an error with its place, or
 * functions and cases that print, parse back and print the same; the clean-up passes
 * keep what verify asks for. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Prints f, which must parse back to the same text. */
static void check_round_trip(td_ctx *cx, const td_gfile *f, unsigned how) {
    td_buf one = {0}, two = {0};
    if (!td__gfile_print(&one, f, how)) abort();
    td_gfile *again = td__gfile_parse(cx, td__buf_str(&one), one.n, "again.td");
    if (td_is_nil(again) || !td__gfile_print(&two, again, how)) abort();
    if (strcmp(td__buf_str(&one), td__buf_str(&two)) != 0) abort();
    for (int i = 0; i < f->graphs.n && how & TD_PRINT_TYPES; i++)
        if (!td__graph_equal(f->graphs.v[i], again->graphs.v[i], NULL, 0)) abort();
    td__gfile_drop(again);
    td__buf_free(&one);
    td__buf_free(&two);
}

static void check_passes(td_ctx *cx, td_graph *g) {
    td_buf b = {0};
    if (!td__graph_verify(g, TD_STAGE_PROGRAM)) {
        td_clear(cx);
        return;
    }
    if (!td__graph_infer(g)) td_clear(cx);
    if (!td__graph_views(g) || !td__graph_verify(g, TD_STAGE_PROGRAM)) abort();
    if (!td__graph_fold(g) || !td__graph_verify(g, TD_STAGE_PROGRAM)) abort();
    if (!td__graph_cse(g) || !td__graph_verify(g, TD_STAGE_PROGRAM)) abort();
    if (!td__graph_dce(g) || !td__graph_verify(g, TD_STAGE_PROGRAM)) abort();
    if (!td__graph_order(g) || !td__graph_verify(g, TD_STAGE_PROGRAM)) abort();
    if (!td__graph_json(&b, g) || !td__graph_dot(&b, g)) abort();
    td_graph *twin = td__graph_clone(g);
    if (!twin || !td__graph_equal(g, twin, NULL, 0)) abort();
    td__graph_drop(twin);
    td__buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static td_ctx *cx;
    if (!cx) cx = td_open();
    td_gfile *f = td__gfile_parse(cx, (const char *)data, size, "fuzz.td");
    if ((td_is_nil(f)) == td_ok(cx)) abort();
    if (f) {
        check_round_trip(cx, f, TD_PRINT_TYPES | TD_PRINT_PLACES | TD_PRINT_SCOPES);
        check_round_trip(cx, f, 0);
        for (int i = 0; i < f->graphs.n; i++) check_passes(cx, f->graphs.v[i]);
    }
    td__gfile_drop(f);
    td_clear(cx);
    return 0;
}
