/* main.c -- the `tandem` command: finds the subcommand and calls it. */
#include "cli/cli.h"
#include "base/base.h"

#include "tandem/version.h"

#include <locale.h>
#include <string.h>

static const cli_command *const commands[] = {
    &cli_demo,   &cli_run, &cli_check, &cli_show,   &cli_facts,  &cli_explain,
    &cli_emit_c, &cli_ops, &cli_cache, &cli_config, &cli_doctor,
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int overview(void) {
    cli_term    t = cli_term_open(stdout, "auto");
    const char *bold = cli_ink_on(&t, CLI_BOLD), *plain = cli_ink_on(&t, CLI_PLAIN);
    printf("%sNAME%s\n    tandem - ahead-of-time autograd for C\n\n", bold, plain);
    printf("%sSYNOPSIS%s\n    tandem COMMAND [OPTION]...\n"
           "    tandem help [COMMAND]\n    tandem --version\n\n",
           bold, plain);
    printf("%sCOMMANDS%s\n", bold, plain);
    for (int i = 0; i < COMMANDS; i++)
        printf("    %s%-8s%s  %s\n", bold, commands[i]->name, plain,
               commands[i]->summary);
    printf("    %s%-8s%s  this page, or the page of a command\n\n", bold, "help",
           plain);
    printf(
        "%sENVIRONMENT%s\n"
        "    TD_NUM_THREADS  number of threads; default: the number of cores\n"
        "    TD_ISA          base, avx2 or avx512: highest instruction set of kernels\n"
        "    NO_COLOR        if set, no colours\n"
        "    TD_...          all settings: see tandem config\n\n",
        bold, plain);
    printf(
        "%sEXIT STATUS%s\n"
        "    0 on success, 1 if the command failed, 2 for wrong usage or bad files.\n",
        bold, plain);
    return CLI_OK;
}

static const cli_command *find(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(name, commands[i]->name)) return commands[i];
    return NULL;
}

/* Reports an unknown command, with a suggestion if one is similar. */
static int unknown(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (td__is_typo(name, commands[i]->name))
            return cli_misuse(NULL, "no command \"%s\"; did you mean %s?", name,
                              commands[i]->name);
    return cli_misuse(NULL, name[0] == '-' ? "no option \"%s\"" : "no command \"%s\"",
                      name);
}

static int help(int argc, char **argv) {
    if (argc < 2) return overview();
    if (argc > 2)
        return cli_misuse("help", "takes one command; unexpected argument \"%s\"",
                          argv[2]);
    if (!strcmp(argv[1], "help")) return overview();
    const cli_command *c = find(argv[1]);
    if (!c) return unknown(argv[1]);
    cli_help(c);
    return CLI_OK;
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "");
    if (argc < 2) return overview();
    const char *word = argv[1];
    if (!strcmp(word, "-h") || !strcmp(word, "--help")) return overview();
    if (!strcmp(word, "--version")) {
        puts("tandem " TD_VERSION_STRING);
        return CLI_OK;
    }
    if (!strcmp(word, "help")) return help(argc - 1, argv + 1);
    const cli_command *c = find(word);
    if (!c) return unknown(word);
    int status = c->run(argc - 1, argv + 1);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "tandem %s: cannot write to standard output\n", c->name);
        return CLI_FAILED;
    }
    return status;
}
