/* add_an_op.c -- does what docs/adding-an-op.md says: takes the row and the kernel from
 * its text, builds a library that has the op, and runs tests/docs/sum_squares.c with
 * it.
 *
 * The row goes behind all others, so that the ids of the other ops stay. Then only
 * sources that name TD_OP_COUNT, or are generated, need compiling; all other objects
 * come from the library of this build. What is written lies below BUILD/add_an_op. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[300];

/* Runs a command built from a format; false when it fails. */
static bool run(const char *fmt, const char *a, const char *b) {
    static char command[8192];
    int         n = snprintf(command, sizeof command, fmt, a, b);
    if (n < 0 || n >= (int)sizeof command) return false;
    return system(command) == 0;
}

/* Copies to `out` the indented block of the document that begins with `first`, without
 * its indentation; a blank line between indented ones belongs to it. */
static bool copy_block(const char *doc, const char *first, FILE *out) {
    const char *at = strstr(doc, first);
    if (!at || at - doc < 4 || strncmp(at - 4, "    ", 4) != 0) return false;
    for (at -= 4; !strncmp(at, "    ", 4) || !strncmp(at, "\n    ", 5);) {
        size_t skip = *at == '\n' ? 0 : 4, n = strcspn(at, "\n") + 1;
        fwrite(at + skip, 1, n - skip, out);
        at += n;
    }
    return true;
}

static char *read_file(const char *path) {
    static char text[1 << 16];
    FILE       *f = fopen(path, "rb");
    size_t      n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    return text;
}

/* Writes head, then the block of the document, into a file below `dir`. */
static bool write_file(const char *path, const char *head, const char *first) {
    char  at[512];
    char *doc = read_file("docs/adding-an-op.md");
    snprintf(at, sizeof at, "%s/%s", dir, path);
    FILE *f = fopen(at, "w");
    if (!f) return false;
    fputs(head, f);
    bool ok = copy_block(doc, first, f);
    return fclose(f) == 0 && ok;
}

/* The beginning of kern_reduce_ops.c, which the new kernel stands in: its includes and
 * its first function, `start`. */
static const char *kernel_head(void) {
    char *text = read_file("src/kernels/kern_reduce_ops.c");
    char *end = strstr(text, "\n}\n");
    if (end) end[3] = 0;
    static char head[1 << 14];
    snprintf(head, sizeof head, "%s\n", text);
    return head;
}

#define FLAGS                                                                         \
    "-std=c11 -D_GNU_SOURCE -O0 -DTD_KEEP_PLACE -I$S/src -I$S/gen/include -Iinclude " \
    "-Isrc -I$S/gen/src"
#define EACH "| xargs -P 4 -I{} sh -c '" TD_CC " " FLAGS " -c {} -o $S/"

/* The generator with the new row, and what it writes. */
static const char generate[] =
    "S=%s; B=%s; mkdir -p $S/g $S/o $S/gen/src/ops $S/gen/src/kernels/loops "
    "$S/gen/src/build $S/gen/include/tandem $S/gen/docs && export S && "
    "ls src/ops/gen/*.c src/ops/table_text.c src/ops/schema.c src/ops/expr.c " EACH
    "g/$(basename {}).o' && " TD_CC " $S/g/*.o $B/libtandem.a -o $S/gen/gen "
    "-lxxhash -lpthread -lm && $S/gen/gen $S/gen";

/* The objects that depend on the number of ops, the new kernel, and the test. */
static const char build[] =
    "S=%s; B=%s; export S; { grep -rl TD_OP_COUNT src --include=*.c | "
    "grep -v -e src/ops/gen -e table_text -e src/cli; echo $S/gen/src/ops/ops_api.c; "
    "echo $S/kern.c; echo tests/docs/sum_squares.c; } " EACH
    "o/$(echo {} | tr / _).o' && " TD_CC " $S/o/*.o $B/libtandem.a -o $S/test " TD_LIBS;

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/'); /* BUILD/programs/add_an_op */
    char        top[256] = "build";
    if (slash) snprintf(top, sizeof top, "%.*s/..", (int)(slash - argv[0]), argv[0]);
    snprintf(dir, sizeof dir, "%s/add_an_op", top);
    if (argc > 1 && *argv[1] && !strstr("add_an_op", argv[1])) return 0;
    if (*TD_SAN) return puts("passed over: builds plain code"), 0;
    char *ops = NULL;
    bool  ok = run("rm -rf %s && mkdir -p %s/src/ops", dir, dir);
    ok = ok && (ops = strdup(read_file("src/ops/ops.def")));
    ok = ok && write_file("src/ops/ops.def", ops, "TD_OP(sum_squares,") &&
         write_file("kern.c", kernel_head(), "bool td__kern_sum_squares(");
    if (!ok) return puts("FAIL docs/adding-an-op.md has no row or no kernel"), 1;
    free(ops);
    if (!run(generate, dir, top)) return puts("FAIL the generator"), 1;
    if (!run(build, dir, top)) return puts("FAIL the build"), 1;
    return run("%s/test %s", dir, "") ? 0 : 1;
}
