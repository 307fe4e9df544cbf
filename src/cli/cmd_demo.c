/* cmd_demo.c -- `tandem demo`: checks gradients, trains a small GPT as one compiled
 * function, samples text from it, measures it, and writes an HTML report. */
#include "cli/cli.h"
#include "cli/demo_report.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

static const demo_sizes usual = {{256, 64, 3, 4, 96}, 8, 2400, 400, 15};
static const demo_sizes small = {{256, 32, 2, 2, 32}, 4, 40, 80, 3};

static const char *const PROMPT = "A machine that learns";

static int64_t     steps, seed;
static bool        quick;
static const char *colour, *path;

static const cli_option options[] = {
    {"steps", "N", "Number of training steps. Default: 2400.", CLI_INT, &steps, 1,
     1000000, NULL},
    {"seed", "N",
     "Seed of the random generator; the same seed gives the same run. Default: 1.",
     CLI_INT, &seed, 0, INT64_MAX, NULL},
    {"quick", NULL, "Run for a few seconds only: a tiny model, 40 steps.", CLI_FLAG,
     &quick, 0, 0, NULL},
    {"report", "FILE", "Path of the HTML report. Default: report.html.", CLI_WORD,
     &path, 0, 0, NULL},
    {"color", "WHEN",
     "Use colours: auto (on a terminal, unless NO_COLOR is set), always or never.",
     CLI_WORD, &colour, 0, 0, "auto always never"},
    {0}};

/* Everything that a run finds out. */
typedef struct demo {
    td_ctx    *cx;
    cli_term   t;
    demo_check checks[DEMO_CHECKS];
    demo_gpt   gpt;
    float     *loss; /* by step */
    td_buf     wrote;
} demo;

static void heading(const cli_term *t, const char *text) {
    printf("\n  %s%s%s\n\n", cli_ink_on(t, CLI_BOLD), text, cli_ink_on(t, CLI_PLAIN));
}

/* ---- the parts ------------------------------------------------------------------- */

/* Compares gradients with finite differences. False after td__fail, or if they
 * differ. */
static bool check(demo *s) {
    bool good = true;
    heading(&s->t, "Gradients: compiled, against finite differences in f64");
    for (int i = 0; i < DEMO_CHECKS; i++) {
        demo_check *c = &s->checks[i];
        if (!demo_check_one(s->cx, i, c)) return false;
        printf("    %-16s %-28s %5" PRId64 " derivatives   error %.0e   %s%s%s\n",
               c->name, c->what, c->count, c->worst,
               cli_ink_on(&s->t, c->good ? CLI_GOOD : CLI_BAD),
               c->good ? "agree" : "DIFFER", cli_ink_on(&s->t, CLI_PLAIN));
        fflush(stdout);
        good &= c->good;
    }
    return good;
}

static bool train(demo *s) {
    demo_gpt    *g = &s->gpt;
    cli_progress bar;
    char         text[96];
    double       mean = 0;
    heading(&s->t, "Training");
    printf(
        "    A GPT of %" PRId64 " parameters (%" PRId64 " blocks, width %" PRId64
        ") reads %zu bytes of text.\n    Loss, gradients, clipping and AdamW are one "
        "compiled function.\n\n",
        demo_gpt_numel(g), g->size.net.layers, g->size.net.width, g->text.n);
    cli_progress_begin(&bar, &s->t, g->size.steps, "steps");
    for (int64_t i = 0; i < g->size.steps; i++) {
        double loss = demo_gpt_train(g);
        if (!td_ok(s->cx)) return false;
        s->loss[i] = (float)loss;
        mean = i ? 0.9 * mean + 0.1 * loss : loss;
        if (!cli_progress_due(&bar, i + 1)) continue;
        snprintf(text, sizeof text, "loss %.3f", mean);
        cli_progress_show(&bar, i + 1, text);
    }
    cli_progress_end(&bar);
    printf("\n    compiled in %.2f s, at the first step\n\n", g->compile_s);
    cli_plot_log(&s->t, s->loss, (int)g->size.steps, "steps");
    return true;
}

/* Wraps the text; bytes that are not printable become dots. */
static void print_text(const char *text, size_t n) {
    int column = 0;
    fputs("    ", stdout);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool          end = c == '\n' || (c == ' ' && column > 68);
        if (end) fputs("\n    ", stdout);
        else putchar(c >= 32 && c < 127 ? c : '.');
        column = end ? 0 : column + 1;
    }
    putchar('\n');
}

static bool write(demo *s) {
    heading(&s->t, "What it writes");
    td__buf_add(&s->wrote, PROMPT);
    if (!demo_gpt_write(&s->gpt, &s->wrote, s->gpt.size.sample)) return false;
    print_text(s->wrote.s, s->wrote.n);
    return true;
}

static void speed_line(const demo *s, const char *name, const demo_speed *v,
                       const demo_speed *than) {
    printf("    %-10s %8.0f tokens/s %9.2f ms a step %8.2f MiB peak", name, v->tokens,
           v->ms, (double)v->peak / 1048576);
    if (than)
        printf("   %sspeedup %.2f x%s", cli_ink_on(&s->t, CLI_GOOD), than->ms / v->ms,
               cli_ink_on(&s->t, CLI_PLAIN));
    putchar('\n');
}

static bool measure(demo *s) {
    heading(&s->t, "A step, eager and compiled in turn (medians)");
    if (!demo_gpt_measure(&s->gpt)) return false;
    speed_line(s, "eager", &s->gpt.eager, NULL);
    speed_line(s, "compiled", &s->gpt.compiled, &s->gpt.eager);
    printf("    of both peaks, %.2f MiB are parameters and optimizer state\n",
           (double)s->gpt.state / 1048576);
    return true;
}

static bool write_report(demo *s) {
    report r = {s->cx, s->checks, &s->gpt, s->loss, &s->wrote};
    char   where[PATH_MAX];
    heading(&s->t, "Report");
    if (!report_write(&r, path)) return false;
    printf("    joint graph, partition, memory over time, kernels with their C:\n"
           "    %s%s%s\n\n",
           cli_ink_on(&s->t, CLI_BOLD), realpath(path, where) ? where : path,
           cli_ink_on(&s->t, CLI_PLAIN));
    return true;
}

/* ---- the whole ---------------------------------------------------------- */

static bool run_demo(demo *s) {
    demo_sizes size = quick ? small : usual;
    if (steps) size.steps = steps;
    td_seed(s->cx, (uint64_t)seed);
    s->loss = malloc(sizeof *s->loss * (size_t)size.steps);
    if (!s->loss) return td__fail_memory(s->cx);
    bool good = check(s);
    return td_ok(s->cx) && demo_gpt_open(&s->gpt, s->cx, size) && train(s) &&
           write(s) && measure(s) && write_report(s) && good;
}

static int run(int argc, char **argv) {
    const char *operand;
    int         status;
    demo        s = {0};
    steps = 0, seed = 1, quick = false, colour = "auto", path = "report.html";
    if (!cli_parse(&cli_demo, argc, argv, &operand, &status)) return status;
    s.t = cli_term_open(stdout, colour);
    s.cx = td_open();
    bool good = s.cx && run_demo(&s);
    if (!s.cx) fprintf(stderr, "tandem demo: memory is exhausted\n");
    else if (!td_ok(s.cx)) fprintf(stderr, "tandem demo: %s\n", td_message(s.cx));
    demo_gpt_close(&s.gpt);
    td__buf_free(&s.wrote);
    free(s.loss);
    if (s.cx) td_close(s.cx);
    return good ? CLI_OK : CLI_FAILED;
}

const cli_command cli_demo = {
    .name = "demo",
    .summary = "check gradients, train a small GPT, report how it was compiled",
    .about =
        "Compares gradients of compiled functions with finite differences, trains a\n"
        "small GPT on a built-in text with the whole training step as one compiled\n"
        "function, samples text from it, and measures the step eagerly and compiled.\n"
        "Then writes an HTML report, one file that needs no network: the joint graph\n"
        "of a small function, which values are saved for backward and why, memory "
        "over\n"
        "time, and each kernel of the training step with its C and its share of time.\n"
        "\n"
        "The exit status is 1 if gradients disagree.\n",
    .examples = "tandem demo\n"
                "tandem demo --seed=7 --steps=4000\n"
                "tandem demo --quick --color=never | less\n",
    .options = options,
    .run = run,
};
