/* Unit tests of the directory base: memory, strings, maps and hashes. Threads are in
 * pool.c, tensor bytes in block.c. */
#include "td_test.h"

#include "base/base.h"
#include "base/words.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- plain memory and injected faults ----------------------------------- */

TEST(an_allocation_of_nothing_is_not_null) {
    void *p = td__alloc(0), *q = td__zalloc(0);

    CHECK(p && q && p != q);

    td__free(p);
    td__free(q);
    td__free(NULL);
}

TEST(zalloc_gives_zeros_and_realloc_keeps_what_was_there) {
    unsigned char *p = td__zalloc(1000);
    CHECK(p);
    for (int i = 0; i < 1000; i++) CHECK(p[i] == 0);
    p[999] = 7;

    p = td__realloc(p, 100000);

    CHECK(p && p[999] == 7 && p[0] == 0);
    td__free(p);
}

TEST(an_impossible_request_is_null_and_keeps_the_old_block) {
    volatile size_t too_much = SIZE_MAX / 2;
    char           *p = td__strdup("kept");

    CHECK(!td__realloc(p, too_much));
    CHECK(!td__alloc(too_much));
    CHECK_STR(p, "kept");
    td__free(p);
}

TEST(the_armed_allocation_fails_and_only_that_one) {
    bool made[5];

    td__fault_arm(2, false);
    for (int i = 0; i < 5; i++) {
        void *p = td__alloc(8);
        made[i] = p != NULL;
        td__free(p);
    }
    td__fault_arm(-1, false);

    CHECK(made[0] && made[1] && !made[2] && made[3] && made[4]);
    CHECK(td__fault_count() == 5);
}

TEST(a_sticky_fault_goes_on_until_switched_off) {
    td__fault_arm(1, true);
    void *a = td__alloc(8), *b = td__zalloc(8), *c = td__block_alloc(8);
    char *d = td__strdup("x");
    td__fault_arm(-1, false);
    void *e = td__alloc(8);

    CHECK(a && !b && !c && !d && e);
    td__free(a);
    td__free(e);
}

/* ---- arenas ------------------------------------------------------------- */

TEST(arena_pieces_are_aligned_and_do_not_overlap) {
    td_arena       a = {0};
    unsigned char *piece[2000];

    for (int i = 0; i < 2000; i++) {
        piece[i] = td__arena_alloc(&a, (size_t)(i % 67));
        CHECK(piece[i] && (uintptr_t)piece[i] % 16 == 0);
        memset(piece[i], i & 255, (size_t)(i % 67));
    }

    for (int i = 0; i < 2000; i++)
        for (int k = 0; k < i % 67; k++) CHECK(piece[i][k] == (i & 255));
    td__arena_free(&a);
    CHECK(!a.top);
}

TEST(an_arena_takes_a_piece_larger_than_its_chunks) {
    td_arena a = {0};
    char    *small = td__arena_strdup(&a, "before");
    char    *large = td__arena_zalloc(&a, 5 << 20);
    char    *after = td__arena_printf(&a, "%s-%d", "after", 42);

    CHECK(large && large[0] == 0 && large[(5 << 20) - 1] == 0);
    CHECK_STR(small, "before");
    CHECK_STR(after, "after-42");
    CHECK(!td__arena_alloc(&a, SIZE_MAX));
    CHECK(!td__arena_alloc(&a, SIZE_MAX - 64));
    td__arena_free(&a);
}

TEST(a_reset_frees_everything_after_the_mark) {
    td_arena      a = {0};
    td_arena_mark empty = td__arena_mark(&a);
    char         *kept = td__arena_strdup(&a, "kept");
    td_arena_mark mark = td__arena_mark(&a);
    void         *first = td__arena_alloc(&a, 32);

    for (int i = 0; i < 1000; i++) td__arena_alloc(&a, 1000);
    td__arena_reset(&a, mark);

    CHECK_STR(kept, "kept");
    CHECK(td__arena_alloc(&a, 32) == first);
    td__arena_reset(&a, empty);
    CHECK(!a.top && a.used == 0);
    CHECK(td__arena_alloc(&a, 1));
    td__arena_free(&a);
}

TEST(an_arena_that_runs_out_keeps_what_it_has) {
    td_arena a = {0};
    char    *kept = td__arena_strdup(&a, "kept");

    td__fault_arm(0, true);
    void *large = td__arena_alloc(&a, 1 << 20);
    void *fits = td__arena_alloc(&a, 1);
    td__fault_arm(-1, false);
    char *small = td__arena_strdup(&a, "still fits");

    CHECK(!large);
    CHECK(!fits); /* room there is fails in tests too */
    CHECK_STR(kept, "kept");
    CHECK_STR(small, "still fits");
    td__arena_free(&a);
}

/* ---- growable arrays ---------------------------------------------------- */

TEST(a_vector_grows_and_keeps_its_items) {
    TD_VEC(int64_t) v = {0};

    for (int64_t i = 0; i < 10000; i++) CHECK(td__vec_push(&v, i * i));

    CHECK(v.n == 10000 && v.cap >= v.n);
    for (int i = 0; i < v.n; i++) CHECK(v.v[i] == (int64_t)i * i);
    td__vec_free(&v);
    CHECK(!v.v && v.n == 0 && v.cap == 0);
}

TEST(a_push_without_memory_changes_nothing) {
    TD_VEC(double) v = {0};
    for (int i = 0; i < 8; i++) CHECK(td__vec_push(&v, i));

    td__fault_arm(0, true);
    bool pushed = td__vec_push(&v, 8.0);
    td__fault_arm(-1, false);

    CHECK(!pushed && v.n == 8 && v.v[7] == 7.0);
    CHECK(td__vec_push(&v, 8.0) && v.n == 9);
    td__vec_free(&v);
}

TEST(a_vector_refuses_more_bytes_than_there_can_be) {
    void *v = NULL;
    int   cap = 0;

    CHECK(!td__vec_grow(&v, &cap, INT_MAX, SIZE_MAX / 2));
    CHECK(!v && cap == 0);
}

/* ---- string builder ----------------------------------------------------- */

TEST(a_buffer_joins_what_is_added) {
    td_buf b = {0};
    CHECK_STR(td__buf_str(&b), "");

    td__buf_add(&b, "f32[");
    for (int i = 0; i < 40; i++) td__buf_printf(&b, "%s%d", i ? "," : "", i);
    td__buf_addn(&b, "]xxx", 1);
    td__buf_addn(&b, NULL, 0);

    CHECK(b.n == strlen(b.s) && b.n == 4 + 10 + 30 * 2 + 39 + 1);
    CHECK(strncmp(td__buf_str(&b), "f32[0,1,2,", 10) == 0);
    CHECK(!b.failed);
    td__buf_free(&b);
    CHECK(!b.s && b.n == 0);
}

TEST(a_buffer_takes_any_length_of_text) {
    td_buf b = {0};
    for (size_t n = 0; n < 300; n++) {
        char text[300];
        memset(text, 'a' + (int)(n % 26), n);

        size_t before = b.n;
        td__buf_addn(&b, text, n);

        CHECK(b.n == before + n && strlen(td__buf_str(&b)) == b.n);
    }
    td__buf_free(&b);
}

TEST(a_buffer_without_memory_keeps_its_text_and_says_so) {
    td_buf b = {0};
    td__buf_add(&b, "kept");

    td__fault_arm(0, false);
    td__buf_printf(&b, "%100d", 1);
    td__fault_arm(-1, false);
    td__buf_add(&b, "not added");

    CHECK(b.failed);
    CHECK_STR(td__buf_str(&b), "kept");
    td__buf_free(&b);
    CHECK(!b.failed);
}

/* ---- maps and hashes ---------------------------------------------------- */

TEST(a_map_finds_every_key_and_no_other) {
    enum { N = 5000 };
    static char key[N][16];
    td_map      m = {0};
    CHECK(!td__map_get(&m, "absent"));

    for (int i = 0; i < N; i++) {
        snprintf(key[i], sizeof key[i], "key%d", i);
        CHECK(td__map_put(&m, key[i], key[i]));
    }

    CHECK(m.n == N);
    for (int i = 0; i < N; i++) {
        char same[16];
        memcpy(same, key[i], sizeof same);
        CHECK(td__map_get(&m, same) == key[i]);
    }
    CHECK(!td__map_get(&m, "key5000") && !td__map_get(&m, ""));
    td__map_free(&m);
    CHECK(!m.slot && m.n == 0);
}

TEST(a_second_put_replaces_the_value) {
    td_map m = {0};
    int    a, b;

    CHECK(td__map_put(&m, "x", &a) && td__map_put(&m, "x", &b));

    CHECK(m.n == 1 && td__map_get(&m, "x") == &b);
    td__map_free(&m);
}

TEST(a_map_without_memory_keeps_its_keys) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g",
                                        "h", "i", "j", "k", "l", "m"};
    td_map                   m = {0};
    for (int i = 0; i < 12; i++) CHECK(td__map_put(&m, names[i], &m));

    td__fault_arm(0, false);
    bool put = td__map_put(&m, names[12], &m);
    td__fault_arm(-1, false);

    CHECK(!put && m.n == 12 && !td__map_get(&m, "m"));
    for (int i = 0; i < 12; i++) CHECK(td__map_get(&m, names[i]) == &m);
    CHECK(td__map_put(&m, names[12], &m) && m.n == 13);
    td__map_free(&m);
}

/* Vectors of SipHash-2-4 with 128 bits, as its authors published them. */
TEST(a_code_of_bytes_is_that_of_siphash) {
    uint8_t secret[TD_SECRET_BYTES], text[9];
    for (int i = 0; i < TD_SECRET_BYTES; i++) secret[i] = (uint8_t)i;
    for (int i = 0; i < 9; i++) text[i] = (uint8_t)i;
    td_hash128 none = td__mac128(secret, text, 0), one = td__mac128(secret, text, 1);
    CHECK(none.lo == 0xe6a825ba047f81a3u && none.hi == 0x930255c71472f66du);
    CHECK(one.lo == 0x44af996bd8c187dau && one.hi == 0x45fc229b11597634u);
    td_hash128 nine = td__mac128(secret, text, 9);
    text[8] ^= 1;
    CHECK(td__mac128(secret, text, 9).lo != nine.lo);
    secret[15] ^= 1, text[8] ^= 1;
    CHECK(td__mac128(secret, text, 9).lo != nine.lo);
}

TEST(a_hash_is_the_same_on_every_machine) {
    CHECK(td__hash("", 0, 0) == 0x2d06800538d394c2u);
    CHECK(td__hash("tandem", 6, 0) == td__hash("tandem!", 6, 0));
    CHECK(td__hash("tandem", 6, 0) != td__hash("tandem", 6, 1));
    CHECK(td__hash("tandem", 6, 0) != td__hash("tandeM", 6, 0));
}

/* ---- lists of words ----------------------------------------------------- */

TEST(a_word_of_a_list_is_found_by_its_index) {
    const char *list = "auto on off marked";

    CHECK(td__word_index(list, "auto", 4) == 0);
    CHECK(td__word_index(list, "marked", 6) == 3);
    CHECK(td__word_index(list, "offside", 3) == 2);
    CHECK(td__word_index(list, "mark", 4) == -1);
    CHECK(td__word_index(list, "", 0) == -1);
    CHECK(td__word_index("", "on", 2) == -1);
}

TEST(two_words_of_a_list_are_no_word_of_it) {
    CHECK(td__word_index("auto on off", "on off", 6) == -1);
}
