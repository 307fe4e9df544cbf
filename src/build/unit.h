/* build/unit.h -- from the texts of kernels to loaded code: finding and running the C
 * compiler (cc.c, cc_run.c), the text of a unit (unit_text.c). td__kernels_load, in
 * unit.c, is the way in; kernel.h has it. */
#ifndef TD_UNIT_H
#define TD_UNIT_H

#include "build/kernel.h"

#include <sys/types.h>

/* ---- child processes (cc_run.c) ----------------------------------------- */

/* A program that runs, or has run. */
typedef struct td_child {
    pid_t pid;    /* 0: not started, or over */
    int   status; /* of waitpid; 0 where somebody else took it away */
} td_child;

/* Starts argv[0], a path, with no standard input, its messages going to the file `log`,
 * no other files of ours, all signals as they come, and its own process group. `dir` is
 * where it puts temporary files. 0, or an errno. */
int    td__child_start(td_child *c, const char *const *argv, const char *dir,
                       const char *log);
/* Waits for all; those that still run at `until` (td__seconds) are killed with whatever
 * they started. False: that happened. */
bool   td__children_wait(td_child *c, int n, double until);
double td__seconds(void); /* of a clock that only goes forward */

/* A fresh directory of mode 0700 in $TMPDIR, else /tmp, that nobody else can replace.
 * False after td__fail. */
bool td__temp_dir(td_ctx *cx, char *out, size_t cap);
void td__temp_remove(const char *dir); /* with all that lies in it */

/* ---- the compiler (cc_find.c, cc.c) ------------------------------------- */

typedef TD_VEC(const char *) td_words;

typedef struct td_cc {
    td_ctx     *cx;
    td_arena    arena;
    const char *path;     /* the program, links followed; NULL: there is none now */
    td_words    words;    /* it, its arguments and flags; not ended by NULL */
    const char *identity; /* "/usr/bin/gcc-12, 1234567 bytes of 1700000000.5" */
    const char *flags;    /* joined by blanks */
} td_cc;

/* Finds the one of the settings. Where there is none, `path` is NULL and `identity`
 * that of the one that filled the cache. False after td__fail: TD_E_UNSUPPORTED where
 * there is neither. Needs td__cc_close either way. */
bool td__cc_open(td_cc *cc, td_ctx *cx);
void td__cc_close(td_cc *cc);
/* Sets path, identity and words, as td__cc_open does. */
bool td__cc_find(td_cc *cc);
/* Adds the words of a text, split and quoted as in a shell. False after td__fail. */
bool td__cc_words(td_cc *cc, const char *text);
/* Where `name` is, as a shell would find it; false: nowhere. */
bool td__find_program(const char *name, char *out, size_t cap);
/* Fails: there is no compiler. */
bool td__cc_missing(const td_cc *cc);
/* Notes in the cache which compiler its kernels are from. */
struct td_disk;
void  td__cc_remember(const td_cc *cc, struct td_disk *d);
/* Compiles n texts in parallel, links them and loads the result: what dlopen gave, NULL
 * after td__fail. *library gets the bytes of the library. Needs a path. */
void *td__cc_build(td_cc *cc, const char *dir, const td_buf *text, int n,
                   const char *name, td_buf *library);

/* ---- texts (unit_text.c) ------------------------------------------------ */

enum { TD_UNIT_NAME = 40 };

/* What all units begin with: types, and how kernels are called. */
extern const char td__unit_preamble[];

/* A kernel on its way. */
typedef struct td_named {
    const td_kernel *k;
    char             name[TD_UNIT_NAME]; /* "k_" and the hash of all it is */
} td_named;

/* Appends what of the library decides about what it makes, a line each; false: no
 * memory. */
bool td__unit_library(td_buf *b);
/* The same, and what else decides about the code of a kernel. */
bool td__unit_key(td_buf *b, const td_cc *cc);
/* The name of *k. False after td__fail: no memory, or a helper that is not there. */
bool td__unit_name(td_ctx *cx, const char *key, const td_kernel *k, char *name);
/* The kernels k[0..n) spread over at most `most` texts of about equal cost; *units is
 * how many there are. False after td__fail; the caller frees text[] either way. */
bool td__unit_texts(td_ctx *cx, const td_named *k, int n, td_buf *text, int most,
                    int *units);

#endif
