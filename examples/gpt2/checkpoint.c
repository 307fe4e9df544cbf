/* checkpoint.c -- writes and finds the checkpoints of a run. */
#include "checkpoint.h"
#include "weights.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct path {
    char s[4096];
} path;

static path join(const char *dir, const char *name) {
    path p;
    snprintf(p.s, sizeof p.s, "%.3500s/%.500s", dir, name); /* options.c bounds dir */
    return p;
}

static path step_path(const char *dir, int64_t step) {
    char name[32];
    snprintf(name, sizeof name, "step-%lld", (long long)step);
    return join(dir, name);
}

static bool fail(const gpt2_run *r, const char *what, const char *name) {
    td_fail(td_module_ctx(r->net), TD_E_IO, "cannot %s %s: %s", what, name,
            strerror(errno));
    return false;
}

/* ---- folders ------------------------------------------------------------- */

/* A folder of ours with its files. What is not ours, a folder in it, stays. */
static void remove_folder(const char *dir) {
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) unlink(join(dir, e->d_name).s);
    if (d) closedir(d);
    rmdir(dir);
}

/* The step of a checkpoint's name, or -1. */
static int64_t step_of(const char *name) {
    char     *end;
    long long n = strncmp(name, "step-", 5) ? -1 : strtoll(name + 5, &end, 10);
    return n >= 0 && end != name + 5 && !*end ? n : -1;
}

static int64_t newest(const char *dir) {
    DIR    *d = opendir(dir);
    int64_t best = -1;
    for (struct dirent *e; d && (e = readdir(d));)
        if (step_of(e->d_name) > best) best = step_of(e->d_name);
    if (d) closedir(d);
    return best;
}

static void remove_older(const char *dir, int64_t than) {
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        int64_t step = step_of(e->d_name);
        if (step >= 0 && step < than) remove_folder(join(dir, e->d_name).s);
    }
    if (d) closedir(d);
}

/* So that what is in it, and its name, outlive a power cut. Some file systems refuse;
 * after the end of a process everything is there all the same. */
static void flush_folder(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

/* ---- writing ------------------------------------------------------------- */

static bool write_place(const gpt2_run *r, const char *to) {
    td_loader_place at = td_loader_tell(r->data);
    FILE           *f = fopen(to, "w");
    bool ok = f && fprintf(f, "step %lld epoch %lld batch %lld\n", (long long)r->at,
                           (long long)at.epoch, (long long)at.batch) > 0;
    ok = ok && fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (f && fclose(f)) ok = false;
    return ok || fail(r, "write", to);
}

bool gpt2_save_run(const gpt2_run *r, const char *dir) {
    path new = join(dir, "writing"), done = step_path(dir, r->at);
    if (mkdir(dir, 0777) && errno != EEXIST) return fail(r, "make", dir);
    remove_folder(new.s); /* of a run that was ended in here */
    if (mkdir(new.s, 0777)) return fail(r, "make", new.s);
    if (!td_module_save(r->net, join(new.s, "model.safetensors").s, NULL) ||
        !td_optim_save(r->opt, join(new.s, "optim.safetensors").s) ||
        !gpt2_write_config(td_module_ctx(r->net), join(new.s, "config.json").s,
                           r->sizes) ||
        !write_place(r, join(new.s, "place").s))
        return false;
    flush_folder(new.s);
    if (rename(new.s, done.s)) return fail(r, "make", done.s);
    flush_folder(dir);
    remove_older(dir, r->at);
    return true;
}

/* ---- reading ------------------------------------------------------------- */

static bool read_place(gpt2_run *r, const char *from) {
    long long step, epoch, batch;
    FILE     *f = fopen(from, "r");
    if (!f) return fail(r, "open", from);
    int n = fscanf(f, "step %lld epoch %lld batch %lld", &step, &epoch, &batch);
    fclose(f);
    if (n != 3 || step < 0) {
        td_fail(td_module_ctx(r->net), TD_E_IO, "%s: not three numbers", from);
        return false;
    }
    r->at = step;
    return td_loader_seek(r->data, (td_loader_place){epoch, batch});
}

static bool same_sizes(const gpt2_run *r, const char *from) {
    td_ctx    *cx = td_module_ctx(r->net);
    gpt2_sizes s;
    if (!gpt2_read_config(cx, from, &s)) return false;
    if (!memcmp(&s, &r->sizes, sizeof s)) return true;
    td_fail(
        cx, TD_E_ARG,
        "%s: the run has --layers %lld --heads %lld --width %lld --context %lld and "
        "%lld tokens; go on with these, or --save elsewhere",
        from, (long long)s.layers, (long long)s.heads, (long long)s.width,
        (long long)s.context, (long long)s.vocab);
    return false;
}

bool gpt2_resume_run(gpt2_run *r, const char *dir) {
    int64_t step = newest(dir);
    if (step < 0) return true;
    path at = step_path(dir, step);
    return same_sizes(r, join(at.s, "config.json").s) &&
           gpt2_load(r->net, join(at.s, "model.safetensors").s) &&
           td_optim_load(r->opt, join(at.s, "optim.safetensors").s) &&
           read_place(r, join(at.s, "place").s);
}
