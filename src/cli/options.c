/* options.c -- parses a command's options and prints its help page, from one table. */
#include "cli/cli.h"
#include "base/words.h"
#include "tandem/device.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int cli_misuse(const char *command, const char *fmt, ...) {
    char    text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "tandem%s%s: %s (tandem help%s%s)\n", command ? " " : "",
            command ? command : "", text, command ? " " : "", command ? command : "");
    return CLI_MISUSED;
}

int cli_use_device(const char *command, td_ctx *cx, const char *name) {
    td_device dev;
    if (!td_device_parse(name, &dev))
        return cli_misuse(command, "--device=%.40s: devices are cpu and cuda:0", name);
    td_set_default_device(cx, dev);
    if (td_ok(cx)) return CLI_OK;
    fprintf(stderr, "tandem %s: %s\n", command, td_message(cx));
    return CLI_FAILED;
}

/* ---- reading ------------------------------------------------------------ */

static int set_int(const cli_command *c, const cli_option *o, const char *text) {
    char *end;
    errno = 0;
    long long got = strtoll(text, &end, 10);
    if (!*text || *end || errno || got < o->least || got > o->most)
        return cli_misuse(c->name,
                          "--%s must be a number from %" PRId64 " to %" PRId64
                          ", not \"%s\"",
                          o->name, o->least, o->most, text);
    *(int64_t *)o->to = got;
    return CLI_OK;
}

static int set_value(const cli_command *c, const cli_option *o, const char *text) {
    if (o->kind == CLI_INT) return set_int(c, o, text);
    if (o->words && td__word_index(o->words, text, strlen(text)) < 0)
        return cli_misuse(c->name, "--%s must be one of: %s; not \"%s\"", o->name,
                          o->words, text);
    *(const char **)o->to = text;
    return CLI_OK;
}

/* Parses the option at argv[*i]; its value follows "=" or is the next argument. One of
 * a single letter has one dash. */
static int read_option(const cli_command *c, int argc, char **argv, int *i) {
    const char *word = argv[*i] + 1, *eq = strchr(word, '=');
    size_t      n = eq ? (size_t)(eq - word) : strlen(word);
    if (*word == '-' ? n == 2 : n > 1)
        return cli_misuse(c->name, "no option \"%s\"", argv[*i]);
    if (*word == '-') word++, n--;
    for (const cli_option *o = c->options; o && o->name; o++) {
        if (strlen(o->name) != n || strncmp(o->name, word, n)) continue;
        if (o->kind == CLI_FLAG) {
            if (eq) return cli_misuse(c->name, "--%s takes no value", o->name);
            *(bool *)o->to = true;
            return CLI_OK;
        }
        if (eq) return set_value(c, o, eq + 1);
        if (*i + 1 >= argc) return cli_misuse(c->name, "--%s needs a value", o->name);
        return set_value(c, o, argv[++*i]);
    }
    return cli_misuse(c->name, "no option \"%s%.*s\"", n > 1 ? "--" : "-", (int)n,
                      word);
}

/* Parses options and at most `most` operands, which move to argv[1..]. Returns their
 * number; -1: the command must return *status. */
static int parse(const cli_command *c, int argc, char **argv, int most, int *status) {
    bool options = true;
    int  n = 0;
    *status = CLI_OK;
    for (int i = 1; i < argc && *status == CLI_OK; i++) {
        char *word = argv[i];
        if (options && (!strcmp(word, "-h") || !strcmp(word, "--help")))
            return cli_help(c), -1;
        if (options && !strcmp(word, "--")) options = false;
        else if (options && word[0] == '-' && word[1])
            *status = read_option(c, argc, argv, &i);
        else if (n == most)
            *status = cli_misuse(c->name, "unexpected argument \"%s\"", word);
        else argv[++n] = word;
    }
    return *status == CLI_OK ? n : -1;
}

bool cli_parse(const cli_command *c, int argc, char **argv, const char **operand,
               int *status) {
    int n = parse(c, argc, argv, c->operand ? 1 : 0, status);
    *operand = n > 0 ? argv[1] : NULL;
    return n >= 0;
}

int cli_parse_all(const cli_command *c, int argc, char **argv, int *status) {
    return parse(c, argc, argv, argc, status);
}

/* ---- help --------------------------------------------------------------- */

/* Prints a block of text, indented. */
static void indented(const char *text) {
    while (*text) {
        size_t n = strcspn(text, "\n");
        printf("%s%.*s\n", n ? "    " : "", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static void heading(const cli_term *t, const char *text) {
    printf("\n%s%s%s\n", cli_ink_on(t, CLI_BOLD), text, cli_ink_on(t, CLI_PLAIN));
}

static void option_line(const cli_term *t, const cli_option *o) {
    bool letter = !o->name[1];
    printf("    %s%s%s%s%s%s\n        %s\n", cli_ink_on(t, CLI_BOLD),
           letter ? "-" : "--", o->name, cli_ink_on(t, CLI_PLAIN),
           !o->arg  ? ""
           : letter ? " "
                    : "=",
           o->arg ? o->arg : "", o->doc);
}

void cli_help(const cli_command *c) {
    static const cli_option asked = {.name = "help", .doc = "Print this page."};
    cli_term                t = cli_term_open(stdout, "auto");
    printf("%sNAME%s\n    tandem %s - %s\n", cli_ink_on(&t, CLI_BOLD),
           cli_ink_on(&t, CLI_PLAIN), c->name, c->summary);
    heading(&t, "SYNOPSIS");
    printf("    tandem %s [OPTION]...", c->name);
    if (c->operand) printf(" [%s]", c->operand);
    putchar('\n');
    heading(&t, "DESCRIPTION");
    indented(c->about);
    heading(&t, "OPTIONS");
    for (const cli_option *o = c->options; o && o->name; o++) option_line(&t, o);
    option_line(&t, &asked);
    heading(&t, "EXAMPLES");
    indented(c->examples);
}
