/* npy.c -- .npy files: what is written is read back, what NumPy writes is
 * understood, and nothing malformed gets through. */
#include "core/files.h"
#include "tandem/tandem.h"
#include "td_files.h"
#include "td_test.h"

#include <fcntl.h>
#include <sys/stat.h>

/* A file of version 1.0 with this header and n zero bytes behind it. */
static td_tensor *load(td_ctx *cx, const char *header, size_t n) {
    static unsigned char file[4096];
    size_t               len = strlen(header);
    memset(file, 0, sizeof file);
    memcpy(file, "\x93NUMPY\1\0", 8);
    file[8] = (unsigned char)len;
    file[9] = (unsigned char)(len >> 8);
    memcpy(file + 10, header, len);
    files_write("x.npy", file, 10 + len + n);
    return td_load_npy(cx, files_path("x.npy"));
}

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

TEST(every_dtype_is_read_back) {
    td_ctx *cx = td_open();
    files_begin();

    for (int dt = 0; dt < TD_DTYPE_COUNT; dt++) {
        if (dt == TD_BF16 || td__is_f8((td_dtype)dt)) continue; /* not in NumPy */
        td_tensor *x = td_to(td_arange(cx, 0, 6), (td_dtype)dt);
        double     a[12], b[12]; /* as complex numbers, which hold all dtypes */
        CHECK(td_save_npy(td_reshape(x, TD_SHAPE(2, 3)), files_path("x.npy")));
        td_tensor *y = td_load_npy(cx, files_path("x.npy"));
        CHECK_OK(cx);
        CHECK(td_dtype_of(y) == (td_dtype)dt && td_rank(y) == 2 && td_size(y, 1) == 3);
        CHECK(td_read(x, TD_C128, a, sizeof a) && td_read(y, TD_C128, b, sizeof b));
        CHECK(!memcmp(a, b, sizeof a));
    }
    CHECK(files_count() == 1); /* no temporary file stays */
    files_end();
    td_close(cx);
}

TEST(any_layout_is_written_row_major) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_reshape(td_arange(cx, 0, 6), TD_SHAPE(2, 3));
    int64_t    v[6];
    files_begin();

    CHECK(td_save_npy(td_t(x), files_path("t.npy")));
    CHECK(td_read(td_load_npy(cx, files_path("t.npy")), TD_I64, v, sizeof v));

    CHECK(v[0] == 0 && v[1] == 3 && v[2] == 1 && v[5] == 5);
    files_end();
    td_close(cx);
}

TEST(the_header_is_what_numpy_writes) {
    td_ctx *cx = td_open();
    char    file[256];
    files_begin();

    CHECK(td_save_npy(td_zeros(cx, TD_SHAPE(3)), files_path("x.npy")));
    size_t n = files_read("x.npy", file, sizeof file);

    CHECK(n == 128 + 12);
    CHECK(!memcmp(file, "\x93NUMPY\1\0\x76\0", 10));
    CHECK(!strncmp(file + 10,
                   "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }  ", 59));
    CHECK(file[127] == '\n');
    files_end();
    td_close(cx);
}

TEST(sizes_zero_and_rank_zero_survive) {
    td_ctx *cx = td_open();
    files_begin();

    CHECK(td_save_npy(td_full(cx, TD_SHAPE(), 2.5), files_path("a.npy")));
    CHECK(td_save_npy(td_zeros(cx, TD_SHAPE(2, 0)), files_path("b.npy")));

    CHECK(td_item(td_load_npy(cx, files_path("a.npy"))) == 2.5);
    CHECK(td_size(td_load_npy(cx, files_path("b.npy")), 0) == 2);
    CHECK_OK(cx);
    files_end();
    td_close(cx);
}

TEST(fortran_order_is_a_matter_of_strides) {
    td_ctx *cx = td_open();
    files_begin();

    td_tensor *x =
        load(cx, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }    \n",
             24);

    CHECK_OK(cx);
    CHECK(td_stride(x, 0) == 1 && td_stride(x, 1) == 2);
    files_end();
    td_close(cx);
}

TEST(a_loaded_tensor_outlives_its_file_and_may_not_be_written) {
    td_ctx *cx = td_open();
    files_begin();
    CHECK(td_save_npy(td_ones(cx, TD_SHAPE(4)), files_path("x.npy")));

    td_tensor *x = td_load_npy(cx, files_path("x.npy"));
    unlink(files_path("x.npy"));

    CHECK(td_item(td_sum(x)) == 4);
    CHECK(td_is_nil(td_add_(x, 1.0)));
    CHECK(says(cx, TD_E_ALIAS,
               "add_: a is read-only: its storage is mapped from a file, was imported "
               "by DLPack as read-only, or carries an object (td_object); write to a "
               "clone of it (td_clone)"));
    CHECK(td_item(td_sum(td_add_(td_clone(x), 1.0))) == 8);
    files_end();
    td_close(cx);
}

TEST(unaligned_elements_are_copied) {
    td_ctx *cx = td_open();
    files_begin();

    td_tensor *x =
        load(cx, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", 16);

    CHECK_OK(cx);
    CHECK((uintptr_t)td_data(x) % 8 == 0 && td_item(td_sum(x)) == 0);
    CHECK(!td_is_nil(td_add_(x, 1.0)));
    files_end();
    td_close(cx);
}

TEST(malformed_headers_are_refused) {
    static const char *const bad[][2] = {
        {"", "expected { of the header, at byte 10"},
        {"{'descr': '<f4', 'shape': (2,), }", "lacks"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", "expected ,"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
         "expected a size"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", "text after"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", "True or False"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (2,), }", "twice"},
        {"{'what': '<f4', 'fortran_order': False, 'shape': (2,), }", "unknown entry"},
        {"{'descr': '<f4, 'fortran_order': False, 'shape': (2,), }", "expected"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,", "expected a size"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
         "too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
         "f32[3] takes 12 bytes, there are 8 from byte 67 on"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018, 4611686018), "
         "}",
         "takes"},
    };
    td_ctx *cx = td_open();
    files_begin();

    for (int i = 0; i < TD_COUNT(bad); i++) {
        CHECK(td_is_nil(load(cx, bad[i][0], 8)));
        CHECK(says(cx, TD_E_IO, bad[i][1]));
    }
    files_end();
    td_close(cx);
}

TEST(what_has_no_counterpart_is_unsupported) {
    static const char *const bad[][2] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "big-endian"},
        {"{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }", "bf16"},
        {"{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }", "'<U2'"},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,), }", "''"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
         "records"},
    };
    td_ctx *cx = td_open();
    files_begin();

    for (int i = 0; i < TD_COUNT(bad); i++) {
        CHECK(td_is_nil(load(cx, bad[i][0], 8)));
        CHECK(says(cx, TD_E_UNSUPPORTED, bad[i][1]));
    }
    CHECK(!td_save_npy(td_ones(cx, TD_SHAPE(1), TD_BF16), files_path("b.npy")));
    CHECK(says(cx, TD_E_UNSUPPORTED, "no bf16"));
    files_end();
    td_close(cx);
}

TEST(files_that_are_none_are_refused) {
    td_ctx *cx = td_open();
    files_begin();

    CHECK(td_is_nil(td_load_npy(cx, files_path("none"))));
    CHECK(says(cx, TD_E_IO, "No such file"));
    CHECK(td_is_nil(td_load_npy(cx, files_dir)));
    CHECK(says(cx, TD_E_IO, "not a regular file"));
    files_write("x.npy", "", 0);
    CHECK(td_is_nil(td_load_npy(cx, files_path("x.npy"))));
    CHECK(says(cx, TD_E_IO, "is empty"));
    files_write("x.npy", "\x93NUMPY\4\0\0\0\0\0", 12);
    CHECK(td_is_nil(td_load_npy(cx, files_path("x.npy"))));
    CHECK(says(cx, TD_E_IO, "version"));
    files_write("x.npy", "\x93NUMPY\2\0\xff\xff\xff\xff", 12);
    CHECK(td_is_nil(td_load_npy(cx, files_path("x.npy"))));
    CHECK(says(cx, TD_E_IO, "longer than the file"));
    files_end();
    td_close(cx);
}

TEST(a_bool_is_zero_or_one) {
    td_ctx *cx = td_open();
    char    header[] = "{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }";
    char    file[128] = "\x93NUMPY\1\0";
    files_begin();
    file[8] = sizeof header - 1;
    memcpy(file + 10, header, sizeof header - 1);
    file[10 + sizeof header - 1] = 2;
    files_write("x.npy", file, 10 + sizeof header);

    CHECK(td_is_nil(td_load_npy(cx, files_path("x.npy"))));

    CHECK(says(cx, TD_E_IO, "neither 0 nor 1"));
    files_end();
    td_close(cx);
}

TEST(a_failed_write_leaves_the_old_file) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(30, 30)),
              *y = td_t(td_zeros(cx, TD_SHAPE(30, 30)));
    bool ok = false;
    files_begin();
    CHECK(td_save_npy(x, files_path("x.npy")));

    for (int64_t n = 0; !ok && n < 100; n++) {
        td__fault_arm(n, false);
        ok = td_save_npy(y, files_path("x.npy"));
        td__fault_arm(-1, false);
        CHECK(ok == td_ok(cx) && files_count() == 1);
        td_clear(cx);
        if (!ok) CHECK(td_item(td_sum(td_load_npy(cx, files_path("x.npy")))) == 900);
    }

    CHECK(ok && td_item(td_sum(td_load_npy(cx, files_path("x.npy")))) == 0);
    CHECK(!td_save_npy(x, "/dev/full/x.npy"));
    CHECK(says(cx, TD_E_IO, "cannot create"));
    files_end();
    td_close(cx);
}

/* Saving renames a finished file over the name; a device or pipe must survive that. */
TEST(saving_to_a_pipe_or_device_writes_into_it) {
    td_ctx     *cx = td_open();
    char        bytes[512];
    struct stat st;
    files_begin();
    CHECK(mkfifo(files_path("pipe"), 0600) == 0);
    int fd = open(files_path("pipe"), O_RDONLY | O_NONBLOCK);
    CHECK(td_save_npy(td_ones(cx, TD_SHAPE(2)), files_path("pipe")));
    CHECK_OK(cx);
    CHECK(lstat(files_path("pipe"), &st) == 0 && S_ISFIFO(st.st_mode));
    ssize_t n = read(fd, bytes, sizeof bytes);
    CHECK(n > 8 && memcmp(bytes, "\x93NUMPY", 6) == 0 && files_count() == 1);
    close(fd);

    CHECK(!td_save_npy(td_ones(cx, TD_SHAPE(2)), "/dev/full"));
    CHECK(says(cx, TD_E_IO, "cannot write"));
    if (geteuid() == 0 && mknod(files_path("null"), S_IFCHR | 0600, 1 << 8 | 3) == 0) {
        CHECK(td_save_npy(td_ones(cx, TD_SHAPE(2)), files_path("null")));
        CHECK(lstat(files_path("null"), &st) == 0 && S_ISCHR(st.st_mode));
    }
    CHECK(!td_save_npy(td_ones(cx, TD_SHAPE(2)), files_dir));
    CHECK(says(cx, TD_E_IO, "cannot open"));
    files_end();
    td_close(cx);
}

TEST(saving_through_a_symbolic_link_replaces_the_file_it_leads_to) {
    td_ctx     *cx = td_open();
    struct stat st;
    char        link[512];
    files_begin();
    strcpy(link, files_path("link.npy"));
    CHECK(symlink("x.npy", link) == 0);
    CHECK(!td_save_npy(td_ones(cx, TD_SHAPE(2)), link));
    CHECK(says(cx, TD_E_IO, "cannot follow the symbolic link"));

    CHECK(td_save_npy(td_zeros(cx, TD_SHAPE(3)), files_path("x.npy")));
    CHECK(td_save_npy(td_ones(cx, TD_SHAPE(3)), link));
    CHECK_OK(cx);
    CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode) && files_count() == 2);
    CHECK(td_item(td_sum(td_load_npy(cx, files_path("x.npy")))) == 3);
    files_end();
    td_close(cx);
}
