/* build/redis_int.h -- a connection to a Redis server, shared by redis.c (protocol) and
 * redis_connect.c (address and socket). */
#ifndef TD_REDIS_INT_H
#define TD_REDIS_INT_H

#include "build/remote.h"

#include <sys/types.h>

/* A client. Every request sets `until`, and every step of it ends by then. */
typedef struct td_redis {
    char   host[256], port[16], user[128], password[256];
    int    db;
    int    fd;     /* non-blocking; -1: not connected */
    pid_t  pid;    /* the process that connected */
    void  *reader; /* redisReader */
    double until;  /* the deadline of this request */
    char   why[160];
} td_redis;

/* Takes the parts of a URL. NULL, or what is wrong with it. */
const char *td__redis_url(td_redis *c, const char *url);
/* Connects before the deadline. False: c->why has the reason. */
bool        td__redis_connect(td_redis *c);
bool        td__redis_fail(td_redis *c, const char *why); /* sets c->why; false */
double      td__redis_now(void);                          /* seconds, monotonic */
int         td__redis_ms_left(const td_redis *c);         /* rounded up; 0: none */

#endif
