/* gpt2.c -- the GPT-2 example at a small size: compiled steps give the losses of eager
 * ones, a run that is killed at any moment goes on to the very weights of one that is
 * not, and wrong options say how it is used. The program is looked for beside this
 * one. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int  passed, failed;
static bool went_on;            /* the last run began at a checkpoint */
static char last_text[1 << 16]; /* what it said */
static char program[1024], dir[] = "/tmp/tandem-gpt2-XXXXXX";

static void check(bool ok, const char *what) {
    if (!ok) printf("FAIL %s\n", what);
    ok ? passed++ : failed++;
}

/* Runs it; the last loss shown, or -1. *status is its exit status. */
static double run(const char *options, int *status) {
    char   line[4096];
    size_t n = 0, got;
    snprintf(line, sizeof line,
             "%s --data %s/text --layers 2 --heads 2 --width 32 --context 16 --batch 4 "
             "--sample 8 %s 2>&1",
             program, dir, options);
    FILE *f = popen(line, "r");
    while (f && n < sizeof last_text - 1 &&
           (got = fread(last_text + n, 1, sizeof last_text - 1 - n, f)) > 0)
        n += got;
    last_text[n] = 0;
    int end = f ? pclose(f) : -1;
    *status = WIFEXITED(end) ? WEXITSTATUS(end) : -1;
    went_on = strstr(last_text, "going on after step") != NULL;
    char *last = NULL;
    for (char *p = last_text; (p = strstr(p, "loss ")); p++) last = p;
    return last ? strtod(last + 5, NULL) : -1;
}

static void write_text(void) {
    char  path[64];
    FILE *f = (snprintf(path, sizeof path, "%s/text", dir), fopen(path, "w"));
    for (int i = 0; f && i < 400; i++) fprintf(f, "%d times %d is %d. ", i, i, i * i);
    if (f) fclose(f);
}

static void clean(void) {
    char line[96];
    snprintf(line, sizeof line, "rm -rf %s", dir);
    if (system(line)) printf("could not remove %s\n", dir);
}

/* ---- runs that are ended -------------------------------------------------- */

static pid_t start(const char *save, const char *steps) {
    char data[64], to[64];
    snprintf(data, sizeof data, "%s/text", dir);
    snprintf(to, sizeof to, "%s/%s", dir, save);
    pid_t child = fork();
    if (child) return child;
    if (!freopen("/dev/null", "w", stdout)) _exit(1);
    execl(program, program, "--data", data, "--layers", "2", "--heads", "2", "--width",
          "32", "--context", "16", "--batch", "4", "--sample", "1", "--steps", steps,
          "--every", "1", "--save", to, (char *)NULL);
    _exit(1);
}

/* Lets a run go for so long, then ends it by force; whether it was at its end. */
static bool run_for(const char *save, const char *steps, int microseconds) {
    int   end;
    pid_t child = start(save, steps);
    usleep((useconds_t)microseconds);
    bool done = waitpid(child, &end, WNOHANG) == child;
    if (done) return WIFEXITED(end) && WEXITSTATUS(end) == 0;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return false;
}

static bool same_files(const char *a, const char *b) {
    char line[256];
    snprintf(line, sizeof line, "cmp %s/%s %s/%s", dir, a, dir, b);
    return system(line) == 0;
}

/* A run that is ended at any moment, a checkpoint after each step, as often as it
 * takes, ends with the weights and the state of one that was left alone. */
static void check_kills(void) {
    int    status;
    double whole;
    char   options[96];
    snprintf(options, sizeof options, "--steps 30 --every 30 --save %s/whole", dir);
    whole = run(options, &status);
    check(status == 0 && whole > 0, "a run with a checkpoint");
    int pause = 30000;
    srand(5);
    for (int i = 0; i < 60 && !run_for("kills", "30", pause + rand() % 60000); i++)
        pause += pause / 8;
    snprintf(options, sizeof options, "--steps 30 --every 1 --save %s/kills", dir);
    run(options, &status);
    check(status == 0 && went_on, "an ended run goes on");
    check(same_files("kills/step-30/model.safetensors",
                     "whole/step-30/model.safetensors"),
          "the weights of a run that was left alone");
    check(same_files("kills/step-30/optim.safetensors",
                     "whole/step-30/optim.safetensors"),
          "and its optimizer");
    check(same_files("kills/step-30/place", "whole/step-30/place"), "and its place");
}

/* What a kill leaves half-written is not looked at, and goes away. */
static void check_leftovers(void) {
    int  status;
    char line[256];
    snprintf(
        line, sizeof line,
        "mkdir -p %s/kills/writing && echo x >%s/kills/writing/model.safetensors &&"
        "mkdir %s/kills/step-12 && echo x >%s/kills/step-12/place",
        dir, dir, dir, dir);
    check(system(line) == 0, "leftovers");
    snprintf(line, sizeof line, "--steps 32 --every 1 --save %s/kills", dir);
    run(line, &status);
    check(status == 0 && went_on, "beside leftovers");
    snprintf(line, sizeof line, "test \"$(ls %s/kills)\" = step-32", dir);
    check(system(line) == 0, "only the newest stays");
}

/* ---- the rest -------------------------------------------------------------- */

static void check_refusals(void) {
    int  status;
    char options[160];
    run("--steps x", &status);
    check(status == 2, "wrong options");
    snprintf(options, sizeof options, "--save %s/kills --heads 4", dir);
    run(options, &status);
    check(status == 1 && strstr(last_text, "--heads 2 --width 32"), "other sizes");
    run("--tokenizer nowhere", &status);
    check(status == 1 && strstr(last_text, "vocab.json"), "no tokenizer");
    run("--window 17", &status);
    check(status == 1 && strstr(last_text, "--window"), "a window beyond the context");
    snprintf(options, sizeof options, "--from %s/kills/step-32 --steps 3", dir);
    run(options, &status);
    check(status == 0, "from weights of ours");
    run("--from tests/gpt2/hf --steps 3", &status);
    check(status == 1 && strstr(last_text, "--tokenizer"), "a text without its tokens");
}

static void check_tokenizer(void) {
    int    status;
    double loss = run("--tokenizer tests/gpt2 --steps 20 --lr 0.01", &status);
    check(status == 0 && loss > 0 && loss < 6.5,
          "with a tokenizer"); /* log 700: 6.55 */
}

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/');
    int         status;
    (void)argc;
    snprintf(program, sizeof program, "%.*s/../gpt2",
             slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
    if (!mkdtemp(dir)) return 1;
    write_text();
    double eager = run("--steps 12 --eager", &status);
    check(status == 0 && eager > 0, "an eager run");
    double compiled = run("--steps 12", &status);
    check(status == 0 && compiled == eager, "the same losses compiled");
    double whole = run("--steps 40", &status);
    check(status == 0 && whole < compiled, "it learns");
    check_kills();
    check_leftovers();
    check_refusals();
    check_tokenizer();
    clean();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
