/* fuzz_config.c -- any bytes as settings, by call and by the environment, and as the
 * words of a compiler's command: what is wrong changes nothing, what is right reads
 * back as itself. The first byte chooses the setting, 255 one by its name. */
#include "build/unit.h"
#include "core/config.h"
#include "tandem/tandem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *shown; /* what every variable has */

static char *type(const char *name) {
    /* a trace would write files, and logs fill the terminal */
    bool skip = !strcmp(name, "TD_TRACE") || !strcmp(name, "TD_LOG");
    return skip ? NULL : (char *)(uintptr_t)shown;
}

static void listen(void *env, const char *topic, const char *text) {
    (void)env, (void)topic, (void)text;
}

/* Sets it, reads it, sets what was read: that changes nothing. */
static void check_value(td_ctx *cx, const char *name, const char *value) {
    char one[2000], two[2000];
    bool ok = td_config_set(cx, name, value);
    if (ok != td_ok(cx)) abort();
    td_clear(cx);
    size_t n = td_config_text(cx, name, one, sizeof one);
    if (!td_ok(cx) || n >= sizeof one) {
        td_clear(cx);
        return;
    }
    if (ok && !td_config_set(cx, name, one)) abort();
    td_config_text(cx, name, two, sizeof two);
    if (strcmp(one, two)) abort();
    td_clear(cx);
}

static void check_words(td_ctx *cx, const char *text) {
    td_cc cc = {.cx = cx};
    bool  ok = td__cc_words(&cc, text);
    if (ok != td_ok(cx)) abort();
    td__cc_close(&cc);
    td_clear(cx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    char *text = strndup((const char *)data + 1, size - 1);
    if (!text) return 0;
    td_ctx *cx = td_open();
    td_log_to(cx, listen, NULL);
    char       *rest = strchr(text, '=');
    const char *name = td__knobs[data[0] % TD_KNOB_FIELDS].name;
    bool        trace = data[0] != 255 && !strcmp(name, "trace");
    if (data[0] == 255 && rest && strncmp(text, "trace", 5)) {
        *rest = 0;
        check_value(cx, text, rest + 1);
        *rest = '=';
    } else if (data[0] != 255 && !trace) check_value(cx, name, text);
    check_words(cx, text);
    shown = text;
    td__config_free(cx);
    cx->settings = (td_settings){0};
    if (!td__config_load(cx, type)) abort();
    td_close(cx);
    free(text);
    return 0;
}
