/* start.c -- what the first call of GPT-2's training step costs before its code runs,
 * in a fresh process each time: with nothing on disk, with kernels, with everything.
 * The width is small, because stages do not look at sizes. Processor time, compilers
 * included, the least of several: a machine that is busy only adds to it. */
#include "bench.h"

#include "../examples/gpt2/model.h"
#include "aot/aot.h"
#include "build/disk.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <tandem/nn.h>
#include <tandem/optim.h>
#include <unistd.h>

typedef struct job {
    td_module *net;
    td_optim  *opt;
} job;

static bool step(td_call *c) {
    job       *j = td_call_env(c);
    td_tensor *out = td_module_call(j->net, TD_ARGS(td_arg(c, 0)));
    td_tensor *loss = td_cross_entropy(td_reshape(out, TD_SHAPE(-1, td_size(out, 2))),
                                       td_reshape(td_arg(c, 1), TD_SHAPE(-1)));
    if (!td_backward(loss) || !td_optim_step(j->opt)) return false;
    td_optim_zero_grad(j->opt);
    return td_return(c, loss);
}

static double milliseconds(int who) {
    struct rusage u;
    getrusage(who, &u);
    return 1e3 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-3 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static double spent(void) {
    return milliseconds(RUSAGE_SELF) + milliseconds(RUSAGE_CHILDREN);
}

/* Up to the code of the first call; below 0: it failed. */
static double start(void) {
    td_ctx    *cx = td_open();
    gpt2_sizes sizes = gpt2_small;
    sizes.width = 48, sizes.vocab = 256, sizes.context = 64;
    job j = {.net = gpt2_make(cx, sizes)};
    j.opt = td_optim_module(j.net, td_adamw(1e-4));
    td_tensor *x = td_randint(cx, 0, sizes.vocab, TD_SHAPE(4, 64));
    double     before = spent();
    td_fn *f = td_aot_step(cx, step, &j, &(td_aot_opts){TD_AOT_OPTS, .module = j.net});
    td_values all;
    if (td__state_renew(f) && td__state_args(f, TD_ARGS(x, x), &all)) {
        td__fn_prepare(f, all);
        td__state_give(f, all);
    }
    double ms = td_ok(cx) ? spent() - before : -1;
    if (ms < 0) fprintf(stderr, "%s\n", td_message(cx));
    return ms;
}

/* The same in a process of its own. */
static double start_afresh(void) {
    int    to[2];
    double ms = -1;
    if (pipe(to) != 0) return ms;
    pid_t child = fork();
    if (child == 0) {
        ms = start();
        _exit(write(to[1], &ms, sizeof ms) != sizeof ms);
    }
    close(to[1]);
    if (read(to[0], &ms, sizeof ms) != sizeof ms) ms = -1;
    close(to[0]);
    waitpid(child, NULL, 0);
    return ms;
}

/* Forgets what begins with one of these letters. */
static void forget(const char *kinds) {
    td_ctx       *cx = td_open();
    td_disk       d;
    td_disk_files list = {0};
    td__disk_open(&d, cx, true);
    if (d.fd >= 0 && td__disk_list(&d, &list))
        for (int i = 0; i < list.n; i++)
            for (const char *k = kinds; *k; k++)
                if (list.v[i].name[0] == *k) unlinkat(d.fd, list.v[i].name, 0);
    td__vec_free(&list);
    td__disk_close(&d);
    td_close(cx);
}

static void time_starts(const char *name, const char *gone, int rounds) {
    double best = 1e9;
    for (int i = 0; i < rounds; i++) {
        forget(gone);
        double ms = start_afresh();
        if (ms >= 0 && ms < best) best = ms;
    }
    bench_print(name, best, "ms");
}

int main(void) {
    char dir[] = "/tmp/td-start-XXXXXX", line[64];
    if (!mkdtemp(dir)) return 1;
    setenv("TD_CACHE_DIR", dir, 1);
    setenv("TD_BACKEND", "native", 1);
    time_starts("start_gpt2_cold", "kfn", 2);
    time_starts("start_gpt2_kernels_found", "fn", 10);
    start_afresh();
    time_starts("start_gpt2_all_found", "", 20);
    snprintf(line, sizeof line, "rm -r %s", dir);
    return system(line) != 0;
}
