/* object.c -- objects: storages without bytes that own a pointer of the program's. The
 * type of an object is a name; names live as long as the process, because fake copies
 * of arguments may outlive the arguments. */
#include "core/core.h"
#include "core/handle.h"
#include "tandem/object.h"

#include <pthread.h>
#include <string.h>

enum { MOST_TYPES = 256 };

/* Names of types; an entry does not change once n_types counts it. */
static td_object_type  types[MOST_TYPES];
static int             n_types;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The pointer that the storage of an object owns, and its destructor. */
typedef struct object {
    void *data;
    void (*drop)(void *data);
} object;

const td_object_type *td__object_type(td_ctx *cx, const char *name) {
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (!n || name[n] || n >= sizeof types[0].name)
        return td__fail(cx, TD_E_ARG,
                        "td_object: the type \"%.60s\" must consist of 1 to %d "
                        "of a-z, 0-9 and _",
                        name, (int)sizeof types[0].name - 1),
               NULL;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < n_types && strcmp(types[i].name, name) != 0) i++;
    if (i == n_types && i < MOST_TYPES) {
        memcpy(types[i].name, name, n + 1);
        types[i].hash = td__hash(name, n, 11);
        n_types++;
    }
    pthread_mutex_unlock(&lock);
    if (i < MOST_TYPES) return &types[i];
    td__fail(cx, TD_E_ARG, "there are %d types of objects already; no more fit",
             MOST_TYPES);
    return NULL;
}

static void release(void *env) {
    object *o = env;
    if (o->drop) o->drop(o->data);
    td__free(o);
}

/* The storage of an object; NULL after td__fail. Its object belongs to the caller until
 * `release` is set. */
static td_storage *make_storage(td_ctx *cx, const td_object_opts *o,
                                const td_object_type *type) {
    object     *own = td__alloc(sizeof *own);
    td_storage *st = own ? td__storage_wrap(NULL, 0, NULL, NULL) : NULL;
    if (!st) {
        td__free(own);
        td__fail_memory(cx);
        return NULL;
    }
    *own = (object){o->data, o->drop};
    st->env = own;
    st->readonly = true; /* also excludes it from the fast path of keys */
    st->object = type;
    st->object_key = type->hash ^ (o->key * 0x9e3779b97f4a7c15u);
    return st;
}

td_tensor *td_object(td_ctx *cx, const td_object_opts *opts) {
    static const char who[] = "td_object";
    td_object_opts    o = {0};
    td_meta           m = {.dtype = TD_U8, .rank = 1};
    if (!TD_ENTER_CTX(cx)) return &td__current_ctx()->nil;
    if (!td_ok(cx) ||
        !td__may_change(cx, who, "objects, which calls pass as arguments") ||
        !td__has(cx, who, "opts", opts) ||
        !td__opts_take(cx, who, &o, sizeof o, opts, "TD_OBJECT_OPTS") ||
        !td__has(cx, who, "opts.type", o.type) ||
        !td__has(cx, who, "opts.data", o.data))
        return &cx->nil;
    const td_object_type *type = td__object_type(cx, o.type);
    td_storage           *st = type ? make_storage(cx, &o, type) : NULL;
    if (!st) return &cx->nil;
    td_tensor *t = td__tensor_over(cx, st, &m);
    if (t) st->release = release;
    else td__free(st->env);
    td__storage_drop(st);
    return t ? t : &cx->nil;
}

void *td_object_data(const td_tensor *t, const char *type) {
    static const char who[] = "td_object_data";
    if (!TD_ENTER(t, TENSOR) || !td_ok(t->cx) || !td__has(t->cx, who, "the type", type))
        return NULL;
    if (!t->st->object || strcmp(t->st->object->name, type) != 0)
        td__fail(t->cx, TD_E_ARG,
                 "%s: the tensor carries %s%s, not an object of type "
                 "%.60s",
                 who, t->st->object ? "an object of type " : "no object",
                 t->st->object ? t->st->object->name : "", type);
    else if (t->st->fake)
        td__fail(t->cx, TD_E_TRACE,
                 "%s: an object of type %.60s is not known while a function is traced; "
                 "only kernels of registered ops (td_op_opts.kernel) read it",
                 who, type);
    else return ((object *)t->st->env)->data;
    return NULL;
}
