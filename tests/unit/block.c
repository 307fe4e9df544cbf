/* Unit tests of tensor bytes: alignment, counters, both caches, threads. */
#include "td_test.h"

#include "base/base.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

static const size_t sizes[] = {
    0,    1,    63,    64,    65,    1023,    1024,          1025,    1280,
    1281, 4096, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1, 4 << 20, (4 << 20) + 1};

TEST(every_block_is_aligned_and_wholly_writable) {
    for (int i = 0; i < TD_COUNT(sizes); i++) {
        unsigned char *p = td__block_alloc(sizes[i]);

        CHECK(p && (uintptr_t)p % 64 == 0);
        memset(p, 0xab, sizes[i]);

        td__block_free(p, sizes[i]);
    }
    td__block_free(NULL, 64);
}

/* Neighbouring sizes share a class; a block must be large enough for the largest
 * size that may reuse it. */
TEST(a_reused_block_is_large_enough) {
    for (size_t n = 0; n <= 70000; n += n < 3000 ? 1 : 97) {
        unsigned char *p = td__block_alloc(n);
        CHECK(p);
        memset(p, 1, n);
        td__block_free(p, n);
        unsigned char *q = td__block_alloc(n + 1);
        CHECK(q);
        memset(q, 2, n + 1);
        td__block_free(q, n + 1);
    }
    td__block_trim();
}

TEST(live_and_peak_count_bytes_exactly_on_one_thread) {
    td__block_peak_reset();
    size_t live = td__block_live();
    void  *small = td__block_alloc(100);
    void  *large = td__block_alloc(3 << 20);

    CHECK(td__block_live() == live + 100 + (3 << 20));
    td__block_free(large, 3 << 20);
    CHECK(td__block_live() == live + 100);
    CHECK(td__block_peak() == live + 100 + (3 << 20));
    td__block_free(small, 100);
    CHECK(td__block_live() == live);
    td__block_peak_reset();
    CHECK(td__block_peak() == live);
}

TEST(the_peak_sees_small_blocks_between_two_looks) {
    enum { N = 1000 };
    void *p[N];
    td__block_peak_reset();
    size_t live = td__block_live();

    for (int i = 0; i < N; i++) p[i] = td__block_alloc(1000);
    for (int i = 0; i < N; i++) td__block_free(p[i], 1000);

    CHECK(td__block_peak() == live + N * 1000);
    CHECK(td__block_live() == live);
}

TEST(a_failing_block_counts_for_nothing) {
    volatile size_t too_much = SIZE_MAX / 2;
    size_t          live = td__block_live();

    CHECK(!td__block_alloc(too_much));
    CHECK(!td__block_alloc(SIZE_MAX));
    td__fault_arm(0, true);
    void *small = td__block_alloc(8), *large = td__block_alloc(1 << 20);
    td__fault_arm(-1, false);

    CHECK(!small && !large && td__block_live() == live);
}

/* More than the shared cache may hold: the oldest go back to the system. */
TEST(the_shared_cache_stays_within_its_bound) {
    enum { N = 80 };
    size_t n = 16 << 20;
    void  *p[N];
    for (int i = 0; i < N; i++)
        CHECK(p[i] = td__block_alloc(n + (size_t)(i % 3) * 65536));

    for (int i = 0; i < N; i++) td__block_free(p[i], n + (size_t)(i % 3) * 65536);

    for (int i = 0; i < N; i++) CHECK(p[i] = td__block_alloc(n));
    for (int i = 0; i < N; i++) td__block_free(p[i], n);
    td__block_trim();

    CHECK(p[0] = td__block_alloc(n)); /* usable after a trim */
    td__block_free(p[0], n);
}

/* Blocks handed from thread to thread: each frees what its neighbour made. */
enum { THREADS = 4, SLOTS = 64, ROUNDS = 200 };
static pthread_barrier_t meet;
static void             *hand[THREADS][SLOTS];

static size_t slot_size(int s) { return (size_t)1 << (s % 18); }

static void *hand_over(void *arg) {
    int me = (int)(intptr_t)arg, next = (me + 1) % THREADS;
    for (int r = 0; r < ROUNDS; r++) {
        for (int s = 0; s < SLOTS; s++) {
            hand[me][s] = td__block_alloc(slot_size(s));
            memset(hand[me][s], me, slot_size(s) < 64 ? slot_size(s) : 64);
        }
        pthread_barrier_wait(&meet);
        for (int s = 0; s < SLOTS; s++) td__block_free(hand[next][s], slot_size(s));
        pthread_barrier_wait(&meet);
    }
    return NULL;
}

TEST(a_block_may_be_freed_by_another_thread) {
    pthread_t id[THREADS];
    size_t    live = td__block_live();
    pthread_barrier_init(&meet, NULL, THREADS);

    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&id[i], NULL, hand_over, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(id[i], NULL);

    CHECK(td__block_live() == live); /* ended threads have carried over */
    pthread_barrier_destroy(&meet);
}
