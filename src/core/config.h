/* core/config.h -- the table of settings and what a context keeps of them. Every room
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

/* A row of config.def. */
typedef struct td_knob {
    const char  *name, *env;
    td_knob_kind kind;
    bool         fixed;  /* of the process, chosen by the environment alone */
    size_t       at;     /* of its field */
    const char  *normal; /* the default, as text */
    double       least, most;
    const char  *words; /* "auto on off" */
    const char  *doc;
} td_knob;
extern const td_knob td__knobs[TD_KNOB_COUNT];

typedef enum td_knob_from { TD_FROM_DEFAULT, TD_FROM_ENV, TD_FROM_CALL } td_knob_from;

/* A context's part. */
typedef struct td_settings {
    td_config now;
    uint8_t   from[TD_KNOB_FIELDS]; /* td_knob_from */
    char     *text[TD_KNOB_FIELDS]; /* what TEXT fields point to; NULL: "" */
} td_settings;

/* Looks a variable up; secure_getenv is one. */
typedef char *td_lookup(const char *name);

/* Defaults, then the environment. False: no memory. A wrong value is a warning. */
bool         td__config_load(td_ctx *cx, td_lookup *look);
void         td__config_free(td_ctx *cx);
/* Are all fields of *c what their rows take? False after td__fail, naming `who`. */
bool         td__config_check(td_ctx *cx, const char *who, const td_config *c);
/* "a number from 0 to 1": what the row takes, in words. Returns out. */
const char  *td__knob_takes(const td_knob *k, char *out, size_t cap);
/* The value of row nr as text, fixed ones too; returns the length it wants. */
size_t       td__knob_text(td_ctx *cx, int nr, char *out, size_t cap);
/* Where that value comes from. */
td_knob_from td__knob_from(const td_ctx *cx, int nr);

#endif
