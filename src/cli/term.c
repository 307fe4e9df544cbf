/* term.c -- properties of the terminal, and colours. */
#include "cli/cli.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

double cli_now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* The width of the terminal: COLUMNS, the terminal's own answer, or 80. */
static int columns(int fd) {
    struct winsize size;
    const char    *setting = getenv("COLUMNS");
    int            n = setting ? atoi(setting) : 0;
    if (n <= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0) n = size.ws_col;
    if (n <= 0) n = 80;
    return n < 40 ? 40 : n > 200 ? 200 : n;
}

cli_term cli_term_open(FILE *out, const char *when) {
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    cli_term    t = {.out = out, .width = columns(fileno(out))};
    bool        dumb = !term || !strcmp(term, "dumb");
    t.live = isatty(fileno(out)) && !dumb;
    t.colour = !strcmp(when, "auto") ? t.live && !(no && *no) : !strcmp(when, "always");
    t.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
    return t;
}

const char *cli_ink_on(const cli_term *t, cli_ink ink) {
    static const char *const code[] = {
        [CLI_PLAIN] = "\x1b[0m", [CLI_BOLD] = "\x1b[1m",   [CLI_DIM] = "\x1b[2m",
        [CLI_GOOD] = "\x1b[32m", [CLI_BAD] = "\x1b[1;31m", [CLI_LINE] = "\x1b[36m"};
    return t->colour ? code[ink] : "";
}
