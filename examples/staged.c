/* staged.c -- capture, look, change the joint graph as text, compile: sigmoid becomes
 * tanh on the way. */
#include <stdio.h>
#include <string.h>
#include <tandem/tandem.h>

static bool squash(td_call *c) { return td_return(c, td_sigmoid(td_arg(c, 0))); }

int main(void) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3)), *y = td_nil(cx);
    td_staged *s = td_stage_capture(cx, squash, NULL, TD_ARGS(x), NULL);
    char       text[2000] = "";
    if (s) td_graph_format(td_stage_joint(s), text, sizeof text);
    puts(text);
    for (int i = 0; s && i < td_stage_inputs(s); i++)
        printf("input %d: kind %d, of rank %d\n", i, (int)td_stage_input(s, i).kind,
               td_stage_input(s, i).rank);

    char *at = strstr(text, "sigmoid"), edited[2100] = "";
    if (at)
        snprintf(edited, sizeof edited, "%.*stanh%s", (int)(at - text), text,
                 at + strlen("sigmoid"));
    td_gfile *file = td_graphs_parse(cx, edited, strlen(edited), "edited");
    if (s && file) td_stage_replace(s, td_graphs_at(file, 0));
    td_fn *f = s ? td_stage_compile(s) : NULL;
    td_stage_drop(s);
    td_graphs_drop(file);
    if (f) td_invoke(f, TD_ARGS(x), &y, 1);
    double got = td_item(td_sum(y)), want = td_item(td_sum(td_tanh(x)));
    printf("%g, and tanh gives %g\n", got, want);
    bool ok = td_ok(cx) && got == want;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(f);
    td_close(cx);
    return !ok;
}
