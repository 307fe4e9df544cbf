/* table_text.c -- the op table as text, for the generator: function names are
 * strings here, so that the generator links no kernel. Not part of the library. */
#define TD_TABLE_TEXT
#include "ops/ops.h"

#define FN(x) #x
const td_opdef td__ops[TD_OP_COUNT] = {
#define TD_OP(id, ...) [TD_OP_##id] = {.name = #id, __VA_ARGS__},
#include "ops/ops.def"
#undef TD_OP
};
