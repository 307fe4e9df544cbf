/* test_part.h -- TD_TEST_PART=2/4 in the environment: run every fourth test, from the
 * second on. run-tests.sh divides programs that take long among CPUs with it. */
#ifndef TD_TEST_PART_H
#define TD_TEST_PART_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Part *part of *parts, 1 of 1 if nothing is asked for. False, with a message, if the
 * variable has another form. */
static inline bool test_part(int *part, int *parts) {
    const char *of = getenv("TD_TEST_PART");
    *part = *parts = 1;
    if (!of || (sscanf(of, "%d/%d", part, parts) == 2 && *part >= 1 && *part <= *parts))
        return true;
    printf("TD_TEST_PART is %s, not of the form 1/4\n", of);
    return false;
}

#endif
