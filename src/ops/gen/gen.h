/* gen.h -- the generator's parts. It reads the op table as text and writes the
 * files that are derived from it; it links no kernel. */
#ifndef TD_GEN_H
#define TD_GEN_H

#define TD_TABLE_TEXT
#include "ops/ops.h"

#include <stdio.h>

extern td_schema td__gen_schemas[TD_OP_COUNT];

FILE *td__gen_open(const char *dir, const char *path); /* NULL: said why */
bool  td__gen_close(FILE *f, const char *path);

/* Each writes the files behind it below `dir`. */
bool td__gen_header(const char *dir);  /* include/tandem/ops.h */
bool td__gen_api(const char *dir);     /* src/ops/ops_api.c */
bool td__gen_rules(const char *dir);   /* src/ops/rules_gen.h */
bool td__gen_docs(const char *dir);    /* docs/ops.md */
bool td__gen_loops(const char *dir);   /* src/ops/loops/loops_*.c */
bool td__gen_helpers(const char *dir); /* src/build/helpers_text.c */

const char *td__gen_c_type(const td_param *p);   /* of a parameter in the flat ABI */
bool        td__gen_is_list(const td_schema *s); /* the result is a Tensor[] */
/* "td_tensor *td_op_add(td_tensor *a, ...)" without the semicolon. */
void        td__gen_prototype(FILE *f, td_op op);

#endif
