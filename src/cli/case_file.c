/* case_file.c -- shared by commands that process a whole .td file. */
#include "cli/case_run.h"
#include "cli/cli.h"

bool case_calls(const td_gfile *f, const td_graph *g) {
    for (int i = 0; i < f->cases.n; i++)
        for (int k = 0; k < f->cases.v[i]->steps.n; k++)
            if (f->cases.v[i]->steps.v[k].fn == g) return true;
    return false;
}

/* Opens a context, reads the file and calls show; prints the error of a file that
 * cannot be read. */
int case_file(const char *command, const char *path, int (*show)(const td_gfile *f)) {
    int     status = CLI_MISUSED;
    td_ctx *cx = td_open();
    if (!cx) return CLI_FAILED;
    td_gfile *f = td__gfile_read(cx, path);
    if (f) status = show(f);
    else fprintf(stderr, "tandem %s: %s\n", command, td_message(cx));
    td__gfile_drop(f);
    td_close(cx);
    return status;
}
