/* redis.c -- a Redis client with a deadline for each request. hiredis writes and parses
 * the protocol; the sockets are our own, because hiredis bounds each packet but not a
 * whole request, and the search for a host's address not at all. */
#include "build/remote.h"

#include <stdio.h>
#include <string.h>

#ifndef TD_HAVE_HIREDIS

const char *td__redis_open(const char *url, td_cache_store *to, char *label, size_t cap,
                           const char **why) {
    (void)url, (void)to, (void)label, (void)cap, (void)why;
    return "this build has no Redis client (hiredis)";
}

#else

#include "build/redis_int.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- replies -------------------------------------------------------------- */

typedef enum reply_kind {
    REPLY_NONE,
    REPLY_STATUS,
    REPLY_ERROR,
    REPLY_VALUE
} reply_kind;

/* The reply that is being parsed. Arrays are no reply to any command of ours. */
typedef struct reply {
    reply_kind     kind;
    char           text[120]; /* of a status or an error */
    td_cache_take *take;      /* gets a value */
    void          *to;
    bool           taken;
} reply;

static void *on_string(const redisReadTask *t, char *s, size_t n) {
    reply *r = t->privdata;
    if (t->parent) return NULL;
    r->kind = t->type == REDIS_REPLY_ERROR    ? REPLY_ERROR
              : t->type == REDIS_REPLY_STATUS ? REPLY_STATUS
                                              : REPLY_VALUE;
    if (r->kind == REPLY_VALUE) r->taken = r->take && r->take(r->to, s, n);
    else snprintf(r->text, sizeof r->text, "%.*s", n < 100 ? (int)n : 100, s);
    return r;
}

static void *on_nil(const redisReadTask *t) {
    reply *r = t->privdata;
    r->kind = REPLY_NONE;
    return t->parent ? NULL : r;
}

static void on_free(void *object) { (void)object; }

/* Other kinds of replies become a pointer that is not ours. */
static redisReplyObjectFunctions parser = {.createString = on_string,
                                           .createNil = on_nil,
                                           .freeObject = on_free};

/* ---- bytes ---------------------------------------------------------------- */

/* Waits until the socket is ready for `what`. False: too late, or an error. */
static bool await(td_redis *c, short what) {
    int ms;
    while ((ms = td__redis_ms_left(c)) > 0) {
        struct pollfd p = {.fd = c->fd, .events = what};
        int           n = poll(&p, 1, ms);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return td__redis_fail(c, strerror(errno));
    }
    return td__redis_fail(c, "no reply in time");
}

static bool send_all(td_redis *c, const char *bytes, size_t n) {
    while (n > 0) {
        ssize_t done = td__io_fault() ? -1 : send(c->fd, bytes, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return td__redis_fail(c, strerror(errno));
        if (done < 0 && !await(c, POLLOUT)) return false;
        if (done < 0) continue;
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

/* Feeds the parser with what has arrived, after waiting for it. */
static bool receive(td_redis *c, size_t *got) {
    char    part[1 << 14];
    ssize_t n = td__io_fault() ? -1 : recv(c->fd, part, sizeof part, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return await(c, POLLIN);
    if (n < 0 && errno == EINTR) return true;
    if (n < 0) return td__redis_fail(c, strerror(errno));
    if (n == 0) return td__redis_fail(c, "the server closed the connection");
    *got += (size_t)n;
    if (*got > TD_CACHE_MOST_BYTES + sizeof part)
        return td__redis_fail(c, "a reply is longer than any value may be");
    if (td__redis_ms_left(c) <= 0) return td__redis_fail(c, "no whole reply in time");
    return redisReaderFeed(c->reader, part, (size_t)n) == REDIS_OK ||
           td__redis_fail(c, "memory is exhausted");
}

/* Reads one reply into r, whose take and to are set. False: *c->why says why. */
static bool read_reply(td_redis *c, reply *r) {
    void  *parsed = NULL;
    size_t got = 0;
    ((redisReader *)c->reader)->privdata = r;
    for (;;) {
        if (redisReaderGetReply(c->reader, &parsed) != REDIS_OK)
            return td__redis_fail(c, "the reply is not Redis protocol");
        if (parsed) break;
        if (!receive(c, &got)) return false;
    }
    return parsed == r || td__redis_fail(c, "the reply is of an unexpected kind");
}

static bool send_command(td_redis *c, int n, const char **word, const size_t *length) {
    char *text = NULL;
    long  bytes = (long)redisFormatCommandArgv(&text, n, word, length);
    if (bytes < 0 || !text) return td__redis_fail(c, "memory is exhausted");
    bool ok = send_all(c, text, (size_t)bytes);
    redisFreeCommand(text);
    return ok;
}

/* A command of n words whose reply must be a status. */
static bool order(td_redis *c, int n, const char **word) {
    reply  r = {0};
    size_t length[4];
    for (int i = 0; i < n; i++) length[i] = strlen(word[i]);
    if (!send_command(c, n, word, length) || !read_reply(c, &r)) return false;
    if (r.kind == REPLY_STATUS) return true;
    return td__redis_fail(c, r.kind == REPLY_ERROR ? r.text : "unexpected reply");
}

/* ---- the connection ------------------------------------------------------- */

/* Closes the connection, also after a fork: then it belongs to the parent, and closing
 * this copy of the descriptor sends nothing. */
static void disconnect(td_redis *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    if (c->reader) redisReaderFree(c->reader);
    c->reader = NULL;
}

/* Sends the password and selects the database. */
static bool greet(td_redis *c) {
    char        db[16];
    const char *with_user[] = {"AUTH", c->user, c->password};
    const char *without[] = {"AUTH", c->password}, *pick[] = {"SELECT", db};
    snprintf(db, sizeof db, "%d", c->db);
    if (*c->user && !order(c, 3, with_user)) return false;
    if (!*c->user && *c->password && !order(c, 2, without)) return false;
    return c->db == 0 || order(c, 2, pick);
}

/* Is there a connection of this process, open, without unrequested bytes? A server may
 * close it at any time, which is not a failure. */
static bool is_connected(const td_redis *c) {
    char byte;
    return c->fd >= 0 && c->pid == getpid() &&
           recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* Begins a request: connects if necessary. */
static bool begin(td_redis *c, int64_t ms) {
    c->until = td__redis_now() + (double)ms / 1e3;
    *c->why = 0;
    if (is_connected(c)) return true;
    disconnect(c);
    if (!td__redis_connect(c)) return false;
    c->pid = getpid();
    c->reader = redisReaderCreateWithFunctions(&parser);
    return c->reader ? greet(c) : td__redis_fail(c, "memory is exhausted");
}

/* ---- the store ------------------------------------------------------------ */

static td_cache_answer get(void *env, const char *name, int64_t ms, td_cache_take *take,
                           void *to) {
    td_redis    *c = env;
    reply        r = {.take = take, .to = to};
    const char  *word[] = {"GET", name};
    const size_t length[] = {3, strlen(name)};
    bool ok = begin(c, ms) && send_command(c, 2, word, length) && read_reply(c, &r);
    if (ok && r.kind == REPLY_NONE) return TD_CACHE_NONE;
    if (ok && r.kind == REPLY_VALUE && r.taken) return TD_CACHE_OK;
    if (ok && r.kind == REPLY_ERROR) td__redis_fail(c, r.text);
    else if (ok) td__redis_fail(c, "unexpected reply");
    disconnect(c);
    return TD_CACHE_FAILED;
}

/* All commands are sent before the first reply is read: one round trip. */
static td_cache_answer put(void *env, const td_cache_item *item, int n, int64_t ms) {
    td_redis *c = env;
    bool      ok = begin(c, ms), refused = false;
    for (int i = 0; i < n && ok; i++) {
        const char  *word[] = {"SET", item[i].name, item[i].bytes};
        const size_t length[] = {3, strlen(item[i].name), item[i].n};
        ok = send_command(c, 3, word, length);
    }
    for (int i = 0; i < n && ok; i++) {
        reply r = {0};
        ok = read_reply(c, &r);
        if (!ok || r.kind == REPLY_STATUS) continue;
        if (!refused) td__redis_fail(c, *r.text ? r.text : "unexpected reply");
        refused = true;
    }
    if (ok) return refused ? TD_CACHE_REFUSED : TD_CACHE_OK;
    disconnect(c);
    return TD_CACHE_FAILED;
}

static void close_client(void *env) {
    td_redis *c = env;
    disconnect(c);
    td__free(c);
}

const char *td__redis_open(const char *url, td_cache_store *to, char *label, size_t cap,
                           const char **why) {
    td_redis *c = td__zalloc(sizeof *c);
    if (!c) return "memory is exhausted";
    c->fd = -1;
    const char *bad = td__redis_url(c, url);
    if (bad) {
        td__free(c);
        return bad;
    }
    snprintf(label, cap, "redis://%s:%s/%d", c->host, c->port, c->db);
    *why = c->why;
    *to = (td_cache_store){.env = c, .get = get, .put = put, .close = close_client};
    return NULL;
}

#endif
