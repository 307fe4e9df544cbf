/* Unit tests of the thread pool: every item once, whatever the size, the nesting,
 * the threads that call, and the resizing meanwhile. */
#include "td_test.h"

#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ITEMS = 10000 };

typedef struct region {
    unsigned char hits[ITEMS];
    int64_t       grain;
    atomic_int    parts, misaligned;
} region;

static void hit(void *arg, int64_t begin, int64_t end) {
    region *r = arg;
    atomic_fetch_add(&r->parts, 1);
    if (begin % r->grain || begin >= end) atomic_fetch_add(&r->misaligned, 1);
    for (int64_t i = begin; i < end; i++) r->hits[i]++;
}

/* True when [0,n) was covered exactly once, in at most `most` aligned parts. */
static bool covers(int64_t n, int64_t grain, int most) {
    region *r = calloc(1, sizeof *r);
    r->grain = grain;
    td__pool_run(n, grain, hit, r);
    bool ok = atomic_load(&r->misaligned) == 0 && atomic_load(&r->parts) <= most;
    for (int64_t i = 0; i < ITEMS; i++) ok = ok && r->hits[i] == (i < n);
    free(r);
    return ok;
}

TEST(a_region_covers_every_item_once) {
    for (int size = 1; size <= 7; size++) {
        td__pool_resize(size);
        CHECK(td__pool_size() == size);
        for (int64_t n = 0; n < 40; n++)
            for (int64_t grain = 1; grain < 12; grain += 3)
                CHECK(covers(n, grain, size));
        CHECK(covers(ITEMS, 1, size) && covers(ITEMS, 999, size));
        CHECK(covers(ITEMS, ITEMS, 1) && covers(ITEMS, ITEMS * 2, 1));
    }
}

/* The cost of a thread differs between machines; what follows from any does not. */
TEST(more_work_gets_more_threads) {
    td__pool_resize(1);
    CHECK(td__pool_threads(1e9, 100) == 1);
    td__pool_resize(4);
    CHECK(td__pool_threads(0, 100) == 1 && td__pool_threads(20, 100) == 1);
    CHECK(td__pool_threads(1e9, 100) == 4);
    CHECK(td__pool_threads(1e9, 3) == 3 && td__pool_threads(1e9, 1) == 1);
    CHECK(td__pool_threads(1e9, 0) == 1);
    for (int before = 1, n, i = 1; i < 40; i++, before = n) {
        n = td__pool_threads(500.0 * i, 100);
        CHECK(n >= before && n <= 4);
    }
}

TEST(a_size_out_of_range_is_brought_into_it) {
    cpu_set_t set;
    td__pool_resize(1);
    td__pool_resize(0); /* one for each core */
    CHECK(sched_getaffinity(0, sizeof set, &set) != 0 ||
          td__pool_size() == CPU_COUNT(&set));
    td__pool_resize(-5);
    CHECK(td__pool_size() == 1);
    td__pool_resize(1 << 30);
    CHECK(td__pool_size() >= 64 && td__pool_size() < 100000);
    td__pool_resize(2);
}

TEST(an_empty_region_calls_nothing) {
    region *r = calloc(1, sizeof *r);

    td__pool_run(0, 1, hit, r);
    td__pool_run(-3, 1, hit, r);

    CHECK(atomic_load(&r->parts) == 0);
    free(r);
}

TEST(the_caller_takes_part_and_others_do_too) {
    td__pool_resize(4);
    for (int i = 0; i < 2000; i++) CHECK(covers(64, 1, 4));
}

/* Sleepers wake: the pause is longer than the time a worker waits awake. */
TEST(a_region_after_a_pause_is_complete) {
    td__pool_resize(3);
    for (int i = 0; i < 20; i++) {
        CHECK(covers(100, 1, 3));
        usleep(i % 2 ? 3000 : 300);
    }
}

static void nested(void *arg, int64_t begin, int64_t end) {
    atomic_int *bad = arg;
    for (int64_t i = begin; i < end; i++)
        if (!covers(50, 1, 1)) atomic_fetch_add(bad, 1);
}

TEST(a_nested_region_runs_in_its_caller_alone) {
    atomic_int bad = 0;
    td__pool_resize(4);

    td__pool_run(100, 1, nested, &bad);

    CHECK(atomic_load(&bad) == 0);
}

static atomic_bool stop;
static atomic_int  wrong;

static void *call_regions(void *arg) {
    (void)arg;
    for (int i = 0; i < 3000; i++)
        if (!covers(33, 2, 8)) atomic_fetch_add(&wrong, 1);
    return NULL;
}

static void *resize_often(void *arg) {
    (void)arg;
    for (int i = 0; !atomic_load(&stop); i++) {
        td__pool_resize(1 + i % 8);
        usleep(50);
    }
    return NULL;
}

TEST(regions_from_many_threads_survive_resizing) {
    pthread_t caller[3], resizer;
    td__pool_resize(8); /* a machine may have more cores than the parts counted below */
    CHECK(pthread_create(&resizer, NULL, resize_often, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&caller[i], NULL, call_regions, NULL) == 0);

    for (int i = 0; i < 3; i++) pthread_join(caller[i], NULL);
    atomic_store(&stop, true);
    pthread_join(resizer, NULL);

    CHECK(atomic_load(&wrong) == 0);
    td__pool_resize(2);
}

/* A child has no workers but may use the pool and the caches like its parent. */
TEST(a_forked_child_can_run_regions) {
    td__pool_resize(4);
    CHECK(covers(64, 1, 4));

    pid_t child = fork();
    if (child == 0) {
        void *p = td__block_alloc(1 << 20);
        bool  ok = p && covers(64, 1, 4) && covers(ITEMS, 1, 4);
        td__block_free(p, 1 << 20);
        child_leaves(ok);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);

    CHECK(child_was_ok(status));
    CHECK(covers(64, 1, 4));
}
