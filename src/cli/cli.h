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

/* An option of a command: how it is parsed, and its line in help. */
typedef struct cli_option {
    const char *name; /* without dashes; one letter: -o, else --name */
    const char *arg;  /* name of the value in help; NULL for a flag */
    const char *doc;
    cli_kind    kind;
    void       *to;          /* bool *, int64_t * or const char ** */
    int64_t     least, most; /* of a CLI_INT */
    const char *words;       /* allowed values of a CLI_WORD; NULL: any */
} cli_option;

/* A command: its help page and its entry point. */
typedef struct cli_command {
    const char       *name;
    const char       *operand; /* name of the operand in help; NULL: it takes none */
    const char       *summary; /* one line, no full stop */
    const char       *about;   /* paragraphs, already wrapped */
    const char       *examples;
    const cli_option *options;         /* ends with a NULL name */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
} cli_command;

extern const cli_command cli_demo, cli_ops, cli_doctor, cli_run, cli_show, cli_facts,
    cli_check, cli_config, cli_explain, cli_cache, cli_emit_c;

/* Parses the options in argv[1..) and at most one operand (NULL: none). False: the
 * command must return *status, because it printed help or an error. */
bool cli_parse(const cli_command *c, int argc, char **argv, const char **operand,
               int *status);
/* The same for any number of operands, which move to argv[1..]. Returns their number;
 * -1: the command must return *status. */
int  cli_parse_all(const cli_command *c, int argc, char **argv, int *status);
void cli_help(const cli_command *c); /* prints the command's help page */
/* Prints "tandem demo: message (tandem help demo)" to stderr. Returns CLI_MISUSED. */
int  cli_misuse(const char *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Makes the device that --device names the default of cx. CLI_OK, or the exit status
 * after a message. */
struct td_ctx;
int cli_use_device(const char *command, struct td_ctx *cx, const char *name);

/* ---- the terminal (term.c) ---------------------------------------------- */

/* The properties of an output stream. */
typedef struct cli_term {
    FILE *out;
    bool  live;   /* a terminal, which can redraw a line */
    bool  colour; /* use colours */
    bool  utf8;
    int   width;
} cli_term;

/* when: "always", "never" or "auto", which uses colours on a terminal unless NO_COLOR
 * is set. */
cli_term cli_term_open(FILE *out, const char *when);

typedef enum cli_ink {
    CLI_PLAIN,
    CLI_BOLD,
    CLI_DIM,
    CLI_GOOD,
    CLI_BAD,
    CLI_LINE
} cli_ink;
const char *cli_ink_on(const cli_term *t, cli_ink ink); /* "" without colour */

double                    cli_now(void); /* seconds, monotonic */
/* The plural ending: "" for 1. */
static inline const char *cli_plural(int n) { return n == 1 ? "" : "s"; }

/* ---- progress and plots (progress.c, plot.c) ------------------------------ */

/* A progress bar; where the output is no terminal, ten plain lines. */
typedef struct cli_progress {
    const cli_term *t;
    int64_t         total;
    const char     *unit; /* "steps" */
    double          start, shown;
    int             tenth; /* the last tenth printed, if not a terminal */
} cli_progress;

void   cli_progress_begin(cli_progress *p, const cli_term *t, int64_t total,
                          const char *unit);
/* Is it time to call cli_progress_show? Cheap. */
bool   cli_progress_due(cli_progress *p, int64_t done);
void   cli_progress_show(cli_progress *p, int64_t done, const char *text);
/* Ends the line of the bar. Returns the seconds since begin. */
double cli_progress_end(cli_progress *p);

/* Plots n positive values on a log scale, with axes. */
void cli_plot_log(const cli_term *t, const float *v, int n, const char *unit);

/* Adds a string of any bytes to an object; bytes that are not UTF-8 become \xHH. False:
 * out of memory. */
struct cJSON;
bool cli_json_text(struct cJSON *object, const char *key, const char *text);

#endif
