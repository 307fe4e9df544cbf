/* device.c -- the devices of this process: names, plugins, and opening. A plugin is
 * loaded when its kind is first named, a device opened when it is first used, and both
 * stay for the life of the process. */
#include "core/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- names -------------------------------------------------------------- */

static const char *const kind_names[TD_DEVICE_KINDS] = {
    [TD_CPU] = "cpu", [TD_CUDA] = "cuda", [TD_TEST] = "test"};

uint8_t td__device_code(td_device dev) {
    bool there = (unsigned)dev.kind < TD_DEVICE_KINDS && dev.index >= 0 &&
                 dev.index < (dev.kind == TD_CPU ? 1 : TD_DEVICE_INDICES);
    return there ? (uint8_t)((int)dev.kind << 4 | dev.index) : TD_NO_DEVICE;
}

#define NAMES_OF(kind)                                                               \
    {                                                                                \
        kind ":0", kind ":1", kind ":2", kind ":3", kind ":4", kind ":5", kind ":6", \
            kind ":7", kind ":8", kind ":9", kind ":10", kind ":11", kind ":12",     \
            kind ":13", kind ":14"                                                   \
    }

const char *td__device_str(uint8_t code) {
    static const char *const names[TD_DEVICE_KINDS][TD_DEVICE_INDICES] = {
        {"cpu"}, NAMES_OF("cuda"), NAMES_OF("test")};
    td_device dev = td__device_at(code);
    return td__device_code(dev) == code ? names[dev.kind][dev.index] : "no device";
}

const char *td_device_name(td_device dev) {
    uint8_t code = td__device_code(dev);
    return code == TD_NO_DEVICE ? NULL : td__device_str(code);
}

bool td_device_parse(const char *text, td_device *dev) {
    for (int k = 0; text && dev && k < TD_DEVICE_KINDS; k++) {
        size_t n = strlen(kind_names[k]);
        if (strncmp(text, kind_names[k], n) != 0) continue;
        for (int i = 0; i < TD_DEVICE_INDICES; i++) {
            td_device   d = {(td_device_kind)k, i};
            const char *name = td_device_name(d);
            if (!name || (strcmp(text, name) != 0 && (text[n] || i))) continue;
            *dev = d;
            return true;
        }
    }
    return false;
}

/* ---- plugins ------------------------------------------------------------ */

/* A kind of device in this process. */
typedef struct kind {
    const td_device_plugin *plugin; /* NULL: not loaded yet */
    td_device_state         device[TD_DEVICE_INDICES];
} kind;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kind            kinds[TD_DEVICE_KINDS];

/* The directory of the library, or of the program it is part of; "": not known. */
static void own_directory(char *out, size_t cap) {
    static const char here;
    Dl_info           info;
    char              exe[1024];
    bool              known = dladdr(&here, &info) && info.dli_fname;
    const char       *path = known ? info.dli_fname : "";
    ssize_t           n = strchr(path, '/') ? 0 : readlink("/proc/self/exe", exe, 1000);
    if (n > 0) exe[n] = 0, path = exe; /* a program that was found along PATH */
    const char *end = strrchr(path, '/');
    snprintf(out, cap, "%.*s", end ? (int)(end - path) : 0, path);
}

/* Opens DIR/libtandem-KIND.so, or without a directory the one that the dynamic linker
 * finds. */
static void *open_library(const char *dir, const char *name, char *why, size_t cap) {
    char path[4096];
    int  n =
        snprintf(path, sizeof path, "%s%slibtandem-%s.so", dir, *dir ? "/" : "", name);
    void *lib = n < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!lib) snprintf(why, cap, "%.400s", n < (int)sizeof path ? dlerror() : dir);
    return lib;
}

/* Writes into `why` that the plugin was not found. Returns NULL. */
static const td_device_plugin *no_plugin(const char *name, const char *dir,
                                         const char *error, char *why, size_t cap) {
    snprintf(why, cap,
             "the plugin libtandem-%s.so is missing: it is neither in %.200s nor where "
             "the dynamic linker searches (%.400s). Build it with `make %s` and put it "
             "beside libtandem, or set TD_DEVICE_PATH to its directory",
             name, *dir ? dir : "the directory of libtandem", error, name);
    return NULL;
}

/* The functions of a loaded library; NULL: `why` has the reason. */
static const td_device_plugin *functions_of(void *lib, const char *name, char *why,
                                            size_t cap) {
    td_device_plugin_fn *get = NULL;
    void                *at = dlsym(lib, "td_device_plugin_get");
    memcpy(&get, &at, sizeof get); /* a cast would not be ISO C */
    const td_device_plugin *p = get ? get() : NULL;
    if (p && p->version == TD_DEVICE_PLUGIN_VERSION && !strcmp(p->name, name)) return p;
    snprintf(why, cap,
             "libtandem-%s.so is not a plugin of this version of Tandem (version %d, "
             "needed is %d); build both from one source with `make %s`",
             name, p ? p->version : 0, TD_DEVICE_PLUGIN_VERSION, name);
    return NULL;
}

/* The plugin of a kind, loaded at its first use. The lock is held. NULL: `why` has the
 * reason. */
static const td_device_plugin *load(td_ctx *cx, td_device_kind k, char *why,
                                    size_t cap) {
    char        own[1024], error[420];
    const char *set = cx ? td__config(cx)->device_path : NULL;
    if (kinds[k].plugin) return kinds[k].plugin;
    own_directory(own, sizeof own);
    const char *dir = set && *set ? set : own;
    void       *lib = open_library(dir, kind_names[k], error, sizeof error);
    char        other[420];
    if (!lib) lib = open_library("", kind_names[k], other, sizeof other);
    if (!lib) return no_plugin(kind_names[k], dir, error, why, cap);
    kinds[k].plugin = functions_of(lib, kind_names[k], why, cap);
    if (!kinds[k].plugin) dlclose(lib);
    return kinds[k].plugin;
}

/* ---- opening ------------------------------------------------------------ */

td_device_state *td__device_state(uint8_t code) {
    return &kinds[code >> 4].device[code & 15];
}

/* Opens a device that has no state yet. The lock is held. */
static bool open_device(td_ctx *cx, td_device dev, char *why, size_t cap) {
    td_device_state        *s = &kinds[dev.kind].device[dev.index];
    const td_device_plugin *p = load(cx, dev.kind, why, cap);
    if (!p) return false;
    int n = p->count(why, cap);
    if (n == 0) return false;
    if (dev.index >= n)
        return snprintf(why, cap, "this machine has %d device%s of that kind", n,
                        n == 1 ? "" : "s"),
               false;
    void *opened = p->open(dev.index, why, cap);
    if (!opened) return false;
    pthread_mutex_init(&s->lock, NULL);
    s->code = td__device_code(dev);
    s->dev = opened;
    s->plugin = p;
    return true;
}

td_device_state *td__device_open(td_ctx *cx, uint8_t code) {
    td_device dev = td__device_at(code);
    char      why[1024] = "no such device";
    if (code == TD_NO_DEVICE || dev.kind == TD_CPU) {
        td__fail(cx, TD_E_ARG, "%s", code ? why : "the CPU is no device of a plugin");
        return NULL;
    }
    td_device_state *s = td__device_state(code);
    pthread_mutex_lock(&lock);
    bool ok = s->plugin || open_device(cx, dev, why, sizeof why);
    pthread_mutex_unlock(&lock);
    if (!ok) td__fail(cx, TD_E_UNSUPPORTED, "%s: %s", td__device_str(code), why);
    else cx->devices = true;
    return ok ? s : NULL;
}

int td_device_count(td_ctx *cx, td_device_kind k, char *why, size_t cap) {
    char  none[16];
    char *text = why ? why : none;
    if (!why) cap = sizeof none;
    if (cap) *text = 0;
    if (!TD_ENTER_CTX(cx) || (unsigned)k >= TD_DEVICE_KINDS) return 0;
    if (k == TD_CPU) return 1;
    pthread_mutex_lock(&lock);
    const td_device_plugin *p = load(cx, k, text, cap);
    int                     n = p ? p->count(text, cap) : 0;
    pthread_mutex_unlock(&lock);
    return n < TD_DEVICE_INDICES ? n : TD_DEVICE_INDICES;
}

/* ---- properties --------------------------------------------------------- */

td_device td_device_of(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return (td_device){TD_CPU, 0};
    td_tensor *seen = td__seen_as(t);
    return td__device_at((seen ? seen : t)->st->device);
}

bool td_device_describe(td_ctx *cx, td_device dev, char *out, size_t cap) {
    if (!TD_ENTER_CTX(cx) || !td__has(cx, "td_device_describe", "out", out))
        return false;
    if (dev.kind == TD_CPU) return snprintf(out, cap, "memory of the host"), true;
    td_device_state *s = td__device_open(cx, td__device_code(dev));
    if (!s) return false;
    pthread_mutex_lock(&s->lock);
    s->plugin->describe(s->dev, out, cap);
    pthread_mutex_unlock(&s->lock);
    return true;
}

bool td_device_sync(td_ctx *cx, td_device dev) {
    if (!TD_ENTER_CTX(cx)) return false;
    if (!td__may_change(cx, "td_device_sync", "a device")) return false;
    if (dev.kind == TD_CPU) return true;
    td_device_state *s = td__device_open(cx, td__device_code(dev));
    if (!s) return false;
    pthread_mutex_lock(&s->lock);
    bool ok = s->plugin->sync(s->dev);
    pthread_mutex_unlock(&s->lock);
    if (ok) return td__device_check(cx, s);
    return td__fail(cx, TD_E_UNSUPPORTED, "td_device_sync: %s: %s",
                    td__device_str(s->code), s->plugin->error(s->dev));
}

bool td_device_counters(td_ctx *cx, td_device dev, td_device_counts *out) {
    if (!TD_ENTER_CTX(cx) || !td__has(cx, "td_device_counters", "out", out))
        return false;
    *out = (td_device_counts){0};
    if (!td__may_read(cx, "td_device_counters", "the counters of a device"))
        return false;
    if (dev.kind == TD_CPU) return out->bytes = td__block_live(), true;
    td_device_state *s = td__device_open(cx, td__device_code(dev));
    td_device_memory m = {0};
    if (!s) return false;
    pthread_mutex_lock(&s->lock);
    s->plugin->memory(s->dev, &m);
    pthread_mutex_unlock(&s->lock);
    *out = (td_device_counts){m.bytes,     m.peak,     s->to_device,    s->to_host,
                              s->launches, s->on_host, s->kernels_built};
    return true;
}

/* ---- the default device ------------------------------------------------- */

td_device td_default_device(const td_ctx *cx) {
    return TD_ENTER_CTX(cx) ? td__device_at(cx->device) : (td_device){TD_CPU, 0};
}

td_device td_set_default_device(td_ctx *cx, td_device dev) {
    if (!TD_ENTER_CTX(cx)) return (td_device){TD_CPU, 0};
    td_device was = td__device_at(cx->device);
    uint8_t   code = td__device_code(dev);
    if (code == 0 || td__device_open(cx, code)) cx->device = code;
    return was;
}

bool td__fail_on_device(td_tensor *t, const char *who) {
    return td__fail(t->cx, TD_E_ARG,
                    "%s: the tensor %s is on %s, whose memory the host cannot read; "
                    "copy it with td_to_device(t, (td_device){TD_CPU}) or td_read",
                    who, td__type_str(t), td__device_str(t->st->device));
}
