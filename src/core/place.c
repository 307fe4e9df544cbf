/* place.c -- names of source files that graphs hold. A tensor's history keeps the place
 * of the op that made it, and outlives the graph the op was replayed from, so the names
 * of files belong to the process: one copy of each. There are few; names beyond the
 * bounds, which only a hostile file has, are all one. */
#include "core/core.h"

#include <pthread.h>
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
