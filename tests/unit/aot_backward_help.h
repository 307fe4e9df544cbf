/* aot_backward_help.h -- a scene is played with td_backward as it is, and with the
 * backward as compiled code, interpreted and native. All must tell the same. */
#ifndef TD_AOT_BACKWARD_HELP_H
#define TD_AOT_BACKWARD_HELP_H

#include "aot_sides.h"

static td_backward_fn *with; /* of the side that plays; NULL: the engine */

/* td_backward_with, through the code where there is some. */
static inline bool back(td_tensor *root, td_tensor *grad, bool retain) {
    return td_backward_with(TD_LIST(root), TD_LIST(grad),
                            &(td_backward_opts){TD_BACKWARD_OPTS,
                                                .retain_graph = retain, .with = with});
}

/* What a scene must have done: backwards as code, of so many histories; backwards of
 * the engine. -1: any number. */
typedef struct counts {
    int runs, histories, misses;
} counts;

static inline void play_with(side *s, scene *go, const char *backend,
                             const counts *want) {
    s->cx = td_open();
    s->n = 0;
    s->text[0] = 0;
    td_seed(s->cx, 7);
    if (backend) td_config_set(s->cx, "backend", backend);
    with = backend ? td_aot_backward(s->cx, NULL) : NULL;
    go(s);
    if (!td_ok(s->cx)) say(s, "left: %s\n", td_message(s->cx));
    if (backend) {
        td_clear(s->cx);
        TD_CHECK_THAT(td_backward_runs(with) == want->runs, "%d runs, not %d: %s\n%s",
                      (int)td_backward_runs(with), want->runs, td_backward_why(with),
                      s->text);
        TD_CHECK_THAT(td_backward_histories(with) == want->histories,
                      "%d histories, not %d", td_backward_histories(with),
                      want->histories);
        TD_CHECK_THAT(td_backward_misses(with) == want->misses, "%d misses, not %d: %s",
                      (int)td_backward_misses(with), want->misses,
                      td_backward_why(with));
    }
    td_backward_fn_drop(with);
    td_close(s->cx);
}

static inline void check_backward(scene *go, counts want) {
    static side eager, code;
    play_with(&eager, go, NULL, &want);
    CHECK(strlen(eager.text) > 0);
    TD_CHECK_THAT(!strstr(eager.text, "left:"), "%s", eager.text);
    static const char *const backends[] = {"interp", "native"};
    for (int i = 0; i < 2; i++) {
        play_with(&code, go, backends[i], &want);
        CHECK_STR(code.text, eager.text);
    }
}

#endif
