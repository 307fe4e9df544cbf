/* gen.c -- `gen DIR` writes every file derived from the op table below DIR. */
#include "ops/gen/gen.h"

#include <stdlib.h>
#include <string.h>

td_schema td__gen_schemas[TD_OP_COUNT];

/* Files are written beside their place and moved there only when they differ, so
 * that nothing is rebuilt in vain. One file is open at a time. */
static char final_path[1024], temp_path[1040];

/* Opens a file beside its place; td__gen_close moves it there. */
FILE *td__gen_open(const char *dir, const char *path) {
    FILE *f;
    snprintf(final_path, sizeof final_path, "%s/%s", dir, path);
    snprintf(temp_path, sizeof temp_path, "%s.new", final_path);
    if (!(f = fopen(temp_path, "w"))) perror(temp_path);
    return f;
}

/* A file that does not exist differs from all others. */
static bool same_files(const char *a, const char *b) {
    FILE *f = fopen(a, "r"), *g = fopen(b, "r");
    int   x = f && g ? 0 : -1, y = 0;
    while (x != EOF && x == y) x = getc(f), y = getc(g);
    if (f) fclose(f);
    if (g) fclose(g);
    return f && g && x == y;
}

/* Moves the new file into place when its text changed. False after a message. */
bool td__gen_close(FILE *f, const char *path) {
    bool ok = !ferror(f);
    ok &= fclose(f) == 0;
    if (ok)
        ok = same_files(temp_path, final_path) ? remove(temp_path) == 0
                                               : rename(temp_path, final_path) == 0;
    if (!ok) perror(path);
    return ok;
}

const char *td__gen_c_type(const td_param *p) {
    switch ((td_arg_type)p->type) {
    case TD_T_TENSOR:
    case TD_T_OPT_TENSOR: return "td_tensor *";
    case TD_T_TENSORS:
    case TD_T_OPT_TENSORS: return "td_tensors ";
    case TD_T_OPERAND:
    case TD_T_SCALAR:
    case TD_T_OPT_SCALAR:
    case TD_T_OPT_INT:
    case TD_T_OPT_FLOAT: return "td_value ";
    case TD_T_INT: return "int64_t ";
    case TD_T_INTS:
    case TD_T_OPT_INTS: return "td_ints ";
    case TD_T_FLOAT: return "double ";
    case TD_T_BOOL: return "bool ";
    case TD_T_DTYPE:
    case TD_T_OPT_DTYPE: return "td_dtype ";
    case TD_T_STR: return "const char *";
    case TD_T_OBJECT:       /* registered ops only */
    case TD_T_GRAPH: break; /* such ops have no function of their own */
    }
    return "?";
}

bool td__gen_is_list(const td_schema *s) {
    return s->n_out == 1 && s->out[0].type == TD_T_TENSORS;
}

/* Results after the first are returned through pointers; a list of results through an
 * array with its length. */
void td__gen_prototype(FILE *f, td_op op) {
    const td_schema *s = &td__gen_schemas[op];
    const char      *sep = "";
    bool             list = td__gen_is_list(s);
    fprintf(f, "%s%s(",
            list            ? "int td_op_"
            : s->n_out == 0 ? "bool td_op_"
                            : "td_tensor *td_op_",
            td__ops[op].name);
    if (td__ops[op].flags & TD_OPF_CREATE) fprintf(f, "td_ctx *cx"), sep = ", ";
    for (int i = 0; i < s->n_in; i++) {
        fprintf(f, "%s%s%s", sep, td__gen_c_type(&s->in[i]), s->in[i].name);
        sep = ", ";
    }
    for (int i = 1; i < s->n_out && !list; i++)
        fprintf(f, "%std_tensor **%s", sep, s->out[i].name);
    if (list) fprintf(f, "%std_tensor **out, int cap", sep);
    fprintf(f, ")");
}

/* As init_schema of table.c, which the generator cannot link. */
static bool read_schema(td_op op, char *why, size_t cap) {
    const td_opdef *def = &td__ops[op];
    td_schema      *s = &td__gen_schemas[op];
    if (def->schema) return td__schema_parse(def->schema, s, why, cap);
    for (int k = 0; def->pure && k < TD_OP_COUNT; k++) {
        td_schema twin;
        if (strcmp(td__ops[k].name, def->pure) || !td__ops[k].schema) continue;
        return td__schema_parse(td__ops[k].schema, &twin, why, cap) &&
               td__schema_writer(&twin, s, why, cap);
    }
    snprintf(why, cap, "has no schema and no twin with one");
    return false;
}

int main(int argc, char **argv) {
    char why[200];
    bool ok = true;
    if (argc != 2) return fprintf(stderr, "usage: gen DIR\n"), 2;
    for (int op = 0; op < TD_OP_COUNT; op++) {
        if (read_schema((td_op)op, why, sizeof why)) continue;
        fprintf(stderr, "op table: %s: %s\n", td__ops[op].name, why);
        ok = false;
    }
    if (!ok) return 1;
    ok = td__gen_header(argv[1]) && td__gen_api(argv[1]) && td__gen_rules(argv[1]) &&
         td__gen_docs(argv[1]) && td__gen_loops(argv[1]) && td__gen_helpers(argv[1]);
    return ok ? 0 : 1;
}
