/* test_plugin.c -- a device for tests: host memory whose addresses host code cannot
 * use. An address has a bit set that no address of a process has, so code that reads
 * the bytes of a device tensor as host memory is stopped by the processor.
 *
 * There are two devices, of 64 MiB each. Every operation is finished when it returns.
 * With TD_TEST_KERNELS=1 they have kernels: the text that a GPU would get, compiled by
 * the C compiler and run as one thread. With TD_TEST_NVRTC=1 NVRTC compiles the text,
 * too, for three architectures, if the CUDA plugin is there. */
#include "tandem/device_plugin.h"

#include <stdatomic.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HIDDEN ((uintptr_t)1 << 62)
#define MOST ((uint64_t)64 << 20)

typedef struct device {
    int         index;
    uint64_t    bytes, peak;
    const char *error;
} device;

static device devices[2] = {{.index = 0, .error = ""}, {.index = 1, .error = ""}};

static void *hide(void *p) { return (void *)((uintptr_t)p | HIDDEN); }

static void *show(const void *p) { return (void *)((uintptr_t)p & ~HIDDEN); }

/* Is it an address of this device? The library must not mix them up. */
static bool is_hidden(device *d, const void *p) {
    if ((uintptr_t)p & HIDDEN) return true;
    d->error = "an address of the host where one of the device must be";
    return false;
}

static bool is_shown(device *d, const void *p) {
    if (!((uintptr_t)p & HIDDEN)) return true;
    d->error = "an address of the device where one of the host must be";
    return false;
}

/* ---- devices ------------------------------------------------------------ */

/* TD_TEST_DEVICES=0 is a machine without devices. */
static int count(char *why, size_t cap) {
    const char *set = getenv("TD_TEST_DEVICES");
    int         n = set ? atoi(set) : 2;
    if (n == 0)
        snprintf(why, cap, "this machine has no test device; unset TD_TEST_DEVICES");
    return n < 2 ? n : 2;
}

static void *open_device(int index, char *why, size_t cap) {
    (void)why, (void)cap;
    return &devices[index];
}

static void describe(void *dev, char *out, size_t cap) {
    const device *d = dev;
    snprintf(out, cap, "test device %d, %d MiB of host memory", d->index,
             (int)(MOST >> 20));
}

/* ---- memory ------------------------------------------------------------- */

/* New memory is filled with a pattern, so that reading it before a write shows. */
static void *alloc(void *dev, size_t bytes) {
    device *d = dev;
    void   *p =
        d->bytes + bytes <= MOST ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
    if (!p) return NULL;
    memset(p, 0xa5, bytes);
    d->bytes += bytes;
    if (d->bytes > d->peak) d->peak = d->bytes;
    return hide(p);
}

static void release(void *dev, void *memory, size_t bytes) {
    device *d = dev;
    d->bytes -= bytes;
    if (is_hidden(d, memory)) free(show(memory));
}

/* ---- recordings --------------------------------------------------------- */

/* One thing that was started. */
typedef struct work {
    enum { LAUNCH, PRODUCT, COPY, FILL } kind;
    void             *kernel, *to;
    const void       *from; /* of a launch: its argument, owned */
    size_t            bytes;
    int               byte;
    td_device_product product;
} work;

typedef struct recording {
    work *v;
    int   n, cap, launches;
    bool  ended;
} recording;

static recording *open;

static bool do_work(const work *w);

static bool do_all(const recording *r) {
    bool ok = true;
    for (int i = 0; ok && i < r->n; i++) ok = do_work(&r->v[i]);
    return ok;
}

/* Is work recorded instead of done? */
static bool records(void) { return open && !open->ended; }

static bool keep(work w) {
    recording *r = open;
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 64;
        r->v = realloc(r->v, sizeof *r->v * (size_t)r->cap);
        if (!r->v) abort();
    }
    if (w.kind == LAUNCH) {
        void *argument = malloc(w.bytes);
        if (!argument) abort();
        w.from = memcpy(argument, w.from, w.bytes);
        r->launches++;
    }
    r->v[r->n++] = w;
    return true;
}

/* Does what was recorded so far, and ends the recording. */
static bool flush(void) {
    if (!records()) return true;
    open->ended = true;
    return do_all(open);
}

static void forget(void *dev, void *r) {
    recording *old = r;
    (void)dev;
    for (int i = 0; i < old->n; i++)
        if (old->v[i].kind == LAUNCH) free((void *)(uintptr_t)old->v[i].from);
    free(old->v);
    free(old);
}

static bool record(void *dev) {
    (void)dev;
    return !open && (open = calloc(1, sizeof *open));
}

static void *recorded(void *dev) {
    recording *r = open;
    open = NULL;
    if (r && !r->ended) return r;
    if (r) forget(dev, r);
    return NULL;
}

static int last(void *dev) {
    (void)dev;
    return records() ? open->launches - 1 : -1;
}

static bool change(void *dev, void *to, int nr, void **args) {
    recording *r = to;
    (void)dev;
    for (int i = 0; i < r->n; i++)
        if (r->v[i].kind == LAUNCH && nr-- == 0)
            return memcpy((void *)(uintptr_t)r->v[i].from, args[0], r->v[i].bytes),
                   true;
    return false;
}

static bool replay(void *dev, void *r) {
    (void)dev;
    return flush() && do_all(r);
}

static bool copy_in(void *dev, void *to, const void *from, size_t bytes) {
    if (!is_hidden(dev, to) || !is_shown(dev, from) || !flush()) return false;
    memcpy(show(to), from, bytes);
    return true;
}

static bool copy_out(void *dev, void *to, const void *from, size_t bytes) {
    if (!is_hidden(dev, from) || !is_shown(dev, to) || !flush()) return false;
    memcpy(to, show(from), bytes);
    return true;
}

static bool copy(void *dev, void *to, const void *from, size_t bytes) {
    if (!is_hidden(dev, from) || !is_hidden(dev, to)) return false;
    if (records())
        return keep((work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
    memcpy(show(to), show(from), bytes);
    return true;
}

static bool fill(void *dev, void *to, int byte, size_t bytes) {
    if (!is_hidden(dev, to)) return false;
    if (records())
        return keep((work){.kind = FILL, .to = to, .byte = byte, .bytes = bytes});
    memset(show(to), byte, bytes);
    return true;
}

static bool finish(void *dev) { return flush() && dev != NULL; }

static const char *error(void *dev) { return ((device *)dev)->error; }

static void memory(void *dev, td_device_memory *out) {
    const device *d = dev;
    *out = (td_device_memory){d->bytes, d->peak};
}

/* ---- kernels ------------------------------------------------------------ */

/* One thread takes all elements and all rows. Addresses are shown to the kernel. */
static const char prelude[] =
    "#include <stdbool.h>\n"
    "#include <stdint.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#define TD_KERNEL void\n"
    "#define TD_RUN(T) const T *td_all\n"
    "#define TD_OPEN \\\n"
    "    td_nest_run td_shown = *td_all; \\\n"
    "    for (unsigned td_i = 0; td_i < sizeof td_shown.ptr / 8; td_i++) { \\\n"
    "        uintptr_t td_at = (uintptr_t)td_shown.ptr[td_i]; \\\n"
    "        if (td_at && !(td_at >> 62 & 1)) { \\\n"
    "            fprintf(stderr, \"a kernel got the host address %p\\n\", (void "
    "*)td_at); \\\n"
    "            abort(); \\\n"
    "        } \\\n"
    "        td_shown.ptr[td_i] = (char *)((uintptr_t)td_shown.ptr[td_i] \\\n"
    "                                      & ~((uintptr_t)1 << 62)); \\\n"
    "    } \\\n"
    "    const td_nest_run *r = &td_shown;\n"
    "#define TD_UNROLL\n"
    "#define TD_UNROLL_TWO\n"
    "#define TD_UNROLL_MORE\n"
    "#define TD_UNROLL_ALL\n"
    "#define TD_ROLL\n"
    "#define TD_FIRST 0\n"
    "#define TD_STEP 1\n"
    "#define TD_ROW 0\n"
    "#define TD_ROWS 1\n"
    "#define TD_LANE 0\n"
    "#define TD_LANES 1\n"
    "#define TD_TAKE(V, p) (*(const V *)(p))\n"
    "#define TD_GIVE(V, p, q) (*(V *)(p) = (q))\n"
    "#define TD_WORDS(V) V\n"
    "#define TD_FETCH(V, p) (*(const V *)(p))\n"
    "#define TD_VECTOR(V, w) (w)\n"
    "#define TD_SHARE(n, threads) (n)\n"
    "#define TD_COLUMNS 1\n"
    "#define TD_COLUMN 0\n"
    "#define TD_SLICE 0\n"
    "#define TD_SLICES 1\n"
    "#define TD_DOWN(T, x, fold) (void)0\n"
    "#define TD_SYNC (void)0\n"
    "#define TD_KEEP(V, name, at, n) V name[n]\n"
    "#define TD_BRING(V, to, from) (*(to) = *(const V *)(from))\n"
    "#define TD_ARRIVED (void)0\n"
    "#define TD_MOST(a, b) ((a > b || a != a) ? a : b)\n"
    "#define TD_LEAST(a, b) ((a < b || a != a) ? a : b)\n"
    "#define TD_FETCH_ADD(p, n) ((*(p) += (n)) - (n))\n"
    "#define TD_TOGETHER(T, x, fold) (void)0\n"
    "#define TD_TOGETHER_TWO(T, x, fold, U, y, other) (void)0\n";

typedef void kernel_fn(const void *run);

static bool write_source(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    bool  ok = f && fputs(prelude, f) >= 0 && fputs(text, f) >= 0;
    return f && !fclose(f) && ok;
}

/* td_cuda_compile of the CUDA plugin, which needs no GPU. */
typedef void *compile_fn(const char *text, int arch, size_t *bytes, char *why,
                         size_t cap);

/* Does NVRTC take the text? Each text is compiled for one architecture, in turn. True
 * also without NVRTC. */
static bool nvrtc_takes(const char *text) {
    static const int   archs[] = {80, 90, 100};
    static atomic_uint nr;
    char               why[4096];
    int                arch = archs[atomic_fetch_add(&nr, 1) % 3];
    char               path[1024];
    const char        *dir = getenv("TD_DEVICE_PATH");
    size_t             bytes = 0;
    compile_fn        *compile;
    snprintf(path, sizeof path, "%s/libtandem-cuda.so", dir ? dir : "build");
    void *lib = getenv("TD_TEST_NVRTC") ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *at = lib ? dlsym(lib, "td_cuda_compile") : NULL;
    memcpy(&compile, &at, sizeof compile); /* a cast would not be ISO C */
    if (!at) return true;
    void *code = compile(text, arch, &bytes, why, sizeof why);
    if (!code) printf("FAIL sm_%d: %s\n%s\n", arch, why, text);
    fflush(stdout);
    free(code);
    return code != NULL;
}

/* The bytes of a file, to be freed. */
static void *read_all(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    char *p = NULL;
    if (f && !fseek(f, 0, SEEK_END) && (p = malloc(*bytes = (size_t)ftell(f)))) {
        rewind(f);
        if (fread(p, 1, *bytes, f) != *bytes) free(p), p = NULL;
    }
    if (f) fclose(f);
    return p;
}

static void *compile(void *dev, const char *text, size_t *bytes) {
    static atomic_int made;
    int               nr = atomic_fetch_add(&made, 1);
    device           *d = dev;
    char              c[200], so[200], line[800];
    if (!nvrtc_takes(text)) abort();
    snprintf(c, sizeof c, "/tmp/td-test-%d-%d.c", (int)getpid(), nr);
    snprintf(so, sizeof so, "/tmp/td-test-%d-%d.so", (int)getpid(), nr);
    snprintf(line, sizeof line,
             "cc -std=c11 -O0 -w -ffp-contract=off -fwrapv -shared -fPIC -nostdlib %s "
             "-o %s -lgcc",
             c, so);
    bool  ok = write_source(c, text) && system(line) == 0;
    void *code = ok ? read_all(so, bytes) : NULL;
    if (!code) d->error = "the C compiler refused a kernel";
    if (code) unlink(c);
    unlink(so);
    return code;
}

static void *load(void *dev, const void *code, size_t bytes, const char *entry) {
    static int nr;
    char       so[200];
    (void)dev;
    snprintf(so, sizeof so, "/tmp/td-test-%d-%d-load.so", (int)getpid(), nr++);
    FILE *f = fopen(so, "wb");
    bool  ok = f && fwrite(code, 1, bytes, f) == bytes;
    ok = f && !fclose(f) && ok;
    void *lib = ok ? dlopen(so, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(so);
    return lib ? dlsym(lib, entry) : NULL;
}

/* All of it is this file; a new prelude is a new version. */
static void target(void *dev, char *out, size_t cap) {
    (void)dev;
    snprintf(out, cap, "test device, prelude of %d bytes", (int)sizeof prelude);
}

static void *build(void *dev, const char *text, const char *entry) {
    size_t bytes = 0;
    void  *code = compile(dev, text, &bytes);
    void  *kernel = code ? load(dev, code, bytes, entry) : NULL;
    free(code);
    return kernel;
}

static int64_t shared(void *dev) { return dev ? 220 << 10 : 0; }

static void start(void *kernel, const void *argument) {
    kernel_fn *run;
    memcpy(&run, &kernel, sizeof run); /* a cast would not be ISO C */
    run(argument);
}

static bool launch(void *dev, void *kernel, td_device_grid grid, void **args) {
    (void)dev;
    if (records() && !grid.bytes) flush();
    if (records())
        return keep((work){
            .kind = LAUNCH, .kernel = kernel, .from = args[0], .bytes = grid.bytes});
    return start(kernel, args[0]), true;
}

#pragma GCC diagnostic ignored "-Wpedantic" /* _Float16 */

/* Halves as GPUs read and round them. */
static double of_half(td_dtype dt, uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float    f;
    _Float16 half;
    memcpy(&f, &bits, sizeof f);
    memcpy(&half, &h, sizeof half);
    return dt == TD_BF16 ? (double)f : (double)half;
}

static uint16_t to_half(td_dtype dt, double x) {
    float    f = (float)x;
    _Float16 half = (_Float16)f;
    uint32_t bits;
    uint16_t h;
    memcpy(&bits, &f, sizeof bits);
    memcpy(&h, &half, sizeof h);
    bits += 0x7fff + (bits >> 16 & 1);
    return dt == TD_BF16 ? (uint16_t)(bits >> 16) : h;
}

static double element(const td_device_product *p, const void *base, int64_t at) {
    if (p->dtype == TD_F32) return (double)((const float *)show(base))[at];
    if (p->dtype == TD_F64) return ((const double *)show(base))[at];
    return of_half(p->dtype, ((const uint16_t *)show(base))[at]);
}

static void put_element(const td_device_product *p, int64_t at, double x) {
    if (p->dtype == TD_F32) ((float *)show(p->c))[at] = (float)x;
    else if (p->dtype == TD_F64) ((double *)show(p->c))[at] = x;
    else ((uint16_t *)show(p->c))[at] = to_half(p->dtype, x);
}

/* Row i and column j of matrix b. */
static void dot(const td_device_product *p, int64_t b, int64_t i, int64_t j) {
    double  sum = 0;
    int64_t to = b * p->batch_c + i * p->row_c + j;
    for (int64_t k = 0; k < p->k; k++) {
        int64_t x = p->transposed_a ? k * p->row_a + i : i * p->row_a + k;
        int64_t y = p->transposed_b ? j * p->row_b + k : k * p->row_b + j;
        sum +=
            element(p, p->a, b * p->batch_a + x) * element(p, p->b, b * p->batch_b + y);
    }
    sum *= p->alpha;
    if (p->bias) sum += element(p, p->bias, j);
    put_element(p, to, p->beta == 0 ? sum : sum + p->beta * element(p, p->c, to));
}

static int product(void *dev, const td_device_product *p) {
    (void)dev;
    if (p->dtype > TD_BF16) return 1;
    if (records()) return !keep((work){.kind = PRODUCT, .product = *p});
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) dot(p, b, i, j);
    return 0;
}

static bool do_work(const work *w) {
    switch (w->kind) {
    case LAUNCH: start(w->kernel, w->from); break;
    case PRODUCT: return product(NULL, &w->product) == 0;
    case COPY: memcpy(show(w->to), show(w->from), w->bytes); break;
    case FILL: memset(show(w->to), w->byte, w->bytes); break;
    }
    return true;
}

static td_device_plugin plugin = {.version = TD_DEVICE_PLUGIN_VERSION,
                                  .name = "test",
                                  .count = count,
                                  .open = open_device,
                                  .describe = describe,
                                  .alloc = alloc,
                                  .release = release,
                                  .copy_in = copy_in,
                                  .copy_out = copy_out,
                                  .copy = copy,
                                  .fill = fill,
                                  .sync = finish,
                                  .error = error,
                                  .memory = memory};

TD_API td_device_plugin_fn td_device_plugin_get;

const td_device_plugin *td_device_plugin_get(void) {
    if (!getenv("TD_TEST_KERNELS")) return &plugin;
    plugin.build = build;
    plugin.compile = compile;
    plugin.load = load;
    plugin.target = target;
    plugin.shared = shared;
    plugin.launch = launch;
    plugin.product = product;
    plugin.record = record;
    plugin.recorded = recorded;
    plugin.last = last;
    plugin.change = change;
    plugin.replay = replay;
    plugin.forget = forget;
    return &plugin;
}
