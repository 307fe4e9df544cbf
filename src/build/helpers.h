/* build/helpers.h -- the table of helper functions. src/ops/gen/gen_helpers.c
 * generates it as helpers_text.c. */
#ifndef TD_HELPERS_H
#define TD_HELPERS_H

/* A function, type or macro of the math headers. An item uses earlier items only. */
typedef struct td_helper {
    const char *names; /* names it defines, separated by blanks */
    const char *uses;  /* indices of items it uses */
    const char *text;
} td_helper;

extern const td_helper td__helpers[];
extern const int       td__n_helpers;

#endif
