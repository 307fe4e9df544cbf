/* remote.c -- the remote cache of a context: its store, when requests may be sent, what
 * is read and written. Nothing here fails a call. */
#include "build/remote.h"
#include "build/unit.h"
#include "core/callback.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The store of a context. */
typedef struct td_remote {
    td_cache_store store;     /* get is NULL: there is none */
    bool           attached;  /* by td_cache_remote; else of the setting */
    bool           busy;      /* one of its functions is running */
    uint64_t       made_from; /* a hash of the settings */
    td_seal        seal;
    char           name[200]; /* for messages */
    const char    *why;       /* why the last request failed */
} td_remote;

/* ---- after failures ------------------------------------------------------- */

/* When a store may be used again, by name. All contexts of a process share it, so that
 * a new context does not wait for a server that is down. */
typedef struct pause {
    uint64_t name;
    int      failures[2]; /* in a row: of all requests, of put alone */
    double   until[2];
} pause_state;

enum { REQUESTS, PUTS, PAUSES = 8, MOST_SECONDS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pause_state     pauses[PAUSES];

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void in_child(void) { pthread_mutex_init(&lock, NULL); }
static void guard_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

/* The state of this store; a ninth store takes over the state of another. Call with
 * the lock. */
static pause_state *pause_of(const td_remote *r) {
    uint64_t name = td__hash(r->name, strlen(r->name), 1) | 1;
    for (int i = 0; i < PAUSES; i++) {
        if (pauses[i].name == name) return &pauses[i];
        if (pauses[i].name) continue;
        pauses[i].name = name;
        return &pauses[i];
    }
    pauses[name % PAUSES] = (pause_state){.name = name};
    return &pauses[name % PAUSES];
}

static bool is_paused(const td_remote *r, int what) {
    pthread_mutex_lock(&lock);
    bool paused = td__seconds() < pause_of(r)->until[what];
    pthread_mutex_unlock(&lock);
    return paused;
}

/* Notes how a request ended. Returns the seconds of the pause; 0: none. */
static double note_end(const td_remote *r, int what, bool ok) {
    pthread_mutex_lock(&lock);
    pause_state *p = pause_of(r);
    double seconds = ok ? 0 : 1 << (p->failures[what] < 6 ? p->failures[what] : 6);
    p->failures[what] = ok ? 0 : p->failures[what] + 1;
    p->until[what] = ok ? 0 : td__seconds() + seconds;
    pthread_mutex_unlock(&lock);
    return seconds;
}

/* ---- the store ------------------------------------------------------------ */

static void close_store(td_ctx *cx, td_remote *r) {
    r->busy = true;
    if (r->store.close) TD_CALLBACK(cx, r->store.close(r->store.env));
    r->busy = false;
    r->store = (td_cache_store){0};
    r->attached = false;
    r->why = "";
}

static void drop_remote(td_ctx *cx) {
    close_store(cx, cx->remote);
    td__free(cx->remote);
    cx->remote = NULL;
}

/* cx->remote, made if missing; NULL: out of memory. */
static td_remote *own_remote(td_ctx *cx) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (cx->remote) return cx->remote;
    pthread_once(&once, guard_forks);
    if (!(cx->remote = td__zalloc(sizeof *cx->remote))) return NULL;
    cx->drop_remote = drop_remote;
    cx->remote->why = "";
    return cx->remote;
}

static uint64_t hash_settings(const td_config *c) {
    uint64_t h = td__hash(c->cache_remote, strlen(c->cache_remote) + 1, 1);
    return td__hash(c->cache_remote_key, strlen(c->cache_remote_key) + 1, h) | 1;
}

/* Opens the store and the key of the settings. If one of them cannot be used, prints a
 * warning and uses no remote cache: never an unsigned one instead. */
static void use_settings(td_ctx *cx, td_remote *r) {
    const td_config  *c = td__config(cx);
    static const char then[] = "entries are not shared";
    const char       *bad = NULL;
    if (!r->attached) close_store(cx, r);
    r->made_from = hash_settings(c);
    if (!r->attached && *c->cache_remote) {
        bad = td__redis_open(c->cache_remote, &r->store, r->name, sizeof r->name,
                             &r->why);
        if (bad) td__disk_warn(cx, "", "cache_remote (TD_CACHE_REMOTE)", bad, then);
    }
    if (!r->store.get) return;
    if ((bad = td__seal_open(&r->seal, c->cache_remote_key))) {
        td__disk_warn(cx, "the key ", c->cache_remote_key, bad, then);
        r->seal.id[0] = 0;
    }
}

/* The store to use, with its key; NULL: there is none. */
static td_remote *find_remote(td_ctx *cx) {
    const td_config *c = td__config(cx);
    td_remote       *r = cx->remote;
    if (!*c->cache_remote && !(r && r->attached)) return NULL;
    if (!(r = own_remote(cx))) return NULL;
    if (r->made_from != hash_settings(c)) use_settings(cx, r);
    return r->store.get && *r->seal.id ? r : NULL;
}

bool td_cache_remote(td_ctx *cx, const td_cache_store *store) {
    static const char who[] = "td_cache_remote";
    if (!TD_ENTER_CTX(cx) || !td__may_change(cx, who, "the store")) return false;
    if (cx->remote && cx->remote->busy)
        return td__fail(cx, TD_E_ARG, "%s: a function of the store is running", who);
    if (store &&
        (!td__has(cx, who, "get", store->get) || !td__has(cx, who, "put", store->put)))
        return false;
    td_remote *r = own_remote(cx);
    if (!r) return td__fail_memory(cx);
    close_store(cx, r);
    r->made_from = 0;
    if (!store) return true;
    r->store = *store;
    r->attached = true;
    snprintf(r->name, sizeof r->name, "%.150s", store->name ? store->name : "store");
    return true;
}

/* ---- names ---------------------------------------------------------------- */

/* May the entry be shared? Graphs are data; everything else is code, which only a key
 * protects. */
static bool is_shared(const td_remote *r, const char *name) {
    return name[0] == 'f' || (r->seal.keyed && strchr("nklu", name[0]));
}

#if defined(__x86_64__)
#define MACHINE "x86_64"
#elif defined(__aarch64__)
#define MACHINE "aarch64"
#else
#define MACHINE "other"
#endif

/* The name of an entry on the store. */
static void full_name(const td_remote *r, const char *name, char *to, size_t cap) {
    snprintf(to, cap, "tandem:" MACHINE ":%s:%.64s", r->seal.id, name);
}

/* ---- requests ------------------------------------------------------------- */

static int64_t most_ms(td_ctx *cx) { return td__config(cx)->cache_remote_ms; }

/* The store, if a request may begin: not once `waited` has reached the bound. */
static td_remote *may_request(td_disk *d, int what) {
    td_remote *r = d->fd >= 0 ? find_remote(d->cx) : NULL;
    if (!r || r->busy || d->waited * 1e3 >= (double)most_ms(d->cx)) return NULL;
    return is_paused(r, REQUESTS) || is_paused(r, what) ? NULL : r;
}

/* Counts the time of a request, and after a failure pauses and warns. */
static void end_request(td_disk *d, td_remote *r, td_cache_answer a, double start) {
    d->waited += td__seconds() - start;
    (void)note_end(r, REQUESTS, a != TD_CACHE_FAILED);
    if (a != TD_CACHE_FAILED) return;
    td__disk_warn(d->cx, "no answer from ", r->name, *r->why ? r->why : "it failed",
                  "compiled code is not shared for a while");
}

typedef struct taking {
    td_buf *to;
    bool    ok;
} taking;

static bool take(void *to, const void *bytes, size_t n) {
    taking *t = to;
    if (n > TD_CACHE_MOST_BYTES || (n && !bytes)) return false;
    t->to->n = 0;
    td__buf_addn(t->to, bytes, n);
    return t->ok = !t->to->failed;
}

static td_cache_answer request(td_ctx *cx, td_remote *r, const char *name,
                               td_buf *bytes) {
    char            full[128];
    taking          t = {bytes, false};
    td_cache_answer a;
    full_name(r, name, full, sizeof full);
    r->busy = true;
    TD_CALLBACK(cx, a = r->store.get(r->store.env, full, most_ms(cx), take, &t));
    r->busy = false;
    if (a == TD_CACHE_OK && !t.ok) return TD_CACHE_NONE;
    return a == TD_CACHE_OK || a == TD_CACHE_NONE ? a : TD_CACHE_FAILED;
}

bool td__remote_get(td_disk *d, const char *name, const char *key, td_buf *bytes,
                    td_sealed *v) {
    td_remote *r = may_request(d, REQUESTS);
    if (!r || !is_shared(r, name)) return false;
    double          start = td__seconds();
    const char     *bad = NULL;
    td_cache_answer a = request(d->cx, r, name, bytes);
    end_request(d, r, a, start);
    if (a == TD_CACHE_FAILED) bad = "was not read";
    else if (a == TD_CACHE_NONE) bad = "is not there";
    else bad = td__seal_check(&r->seal, td__buf_str(bytes), bytes->n, name, key, v);
    td__log(d->cx, TD_LOG_cache, "remote: %s %s, %.1f ms, %s%s%s", name,
            bad ? bad : "was read", 1e3 * (td__seconds() - start), r->name,
            a == TD_CACHE_FAILED ? ": " : "", a == TD_CACHE_FAILED ? r->why : "");
    return !bad;
}

/* Signs the items; value[i] are their bytes. Returns their number: those that fit. */
static int seal_items(const td_remote *r, const char *key, const td_remote_item *item,
                      int n, td_buf *value, td_cache_item *to) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        td_buf *b = &value[i];
        char   *name = (char *)(uintptr_t)to[count].name;
        td__buf_addn(b, item[i].bytes, item[i].n);
        if (!is_shared(r, item[i].name) ||
            !td__seal_add(&r->seal, b, item[i].name, key, item[i].note) ||
            b->n > TD_CACHE_MOST_BYTES)
            continue;
        full_name(r, item[i].name, name, 128);
        to[count].bytes = b->s;
        to[count++].n = b->n;
    }
    return count;
}

/* Stores signed values and logs the outcome. */
static void put_values(td_disk *d, td_remote *r, const td_cache_item *value, int n) {
    double          start = td__seconds(), pause = 0;
    td_cache_answer a;
    r->busy = true;
    TD_CALLBACK(d->cx, a = r->store.put(r->store.env, value, n, most_ms(d->cx)));
    r->busy = false;
    if (a == TD_CACHE_NONE) a = TD_CACHE_FAILED;
    end_request(d, r, a, start);
    if (a != TD_CACHE_FAILED) pause = note_end(r, PUTS, a == TD_CACHE_OK);
    td__log(d->cx, TD_LOG_cache, "remote: %s%s, %.1f ms, %s%s%s", value->name,
            a == TD_CACHE_OK        ? " was stored"
            : a == TD_CACHE_REFUSED ? " was refused"
                                    : " was not stored",
            1e3 * (td__seconds() - start), r->name, a == TD_CACHE_OK ? "" : ": ",
            a == TD_CACHE_OK ? "" : r->why);
    if (pause > 0)
        td__disk_warn(d->cx, "", r->name, *r->why ? r->why : "it takes no values",
                      "compiled code is read from there and not stored");
}

void td__remote_put(td_disk *d, const char *key, const td_remote_item *item, int n) {
    td_remote *r = may_request(d, PUTS);
    if (!r || n < 1 || !is_shared(r, item->name)) return;
    size_t         m = (size_t)n;
    td_buf        *value = td__zalloc(sizeof *value * m);
    td_cache_item *to = td__zalloc(sizeof *to * m);
    char          *names = td__zalloc(128 * m);
    bool           ok = value && to && names;
    for (int i = 0; i < n && ok; i++) to[i].name = names + 128 * (size_t)i;
    int count = ok ? seal_items(r, key, item, n, value, to) : 0;
    if (count == n) put_values(d, r, to, n);
    else
        td__log(d->cx, TD_LOG_cache, "remote: %s is too long to be shared", item->name);
    for (int i = 0; i < n && value; i++) td__buf_free(&value[i]);
    td__free(value);
    td__free(to);
    td__free(names);
}

/* ---- reports -------------------------------------------------------------- */

void td__remote_state(td_ctx *cx, td_remote_state *to) {
    td_buf     bytes = {0};
    td_remote *r = find_remote(cx);
    *to = (td_remote_state){.on = *td__config(cx)->cache_remote != 0};
    if (!r) {
        snprintf(to->why, sizeof to->why, "not usable: see the warning");
        return;
    }
    double          start = td__seconds();
    td_cache_answer a = request(cx, r, "f_", &bytes);
    *to = (td_remote_state){.on = true,
                            .reached = a != TD_CACHE_FAILED,
                            .keyed = r->seal.keyed,
                            .ms = 1e3 * (td__seconds() - start)};
    snprintf(to->name, sizeof to->name, "%s", r->name);
    snprintf(to->id, sizeof to->id, "%s", r->seal.id);
    snprintf(to->why, sizeof to->why, "%s", r->why);
    td__buf_free(&bytes);
}

void td__remote_text(const td_remote_state *s, char *out, size_t cap) {
    char how[240];
    if (!*s->name) {
        snprintf(out, cap, "%s", s->why);
        return;
    }
    if (s->reached) snprintf(how, sizeof how, "reached in %.1f ms", s->ms);
    else snprintf(how, sizeof how, "not reached: %s", s->why);
    if (s->keyed) snprintf(out, cap, "%s, %s, signed with key %s", s->name, how, s->id);
    else snprintf(out, cap, "%s, %s, no key: graphs only", s->name, how);
}
