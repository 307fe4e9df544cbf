/* graph_help.h -- what the unit tests of graphs share. */
#ifndef TD_GRAPH_HELP_H
#define TD_GRAPH_HELP_H

#include "graph/graph.h"
#include "tandem/grad.h"
#include "tandem/graph.h"
#include "td_test.h"

/* The file, or NULL with an error in cx. */
static inline td_gfile *parse(td_ctx *cx, const char *text) {
    return td__gfile_parse(cx, text, strlen(text), "t.td");
}

/* The text prints as itself. */
static inline void check_prints(const char *text) {
    td_ctx   *cx = td_open();
    td_buf    b = {0};
    td_gfile *f = parse(cx, text);

    CHECK_OK(cx);
    CHECK(td__gfile_print(&b, f, TD_PRINT_TYPES));
    CHECK_STR(td__buf_str(&b), text);

    td__buf_free(&b);
    td__gfile_drop(f);
    td_close(cx);
}

/* The text is refused with this message. */
static inline void check_refuses(const char *text, const char *message) {
    td_ctx   *cx = td_open();
    td_gfile *f = parse(cx, text);

    CHECK(td_is_nil(f));
    CHECK_MESSAGE(cx, message);
    CHECK(td_error(cx) == TD_E_ARG);

    td_close(cx);
}

#endif
