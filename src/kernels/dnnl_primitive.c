/* dnnl_primitive.c -- the bounded cache of oneDNN primitives and how one is run.
 * Entries are counted references: eviction never takes one from a running
 * thread. Building has a lock of its own, so that lookups do not wait for it and
 * pieces of one shape on many threads are built once. */
#include "kernels/dnnl_primitive.h"

#if TD_HAVE_DNNL
#include "base/base.h"
#include "kernels/blas_setup.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

enum { CACHE_SIZE = 128, ALIGN = 64 };

static pthread_once_t  once = PTHREAD_ONCE_INIT;
static dnnl_engine_t   engine; /* NULL: the library would not start */
static pthread_mutex_t building = PTHREAD_MUTEX_INITIALIZER; /* before `lock` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;     /* of cache and refs */
static td_prim        *cache[CACHE_SIZE];
static uint64_t        clock_now;
static int (*omp_width)(void);
static void (*omp_set_width)(int);

/* libgomp comes with libdnnl; looking its two functions up by name needs no
 * OpenMP flag here and no link to a second runtime. */
static void start(void) {
    *(void **)&omp_width = dlsym(NULL, "omp_get_max_threads");
    *(void **)&omp_set_width = dlsym(NULL, "omp_set_num_threads");
    td__dnnl_bound();
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) engine = NULL;
}

/* Without an OpenMP runtime in the process there is nothing to hold. */
int td__prim_serial_begin(void) {
    pthread_once(&once, start);
    if (!omp_width || !omp_set_width) return 1;
    int width = omp_width();
    if (width != 1) omp_set_width(1);
    return width;
}

void td__prim_serial_end(int width) {
    if (width != 1) omp_set_width(width);
}

/* The last reference is gone. */
static void destroy(td_prim *p) {
    for (int i = 0; i < TD_PRIM_OPERANDS; i++)
        if (p->move[i]) dnnl_primitive_destroy(p->move[i]);
    if (p->op) dnnl_primitive_destroy(p->op);
    for (int i = 0; i < TD_PRIM_OPERANDS; i++)
        td__md_free(&p->outer[i]), td__md_free(&p->inner[i]);
    td__md_free(&p->pad_desc);
    td__free(p);
}

/* One scratchpad serves all steps of a primitive: the largest of them. */
static void note_pad(td_prim *p, const_dnnl_primitive_desc_t pd) {
    td_md_ref md = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t    n = md ? dnnl_memory_desc_get_size(md) : 0;
    if (n > p->pad) p->pad = n;
}

/* The reorder of operand i between the caller's layout and the kernel's; none where
 * they are equal. */
static bool make_move(td_prim *p, int i, dnnl_primitive_attr_t attr) {
    td_md_ref             outer = td__md(&p->outer[i]), inner = td__md(&p->inner[i]);
    td_md_ref             from = i == TD_PRIM_OUT ? inner : outer;
    td_md_ref             to = i == TD_PRIM_OUT ? outer : inner;
    dnnl_primitive_desc_t pd = NULL;
    if (dnnl_memory_desc_equal(from, to)) return true;
    if (dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, attr))
        return false;
    note_pad(p, pd);
    bool ok = dnnl_primitive_create(&p->move[i], pd) == dnnl_success;
    dnnl_primitive_desc_destroy(pd);
    return ok;
}

/* The operation and the reorders around it. */
static bool make_steps(td_prim *p, td_prim_build *build, dnnl_primitive_attr_t attr) {
    dnnl_primitive_desc_t pd = NULL;
    if (dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user))
        return false;
    if (!build(p, engine, attr, &pd)) return false;
    note_pad(p, pd);
    bool ok = dnnl_primitive_create(&p->op, pd) == dnnl_success;
    dnnl_primitive_desc_destroy(pd);
    for (int i = 0; ok && i < TD_PRIM_OPERANDS; i++)
        ok = !p->arg[i] || make_move(p, i, attr);
    dnnl_dims_t dims = {(dnnl_dim_t)p->pad};
    return ok && (!p->pad || td__md_tagged(&p->pad_desc, 1, dims, dnnl_u8, dnnl_a));
}

/* NULL: out of memory, or the library has no kernel. */
static td_prim *make(const td_prim_key *key, td_prim_build *build) {
    dnnl_primitive_attr_t attr;
    td_prim              *p = td__zalloc(sizeof *p);
    if (!p) return NULL;
    p->key = *key;
    int  width = td__prim_serial_begin(); /* kernels are planned for this width */
    bool ok = engine && dnnl_primitive_attr_create(&attr) == dnnl_success;
    if (ok) {
        ok = make_steps(p, build, attr);
        dnnl_primitive_attr_destroy(attr);
    }
    td__prim_serial_end(width);
    if (ok) return p;
    destroy(p);
    return NULL;
}

/* The entry with one more reference, or NULL. */
static td_prim *find(const td_prim_key *key) {
    td_prim *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CACHE_SIZE && cache[i]; i++) {
        if (memcmp(&cache[i]->key, key, sizeof *key)) continue;
        found = cache[i];
        found->refs++;
        found->used = ++clock_now;
        break;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* In place of the entry unused for longest. */
static void insert(td_prim *p) {
    int at = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CACHE_SIZE; i++) {
        if (!cache[i] || cache[i]->used < cache[at]->used) at = i;
        if (!cache[i]) break;
    }
    td_prim *old = cache[at];
    if (old && --old->refs > 0) old = NULL;
    cache[at] = p;
    p->refs = 2;
    p->used = ++clock_now;
    pthread_mutex_unlock(&lock);
    if (old) destroy(old);
}

/* Looks a second time under the lock of builders: another thread may have built the key
 * meanwhile. */
td_prim *td__prim_get(const td_prim_key *key, td_prim_build *build) {
    td_prim *p = find(key);
    int      cancel; /* a thread that ends in here would leave the lock locked */
    if (p) return p;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&building);
    p = find(key);
    if (!p && (p = make(key, build))) insert(p);
    pthread_mutex_unlock(&building);
    pthread_setcancelstate(cancel, NULL);
    return p;
}

/* Gives a reference back; an evicted primitive goes with its last user. */
void td__prim_put(td_prim *p) {
    pthread_mutex_lock(&lock);
    bool last = --p->refs == 0;
    pthread_mutex_unlock(&lock);
    if (last) destroy(p);
}

/* ---- running ------------------------------------------------------------ */

/* One run: the bytes of the caller, scratch in the layout of the kernel where that
 * differs, and the handles of the library on both. */
typedef struct run {
    const td_prim *p;
    char          *scratch; /* scratchpad first, then inner operands */
    size_t         bytes;
    dnnl_stream_t  stream;
    dnnl_memory_t  pad, outer[TD_PRIM_OPERANDS], inner[TD_PRIM_OPERANDS];
} run;

static size_t padded(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* The library's view of bytes at ptr. */
static bool handle(dnnl_memory_t *to, const td_md *md, void *ptr) {
    return dnnl_memory_create(to, td__md(md), engine, ptr) == dnnl_success;
}

/* Allocates scratch and makes the handles of one run. */
static bool run_open(run *r, void *const ptr[TD_PRIM_OPERANDS]) {
    const td_prim *p = r->p;
    size_t         at = padded(p->pad);
    r->bytes = at;
    for (int i = 0; i < TD_PRIM_OPERANDS; i++)
        if (p->move[i])
            r->bytes += padded(dnnl_memory_desc_get_size(td__md(&p->inner[i])));
    if (r->bytes && !(r->scratch = td__block_alloc(r->bytes))) return false;
    if (dnnl_stream_create(&r->stream, engine, dnnl_stream_default_flags)) return false;
    if (p->pad && !handle(&r->pad, &p->pad_desc, r->scratch)) return false;
    for (int i = 0; i < TD_PRIM_OPERANDS; i++) {
        if (!p->arg[i]) continue;
        if (!handle(&r->outer[i], &p->outer[i], ptr[i])) return false;
        if (!p->move[i]) continue;
        if (!handle(&r->inner[i], &p->inner[i], r->scratch + at)) return false;
        at += padded(dnnl_memory_desc_get_size(td__md(&p->inner[i])));
    }
    return true;
}

static void run_close(run *r) {
    for (int i = 0; i < TD_PRIM_OPERANDS; i++) {
        if (r->outer[i]) dnnl_memory_destroy(r->outer[i]);
        if (r->inner[i]) dnnl_memory_destroy(r->inner[i]);
    }
    if (r->pad) dnnl_memory_destroy(r->pad);
    if (r->stream) dnnl_stream_destroy(r->stream);
    if (r->scratch) td__block_free(r->scratch, r->bytes);
}

/* Reorders operand i, the output from inner to outer, all others the other way. */
static bool move(run *r, int i) {
    dnnl_memory_t from = r->outer[i], to = r->inner[i];
    if (!r->p->move[i]) return true;
    if (i == TD_PRIM_OUT) from = r->inner[i], to = r->outer[i];
    dnnl_exec_arg_t args[3] = {{DNNL_ARG_FROM, from},
                               {DNNL_ARG_TO, to},
                               {DNNL_ARG_SCRATCHPAD, r->pad}};
    return dnnl_primitive_execute(r->p->move[i], r->stream, r->pad ? 3 : 2, args) ==
           dnnl_success;
}

/* Reorders inputs, runs the operation, reorders the output, waits. */
static bool run_steps(run *r) {
    dnnl_exec_arg_t args[TD_PRIM_OPERANDS + 1];
    int             n = 0;
    for (int i = 0; i < TD_PRIM_OPERANDS; i++) {
        if (!r->p->arg[i]) continue;
        if (i != TD_PRIM_OUT && !move(r, i)) return false;
        args[n].arg = r->p->arg[i];
        args[n++].memory = r->inner[i] ? r->inner[i] : r->outer[i];
    }
    if (r->pad) args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, r->pad};
    return dnnl_primitive_execute(r->p->op, r->stream, n, args) == dnnl_success &&
           move(r, TD_PRIM_OUT) && dnnl_stream_wait(r->stream) == dnnl_success;
}

bool td__prim_run(td_prim *p, void *const ptr[TD_PRIM_OPERANDS]) {
    run  r = {.p = p};
    int  width = td__prim_serial_begin();
    bool ok = run_open(&r, ptr) && run_steps(&r);
    run_close(&r);
    td__prim_serial_end(width);
    return ok;
}

#else
typedef int td__prim_absent; /* a translation unit is never empty */
#endif
