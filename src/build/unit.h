/* build/unit.h -- from kernel texts to loaded code: the C compiler (cc_find.c, cc.c,
 * cc_run.c) and the texts of units (unit_text.c). kernel.h has the entry points. */
#ifndef TD_UNIT_H
#define TD_UNIT_H

#include "build/kernel.h"

#include <sys/types.h>

/* ---- child processes (cc_run.c) ----------------------------------------- */

/* A child process. */
typedef struct td_child {
    pid_t pid;    /* 0: not started, or exited */
    int   status; /* of waitpid; 0 if something else reaped the child */
} td_child;

/* Starts argv[0], a path, in a process group of its own, with stdin from /dev/null,
 * output to the file `log`, no other open files and default signals. TMPDIR is `dir`.
 * Returns 0 or an errno. */
int    td__child_start(td_child *c, const char *const *argv, const char *dir,
                       const char *log);
/* Waits for all children; at time `until` (td__seconds) kills the rest with their
 * process groups. False: that happened. */
bool   td__children_wait(td_child *c, int n, double until);
double td__seconds(void); /* a monotonic clock */

/* A fresh directory of mode 0700 in $TMPDIR or /tmp that no other user can replace.
 * False after td__fail. */
bool td__temp_dir(td_ctx *cx, char *out, size_t cap);
void td__temp_remove(const char *dir); /* with the files in it */

/* ---- the compiler (cc_find.c, cc.c) ------------------------------------- */

typedef TD_VEC(const char *) td_words;

/* The C compiler of the settings. */
typedef struct td_cc {
    td_ctx     *cx;
    td_arena    arena;
    const char *path;     /* the program, links resolved; NULL: there is none */
    td_words    words;    /* path, arguments and flags; not NULL-terminated */
    const char *identity; /* "/usr/bin/gcc-12, 1234567 bytes of 1700000000.5" */
    const char *flags;    /* words after the path, joined by blanks */
} td_cc;

/* Finds the compiler. Without one, path is NULL and identity that of the compiler
 * that filled the cache. False after td__fail: TD_E_UNSUPPORTED if there is neither.
 * td__cc_close in any case. */
bool td__cc_open(td_cc *cc, td_ctx *cx);
void td__cc_close(td_cc *cc);
/* Sets path, identity and words, as td__cc_open does. */
bool td__cc_find(td_cc *cc);
/* Appends the words of a text, split and quoted as in a shell. False after td__fail. */
bool td__cc_words(td_cc *cc, const char *text);
/* The path of `name`, as a shell would find it; false: not found. */
bool td__find_program(const char *name, char *out, size_t cap);
/* Fails: there is no compiler. Returns false. */
bool td__cc_missing(const td_cc *cc);
/* Notes in the cache which compiler its kernels are from. */
struct td_disk;
void  td__cc_remember(const td_cc *cc, struct td_disk *d);
/* Compiles n texts in parallel, links and loads them. Returns the handle of dlopen;
 * NULL after td__fail. *library gets the library's bytes. Needs cc->path. */
void *td__cc_build(td_cc *cc, const char *dir, const td_buf *text, int n,
                   const char *name, td_buf *library);

/* ---- texts (unit_text.c) ------------------------------------------------ */

enum { TD_UNIT_NAME = 40 };

/* The beginning of all units: types, and the arguments of kernels. */
extern const char td__unit_preamble[];

/* A kernel with its name. */
typedef struct td_named_kernel {
    const td_kernel *k;
    char name[TD_UNIT_NAME]; /* "k_" and a hash of everything it depends on */
} td_named_kernel;

/* Appends what identifies this build of the library, line by line. False: out of
 * memory. */
bool td__unit_library(td_buf *b);
/* The same with compiler and flags: everything that a kernel's code depends on beside
 * its text. */
bool td__unit_key(td_buf *b, const td_cc *cc);
/* Computes the kernel's name. False after td__fail: out of memory, or an unknown
 * helper. */
bool td__unit_name(td_ctx *cx, const char *key, const td_kernel *k, char *name);
/* Distributes the kernels over at most `most` texts of about equal cost; *units is
 * their number. False after td__fail; the caller frees text[] in any case. */
bool td__unit_texts(td_ctx *cx, const td_named_kernel *k, int n, td_buf *text, int most,
                    int *units);

#endif
