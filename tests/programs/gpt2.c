/* gpt2.c -- the GPT-2 example at a small size: compiled steps give the losses of eager
 * ones, a run that was killed goes on from its checkpoint to the end, and wrong options
 * say how it is used. The program is looked for beside this one. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int  passed, failed;
static bool went_on; /* the last run began at a checkpoint */
static char program[1024], dir[] = "/tmp/tandem-gpt2-XXXXXX";

static void check(bool ok, const char *what) {
    if (!ok) printf("FAIL %s\n", what);
    ok ? passed++ : failed++;
}

/* Runs it; the last loss shown, or -1. *status is its exit status. */
static double run(const char *options, int *status) {
    char   line[4096], *text = NULL;
    size_t n = 0, got;
    snprintf(line, sizeof line,
             "%s --data %s/text --layers 2 --heads 2 --width 32 --context 16 --batch 4 "
             "--sample 8 %s 2>&1",
             program, dir, options);
    FILE *f = popen(line, "r");
    for (text = malloc(1 << 20); f && (got = fread(text + n, 1, 1024, f)) > 0;)
        if ((n += got) > (1 << 20) - 2048) break;
    text[n] = 0;
    int end = f ? pclose(f) : -1;
    *status = WIFEXITED(end) ? WEXITSTATUS(end) : -1;
    went_on = strstr(text, "going on after step") != NULL;
    char *last = NULL;
    for (char *p = text; (p = strstr(p, "loss ")); p++) last = p;
    double loss = last ? strtod(last + 5, NULL) : -1;
    if (*status) printf("%s\n", text);
    free(text);
    return loss;
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

/* Ends a run by force as soon as there is a checkpoint. */
static void kill_one(void) {
    char note[64], data[64], save[64];
    snprintf(note, sizeof note, "%s/b.note", dir);
    snprintf(data, sizeof data, "%s/text", dir);
    snprintf(save, sizeof save, "%s/b", dir);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout)) _exit(1);
        execl(program, program, "--data", data, "--layers", "2", "--heads", "2",
              "--width", "32", "--context", "16", "--batch", "4", "--steps", "40",
              "--every", "5", "--save", save, (char *)NULL);
        _exit(1);
    }
    for (int i = 0; i < 2000 && access(note, F_OK); i++) usleep(10000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/');
    char        options[160];
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
    kill_one();
    snprintf(options, sizeof options, "--steps 40 --every 5 --save %s/b", dir);
    double rest = run(options, &status);
    check(status == 0 && went_on && rest > 0 && rest < eager, "a killed run goes on");
    run("--steps x", &status);
    check(status == 2, "wrong options");
    clean();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
