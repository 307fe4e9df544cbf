/* progress.c -- a progress bar with rate and remaining time; plain lines if the
 * output is no terminal. */
#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

void cli_progress_begin(cli_progress *p, const cli_term *t, int64_t total,
                        const char *unit) {
    *p = (cli_progress){.t = t, .total = total, .unit = unit, .start = cli_now()};
}

bool cli_progress_due(cli_progress *p, int64_t done) {
    if (done >= p->total) return true;
    if (!p->t->live) return done * 10 / p->total > p->tenth;
    return cli_now() - p->shown >= 0.05;
}

static void draw_bar(const cli_term *t, double part, int width) {
    static const char *const full[] = {"=", "\u2501"}, *const rest[] = {"-", "\u2500"};
    int n = (int)(part * width + 0.5);
    fputs(cli_ink_on(t, CLI_LINE), t->out);
    for (int i = 0; i < width; i++) {
        if (i == n)
            fprintf(t->out, "%s%s", cli_ink_on(t, CLI_PLAIN), cli_ink_on(t, CLI_DIM));
        fputs(i < n ? full[t->utf8] : rest[t->utf8], t->out);
    }
    fputs(cli_ink_on(t, CLI_PLAIN), t->out);
}

void cli_progress_show(cli_progress *p, int64_t done, const char *text) {
    char   tail[160], left[32] = "";
    double now = cli_now(), spent = now - p->start + 1e-9, rate = (double)done / spent;
    if (done < p->total && rate > 0)
        snprintf(left, sizeof left, "  %.1f s left", (double)(p->total - done) / rate);
    else snprintf(left, sizeof left, "  in %.1f s", spent);
    snprintf(tail, sizeof tail, "  %s  %5.0f %s/s%s", text, rate, p->unit, left);
    p->shown = now;
    p->tenth = (int)(done * 10 / p->total);
    if (!p->t->live) {
        fprintf(p->t->out, "  %6" PRId64 "/%" PRId64 " %s%s\n", done, p->total, p->unit,
                tail);
        return;
    }
    int width = p->t->width - 11 - (int)strlen(tail);
    fputs("\r  ", p->t->out);
    draw_bar(p->t, (double)done / (double)p->total,
             width > 30  ? 30
             : width < 4 ? 4
                         : width);
    fprintf(p->t->out, " %3d %%%s\x1b[K", (int)(done * 100 / p->total), tail);
    fflush(p->t->out);
}

double cli_progress_end(cli_progress *p) {
    if (p->t->live) fputc('\n', p->t->out);
    return cli_now() - p->start;
}
