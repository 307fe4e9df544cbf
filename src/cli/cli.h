/* cli/cli.h -- the `tandem` command: options, the terminal, and the commands. */
#ifndef TD_CLI_H
#define TD_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- exit status -------------------------------------------------------- */

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_MISUSED = 2 };

/* ---- commands and their options (main.c, options.c) --------------------- */

typedef enum cli_kind { CLI_FLAG, CLI_INT, CLI_WORD } cli_kind;

typedef struct cli_option {
    const char *name; /* without dashes */
    const char *arg;  /* what help calls the value; NULL for a flag */
    const char *doc;
    cli_kind    kind;
    void       *to;          /* bool *, int64_t * or const char ** */
    int64_t     least, most; /* of a CLI_INT */
    const char *words;       /* of a CLI_WORD: "auto always never", NULL: any */
} cli_option;

typedef struct cli_command {
    const char       *name;
    const char       *operand; /* "NAME" when one may follow, else NULL */
    const char       *summary; /* one line, no full stop */
    const char       *about;   /* paragraphs, already wrapped */
    const char       *examples;
    const cli_option *options;         /* ends with a NULL name */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
} cli_command;

extern const cli_command cli_demo, cli_ops, cli_doctor, cli_run, cli_show, cli_facts,
    cli_check, cli_config, cli_explain, cli_cache;

/* Reads the options of argv[1..) and the operand, NULL when there is none. False:
 * the command ends with *status (help was asked for, or one line on stderr). */
bool cli_parse(const cli_command *c, int argc, char **argv, const char **operand,
               int *status);
/* The same for any number of operands: how many, moved to argv[1..]; -1: it ends. */
int  cli_parse_all(const cli_command *c, int argc, char **argv, int *status);
void cli_help(const cli_command *c); /* a page about it, to stdout */
/* One line on stderr, "tandem demo: ..." and where help is. CLI_MISUSED. */
int  cli_misuse(const char *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- the terminal (term.c) ---------------------------------------------- */

typedef struct cli_term {
    FILE *out;
    bool  live;   /* a terminal that can redraw a line */
    bool  colour; /* wanted and understood */
    bool  utf8;
    int   width;
} cli_term;

/* How to write to a stream. when: "always", "never" or "auto", where colour needs
 * a terminal and no NO_COLOR in the environment. */
cli_term cli_look(FILE *out, const char *when);

typedef enum cli_ink {
    CLI_PLAIN,
    CLI_BOLD,
    CLI_DIM,
    CLI_GOOD,
    CLI_BAD,
    CLI_LINE
} cli_ink;
const char *cli_ink_on(const cli_term *t, cli_ink ink); /* "" without colour */

double                    cli_now(void); /* seconds */
/* The ending of a plural: "" for one. */
static inline const char *cli_s(int n) { return n == 1 ? "" : "s"; }

/* ---- pictures (progress.c, plot.c) -------------------------------------- */

/* A bar that redraws itself on a terminal and is a line now and then elsewhere. */
typedef struct cli_progress {
    const cli_term *t;
    int64_t         total;
    const char     *unit; /* "steps" */
    double          start, shown;
    int             tenth; /* the last one told, where nothing can be redrawn */
} cli_progress;

void   cli_progress_begin(cli_progress *p, const cli_term *t, int64_t total,
                          const char *unit);
/* Is it time to call cli_progress_show? Asking is cheap. */
bool   cli_progress_due(cli_progress *p, int64_t done);
void   cli_progress_show(cli_progress *p, int64_t done, const char *text);
/* Leaves the last state on its own line. Seconds since begin. */
double cli_progress_end(cli_progress *p);

/* A curve of n positive values on a log scale, with axes. */
void cli_plot_log(const cli_term *t, const float *v, int n, const char *unit);

/* Adds text of any bytes to an object; bytes that are not UTF-8 become \xHH. False: no
 * memory. */
struct cJSON;
bool cli_json_text(struct cJSON *object, const char *key, const char *text);

#endif
