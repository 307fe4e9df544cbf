/* build/helpers.h -- the table that helpers.c reads. helpers_text.c fills it, which
 * src/ops/gen/gen_helpers.c writes below the build folder. */
#ifndef TD_HELPERS_H
#define TD_HELPERS_H

/* A function, type or define of the math headers. Items stand in an order where each
 * uses earlier ones only. */
typedef struct td_helper {
    const char *names; /* what it defines, by blanks */
    const char *uses;  /* items by number */
    const char *text;
} td_helper;

extern const td_helper td__helpers[];
extern const int       td__n_helpers;

#endif
