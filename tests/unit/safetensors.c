/* safetensors.c -- .safetensors files: round trips, and every rule of the format
 * broken once. */
#include "core/files.h"
#include "tandem/tandem.h"
#include "td_files.h"
#include "td_test.h"

#define PATH files_path("x.safetensors")

/* Opens a file of this header and n zero bytes. */
static td_safetensors *open_text(td_ctx *cx, const char *header, size_t n) {
    static unsigned char file[65536];
    size_t               len = strlen(header);
    memset(file, 0, sizeof file);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)len >> (8 * i));
    memcpy(file + 8, header, len);
    files_write("x.safetensors", file, 8 + len + n);
    return td_safetensors_open(cx, PATH);
}

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

TEST(tensors_come_back_by_name) {
    static const char *const names[] = {"b.weight", "a \"quoted\" \\ n\xc3\xa4me", "s",
                                        "e"};
    td_ctx                  *cx = td_open();
    td_tensor *in[] = {td_ones(cx, TD_SHAPE(2, 3), TD_BF16), td_arange(cx, 0, 5),
                       td_full(cx, TD_SHAPE(), 2.5),
                       td_zeros(cx, TD_SHAPE(0, 4), TD_BOOL)};
    files_begin();

    CHECK(td_safetensors_save(cx, PATH, names, (td_tensors){in, 4},
                              (const char *const[]){"format", "pt", "x", "y\n", NULL}));
    td_safetensors *f = td_safetensors_open(cx, PATH);

    CHECK_OK(cx);
    CHECK(td_safetensors_count(f) == 4 && files_count() == 1);
    CHECK_STR(td_safetensors_note(f, "format"), "pt");
    CHECK_STR(td_safetensors_note(f, "x"), "y\n");
    CHECK(!td_safetensors_note(f, "z"));
    for (int i = 0; i < 4; i++) {
        td_tensor *t = td_safetensors_get(f, names[i]);
        double     a[6], b[6];
        size_t     n = (size_t)td_numel(in[i]) * sizeof(double);
        CHECK(td_dtype_of(t) == td_dtype_of(in[i]) && td_rank(t) == td_rank(in[i]));
        CHECK(td_read(in[i], TD_F64, a, n) && td_read(t, TD_F64, b, n));
        CHECK(!memcmp(a, b, n));
    }
    td_safetensors_close(f);
    files_end();
    td_close(cx);
}

TEST(a_tensor_outlives_the_open_file_and_may_not_be_written) {
    td_ctx *cx = td_open();
    files_begin();
    td_safetensors *f =
        open_text(cx,
                  "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  ",
                  8);

    td_tensor *a = td_safetensors_get(f, "a");
    td_safetensors_close(f);
    unlink(PATH);

    CHECK(td_item(td_sum(a)) == 0);
    CHECK(td_is_nil(td_add_(a, 1.0)));
    CHECK(says(cx, TD_E_ALIAS, "read-only"));
    files_end();
    td_close(cx);
}

TEST(elements_are_aligned_in_what_is_written) {
    static const char *const names[] = {"u", "d", "h"};
    td_ctx                  *cx = td_open();
    td_tensor               *in[] = {td_ones(cx, TD_SHAPE(3), TD_U8),
                                     td_ones(cx, TD_SHAPE(1), TD_F64),
                                     td_ones(cx, TD_SHAPE(1), TD_F16)};
    files_begin();

    CHECK(td_safetensors_save(cx, PATH, names, (td_tensors){in, 3}, NULL));
    td_safetensors *f = td_safetensors_open(cx, PATH);

    CHECK_STR(td_safetensors_name(f, 0), "d");
    CHECK_STR(td_safetensors_name(f, 1), "h");
    CHECK_STR(td_safetensors_name(f, 2), "u");
    CHECK(!td_safetensors_name(f, 3) && !td_safetensors_name(f, -1));
    CHECK(td_is_nil(td_add_(td_safetensors_get(f, "d"), 1.0))); /* mapped, not copied */
    td_safetensors_close(f);
    files_end();
    td_close(cx);
}

#define T(name, shape, offsets)                                                        \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" offsets \
    "]}"

TEST(every_rule_of_the_format_holds) {
    static const struct {
        const char *header;
        size_t      n;
        const char *part;
    } bad[] = {
        {"[]", 0, "does not start with {"},
        {"", 0, "does not start with {"},
        {"{", 0, "no JSON"},
        {"{} x", 0, "text after"},
        {"{\"a\":5}", 0, "tensor \"a\": is no object"},
        {"{\"\xff\":5}", 0, "not UTF-8"},
        {"{\"\xed\xa0\x80\":5}", 0, "not UTF-8"},
        {"{\"a\\u0000b\":5}", 0, "a NUL"},
        {"{" T("a", "2", "0,8") "," T("a", "2", "8,16") "}", 16, "comes twice"},
        {"{" T("a", "2", "0,8") "," T("b", "2", "4,12") "}", 12, "overlap"},
        {"{" T("a", "2", "0,8") "," T("b", "2", "12,20") "}", 20, "a hole"},
        {"{" T("a", "2", "4,12") "}", 12, "a hole"},
        {"{" T("a", "2", "0,8") "}", 9, "bytes behind"},
        {"{" T("a", "2", "0,8") "}", 7, "outside the file"},
        {"{" T("a", "2", "8,0") "}", 8, "outside the file"},
        {"{" T("a", "3", "0,8") "}", 8, "do not give the bytes"},
        {"{" T("a", "1099511627776,1099511627776", "0,8") "}", 8, "do not give"},
        {"{" T("a", "-2", "0,8") "}", 8, "no size"},
        {"{" T("a", "2.5", "0,8") "}", 8, "no size"},
        {"{" T("a", "1e300", "0,8") "}", 8, "no size"},
        {"{" T("a", "2", "0") "}", 8, "not a pair"},
        {"{" T("a", "2", "0,8,8") "}", 8, "not a pair"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
         "unknown dtype"},
        {"{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "no string"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8,
         "no list"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "no string"},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}", 0, "key twice"},
        {"{\"__metadata__\":[]}", 0, "no object"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "comes twice"},
    };
    td_ctx *cx = td_open();
    files_begin();

    for (int i = 0; i < TD_COUNT(bad); i++) {
        CHECK(td_is_nil(open_text(cx, bad[i].header, bad[i].n)));
        CHECK(says(cx, TD_E_IO, bad[i].part));
    }
    files_end();
    td_close(cx);
}

TEST(a_header_must_fit_its_file_and_the_formats_bound) {
    td_ctx *cx = td_open();
    files_begin();

    files_write("x.safetensors", "abc", 3);
    CHECK(td_is_nil(td_safetensors_open(cx, PATH)) && says(cx, TD_E_IO, "too short"));
    files_write("x.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    CHECK(td_is_nil(td_safetensors_open(cx, PATH)) && says(cx, TD_E_IO, "over 100 MB"));
    files_write("x.safetensors", "\3\0\0\0\0\0\0\0{}", 10);
    CHECK(td_is_nil(td_safetensors_open(cx, PATH)) &&
          says(cx, TD_E_IO, "longer than the file"));
    files_end();
    td_close(cx);
}

TEST(deep_nesting_does_not_exhaust_the_stack) {
    td_ctx *cx = td_open();
    char    deep[40001];
    files_begin();
    for (int i = 0; i < 40000; i += 4) memcpy(deep + i, "{\"\":", 4);
    memcpy(deep, "{\"a\":[", 6);
    deep[40000] = 0;

    CHECK(td_is_nil(open_text(cx, deep, 0)));

    CHECK(says(cx, TD_E_IO, "header"));
    files_end();
    td_close(cx);
}

TEST(types_without_counterpart_do_not_hide_the_others) {
    td_ctx *cx = td_open();
    files_begin();
    td_safetensors *f =
        open_text(cx,
                  "{" T("a", "2", "8,16") ",\"u\":{\"dtype\":\"F8_E8M0\",\"shape\":[8],"
                                          "\"data_offsets\":[0,8]}}",
                  16);

    CHECK_OK(cx);
    CHECK(td_numel(td_safetensors_get(f, "a")) == 2);
    CHECK(td_is_nil(td_safetensors_get(f, "u")));
    CHECK(says(cx, TD_E_UNSUPPORTED, "type F8_E8M0"));
    CHECK(td_is_nil(td_safetensors_get(f, "none")));
    CHECK(says(cx, TD_E_ARG, "has no tensor \"none\""));
    td_safetensors_close(f);
    files_end();
    td_close(cx);
}

TEST(bad_names_are_refused_before_writing) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(1)), *two[] = {x, x}, *nil[] = {td_nil(cx)};
    files_begin();

    CHECK(!td_safetensors_save(cx, PATH, (const char *const[]){"a", "a"},
                               (td_tensors){two, 2}, NULL));
    CHECK(says(cx, TD_E_ARG, "comes twice"));
    CHECK(!td_safetensors_save(cx, PATH, (const char *const[]){"__metadata__"},
                               (td_tensors){two, 1}, NULL));
    CHECK(says(cx, TD_E_ARG, "reserved"));
    CHECK(!td_safetensors_save(cx, PATH, (const char *const[]){"\xff"},
                               (td_tensors){two, 1}, NULL));
    CHECK(says(cx, TD_E_ARG, "UTF-8"));
    CHECK(!td_safetensors_save(cx, PATH, (const char *const[]){"n"},
                               (td_tensors){nil, 1}, NULL));
    CHECK(says(cx, TD_E_ARG, "is nil"));
    CHECK(!td_safetensors_save(cx, PATH, NULL, (td_tensors){NULL, 0},
                               (const char *const[]){"k", NULL}));
    CHECK(says(cx, TD_E_ARG, "has no value"));
    CHECK(files_count() == 0);
    files_end();
    td_close(cx);
}

TEST(every_failure_of_memory_or_file_is_an_error) {
    static const char *const names[] = {"a", "b"};
    td_ctx                  *cx = td_open();
    td_tensor *in[] = {td_ones(cx, TD_SHAPE(3, 4)), td_t(td_ones(cx, TD_SHAPE(3, 4)))};
    bool       ok = false;
    files_begin();

    for (int64_t n = 0; !ok && n < 200; n++) {
        td__fault_arm(n, false);
        ok = td_safetensors_save(cx, PATH, names, (td_tensors){in, 2}, NULL);
        td__fault_arm(-1, false);
        CHECK(ok == td_ok(cx) && files_count() == (ok ? 1 : 0));
        td_clear(cx);
    }
    ok = false;
    for (int64_t n = 0; !ok && n < 200; n++) {
        td__fault_arm(n, false);
        td_safetensors *f = td_safetensors_open(cx, PATH);
        td_tensor      *t = f ? td_safetensors_get(f, "b") : td_nil(cx);
        td__fault_arm(-1, false);
        ok = !td_is_nil(t);
        CHECK(ok == td_ok(cx));
        td_safetensors_close(f);
        td_clear(cx);
    }
    CHECK(ok);
    files_end();
    td_close(cx);
}
