/* aot_key_words.c -- keys written by hand, as a file of the cache may have them: which
 * are valid, and what each property that differs is called. */
#include "aot/aot.h"
#include "core/device.h"
#include "td_test.h"

#define BIT(b) (1LL << (b))
#define RANK1 (BIT(TD_KEY_RANK) | TD_F32)

static td_key key_of(const int64_t *v, int n) {
    return (td_key){.v = (int64_t *)(uintptr_t)v, .n = n};
}
#define KEY(...)                           \
    key_of((const int64_t[]){__VA_ARGS__}, \
           (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

#define VALID(...)                          \
    do {                                    \
        const td_key k_ = KEY(__VA_ARGS__); \
        CHECK(td__key_valid(&k_));          \
    } while (0)
#define INVALID(...)                        \
    do {                                    \
        const td_key k_ = KEY(__VA_ARGS__); \
        CHECK(!td__key_valid(&k_));         \
    } while (0)

TEST(words_are_a_key_if_all_items_are_whole) {
    VALID(0, 1);
    VALID(2, 1, TD_K_NONE, TD_K_INT, 5);
    VALID(1, 1, TD_K_TENSOR, RANK1, 0, 4, 1);
    VALID(1, 1, TD_K_NONE, TD_KEY_GRAD, 0, TD_K_BOOL, 1);
    VALID(1, 1, TD_K_TENSOR, RANK1 | BIT(TD_KEY_READ), 0, 4, 1, -1);
    VALID(1, 1, TD_K_TENSOR, RANK1 | BIT(TD_KEY_TYPED), 0, 4, 1, 3, 1, 2, 3);
    INVALID(1);
    INVALID(-1, 1);
    INVALID(9, 1);
    INVALID(0, -1);
    INVALID(1, 1, TD_K_INT);
    INVALID(1, 1, -3, 0);
    INVALID(1, 1, 300, 0);
    INVALID(1, 1, TD_KEY_GRAD, 0);
    INVALID(1, 1, TD_KEY_GRAD, -1, TD_K_NONE);
    INVALID(1, 1, TD_KEY_GRAD, 99, TD_K_NONE);
}

TEST(words_of_a_tensor_are_no_key_if_one_is_missing_or_out_of_range) {
    INVALID(1, 1, TD_K_TENSOR, RANK1);
    INVALID(1, 1, TD_K_TENSOR, RANK1, 0, 4);
    INVALID(1, 1, TD_K_TENSOR, RANK1, -1, 4, 1);
    INVALID(1, 1, TD_K_TENSOR, RANK1, 99, 4, 1);
    INVALID(1, 1, TD_K_TENSOR, 255LL << TD_KEY_RANK, 0, 4, 1);
    INVALID(1, 1, TD_K_TENSOR, RANK1 | BIT(TD_KEY_OFFSET), 0, 4, 1);
    INVALID(1, 1, TD_K_TENSOR, RANK1 | BIT(TD_KEY_READ), 0);
    INVALID(1, 1, TD_K_TENSOR, RANK1 | BIT(TD_KEY_READ), 0, 4, 1);
    INVALID(1, 1, TD_K_TENSOR, RANK1 | BIT(TD_KEY_READ), 0, 4, 1, -2);
    INVALID(1, 1, TD_K_TENSOR, RANK1 | BIT(TD_KEY_READ), 0, 4, 1, 99);
    INVALID(1, 1, TD_K_TENSOR, RANK1 | BIT(TD_KEY_READ), 0, 4, 1, 2, 4);
    INVALID(1, 1, TD_K_TENSOR, RANK1 | BIT(TD_KEY_TYPED), 0, 4, 1);
    INVALID(1, 1, TD_K_TENSOR, RANK1 | BIT(TD_KEY_TYPED), 0, 4, 1, 2, 1, 2);
    INVALID(1, 1, TD_K_TENSOR, RANK1 | BIT(TD_KEY_TYPED), 0, 4, 1, 99, 1, 2);
}

/* What the log says of a call with key `now` that does not fit the key `was`. */
static const char *difference(td_key now, td_key was) {
    static char    text[400];
    static td_fn   f;
    static td_spec s;
    td_buf         b = {0};
    f.key = now, s.key = was;
    td__key_difference(&b, &f, &s);
    snprintf(text, sizeof text, "%s", td__buf_str(&b));
    td__buf_free(&b);
    return text;
}

#define T(bits) 1, 1, TD_K_TENSOR, RANK1 | (bits), 0, 4, 1

TEST(each_property_that_differs_has_a_text) {
    const int64_t view = BIT(TD_KEY_VIEW), object = BIT(TD_KEY_OBJECT),
                  read = BIT(TD_KEY_READ), split = BIT(TD_KEY_CREATION),
                  cuda = (int64_t)td__device_code((td_device){TD_CUDA, 0})
                         << TD_KEY_DEVICE;
    CHECK_STR(difference(KEY(T(cuda)), KEY(T(0))), "argument 0: on cuda:0, was on cpu");
    CHECK_STR(difference(KEY(T(view | split)), KEY(T(view))),
              "argument 0 is a view made in another way (grad mode, or by split)");
    CHECK_STR(difference(KEY(T(object), 7), KEY(T(object), 8)),
              "argument 0 is an object of another type or key");
    CHECK_STR(difference(KEY(T(read), 1, 4), KEY(T(read), 1, 5)),
              "argument 0 is a leaf that was first read in other sizes now");
    CHECK_STR(difference(KEY(T(read), -1), KEY(T(read), 1, 5)),
              "argument 0 is a leaf that was first read in other sizes now");
    CHECK_STR(difference(KEY(1, 1, 60, 0), KEY(1, 1, TD_K_BOOL, 0)),
              "argument 0 is something else, was a bool");
    CHECK_STR(difference(KEY(1, 1, TD_K_NONE), KEY(1, 1, TD_K_FLOAT, 0)),
              "argument 0 is absent, was a float");
    CHECK_STR(difference(KEY(0, 1), KEY(0, 3)), "inference mode off");
    CHECK_STR(difference(KEY(0, 1 | BIT(TD_KEY_HOOKED)), KEY(0, 1)),
              "a tensor whose gradient the body computes has gradient hooks");
    CHECK_STR(difference(KEY(2, 1, TD_K_NONE, TD_KEY_GRAD, 0, TD_K_BOOL, 1),
                         KEY(2, 1, TD_K_NONE, TD_KEY_GRAD, 1, TD_K_BOOL, 1)),
              "word 4 of the key is 0, was 1");
    CHECK_STR(difference(KEY(0, 1), KEY(0, 1)), "");
}

static td_key_change change(td_key now, td_key was) {
    return td__key_change(&now, &was);
}

TEST(a_size_or_a_number_that_changes_may_become_symbolic) {
    const int64_t f64 = TD_F64 ^ TD_F32;
    td_key        three = KEY(1, 1, TD_K_INT, 3);
    CHECK(change(three, KEY(1, 1, TD_K_INT, 5)) == TD_CHANGE_NUMBER);
    CHECK(change(KEY(T(0)), KEY(1, 1, TD_K_TENSOR, RANK1, 0, 5, 1)) == TD_CHANGE_SIZE);
    CHECK(change(KEY(T(0)), KEY(1, 1, TD_K_TENSOR, RANK1, 0, 4, 2)) == TD_CHANGE_OTHER);
    CHECK(change(KEY(1, 1, TD_K_TENSOR, RANK1 ^ f64, 0, 4, 1), KEY(T(0))) ==
          TD_CHANGE_OTHER);
    CHECK(change(KEY(1, 1, TD_K_TENSOR, TD_F32, 0), KEY(T(0))) == TD_CHANGE_OTHER);
    CHECK(change(three, KEY(1, 1, TD_K_FLOAT, 3)) == TD_CHANGE_OTHER);
    CHECK(change(three, KEY(1, 3, TD_K_INT, 3)) == TD_CHANGE_OTHER);
    CHECK(change(three, KEY(0, 1, TD_K_INT, 3)) == TD_CHANGE_OTHER);
    CHECK(change(three, three) == TD_CHANGE_OTHER);
    CHECK(change(KEY(1, 1, TD_K_NONE, TD_KEY_GRAD, 0, TD_K_BOOL, 1),
                 KEY(1, 1, TD_K_NONE, TD_KEY_GRAD, 0, TD_K_BOOL, 0)) ==
          TD_CHANGE_OTHER);
    td_key two = KEY(0, 1), other = KEY(0, 3);
    CHECK(td__key_distance(&three, &two) == 1 << 20);
    CHECK(td__key_distance(&two, &other) == 1);
}

static void append(void *env, const char *text) {
    char *all = env;
    strcat(strcat(all, text), "\n");
}

TEST(a_key_is_shown_property_by_property) {
    char   all[2000] = "";
    td_key one = KEY(1), none = KEY(1, 1, TD_K_NONE, TD_KEY_GRAD, 0, TD_K_BOOL, 1);
    td_key flags =
        KEY(2, 1, TD_K_TENSOR,
            RANK1 | BIT(TD_KEY_VIEW) | BIT(TD_KEY_READONLY) | BIT(TD_KEY_MOVED) |
                BIT(TD_KEY_APART) | BIT(TD_KEY_NEEDS) | BIT(TD_KEY_OFFSET),
            0, 4, 2, 3, TD_K_TENSOR, RANK1 | BIT(TD_KEY_NUMBER), 0, TD_KEY_ANY, 1);
    td__key_each(&one, append, all);
    CHECK_STR(all, "");
    td__key_each(&none, append, all);
    CHECK(strstr(all, "argument 0: absent\nthe gradient of argument 0: there\n"));
    td__key_each(&flags, append, all);
    CHECK(strstr(all, "argument 0: f32[4]{2}+3, requires grad, not a leaf, a view, "
                      "read-only, its base in another storage, its grad_fn not its "
                      "base's\nargument 1: an int that varies\n"));
}
