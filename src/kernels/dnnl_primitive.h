/* kernels/dnnl_primitive.h -- oneDNN primitives by shape: built once, kept in a small
 * cache, run by any thread. Also keeps the library's OpenMP runtime to one thread. With
 * TD_HAVE_DNNL 0 nothing here exists and callers use OpenBLAS. */
#ifndef TD_DNNL_PRIMITIVE_H
#define TD_DNNL_PRIMITIVE_H

#ifndef TD_HAVE_DNNL
#define TD_HAVE_DNNL 1
#endif

#if TD_HAVE_DNNL
#include "kernels/dnnl_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD_PRIM_A, TD_PRIM_B, TD_PRIM_OUT, TD_PRIM_BIAS, TD_PRIM_OPERANDS };
enum { TD_PRIM_KEY = 25 };

typedef struct td_prim_key {
    int64_t v[TD_PRIM_KEY]; /* v[0] names the kind; unused entries are 0 */
} td_prim_key;

/* One operation on two inputs, an output and perhaps a bias. Where the layout
 * the kernel wants (inner) is not the caller's (outer), `move` reorders. */
typedef struct td_prim {
    td_prim_key      key;
    int              refs;                  /* users, plus one while cached */
    uint64_t         used;                  /* clock of the last use */
    int              arg[TD_PRIM_OPERANDS]; /* DNNL_ARG_*; 0: absent */
    td_md            outer[TD_PRIM_OPERANDS], inner[TD_PRIM_OPERANDS];
    td_md            pad_desc; /* of the scratchpad */
    dnnl_primitive_t move[TD_PRIM_OPERANDS];
    dnnl_primitive_t op;
    size_t           pad; /* bytes of scratchpad, the most of any step */
} td_prim;

/* Fills arg and outer, and gives the descriptor of the operation, made with
 * `attr` (which asks for a caller's scratchpad). False when the library has no
 * kernel. Inner layouts are set by the builder. */
typedef bool td_prim_build(td_prim *p, dnnl_engine_t eng, dnnl_primitive_attr_t attr,
                           dnnl_primitive_desc_t *pd);

/* NULL when memory is exhausted or the library declines; else put it back. */
td_prim *td__prim_get(const td_prim_key *key, td_prim_build *build);
void     td__prim_put(td_prim *p);
/* ptr is indexed by TD_PRIM_*. The output is complete on true. */
bool     td__prim_run(td_prim *p, void *const ptr[TD_PRIM_OPERANDS]);

/* Hold the calling thread's OpenMP team at one; the width before is returned and
 * given back at the end, since the caller's own code may use OpenMP. */
int  td__prim_serial_begin(void);
void td__prim_serial_end(int width);

#endif
#endif
