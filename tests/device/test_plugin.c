/* test_plugin.c -- a device for tests: host memory whose addresses host code cannot
 * use. An address has a bit set that no address of a process has, so code that reads
 * the bytes of a device tensor as host memory is stopped by the processor.
 *
 * There are two devices, of 64 MiB each. Every operation is finished when it returns. */
#include "tandem/device_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    void   *p = d->bytes + bytes <= MOST ? aligned_alloc(256, (bytes + 255) / 256 * 256)
                                         : NULL;
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

static bool copy_in(void *dev, void *to, const void *from, size_t bytes) {
    if (!is_hidden(dev, to) || !is_shown(dev, from)) return false;
    memcpy(show(to), from, bytes);
    return true;
}

static bool copy_out(void *dev, void *to, const void *from, size_t bytes) {
    if (!is_hidden(dev, from) || !is_shown(dev, to)) return false;
    memcpy(to, show(from), bytes);
    return true;
}

static bool copy(void *dev, void *to, const void *from, size_t bytes) {
    if (!is_hidden(dev, from) || !is_hidden(dev, to)) return false;
    memcpy(show(to), show(from), bytes);
    return true;
}

static bool fill(void *dev, void *to, int byte, size_t bytes) {
    if (!is_hidden(dev, to)) return false;
    memset(show(to), byte, bytes);
    return true;
}

static bool finish(void *dev) { return dev != NULL; }

static const char *error(void *dev) { return ((device *)dev)->error; }

static void memory(void *dev, td_device_memory *out) {
    const device *d = dev;
    *out = (td_device_memory){d->bytes, d->peak};
}

static const td_device_plugin plugin = {.version = TD_DEVICE_PLUGIN_VERSION,
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

const td_device_plugin *td_device_plugin_get(void) { return &plugin; }
