/* unit.c -- the loaded kernels of the process. Each text is compiled once: the first
 * call that needs it compiles, other calls wait. */
#include "build/unit.h"
#include "build/disk.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the table of kernels --------------------------------------------------- */

typedef enum state { FREE, BUILDING, READY } state;

/* A kernel of the process. Never freed: code may run until the process ends. */
typedef struct loaded {
    char            name[TD_UNIT_NAME];
    state           state;
    pid_t           by; /* the builder; after a fork the child has no such thread */
    td_nest_fn     *run;
    td_nest_end_fn *end;
} loaded;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  changed = PTHREAD_COND_INITIALIZER;
static td_map          all; /* by name */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void in_child(void) {
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&changed, NULL);
}
static void guard_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

/* The entry of that name, added if missing. Call with the lock; NULL: out of memory. */
static loaded *find_or_add(const char *name) {
    loaded *e = td__map_get(&all, name);
    if (e || !(e = td__zalloc(sizeof *e))) return e;
    memcpy(e->name, name, sizeof e->name);
    if (td__map_put(&all, e->name, e)) return e;
    td__free(e);
    return NULL;
}

/* ---- one call ----------------------------------------------------------- */

/* One call of td__kernels_load or td__kernels_find. */
typedef struct job {
    td_ctx          *cx;
    td_cc            cc;
    td_buf           key;       /* what all names depend on, beside the texts */
    int              n;         /* number of kernels requested */
    td_named_kernel *requested; /* [n] */
    loaded         **entry;     /* [n] their entries */
    td_named_kernel *mine;      /* kernels that this call builds, each once */
    loaded         **target;    /* and their entries */
    int              n_mine;
    bool             finds; /* by given names; never compiles */
} job;

/* Sets the kernel's name: the given one, or a hash. False after td__fail, or if too
 * long. */
static bool name_kernel(job *j, int i) {
    td_named_kernel *a = &j->requested[i];
    if (!j->finds) return td__unit_name(j->cx, td__buf_str(&j->key), a->k, a->name);
    if (strlen(a->k->name) >= sizeof a->name) return false;
    strcpy(a->name, a->k->name);
    return true;
}

static bool make_job(job *j, td_ctx *cx, td_kernel *k, int n, bool finds) {
    size_t m = (size_t)n;
    *j = (job){.cx = cx, .n = n, .finds = finds};
    if (!td__cc_open(&j->cc, cx)) return false;
    j->requested = td__zalloc(sizeof *j->requested * m);
    j->entry = td__zalloc(sizeof *j->entry * m);
    j->mine = td__zalloc(sizeof *j->mine * m);
    j->target = td__zalloc(sizeof *j->target * m);
    bool ok = j->requested && j->entry && j->mine && j->target &&
              td__unit_key(&j->key, &j->cc);
    ok = ok || td__fail_memory(cx);
    for (int i = 0; i < n && ok; i++) {
        j->requested[i].k = &k[i];
        ok = name_kernel(j, i);
    }
    return ok;
}

static void end_job(job *j) {
    td__free(j->requested);
    td__free(j->entry);
    td__free(j->mine);
    td__free(j->target);
    td__buf_free(&j->key);
    td__cc_close(&j->cc);
}

/* Claims every kernel that is neither loaded nor being built. Call with the lock;
 * false: out of memory. */
static bool claim(job *j) {
    pid_t me = getpid();
    j->n_mine = 0;
    for (int i = 0; i < j->n; i++) {
        loaded *e = j->entry[i] = find_or_add(j->requested[i].name);
        if (!e) return false;
        if (e->state == READY || (e->state == BUILDING && e->by == me)) continue;
        e->state = BUILDING;
        e->by = me;
        e->run = NULL;
        j->mine[j->n_mine] = j->requested[i];
        j->target[j->n_mine++] = e;
    }
    return true;
}

/* Claimed kernels are ready, or free for other calls to try. Call with the lock. */
static void publish(job *j) {
    for (int i = 0; i < j->n_mine; i++)
        j->target[i]->state = j->target[i]->run ? READY : FREE;
    j->n_mine = 0;
    pthread_cond_broadcast(&changed);
}

/* Waits for kernels that other calls build. False: one of them failed, try it here.
 * Call with the lock. */
static bool await_others(job *j) {
    for (int i = 0; i < j->n; i++) {
        while (j->entry[i]->state == BUILDING) pthread_cond_wait(&changed, &lock);
        if (j->entry[i]->state == FREE) return false;
    }
    return true;
}

/* ---- loading ------------------------------------------------------------ */

/* dlsym returns an object pointer, which C does not cast to a function pointer. */
static bool symbol(void *from, const char *name, void *fn, size_t n) {
    void *p = dlsym(from, name);
    memcpy(fn, &p, n);
    return p != NULL;
}

static bool find_functions(void *from, const td_named_kernel *k, loaded *e) {
    char end[TD_UNIT_NAME + 8];
    snprintf(end, sizeof end, "%s_end", k->name);
    return symbol(from, k->name, &e->run, sizeof e->run) &&
           (!k->k->has_end || symbol(from, end, &e->end, sizeof e->end));
}

/* ---- from disk ---------------------------------------------------------- */

/* Takes the claimed kernels that the library has; a kernel with only one of its two
 * functions does not count. Returns their number. */
static int take_functions(job *j, void *lib, bool cached) {
    int got = 0;
    for (int i = 0; i < j->n_mine; i++) {
        loaded *e = j->target[i];
        if (e->run) continue;
        if (!find_functions(lib, &j->mine[i], e)) {
            e->run = NULL, e->end = NULL;
            continue;
        }
        if (cached) td__log(j->cx, TD_LOG_cache, "hit: %s", j->mine[i].name);
        got++;
    }
    return got;
}

/* Returns the number of kernels found. A library without any of them is closed. */
static int load_from_disk(job *j, td_disk *d) {
    int got = 0;
    td__span_begin(j->cx, "cache");
    for (int i = 0; i < j->n_mine && d->fd >= 0; i++) {
        if (j->target[i]->run) continue;
        void *lib = td__disk_load(d, j->mine[i].name, td__buf_str(&j->key));
        int   some = lib ? take_functions(j, lib, true) : 0;
        if (lib && !some) dlclose(lib);
        got += some;
    }
    td__span_arg(j->cx, "found", got);
    td__span_end(j->cx, "cache");
    return got;
}

/* ---- compiling ---------------------------------------------------------- */

enum { MOST_UNITS = 64 };

static int count_cores(void) {
    cpu_set_t set;
    int       n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > MOST_UNITS ? MOST_UNITS : n;
}

/* A compilation: of the claimed kernels that were not on disk. */
typedef struct making {
    td_named_kernel *k;
    const char     **name;
    int              n, units;
    td_buf           text[MOST_UNITS];
    td_buf           library;
    char             dir[512], file[32]; /* dir/file.so is the result */
} making;

/* dlopen takes equal file names for one library, so names are unique. */
static void choose_file(making *m) {
    static _Atomic unsigned counter;
    unsigned nr = atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
    snprintf(m->file, sizeof m->file, "tandem%u", nr);
}

/* Collects the kernels and writes the texts of units. False after td__fail. */
static bool prepare(job *j, making *m) {
    m->k = td__alloc(sizeof *m->k * (size_t)j->n_mine);
    m->name = td__alloc(sizeof *m->name * (size_t)j->n_mine);
    if (!m->k || !m->name) return td__fail_memory(j->cx);
    for (int i = 0; i < j->n_mine; i++)
        if (!j->target[i]->run) {
            m->k[m->n] = j->mine[i];
            m->name[m->n++] = j->mine[i].name;
        }
    choose_file(m);
    return td__unit_texts(j->cx, m->k, m->n, m->text, count_cores(), &m->units) &&
           td__temp_dir(j->cx, m->dir, sizeof m->dir);
}

/* Compiles, loads and stores. False after td__fail. */
static bool make(job *j, making *m, td_disk *d) {
    void *lib = td__cc_build(&j->cc, m->dir, m->text, m->units, m->file, &m->library);
    if (!lib) return false;
    if (take_functions(j, lib, false) == m->n) {
        td__disk_store(d, &m->library, td__buf_str(&j->key), m->name, m->n);
        td__cc_remember(&j->cc, d);
        return true;
    }
    for (int i = 0; i < j->n_mine; i++)
        if (!j->target[i]->run)
            td__fail(j->cx, TD_E_UNSUPPORTED,
                     "native code: the library that %.200s built lacks the symbol %s",
                     j->cc.path, j->mine[i].name);
    return false;
}

static void log_made(job *j, const making *m, double start) {
    td__log(j->cx, TD_LOG_compile, "%d kernel%s in %d unit%s by %s: %.1f ms", m->n,
            m->n == 1 ? "" : "s", m->units, m->units == 1 ? "" : "s", j->cc.path,
            1e3 * (td__seconds() - start));
}

static bool compile(job *j, td_disk *d) {
    making m = {0};
    if (!j->cc.path) return td__cc_missing(&j->cc);
    double start = td__seconds();
    bool   ok = prepare(j, &m);
    td__span_arg(j->cx, "compiled", m.n);
    td__span_arg(j->cx, "units", m.units);
    ok = ok && make(j, &m, d);
    td__temp_remove(m.dir);
    if (ok) log_made(j, &m, start);
    for (int u = 0; u < MOST_UNITS; u++) td__buf_free(&m.text[u]);
    td__buf_free(&m.library);
    td__free(m.k);
    td__free(m.name);
    return ok;
}

/* Loads the claimed kernels: from disk, then by the compiler. False after td__fail. */
static bool build(job *j) {
    td_disk d;
    td__span_begin(j->cx, "kernels");
    td__span_arg(j->cx, "kernels", j->n_mine);
    td__disk_open(&d, j->cx, true);
    bool ok = load_from_disk(j, &d) == j->n_mine || (!j->finds && compile(j, &d));
    td__disk_close(&d);
    td__span_end(j->cx, "kernels");
    return ok;
}

/* Repeats until all kernels are loaded, because a kernel that another call failed to
 * build is tried here. False after td__fail. */
static bool work(job *j) {
    bool ok = true, done = false;
    pthread_mutex_lock(&lock);
    while (ok && !done) {
        ok = claim(j);
        if (ok && j->n_mine) {
            pthread_mutex_unlock(&lock);
            ok = build(j);
            pthread_mutex_lock(&lock);
        } else if (!ok) td__fail_memory(j->cx);
        publish(j);
        done = ok && await_others(j);
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

/* ---- deferring (tests) ------------------------------------------------------ */

static struct {
    bool on;
    TD_VEC(td_kernel) k; /* texts are copies */
} deferred;

static char *copy(const char *s) {
    size_t n = strlen(s) + 1;
    char  *t = td__alloc(n);
    return t ? memcpy(t, s, n) : NULL;
}

static void drop_kernel(td_kernel *k) {
    td__free((void *)(uintptr_t)k->text);
    td__free((void *)(uintptr_t)k->helpers);
}

/* Records a copy of a kernel. False after td__fail. */
static bool defer(td_ctx *cx, const td_kernel *k) {
    td_kernel c = {.has_end = k->has_end};
    c.text = copy(k->text);
    c.helpers = copy(k->helpers ? k->helpers : "");
    if (c.text && c.helpers && td__vec_push(&deferred.k, c)) return true;
    drop_kernel(&c);
    return td__fail_memory(cx);
}

int td__kernels_loaded(void) {
    pthread_mutex_lock(&lock);
    int n = all.n;
    pthread_mutex_unlock(&lock);
    return n;
}

void td__kernels_defer(void) { deferred.on = true; }

bool td__kernels_build_deferred(td_ctx *cx) {
    deferred.on = false;
    bool ok = td__kernels_load(cx, deferred.k.v, deferred.k.n);
    for (int i = 0; i < deferred.k.n; i++) drop_kernel(&deferred.k.v[i]);
    td__vec_free(&deferred.k);
    return ok;
}

/* ---- interface -------------------------------------------------------------- */

/* Fills in the functions of k[0..n). Thread cancellation is disabled meanwhile: a
 * cancelled builder would leave other calls waiting forever. */
static bool get(td_ctx *cx, td_kernel *k, int n, bool finds) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    job                   j;
    int                   cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_once(&once, guard_forks);
    bool ok = make_job(&j, cx, k, n, finds) && work(&j);
    for (int i = 0; i < n && ok; i++) {
        k[i].name = j.entry[i]->name;
        k[i].run = j.entry[i]->run;
        k[i].end = j.entry[i]->end;
    }
    end_job(&j);
    pthread_setcancelstate(cancel, NULL);
    return ok;
}

bool td__kernels_load(td_ctx *cx, td_kernel *k, int n) {
    if (n == 0) return true;
    if (deferred.on) {
        for (int i = 0; i < n; i++)
            if (!defer(cx, &k[i])) return false;
        return true;
    }
    return get(cx, k, n, false);
}

bool td__kernels_find(td_ctx *cx, td_kernel *k, int n) {
    if (deferred.on) return false;
    bool ok = n == 0 || get(cx, k, n, true);
    if (!ok) td_clear(cx);
    return ok;
}
