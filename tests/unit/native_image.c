/* native_image.c -- native code on disk: the steps come back as they were, and bytes
 * that are wrong in any way are a miss, and nothing worse. */
#include "graph_help.h"

#include "build/disk.h"
#include "backend/native.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

/* Loops that sum over rows and along them, draws, a number of run time (a size), calls,
 * a view, bytes that are taken over, a write into an input; of 6 rows, and of any
 * number. */
#define BODY(n, of)                                                   \
    "func @f(%x: f32[" n ",8], %w: f32[8,8], %o: f32[8,8] @1) {\n" of \
    "  %b = mul(%x, " n ") : f32[" n ",8]\n"                          \
    "  %r = rand_like(%x) : f32[" n ",8]\n"                           \
    "  %c = add(%b, %r) : f32[" n ",8]\n"                             \
    "  %m = mm(%c, %w) : f32[" n ",8]\n"                              \
    "  %s = _softmax(%m, 1, false) : f32[" n ",8]\n"                  \
    "  %t = transpose(%s, 0, 1) : f32[8," n "]{1,8}\n"                \
    "  %u = exp(%t) : f32[8," n "]{1,8}\n"                            \
    "  %p = mm(%u, %m) : f32[8,8]\n"                                  \
    "  %q = tanh(%p) : f32[8,8]\n"                                    \
    "  %v = sum(%m, [0]) : f32[8]\n"                                  \
    "  %z = sum(%q) : f32[]\n"                                        \
    "  %k = add(%q, %w) : f32[8,8]\n"                                 \
    "  %n = copy_(%o, %k) : f32[8,8]\n"                               \
    "  return %v, %z, %s\n"                                           \
    "}\n"
static const char *const texts[] = {BODY("6", ""), BODY("s0", "  given s0 >= 2\n")};

typedef struct scene {
    td_ctx   *cx;
    td_gfile *f;
    td_graph *g;
    td_buf    bytes; /* of the entry */
    char      name[64], place[64];
} scene;

static void compile(scene *s, td_runner *code) {
    td_compile_info info = {.size = sizeof info, .name = "f"};
    CHECK(td__compile(s->cx, &td__native, s->g, &info, code));
    CHECK_OK(s->cx);
}

static void entry_name(scene *s) {
    DIR *d = opendir(s->place);
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, "n_", 2))
            snprintf(s->name, sizeof s->name, "%.60s", e->d_name);
    if (d) closedir(d);
    CHECK(*s->name);
}

/* The bytes of the entry, and what it was made of. */
static void read_entry(scene *s, td_buf *key) {
    td_disk       d;
    td_disk_entry m;
    char          why[64];
    td__disk_open(&d, s->cx, false);
    CHECK(td__disk_check(&d, s->name, key, why, sizeof why));
    char *note = strstr(key->s, "entry n_");
    CHECK(note);
    *note = 0;
    CHECK(td__disk_read(&d, s->name, key->s, &m) == NULL);
    td__buf_addn(&s->bytes, m.bytes, m.payload);
    td__disk_entry_free(&m);
    td__disk_close(&d);
}

static void enter(scene *s, int which) {
    td_buf    key = {0};
    td_runner code = {0};
    *s = (scene){.cx = td_open(), .place = "/tmp/td-native-XXXXXX"};
    CHECK(mkdtemp(s->place));
    td_config_set(s->cx, "cache_dir", s->place);
    td_config_set(s->cx, "cc_flags", "-O0");
    s->f = parse(s->cx, texts[which]);
    CHECK_OK(s->cx);
    s->g = s->f->graphs.v[0];
    compile(s, &code);
    td__runner_drop(&code);
    entry_name(s);
    read_entry(s, &key);
    td__buf_free(&key);
}

static void leave(scene *s) {
    td_disk d;
    td__disk_open(&d, s->cx, false);
    td__disk_clear(&d);
    td__disk_close(&d);
    td__gfile_drop(s->f);
    td__buf_free(&s->bytes);
    td_close(s->cx);
    CHECK(rmdir(s->place) == 0);
}

/* As the backend does it: what comes of these bytes. */
static bool take(const scene *s, const char *bytes, size_t n) {
    td_native *c = td__zalloc(sizeof *c);
    bool       ok = c && !td__native_read(c, bytes, n, s->g);
    if (c) td__native_drop(c);
    td_clear(s->cx);
    return ok;
}

TEST(steps_come_back_as_they_were) {
    for (int which = 0; which < 2; which++) {
        scene     s;
        td_buf    was = {0}, is = {0};
        td_runner first = {0}, second = {0};
        enter(&s, which);
        td_config_set(s.cx, "cache_disk_mb", "0");
        compile(&s, &first);
        td_config_set(s.cx, "cache_disk_mb", "8");
        compile(&s, &second);
        CHECK(!td__native_of(&first)->found && td__native_of(&second)->found);
        td__native_report(&was, &first, "some");
        td__native_report(&is, &second, "some");
        CHECK(strstr(was.s, "amax+sub+exp+sum+div+exp+sum"));
        CHECK_STR(is.s, was.s);
        td__runner_drop(&first);
        td__runner_drop(&second);
        td__buf_free(&was);
        td__buf_free(&is);
        leave(&s);
    }
}

TEST(wrong_bytes_are_a_miss_and_nothing_worse) {
    for (int which = 0; which < 2; which++) {
        scene s;
        int   taken = 0;
        enter(&s, which);
        char *b = s.bytes.s;
        CHECK(take(&s, b, s.bytes.n));
        for (size_t n = 0; n < s.bytes.n; n++) CHECK(!take(&s, b, n));
        for (size_t i = 0; i < s.bytes.n; i++)
            for (int by = 1; by < 256; by += by < 64 ? 1 : 17) {
                b[i] = (char)(b[i] ^ by);
                taken += take(&s, b, s.bytes.n);
                b[i] = (char)(b[i] ^ by);
            }
        CHECK(taken > 0);
        leave(&s);
    }
}

static uint64_t noise = 9;

static size_t pick(size_t n) {
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(noise >> 33) % n;
}

/* What one check lets pass, the next one may rely on. */
TEST(several_wrong_bytes_are_no_worse) {
    for (int which = 0; which < 2; which++) {
        scene s;
        enter(&s, which);
        char *was = s.bytes.s, *b = malloc(s.bytes.n);
        for (int round = 0; round < 20000; round++) {
            memcpy(b, was, s.bytes.n);
            for (size_t n = 2 + pick(3); n > 0; n--)
                b[pick(s.bytes.n)] = (char)pick(pick(2) ? 256 : 24);
            take(&s, b, s.bytes.n);
        }
        free(b);
        leave(&s);
    }
}

/* Numbers of values, nodes and kernels among each other: all are in bounds. */
TEST(numbers_that_changed_places_are_no_worse) {
    for (int which = 0; which < 2; which++) {
        scene s;
        enter(&s, which);
        char  *was = s.bytes.s, *b = malloc(s.bytes.n);
        size_t n = s.bytes.n;
        for (int round = 0; round < 20000; round++) {
            memcpy(b, was, n);
            for (size_t k = 1 + pick(3); k > 0; k--)
                b[n - 1 - pick(n / 2)] = b[n - 1 - pick(n / 2)];
            take(&s, b, n);
        }
        free(b);
        leave(&s);
    }
}

/* ---- memory ------------------------------------------------------------- */

static void hear_nothing(void *env, const char *topic, const char *text) {
    (void)env, (void)topic, (void)text;
}

TEST(every_failing_allocation_is_no_worse_than_a_miss) {
    scene s;
    enter(&s, 1);
    td_log_to(s.cx, hear_nothing, NULL); /* that the cache cannot be written */
    int refused = 0;
    for (int warm = 0; warm < 2; warm++)
        for (int n = 0;; n++) {
            td_runner       code = {0};
            td_compile_info info = {.size = sizeof info, .name = "f"};
            td_disk         d;
            td__disk_open(&d, s.cx, false);
            if (!warm) td__disk_clear(&d);
            td__disk_close(&d);
            td__fault_arm(n, false);
            bool ok = td__compile(s.cx, &td__native, s.g, &info, &code);
            bool hit = td__fault_count() > n;
            td__fault_arm(-1, false);
            if (!ok) CHECK(td_error(s.cx) == TD_E_MEMORY);
            CHECK(ok == td_ok(s.cx));
            refused += !ok;
            td__runner_drop(&code);
            td_clear(s.cx);
            if (!hit) break;
            CHECK(n < 100000);
        }
    CHECK(refused > 0);
    CHECK(take(&s, s.bytes.s, s.bytes.n));
    leave(&s);
}
