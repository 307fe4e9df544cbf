/* remote.c -- the remote cache with a real Redis server: two machines (directories)
 * share functions and, with a key, machine code; a server that is down, stopped, full
 * or lying breaks no call and delays it by no more than docs/cache.md says. Each call
 * runs in a process of its own, because loaded kernels and pauses after failures
 * belong to a process. */
#include "remote_servers.h"

#include "../unit/child.h"
#include "build/remote.h"
#include "tandem/tandem.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static char place[64], url[64];
static int  passed, failed;

static void check(bool ok, const char *what, const char *more) {
    passed += ok, failed += !ok;
    if (!ok) printf("FAIL %s%s%s\n", what, *more ? ": " : "", more);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a process that compiles a function ----------------------------------- */

typedef struct wish {
    const char *dir;     /* below place: the machine */
    const char *remote;  /* NULL: none */
    const char *key;     /* a file; NULL: none */
    const char *version; /* of the function; NULL: none */
    bool        native;
    int         calls; /* each of another function; 0: 1 */
    const char *ms;    /* NULL: 2000 */
    const char *mb;    /* of the disk cache; NULL: 64 */
} wish;

typedef struct outcome {
    bool   ok;
    int    runs; /* of the body */
    int    hits, got, asked, stored, refused, made, warnings;
    double seconds;
    char   warning[300], log[4000];
} outcome;

static outcome *out; /* of this process */
static int      nr;  /* of the function being called */

static bool body(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    out->runs++;
    for (int i = 0; i < nr; i++) x = td_exp(td_neg(x));
    return td_return(c, td_tanh(td_matmul(x, td_arg(c, 1))));
}

static void listen_to(void *env, const char *topic, const char *text) {
    bool remote = !strncmp(text, "remote: ", 8);
    (void)env;
    size_t n = strlen(out->log);
    snprintf(out->log + n, sizeof out->log - n, "%s\n", text);
    out->hits += !strncmp(text, "hit: f_", 7);
    out->got += remote && strstr(text, " was read");
    out->asked += remote;
    out->stored += remote && strstr(text, " was stored");
    out->refused += remote && strstr(text, " was refused");
    out->made += !strcmp(topic, "compile") && strstr(text, " unit");
    if (strcmp(topic, "warning")) return;
    out->warnings++;
    snprintf(out->warning, sizeof out->warning, "%s", text);
}

static td_ctx *open_machine(const wish *w) {
    char    dir[200];
    td_ctx *cx = td_open();
    snprintf(dir, sizeof dir, "%s/%s", place, w->dir);
    td_config_set(cx, "cache_dir", dir);
    td_config_set(cx, "cache_disk_mb", w->mb ? w->mb : "64");
    td_config_set(cx, "cache_remote", w->remote ? w->remote : "");
    td_config_set(cx, "cache_remote_key", w->key ? w->key : "");
    td_config_set(cx, "cache_remote_ms", w->ms ? w->ms : "2000");
    td_config_set(cx, "backend", w->native ? "native" : "interp");
    td_config_set(cx, "cc_flags", "-O0");
    td_config_set(cx, "log", "cache,compile");
    td_log_to(cx, listen_to, NULL);
    return cx;
}

/* One call and its backward, compiled, equal eager's. */
static bool call(td_ctx *cx, const wish *w) {
    td_aot_opts o = {TD_AOT_OPTS, .version = w->version};
    td_scope_begin(cx, "call");
    td_tensor *x = td_full(cx, TD_SHAPE(2, 3), 0.5), *y = NULL;
    td_tensor *v = td_requires_grad_(td_full(cx, TD_SHAPE(3, 2), 0.25)), *e = x;
    for (int i = 0; i < nr; i++) e = td_exp(td_neg(e));
    e = td_tanh(td_matmul(e, v));
    td_backward(td_sum(e));
    double want = td_item(td_sum(td_grad_of(v))), all = td_item(td_sum(e));
    td_zero_grad(v);
    td_fn *f = td_aot_function(cx, body, NULL, &o);
    bool   ok = td_invoke(f, TD_ARGS(x, v), &y, 1) && td_backward(td_sum(y));
    double got = td_item(td_sum(td_grad_of(v))) - want, sum = td_item(td_sum(y)) - all;
    ok = ok && td_ok(cx) && got * got < 1e-8 && sum * sum < 1e-8;
    td_fn_drop(f);
    td_scope_end(cx, "call", NULL);
    if (!ok) snprintf(out->warning, sizeof out->warning, "%.250s", td_message(cx));
    return ok;
}

static void work(const wish *w) {
    td_ctx *cx = open_machine(w);
    double  start = seconds();
    out->ok = true;
    for (nr = 0; nr < (w->calls ? w->calls : 1) && out->ok; nr++) out->ok = call(cx, w);
    out->seconds = seconds() - start;
    td_close(cx);
}

static outcome run(wish w) {
    static outcome o;
    int            p[2];
    o = (outcome){0};
    out = &o;
    if (pipe(p) != 0) exit(1);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        work(&w);
        child_leaves(write(p[1], &o, sizeof o) == sizeof o);
    }
    close(p[1]);
    char  *to = (char *)&o;
    size_t left = sizeof o;
    for (ssize_t n; left && (n = read(p[0], to, left)) > 0; left -= (size_t)n) to += n;
    close(p[0]);
    waitpid(pid, NULL, 0);
    check(left == 0 && o.ok, "the call works", left ? "the process died" : o.warning);
    return o;
}

static int remove_one(const char *path, const struct stat *st, int kind,
                      struct FTW *f) {
    (void)st, (void)kind, (void)f;
    return remove(path);
}

/* A machine without files. */
static const char *fresh(const char *dir) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", place, dir);
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return dir;
}

/* ---- values on the server -------------------------------------------------- */

static bool take(void *to, const void *bytes, size_t n) {
    td_buf *b = to;
    b->n = 0;
    td__buf_addn(b, bytes, n);
    return !b->failed;
}

/* Reads (change: NULL) or writes a value as it is. */
static bool raw(const char *name, td_buf *value, bool write) {
    td_cache_store s;
    char           label[200];
    const char    *why;
    if (td__redis_open(url, &s, label, sizeof label, &why)) return false;
    td_cache_item item = {name, value->s, value->n};
    bool          ok = write ? s.put(s.env, &item, 1, 5000) == TD_CACHE_OK
                             : s.get(s.env, name, 5000, take, value) == TD_CACHE_OK;
    s.close(s.env);
    return ok;
}

/* The output of redis-cli. */
static const char *ask(const char *command) {
    static char text[8192];
    char        line[300];
    snprintf(line, sizeof line, "redis-cli -p %d %s 2>&1", server_port, command);
    FILE *f = popen(line, "r");
    text[f ? fread(text, 1, sizeof text - 1, f) : 0] = 0;
    if (f) pclose(f);
    text[strcspn(text, "\r\n")] = 0;
    return text;
}

static void make_key(const char *path, const char *text, mode_t mode) {
    FILE *f = fopen(path, "w");
    if (f) fputs(text, f), fclose(f);
    chmod(path, mode);
}

/* ---- tests ----------------------------------------------------------------- */

static void test_two_machines(void) {
    ask("flushall");
    outcome a = run((wish){.dir = fresh("a"), .remote = url, .version = "1"});
    check(a.runs == 1 && a.hits == 0 && a.stored == 1, "the first one stores", a.log);
    outcome b = run((wish){.dir = fresh("b"), .remote = url, .version = "1"});
    check(b.runs == 0 && b.hits == 1 && b.got == 1, "the second runs no body", b.log);
    b = run((wish){.dir = "b", .remote = url, .version = "1"});
    check(b.hits == 1 && b.asked == 0, "the directory stays in front", b.log);
    a = run((wish){.dir = "a", .remote = url, .native = true});
    b = run((wish){.dir = "b", .remote = url, .native = true});
    check(a.hits == 0 && b.hits == 1 && b.runs == 1, "it captures once", b.log);
    check(b.made > 0 && !strcmp(ask("keys '*:k_*'"), ""), "it compiles itself", b.log);
    check(!a.warnings && !b.warnings, "without a warning", a.warning);
}

static void test_key(void) {
    char key[100], other[100], wide[100];
    snprintf(key, sizeof key, "%s/key", place);
    snprintf(other, sizeof other, "%s/other", place);
    snprintf(wide, sizeof wide, "%s/wide", place);
    make_key(key, "0123456789abcdef0123456789abcdef\n", 0600);
    make_key(other, "0123456789abcdef0123456789abcdeF\n", 0600);
    make_key(wide, "0123456789abcdef0123456789abcdef\n", 0644);
    ask("flushall");
    outcome a =
        run((wish){.dir = fresh("a"), .remote = url, .key = key, .native = true});
    outcome b =
        run((wish){.dir = fresh("b"), .remote = url, .key = key, .native = true});
    check(a.made > 0 && a.stored >= 5, "with a key code is stored", a.log);
    check(b.hits == 1 && b.made == 0, "and the second machine compiles nothing", b.log);
    b = run((wish){.dir = fresh("b"), .remote = url, .key = other, .native = true});
    check(b.hits == 0 && b.got == 0 && b.made > 0, "another key, other names", b.log);
    b = run((wish){.dir = fresh("b"), .remote = url, .native = true});
    check(b.hits == 0 && b.got == 0 && b.made > 0, "without a key no code", b.log);
    b = run((wish){.dir = fresh("b"), .remote = url, .key = wide});
    check(b.asked == 0 && b.warnings == 1 && strstr(b.warning, "chmod 600"),
          "a key that others can read is not used, and nothing unsigned", b.warning);
    b = run((wish){.dir = fresh("b"), .remote = url, .key = "/nowhere/key"});
    check(b.asked == 0 && b.warnings == 1, "nor is one that is missing", b.warning);
}

/* Every value of a signed store is changed at several bytes, then exchanged. */
static void test_changed_values(bool signed_) {
    char key[100], name[200], second[200];
    snprintf(key, sizeof key, "%s/key", place);
    wish   w = {.remote = url, .key = signed_ ? key : NULL, .calls = 2, .ms = "5000"};
    td_buf value = {0}, was = {0};
    ask("flushall");
    w.dir = fresh("a");
    run(w);
    snprintf(name, sizeof name, "%s", ask("keys '*:f_*'"));
    check(raw(name, &was, false) && was.n > 200, "a value can be read", name);
    for (size_t i = 0; i < 24 && was.n; i++) {
        size_t at = i < 12 ? was.n * i / 12 : was.n - 1 - 5 * (i - 12);
        value.n = 0;
        td__buf_addn(&value, was.s, was.n);
        value.s[at] = (char)(value.s[at] ^ (1 << i % 8));
        check(raw(name, &value, true), "a value can be changed", name);
        w.dir = fresh("b");
        outcome b = run(w);
        check(b.hits == 1 && b.got == 1 && b.stored == 1, "a changed bit is a miss",
              b.log);
        check(raw(name, &value, false) && value.n == was.n, "and is replaced", name);
    }
    snprintf(second, sizeof second, "%s", ask("--raw keys '*:f_*' | sort | tail -1"));
    if (!strcmp(second, name))
        snprintf(second, sizeof second, "%s", ask("--raw keys '*:f_*' | sort"));
    check(strcmp(second, name) && raw(second, &was, true), "two entries", second);
    w.dir = fresh("b");
    outcome b = run(w);
    check(strstr(b.log, "has another name") != NULL, "another entry is a miss", b.log);
    td__buf_free(&value);
    td__buf_free(&was);
}

static void test_huge_value(void) {
    td_buf value = {0};
    char   name[200];
    ask("flushall");
    run((wish){.dir = fresh("a"), .remote = url});
    snprintf(name, sizeof name, "%s", ask("keys '*:f_*'"));
    for (int i = 0; i < 20 << 4; i++) td__buf_printf(&value, "%65536d", i);
    check(raw(name, &value, true), "a huge value can be stored", "");
    outcome b = run((wish){.dir = fresh("b"), .remote = url});
    check(b.got == 0 && b.hits == 0, "a huge value is not read", b.log);
    td__buf_free(&value);
}

static void test_full(void) {
    ask("flushall");
    run((wish){.dir = fresh("a"), .remote = url});
    ask("config set maxmemory-policy noeviction");
    ask("config set maxmemory 1");
    outcome b = run((wish){.dir = fresh("b"), .remote = url, .calls = 3});
    check(b.hits == 1 && b.got == 1, "a full server is still read", b.log);
    check(b.refused == 1 && b.warnings == 1, "and asked to store once", b.log);
    ask("config set maxmemory 0");
    b = run((wish){.dir = "b", .remote = url, .calls = 4});
    check(b.stored == 1 && !b.warnings, "later it stores", b.log);
}

static void test_no_answer(void) {
    char down[64];
    snprintf(down, sizeof down, "redis://127.0.0.1:%d", free_port());
    outcome b = run((wish){.dir = fresh("b"), .remote = down, .calls = 4, .ms = "300"});
    check(b.asked == 1 && b.warnings == 1, "a closed port is tried once", b.log);
    kill(server_pid, SIGSTOP);
    b = run((wish){.dir = fresh("b"), .remote = url, .calls = 4, .ms = "300"});
    kill(server_pid, SIGCONT);
    check(b.asked == 1 && b.warnings == 1, "a stopped server is tried once", b.log);
    check(b.seconds < 3, "and the calls wait for it no longer than they say", b.log);
    b = run(
        (wish){.dir = fresh("b"), .remote = "redis://nowhere.invalid", .ms = "300"});
    check(b.asked <= 1 && b.seconds < 3, "an unknown host", b.log);
    b = run((wish){.dir = fresh("b"), .remote = "rediss://127.0.0.1"});
    check(b.asked == 0 && b.warnings == 1, "another scheme is a warning", b.warning);
}

/* The server closes the connection between two calls; a child uses its parent's. */
static void test_lost_connection(void) {
    static outcome o;
    wish           w = {.dir = fresh("a"), .remote = url};
    out = &o;
    ask("flushall");
    td_ctx *cx = open_machine(&w);
    nr = 0;
    check(call(cx, &w) && o.stored == 1, "the first call stores", o.log);
    ask("client kill type normal");
    nr = 1;
    check(call(cx, &w) && o.stored == 2 && !o.warnings, "so does the next", o.warning);
    fflush(stdout);
    pid_t pid = fork();
    nr = 2;
    if (pid == 0) child_leaves(call(cx, &w) && o.stored == 3);
    nr = 3;
    check(call(cx, &w) && o.stored == 3, "and the parent of a child", o.log);
    int status = 0;
    waitpid(pid, &status, 0);
    check(child_was_ok(status), "and the child", "");
    td_close(cx);
}

/* A server of ours answers every request with bytes that are no answer. */
static void test_garbage(void) {
    char at[64];
    for (int i = 0; i < lie_count; i++) {
        pid_t   pid = start_liar(i, at, sizeof at);
        wish    w = {.dir = fresh("b"), .remote = at, .ms = "300", .calls = 3};
        outcome b = run(w);
        check(b.got == 0 && b.hits == 0, "a lie is a miss", lies[i].name);
        check(b.asked <= 6 && b.seconds < 4, "in bounded time", lies[i].name);
        stop(pid);
    }
}

/* Without the setting, or without a directory, nothing connects. */
static void test_silence(void) {
    char  at[64], password[100], dir[100];
    pid_t pid = start_liar(0, at, sizeof at);
    run((wish){.dir = fresh("b")});
    run((wish){.dir = fresh("b"), .remote = at, .mb = "0"});
    check(connections() == 0, "nothing connects unless it is set", at);
    run((wish){.dir = fresh("b"), .remote = at, .ms = "300"});
    check(connections() > 0, "and something does if it is", at);
    stop(pid);
    snprintf(dir, sizeof dir, "%s/b", place);
    snprintf(password, sizeof password, "redis://me:secret@127.0.0.1:%d", server_port);
    outcome b = run((wish){.dir = fresh("b"), .remote = password});
    check(b.asked > 0 && !strstr(b.log, "secret"), "passwords are not logged", b.log);
}

int main(void) {
    snprintf(place, sizeof place, "/tmp/td-remote-XXXXXX");
    if (!mkdtemp(place)) return 1;
    const char *no = start_redis(place);
    if (no) printf("skipped: %s\n", no);
    else {
        snprintf(url, sizeof url, "redis://127.0.0.1:%d", server_port);
        test_two_machines();
        test_key();
        test_changed_values(true);
        test_changed_values(false);
        test_huge_value();
        test_full();
        test_no_answer();
        test_lost_connection();
        test_garbage();
        test_silence();
        stop(server_pid);
    }
    fresh(".");
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
