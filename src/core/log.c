/* log.c -- log messages by topic, to stderr or to the user's callback. A
 * message is assembled first and written in one call, so that threads do not
 * mix lines; a long one is truncated if there is no memory for it. */
#include "core/callback.h"
#include "core/core.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

const td_topic_row td__topics[TD_TOPIC_COUNT] = {
#define TD_TOPIC(id, doc) {#id, doc},
#include "core/log.def"
#undef TD_TOPIC
};

void td_log_to(td_ctx *cx, td_log_fn *fn, void *env) {
    if (!TD_ENTER_CTX(cx)) return;
    if (!td__may_change(cx, "td_log_to", "where messages go")) return;
    cx->log.fn = fn;
    cx->log.env = env;
}

/* ---- topics ------------------------------------------------------------- */

static int topic_of(const char *name) {
    for (int i = 0; i < TD_TOPIC_COUNT; i++)
        if (!strcmp(td__topics[i].name, name)) return i;
    return -1;
}

static const char *near_topic(const char *name) {
    const char *near = NULL;
    int         least = 99;
    for (int i = 0; i < TD_TOPIC_COUNT; i++) {
        int d = td__edit_distance(name, td__topics[i].name);
        if (d < least && td__is_typo(name, td__topics[i].name))
            least = d, near = td__topics[i].name;
    }
    return near;
}

uint32_t td__log_parse(const char *list, char *bad, size_t cap, const char **near) {
    uint32_t all = (1u << TD_TOPIC_COUNT) - 1, bits = 1u << TD_LOG_warning;
    char     name[40];
    *bad = 0;
    *near = NULL;
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ", ");
        snprintf(name, sizeof name, "%.*s", (int)(n < 39 ? n : 39), p);
        int topic = topic_of(name);
        if (!strcmp(name, "all")) bits = all;
        else if (topic >= 0) bits |= 1u << topic;
        else if (n && !*bad) {
            snprintf(bad, cap, "%s", name);
            *near = near_topic(name);
        }
        p += n + (p[n] != 0);
    }
    return bits;
}

/* ---- messages ----------------------------------------------------------- */

/* Calls the user's function, outside of any trace, so that it may read
 * elements. */
static void call_sink(td_ctx *cx, const char *topic, const char *text) {
    td_outside o;
    bool       traced = cx->fake;
    if (traced && !td__ambient_clear(cx, &o)) return;
    TD_CALLBACK(cx, cx->log.fn(cx->log.env, topic, text));
    if (traced) td__ambient_restore(cx, &o, true);
}

/* Delivers a message; messages that the callback itself causes are dropped. */
static void send(td_ctx *cx, td_topic topic, const char *text) {
    td_logger  *l = &cx->log;
    const char *name = td__topics[topic].name;
    if (l->busy) return;
    if (!l->fn) {
        fprintf(stderr, "tandem: %s: %s\n", name, text); /* one call, one line */
        return;
    }
    l->busy = true;
    call_sink(cx, name, text);
    l->busy = false;
}

static void send_format(td_ctx *cx, td_topic topic, const char *fmt, va_list ap) {
    char    line[512], *text = line;
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    if (n >= (int)sizeof line && (text = td__alloc((size_t)n + 1)))
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    send(cx, topic, text ? text : line);
    if (text != line) td__free(text);
}

void td__log(td_ctx *cx, td_topic topic, const char *fmt, ...) {
    va_list ap;
    if (!td__log_on(cx, topic)) return;
    va_start(ap, fmt);
    send_format(cx, topic, fmt, ap);
    va_end(ap);
}

void td__warn(td_ctx *cx, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    send_format(cx, TD_LOG_warning, fmt, ap);
    va_end(ap);
}

/* A hash table whose oldest entries are overwritten when eight places in a row are
 * taken: then a message is logged twice. Hashes are not 0. */
bool td__is_news(uint64_t hash) {
    enum { SLOTS = 256, PROBES = 8 };
    static _Atomic uint64_t told[SLOTS];
    for (uint64_t i = 0; i < PROBES; i++) {
        uint64_t was = 0; /* what is there, if the exchange fails */
        if (atomic_compare_exchange_strong(&told[(hash + i) % SLOTS], &was, hash))
            return true;
        if (was == hash) return false;
    }
    atomic_store_explicit(&told[hash % SLOTS], hash, memory_order_relaxed);
    return true;
}

bool td__is_news_here(const char *function) {
    uint64_t    hash = td__hash(function, strlen(function), (uint64_t)td_here.line);
    const char *file = td_here.file ? td_here.file : "";
    return td__is_news(td__hash(file, strlen(file), hash));
}

void td__log_text(td_ctx *cx, td_topic topic, const char *heading, const char *text) {
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n') n--;
    td__log(cx, topic, "%s\n%.*s", heading, (int)n, text);
}
