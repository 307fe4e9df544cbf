/* aot/options.h -- what follows from the rows of options.def, the table of the fields
 * of td_aot_opts. */
#ifndef TD_OPTIONS_H
#define TD_OPTIONS_H

#include "aot/aot.h"

enum { TD_OPT_LOAD = 1, TD_OPT_BACK = 2 }; /* who takes an option */
/* False after td__fail, "who: td_aot_opts.x why": an option is given that `use` does
 * not take. */
bool td__opts_only(td_ctx *cx, const td_aot_opts *o, int use, const char *who,
                   const char *why);
/* Are numbers, enums and lengths of lists in range? False after td__fail. */
bool td__opts_in_range(td_ctx *cx, const td_aot_opts *o);
/* Replaces texts and lists by copies. False: out of memory. */
bool td__opts_copy(td_arena *a, td_aot_opts *o);
/* ...of one list with entries of so many bytes; text: entries have a text at this
 * offset; -1: none. */
bool td__opts_copy_list(td_arena *a, const void **list, int n, size_t item, int text);
/* Adds the options that influence the graphs to a key. own: the function is no inner
 * one. */
void td__opts_put(td_buf *b, const td_aot_opts *o, bool own);

#endif
