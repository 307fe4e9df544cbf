/* device_help.h -- a context on the test device with kernels, and texts of kernels. */
#ifndef TD_DEVICE_HELP_H
#define TD_DEVICE_HELP_H

#include "aot_help.h"
#include "emit_help.h"

#include "tandem/device.h"

#include <stdlib.h>

static const td_device dev = {TD_TEST, 0};

/* A context whose tensors are on the device with kernels; NULL where tests share a
 * process, in which the device may be open without them. */
static inline td_ctx *open_there(void) {
#ifdef TD_TEST_INPROC
    return NULL;
#endif
    setenv("TD_TEST_KERNELS", "1", 1);
    td_ctx *cx = td_open();
    td_config_set(cx, "backend", "auto"); /* plans have kernels in native code alone */
    td_set_default_device(cx, dev);
    CHECK_OK(cx);
    return cx;
}

static inline td_device_counts counts(td_ctx *cx) {
    td_device_counts n;
    CHECK(td_device_counters(cx, dev, &n));
    return n;
}

/* The kernel of a nest, without what comes before it. */
static inline const char *text_of(const td_nest *n, bool vectors, bool end) {
    static char    text[8192];
    td_device_code code = {0};
    CHECK(td__table_init() && td__device_emit(n, vectors, 100 << 10, &code));
    const char *at = strstr(td__buf_str(end ? &code.end : &code.text), "TD_KERNEL");
    snprintf(text, sizeof text, "%s", at ? at : "none");
    td__device_code_free(&code);
    return text;
}

#endif
