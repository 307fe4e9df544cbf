/* core/config.h -- the table of settings, and a context's settings. All code
 * reads td__config(cx)->field; only config.c writes. */
#ifndef TD_CORE_CONFIG_H
#define TD_CORE_CONFIG_H

#include "base/base.h"
#include "tandem/config.h"

typedef enum td_knob_kind {
    TD_KNOB_BOOL,
    TD_KNOB_INT,
    TD_KNOB_REAL,
    TD_KNOB_WORD,
    TD_KNOB_TEXT
} td_knob_kind;

enum {
#define TD_KNOB(kind, id, ...) TD_KNOB_NR_##id,
#define TD_KNOB_FIXED(kind, id, ...)
#include "core/config.def"
#undef TD_KNOB
#undef TD_KNOB_FIXED
    TD_KNOB_FIELDS, /* rows from here on are no fields of td_config */
    TD_KNOB_LAST = TD_KNOB_FIELDS - 1,
#define TD_KNOB(kind, id, ...)
#define TD_KNOB_FIXED(kind, id, ...) TD_KNOB_NR_##id,
#include "core/config.def"
#undef TD_KNOB
#undef TD_KNOB_FIXED
    TD_KNOB_COUNT
};

/* The default of debug_asserts: on in the debug variant of the library. */
#ifdef TD_DEBUG_LIFETIMES
#define TD_ASSERTS_NORMALLY "on"
#else
#define TD_ASSERTS_NORMALLY "off"
#endif

/* A row of config.def. */
typedef struct td_knob {
    const char  *name, *env;
    td_knob_kind kind;
    bool         fixed;       /* a setting of the process, by environment only */
    size_t       at;          /* offset of its field in td_config */
    const char  *normal;      /* the default, as text */
    double       least, most; /* range of INT and REAL */
    const char  *words;       /* values of a WORD: "auto on off" */
    const char  *doc;
} td_knob;
extern const td_knob td__knobs[TD_KNOB_COUNT];

typedef enum td_knob_from { TD_FROM_DEFAULT, TD_FROM_ENV, TD_FROM_CALL } td_knob_from;

/* The settings of a context. */
typedef struct td_settings {
    td_config now;
    uint8_t   from[TD_KNOB_FIELDS]; /* td_knob_from */
    char     *text[TD_KNOB_FIELDS]; /* what TEXT fields point to; NULL: "" */
} td_settings;

/* Looks a variable up; secure_getenv is one. */
typedef char *td_lookup(const char *name);

/* Sets defaults, then values from the environment. An invalid value is a
 * warning. False: out of memory. */
bool         td__config_load(td_ctx *cx, td_lookup *type);
void         td__config_free(td_ctx *cx);
/* Are all fields of *c valid? False after td__fail, which names `who`. */
bool         td__config_check(td_ctx *cx, const char *who, const td_config *c);
/* "a number from 0 to 1": the values that a setting accepts. Returns out. */
const char  *td__knob_takes(const td_knob *k, char *out, size_t cap);
/* The value of setting nr as text; returns its full length. */
size_t       td__knob_text(td_ctx *cx, int nr, char *out, size_t cap);
/* Where that value came from: default, environment or call. */
td_knob_from td__knob_from(const td_ctx *cx, int nr);

#endif
