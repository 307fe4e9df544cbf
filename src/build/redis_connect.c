/* redis_connect.c -- the URL of a Redis server, its address and the socket. No step
 * takes longer than the deadline of the request, the search for the address included,
 * which getaddrinfo would not bound. */
#include "build/redis_int.h"
#include "build/unit.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

bool td__redis_fail(td_redis *c, const char *why) {
    snprintf(c->why, sizeof c->why, "%s", why);
    return false;
}

double td__redis_now(void) { return td__seconds(); }

int td__redis_ms_left(const td_redis *c) {
    double ms = (c->until - td__seconds()) * 1e3;
    return ms <= 0 ? 0 : ms > 60000 ? 60000 : (int)ms + 1;
}

/* ---- the URL -------------------------------------------------------------- */

static int hex_digit(char c) {
    static const char digits[] = "0123456789abcdef";
    const char       *at = c ? strchr(digits, tolower((unsigned char)c)) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Copies text[0..n), with %41 for 'A'. False: too long, or has a control character. */
static bool copy_part(char *to, size_t cap, const char *text, size_t n) {
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '%' && i + 2 < n && hex_digit(text[i + 1]) >= 0 &&
            hex_digit(text[i + 2]) >= 0) {
            c = (char)(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
            i += 2;
        }
        if ((unsigned char)c < 0x20 || out + 1 >= cap) return false;
        to[out++] = c;
    }
    to[out] = 0;
    return true;
}

/* user:password before the @. */
static bool take_login(td_redis *c, const char *text, size_t n) {
    const char *colon = memchr(text, ':', n);
    size_t      user = colon ? (size_t)(colon - text) : n;
    return copy_part(c->user, sizeof c->user, text, user) &&
           (!colon ||
            copy_part(c->password, sizeof c->password, colon + 1, n - user - 1));
}

/* A decimal number below `below`; -1: it is none. */
static int number(const char *text, size_t n, int below) {
    long v = 0;
    if (!n || n > 6) return -1;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)text[i])) return -1;
        v = v * 10 + (text[i] - '0');
    }
    return v < below ? (int)v : -1;
}

/* host, host:port, [v6] or [v6]:port. NULL, or what is wrong. */
static const char *take_host(td_redis *c, const char *text, size_t n) {
    const char *end = text + n, *close = n ? memchr(text, ']', n) : NULL;
    bool        v6 = n && *text == '[';
    if (v6 && !close) return "a [ is not closed";
    const char *colon = v6 ? close + 1 : memchr(text, ':', n);
    if (!colon) colon = end;
    const char *host = v6 ? text + 1 : text, *host_end = v6 ? close : colon;
    if (host == host_end) return "the host is missing";
    if (!copy_part(c->host, sizeof c->host, host, (size_t)(host_end - host)))
        return "the host is too long";
    int port = 6379;
    if (colon < end && *colon != ':') return "after ] only a port may follow";
    if (colon < end) port = number(colon + 1, (size_t)(end - colon - 1), 65536);
    if (port <= 0) return "the port is not a number from 1 to 65535";
    snprintf(c->port, sizeof c->port, "%d", port);
    return NULL;
}

const char *td__redis_url(td_redis *c, const char *url) {
    static const char scheme[] = "redis://";
    if (strncmp(url, scheme, strlen(scheme))) return "it does not begin with redis://";
    const char *at = url + strlen(scheme), *end = at + strcspn(at, "/?#"),
               *login = NULL;
    for (const char *p = at; p < end; p++)
        if (*p == '@') login = p;
    if (login && !take_login(c, at, (size_t)(login - at)))
        return "user or password is too long";
    if (login) at = login + 1;
    const char *bad = take_host(c, at, (size_t)(end - at));
    if (bad) return bad;
    if (*end == '/' && end[1]) c->db = number(end + 1, strlen(end + 1), 1000000);
    else if (*end && *end != '/') return "it may end in /db only";
    return c->db < 0 ? "the database after / is not a number" : NULL;
}

/* ---- the address ---------------------------------------------------------- */

static struct addrinfo hints_for(int flags) {
    return (struct addrinfo){.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | flags};
}

#ifdef __GLIBC__
/* A lookup in the background. One that does not end in time is abandoned: the C
 * library still writes to it, so it is not freed then. */
typedef struct lookup {
    struct gaicb    cb;
    struct addrinfo hints;
    char            host[256], port[16];
} lookup;

static struct addrinfo *await_lookup(td_redis *c, lookup *l) {
    const struct gaicb *list[] = {&l->cb};
    int                 ms, state;
    while ((state = gai_error(&l->cb)) == EAI_INPROGRESS &&
           (ms = td__redis_ms_left(c)) > 0) {
        struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
        (void)gai_suspend(list, 1, &t);
    }
    if (state == EAI_INPROGRESS && gai_cancel(&l->cb) != EAI_CANCELED) {
        td__redis_fail(c, "the address of the host was not found in time");
        return NULL;
    }
    struct addrinfo *found = state == 0 ? l->cb.ar_result : NULL;
    if (!found)
        td__redis_fail(c, state == EAI_INPROGRESS ? "the address of the host "
                                                    "was not found in time"
                                                  : gai_strerror(state));
    free(l);
    return found;
}

static struct addrinfo *find_name(td_redis *c) {
    lookup *l = calloc(1, sizeof *l); /* may outlive every context */
    if (!l) return td__redis_fail(c, "memory is exhausted"), NULL;
    l->hints = hints_for(0);
    memcpy(l->host, c->host, sizeof l->host);
    memcpy(l->port, c->port, sizeof l->port);
    l->cb = (struct gaicb){.ar_name = l->host,
                           .ar_service = l->port,
                           .ar_request = &l->hints};
    struct gaicb *list[] = {&l->cb};
    int           bad = getaddrinfo_a(GAI_NOWAIT, list, 1, NULL);
    if (!bad) return await_lookup(c, l);
    td__redis_fail(c, gai_strerror(bad));
    free(l);
    return NULL;
}
#else
static struct addrinfo *find_name(td_redis *c) {
    return td__redis_fail(c, "the host must be an address, as 127.0.0.1 or [::1]"),
           NULL;
}
#endif

/* The addresses of the host; NULL: c->why has the reason. */
static struct addrinfo *find_address(td_redis *c) {
    struct addrinfo hints = hints_for(AI_NUMERICHOST), *found = NULL;
    if (getaddrinfo(c->host, c->port, &hints, &found) == 0) return found;
    return find_name(c);
}

/* ---- the socket ----------------------------------------------------------- */

/* Has the connection been made? Waits for it. */
static bool await_socket(td_redis *c, int fd) {
    int       ms, error = 0, one = 1;
    socklen_t n = sizeof error;
    while ((ms = td__redis_ms_left(c)) > 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int           ready = poll(&p, 1, ms);
        if (ready < 0 && errno != EINTR) return td__redis_fail(c, strerror(errno));
        if (ready <= 0) continue;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0) error = errno;
        if (error) return td__redis_fail(c, strerror(error));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return true;
    }
    return td__redis_fail(c, "no connection in time");
}

static int open_socket(td_redis *c, const struct addrinfo *a) {
    const int how = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    int       fd = td__io_fault() ? -1 : socket(a->ai_family, how, 0);
    if (fd < 0) return td__redis_fail(c, strerror(errno)), -1;
    bool ok = connect(fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS;
    if (!ok) td__redis_fail(c, strerror(errno));
    if (ok && await_socket(c, fd)) return fd;
    close(fd);
    return -1;
}

bool td__redis_connect(td_redis *c) {
    struct addrinfo *all = find_address(c);
    c->fd = -1;
    for (struct addrinfo *a = all; a && c->fd < 0; a = a->ai_next)
        c->fd = open_socket(c, a);
    if (all) freeaddrinfo(all);
    return c->fd >= 0;
}
