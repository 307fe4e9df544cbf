/* cc.c -- runs the C compiler of the native backend: flags, compiling, linking,
 * loading, and error messages. Flags are those of eager's own loops (the Makefile
 * passes them), at td__cpu_level, so that both compute the same to the last bit. */
#include "build/disk.h"
#include "build/unit.h"
#include "core/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char cc_remedy[] =
    "set TD_CC to a C compiler that works, or backend=interp";

/* ---- flags -------------------------------------------------------------- */

/* Flags for the CPU's instruction set. */
static const char *level_flags(void) {
#ifdef __x86_64__
    if (td__cpu_level() == TD_CPU_AVX2) return TD_FLAGS_avx2;
    if (td__cpu_level() == TD_CPU_AVX512) return TD_FLAGS_avx512;
#endif
    return TD_FLAGS_base;
}

/* -fno-strict-aliasing: a result may reuse the memory of an operand of another dtype.
 * Unwind tables and the compiler's identification are left out: they cost time in
 * every step. */
static bool add_flags(td_cc *cc) {
    static const char always[] = "-std=c11 -fPIC -w -pipe -fno-strict-aliasing "
                                 "-fno-asynchronous-unwind-tables -fno-ident";
    td_buf            all = {0};
    int               first = cc->words.n;
    if (!td__cc_words(cc, TD_LOOP_FLAGS) || !td__cc_words(cc, level_flags()) ||
        !td__cc_words(cc, always) || !td__cc_words(cc, td__config(cc->cx)->cc_flags))
        return false;
    for (int i = 1; i < cc->words.n; i++)
        td__buf_printf(&all, "%s%s", i > 1 ? " " : "", cc->words.v[i]);
    cc->flags = all.failed ? NULL : td__arena_strdup(&cc->arena, td__buf_str(&all));
    td__buf_free(&all);
    return (cc->flags && first > 0) || td__fail_memory(cc->cx);
}

bool td__cc_open(td_cc *cc, td_ctx *cx) {
    *cc = (td_cc){.cx = cx};
    return td__cc_find(cc) && add_flags(cc);
}

void td__cc_close(td_cc *cc) {
    td__vec_free(&cc->words);
    td__arena_free(&cc->arena);
}

/* ---- errors ---------------------------------------------------------------- */

/* The first line of a log that mentions an error, else its first line, without the
 * directory; "" if the log is empty. */
static void first_error(const char *dir, const char *log, char *out, size_t cap) {
    char   line[512];
    size_t skip = strlen(dir) + 1;
    bool   sure = false;
    FILE  *f = fopen(log, "re");
    *out = 0;
    while (f && !sure && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        sure = strstr(line, "error") || strstr(line, "undefined");
        if (!*line || (*out && !sure)) continue;
        bool ours = !strncmp(line, dir, skip - 1) && line[skip - 1] == '/';
        snprintf(out, cap, "%.300s", line + (ours ? skip : 0));
    }
    if (f) fclose(f);
}

/* The compiler exited with an error. Returns false. */
static bool fail_child(td_cc *cc, const td_child *c, const char *dir, const char *log) {
    char line[320], how[64];
    first_error(dir, log, line, sizeof line);
    if (WIFSIGNALED(c->status))
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(c->status));
    else snprintf(how, sizeof how, "failed with status %d", WEXITSTATUS(c->status));
    return td__fail(cc->cx, TD_E_UNSUPPORTED, "native code: %.200s %s%s%s; %s",
                    cc->path, how, *line ? ": " : "", line, cc_remedy);
}

/* The compiler could not be started. Returns false. */
static bool fail_start(td_cc *cc, const char *program, int why) {
    if (why == ENOMEM) return td__fail_memory(cc->cx);
    return td__fail(cc->cx, TD_E_UNSUPPORTED, "native code: cannot run %.200s: %s; %s",
                    program, strerror(why), cc_remedy);
}

/* The compiler exceeded the setting cc_seconds. Returns false. */
static bool fail_time(td_cc *cc, const char *program) {
    return td__fail(
        cc->cx, TD_E_UNSUPPORTED,
        "native code: %.200s took longer than %lld seconds and was stopped; "
        "raise cc_seconds, %s",
        program, (long long)td__config(cc->cx)->cc_seconds, cc_remedy);
}

/* ---- building ----------------------------------------------------------- */

/* One text being compiled. */
typedef struct part {
    const char *c, *o, *log; /* paths of source, object and messages */
    td_child    child;
} part;

/* One call of td__cc_build. */
typedef struct build {
    td_cc      *cc;
    const char *dir, *so, *log; /* directory, library, messages of the linker */
    part       *part;
    int         n;
    double      until; /* deadline (td__seconds) */
} build;

/* dir/<stem><i>.<ending> in the arena; NULL: out of memory. */
static char *file_name(build *b, const char *stem, int i, const char *ending) {
    return td__arena_printf(&b->cc->arena, "%s/%s%d.%s", b->dir, stem, i, ending);
}

static bool name_files(build *b, const char *name) {
    b->so = td__arena_printf(&b->cc->arena, "%s/%s.so", b->dir, name);
    b->log = file_name(b, "link", 0, "log");
    b->part = td__arena_zalloc(&b->cc->arena, sizeof *b->part * (size_t)b->n);
    bool ok = b->so && b->log && b->part;
    for (int i = 0; i < b->n && ok; i++) {
        part *p = &b->part[i];
        p->c = file_name(b, "unit", i, "c");
        p->o = file_name(b, "unit", i, "o");
        p->log = file_name(b, "unit", i, "log");
        ok = p->c && p->o && p->log;
    }
    return ok || td__fail_memory(b->cc->cx);
}

/* Writes the source of a unit; false after td__fail. */
static bool write_text(td_ctx *cx, const char *path, const td_buf *text) {
    int         fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const char *p = td__buf_str(text);
    size_t      n = text->n;
    bool        ok = fd >= 0, bad = td__fault_now();
    if (bad) errno = EIO;
    while (ok && n > 0) {
        ssize_t done = bad ? -1 : write(fd, p, n);
        if (done < 0 && !bad && errno == EINTR) continue;
        ok = done >= 0;
        if (ok) p += done, n -= (size_t)done;
    }
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && ok) ok = false, why = errno;
    return ok || td__fail(cx, TD_E_IO,
                          "native code: cannot write %.200s: %s; set TMPDIR to a "
                          "directory with free space, or backend=interp",
                          path, strerror(why));
}

/* Appends words up to a NULL. False: out of memory. */
static bool add_list(td_words *w, const char *const *list) {
    for (; *list; list++)
        if (!td__vec_push(w, *list)) return false;
    return true;
}

static bool add_compiler(build *b, td_words *w) {
    for (int i = 0; i < b->cc->words.n; i++)
        if (!td__vec_push(w, b->cc->words.v[i])) return false;
    return true;
}

/* Starts the program in w, which is freed. complete: w was filled without running out
 * of memory. Returns 0 or an errno. */
static int start(build *b, td_child *c, td_words *w, bool complete, const char *log) {
    bool ok = complete && td__vec_push(w, NULL);
    int  rc = ok ? td__child_start(c, w->v, b->dir, log) : ENOMEM;
    td__vec_free(w);
    return rc;
}

/* Writes a text and starts its compilation. False after td__fail. */
static bool start_part(build *b, part *p, const td_buf *text) {
    const char *const rest[] = {"-c", p->c, "-o", p->o, NULL};
    td_words          w = {0};
    if (!write_text(b->cc->cx, p->c, text)) return false;
    bool ok = add_compiler(b, &w) && add_list(&w, rest);
    int  rc = start(b, &p->child, &w, ok, p->log);
    return !rc || fail_start(b->cc, b->cc->path, rc);
}

/* Waits for every part. If one could not be started (ok is false), the others are
 * killed at once. False after td__fail. */
static bool wait_parts(build *b, bool ok) {
    bool in_time = true;
    for (int i = 0; i < b->n; i++)
        if (!td__children_wait(&b->part[i].child, 1, ok && in_time ? b->until : 0))
            in_time = false;
    if (!ok) return false;
    if (!in_time) return fail_time(b->cc, b->cc->path);
    for (int i = 0; i < b->n; i++)
        if (b->part[i].child.status)
            return fail_child(b->cc, &b->part[i].child, b->dir, b->part[i].log);
    return true;
}

static bool compile(build *b, const td_buf *text) {
    bool ok = true;
    for (int i = 0; i < b->n && ok; i++) ok = start_part(b, &b->part[i], &text[i]);
    return wait_parts(b, ok);
}

/* All objects, the result, and libs. */
static bool add_objects(build *b, td_words *w, const char *const *libs) {
    bool ok = td__vec_push(w, "-shared");
    for (int i = 0; i < b->n && ok; i++) ok = td__vec_push(w, b->part[i].o);
    return ok && td__vec_push(w, "-o") && td__vec_push(w, b->so) && add_list(w, libs);
}

/* Calls ld itself, without libraries: a fifth of the time that the compiler driver
 * takes. False if that does not work; the driver then reports why. */
static bool link_plain(build *b) {
    static const char *const libs[] = {NULL};
    char                     ld[4096];
    td_words                 w = {0};
    td_child                 c = {0};
    if (!td__find_program("ld", ld, sizeof ld)) return false;
    bool ok = td__vec_push(&w, ld) && add_objects(b, &w, libs);
    return start(b, &c, &w, ok, b->log) == 0 && td__children_wait(&c, 1, b->until) &&
           c.status == 0;
}

/* Links with the compiler driver and libm. False after td__fail. */
static bool link_by_compiler(build *b) {
    static const char *const libs[] = {"-lm", NULL};
    td_words                 w = {0};
    td_child                 c = {0};
    unlink(b->log);
    bool ok = add_compiler(b, &w) && add_objects(b, &w, libs);
    int  rc = start(b, &c, &w, ok, b->log);
    if (rc) return fail_start(b->cc, b->cc->path, rc);
    if (!td__children_wait(&c, 1, b->until)) return fail_time(b->cc, b->cc->path);
    return c.status == 0 || fail_child(b->cc, &c, b->dir, b->log);
}

/* Reads the whole library file. False: unreadable, or out of memory. */
static bool read_library(build *b, td_buf *library) {
    char some[8192];
    int  fd = open(b->so, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    library->n = 0;
    ssize_t got = fd < 0 ? -1 : 0;
    while (fd >= 0 && (got = read(fd, some, sizeof some)) > 0)
        td__buf_addn(library, some, (size_t)got);
    if (fd >= 0) close(fd);
    return got == 0 && library->n > 0 && !library->failed;
}

/* Loads the linked library; NULL: *why has the reason. */
static void *load(build *b, td_buf *library, const char *label, char *why, size_t cap) {
    if (read_library(b, library))
        return td__load_bytes(b->cc->cx, label, library->s, library->n, why, cap);
    snprintf(why, cap, "%s", library->failed ? "no memory" : "it cannot be read");
    return NULL;
}

/* Tries ld first. Functions of libm, or of the compiler's own library, are then
 * resolved only if the process exports them; otherwise loading fails and the driver
 * links. */
static void *link_and_load(build *b, const char *label, td_buf *library) {
    char  why[400] = "";
    void *lib = link_plain(b) ? load(b, library, label, why, sizeof why) : NULL;
    if (lib) return lib;
    unlink(b->so);
    if (!link_by_compiler(b)) return NULL;
    lib = load(b, library, label, why, sizeof why);
    if (lib) return lib;
    if (library->failed) td__fail_memory(b->cc->cx);
    td__fail(b->cc->cx, TD_E_UNSUPPORTED,
             "native code: cannot load the library that %.200s built: %.300s; set "
             "TMPDIR to a directory without noexec, or backend=interp",
             b->cc->path, why);
    return NULL;
}

void *td__cc_build(td_cc *cc, const char *dir, const td_buf *text, int n,
                   const char *name, td_buf *library) {
    td_ctx *cx = cc->cx;
    build   b = {.cc = cc, .dir = dir, .n = n};
    b.until = td__seconds() + (double)td__config(cx)->cc_seconds;
    if (!name_files(&b, name)) return NULL;
    td__span_begin(cx, "cc");
    bool ok = compile(&b, text);
    td__span_end(cx, "cc");
    td__span_begin(cx, "link");
    void *lib = ok ? link_and_load(&b, name, library) : NULL;
    td__span_end(cx, "link");
    return lib;
}
