/* place.c -- names of source files in graphs. A tensor's history contains the source
 * line of the op that made it, and outlives the graph from which the op was replayed,
 * so names of files live as long as the process: one copy of each. There are few; names
 * beyond the bounds, which only a hostile file has, are replaced by one name. The same
 * holds for places, the calls around an op. */
#include "core/callback.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { NAMES = 4096, LONGEST = 4096 };

static struct {
    pthread_mutex_t lock;
    td_map          map; /* name -> its copy */
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *find(const char *name) {
    const char *copy = td__map_get(&known.map, name);
    if (copy) return copy;
    if (known.map.n >= NAMES || strlen(name) > LONGEST) return "(a file)";
    char *own = td__strdup(name);
    if (own && td__map_put(&known.map, own, own)) return own;
    td__free(own);
    return NULL;
}

const char *td__place_file(td_ctx *cx, const char *name) {
    if (!name) return NULL;
    pthread_mutex_lock(&known.lock);
    const char *copy = find(name);
    pthread_mutex_unlock(&known.lock);
    if (!copy) td__fail_memory(cx);
    return copy;
}

/* ---- calls -------------------------------------------------------------- */

enum { PLACES = 1 << 16 };

const td_place td__no_stack;

static struct {
    pthread_mutex_t lock;
    td_map          map; /* file, line and the place around, as text -> td_place */
} places = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The place with this key; made if it is new. NULL: no memory, or too many. */
static const td_place *find_place(const char *key, td_where here, const td_place *up) {
    const td_place *p = td__map_get(&places.map, key);
    if (p || places.map.n >= PLACES) return p;
    td_place *own = td__alloc(sizeof *own);
    char     *text = own ? td__strdup(key) : NULL;
    if (text) *own = (td_place){here, up};
    if (text && td__map_put(&places.map, text, own)) return own;
    td__free(own);
    td__free(text);
    return NULL;
}

const td_place *td__place_in(td_where here, const td_place *up) {
    char key[80];
    pthread_mutex_lock(&known.lock);
    here.file = here.file ? find(here.file) : NULL;
    pthread_mutex_unlock(&known.lock);
    if (!here.file) return up;
    snprintf(key, sizeof key, "%p:%d:%p", (const void *)here.file, here.line,
             (const void *)up);
    pthread_mutex_lock(&places.lock);
    const td_place *p = find_place(key, here, up);
    pthread_mutex_unlock(&places.lock);
    return p ? p : up;
}

bool td__same_where(td_where a, td_where b) {
    return a.line == b.line &&
           (a.file == b.file || (a.file && b.file && !strcmp(a.file, b.file)));
}

/* A list of calls while it is filled. */
typedef struct calls {
    td_where *to;
    int       n, most;
} calls;

static void add_call(calls *c, td_where at) {
    if (!at.file || c->n >= c->most) return;
    if (c->n && td__same_where(c->to[c->n - 1], at)) return;
    c->to[c->n++] = at;
}

/* Scopes outside of all callbacks surround no call. */
int td__stack_list(const td_ctx *cx, td_where *to, int most) {
    calls c = {to, 0, most};
    int   scopes = cx->scopes.n;
    for (const td_callback *b = cx->callback; b; b = b->outer) {
        for (const td_place *p = b->stack; p; p = p->up) add_call(&c, p->here);
        if (b->stack) break;
        for (int i = scopes - 1; i >= b->scopes; i--)
            if (cx->scopes.v[i].label) add_call(&c, cx->scopes.v[i].here);
        add_call(&c, b->at);
        scopes = b->scopes;
    }
    return c.n;
}

const td_place *td__stack_now(const td_ctx *cx) {
    td_where        list[TD_STACK_MOST];
    const td_place *up = NULL, *of = cx->callback ? cx->callback->stack : NULL;
    if (of) return of == &td__no_stack ? NULL : of;
    for (int i = td__stack_list(cx, list, TD_STACK_MOST) - 1; i >= 0; i--)
        up = td__place_in(list[i], up);
    return up;
}

const td_place *td__stack_beyond(const td_place *stack, td_where here) {
    while (stack && td__same_where(stack->here, here)) stack = stack->up;
    return stack;
}

void td__stack_text(const td_place *stack, td_buf *b) {
    for (; stack; stack = stack->up)
        td__buf_printf(b, " < %s:%d", stack->here.file, stack->here.line);
}
