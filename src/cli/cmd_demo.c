/* cmd_demo.c -- `tandem demo`: trains on two spirals and shows what came of it. */
#include "cli/cli.h"
#include "cli/demo.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { MAP = 56 };
static const double TOLERANCE = 1e-6;

static int64_t     steps, hidden, points, seed;
static const char *colour;

static const cli_option options[] = {
    {"steps", "N", "Steps of training. 4000 unless given.", CLI_INT, &steps, 1, 1000000,
     NULL},
    {"hidden", "N", "Units in each of the two hidden layers. 64 unless given.", CLI_INT,
     &hidden, 1, 1024, NULL},
    {"points", "N", "Points to train on, half on each arm. 1000 unless given.", CLI_INT,
     &points, 2, 100000, NULL},
    {"seed", "N",
     "Where random numbers start. The same seed gives the same run. 1 unless "
     "given.",
     CLI_INT, &seed, 0, INT64_MAX, NULL},
    {"color", "WHEN",
     "auto, always or never. auto colours a terminal, unless NO_COLOR is "
     "set.",
     CLI_WORD, &colour, 0, 0, "auto always never"},
    {0}};

/* ---- the acts ----------------------------------------------------------- */

static void heading(const cli_term *t, const char *text) {
    printf("\n  %s%s%s\n\n", cli_ink_on(t, CLI_BOLD), text, cli_ink_on(t, CLI_PLAIN));
}

static bool train(demo *d, const cli_term *t, float *loss) {
    cli_progress bar;
    char         text[64];
    cli_progress_begin(&bar, t, steps, "steps");
    for (int64_t i = 0; i < steps; i++) {
        loss[i] = (float)demo_step(d);
        if (!td_ok(d->cx)) return false;
        if (!cli_progress_due(&bar, i + 1)) continue;
        snprintf(text, sizeof text, "loss %-8.2g accuracy %5.1f %%", (double)loss[i],
                 100 * demo_accuracy(d, false));
        cli_progress_show(&bar, i + 1, text);
    }
    cli_progress_end(&bar);
    return td_ok(d->cx);
}

static bool show_map(demo *d, const cli_term *t) {
    int      n = (int)td_numel(d->y), shown = n < 300 ? n : 300;
    float   *p = malloc(sizeof *p * MAP * MAP);
    double  *at = malloc(sizeof *at * 2 * (size_t)n);
    cli_dot *dots = malloc(sizeof *dots * (size_t)shown);
    bool     ok = p && at && dots && demo_map(d, p, MAP) &&
              td_read(d->x, TD_F64, at, sizeof *at * 2 * (size_t)n);
    for (int i = 0; ok && i < shown; i++) {
        int64_t k = (int64_t)i * n / shown;
        dots[i] = (cli_dot){at[2 * k], at[2 * k + 1], k >= n / 2};
    }
    if (ok) cli_plot_map(t, p, MAP, dots, shown);
    free(p);
    free(at);
    free(dots);
    return ok;
}

static void count_checked(void *env, int64_t done) {
    cli_progress *bar = env;
    if (bar->t->live && cli_progress_due(bar, done))
        cli_progress_show(bar, done, "finite differences");
}

/* Are the gradients right? */
static bool check(demo *d, const cli_term *t) {
    cli_progress bar;
    cli_progress_begin(&bar, t, demo_numel(d), "parameters");
    double worst = demo_check(d, count_checked, &bar);
    if (t->live) fputs("\r\x1b[K", stdout);
    if (!td_ok(d->cx)) return false;
    bool good = worst <= TOLERANCE;
    printf("  %" PRId64
           " derivatives by td_backward against finite differences, in f64:\n"
           "  largest relative error %.1e, %s%s%s\n\n",
           demo_numel(d), worst, cli_ink_on(t, good ? CLI_GOOD : CLI_BAD),
           good ? "they agree" : "THEY DIFFER", cli_ink_on(t, CLI_PLAIN));
    return good;
}

static bool play(demo *d, const cli_term *t, float *loss) {
    heading(t, "Two spirals");
    printf("  A network of %" PRId64 " parameters (2-%" PRId64 "-%" PRId64
           "-1, tanh) learns on which\n  of two arms each of %" PRId64
           " points lies.\n\n",
           demo_numel(d), hidden, hidden, points);
    if (!train(d, t, loss)) return false;
    heading(t, "Loss");
    cli_plot_log(t, loss, (int)steps, "steps");
    heading(t, "What it learned");
    if (!show_map(d, t)) return false;
    printf("\n  right about %.1f %% of 2000 points it has not seen\n",
           100 * demo_accuracy(d, true));
    heading(t, "Gradients");
    return check(d, t);
}

static int run(int argc, char **argv) {
    const char *operand;
    int         status;
    demo        d;
    steps = 4000, hidden = 64, points = 1000, seed = 1, colour = "auto";
    if (!cli_parse(&cli_demo, argc, argv, &operand, &status)) return status;
    points -= points % 2;
    cli_term t = cli_look(stdout, colour);
    float   *loss = malloc(sizeof *loss * (size_t)steps);
    bool     good =
        demo_open(&d, points, hidden, steps, seed) && loss && play(&d, &t, loss);
    if (!d.cx || !loss) fprintf(stderr, "tandem demo: memory is exhausted\n");
    else if (!td_ok(d.cx)) fprintf(stderr, "tandem demo: %s\n", td_message(d.cx));
    free(loss);
    demo_close(&d);
    return good ? CLI_OK : CLI_FAILED;
}

const cli_command cli_demo = {
    .name = "demo",
    .summary = "train a small network and check its gradients",
    .about =
        "Trains a small network to tell two interleaved spirals apart, eagerly, with\n"
        "nothing but the public API. Then shows the loss over time on a log scale, "
        "the\n"
        "regions the network assigns to each arm, and how its gradients compare with\n"
        "finite differences. The status is 1 when those disagree.\n"
        "\n"
        "On a terminal a bar shows progress; elsewhere ten plain lines do.\n",
    .examples = "tandem demo\n"
                "tandem demo --seed=7 --hidden=32 --steps=1000\n"
                "tandem demo --color=never | less\n",
    .options = options,
    .run = run,
};
