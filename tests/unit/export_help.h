/* export_help.h -- functions and modules that tests of exports share. */
#ifndef TD_EXPORT_HELP_H
#define TD_EXPORT_HELP_H

#include "td_test.h"
#include "tower_help.h"

enum { ROOM = 16 };

/* Values for all inputs by the signature: members by name, then the arguments. */
static inline int fill(const td_exported *e, td_module *m, td_values args,
                       td_value *in) {
    int n = td_exported_inputs(e);
    for (int i = 0; i < n; i++) {
        td_slot s = td_exported_input(e, i);
        in[i] = TD_NONE;
        if (s.kind == TD_SLOT_PARAM || s.kind == TD_SLOT_BUFFER)
            in[i] = td_value_tensor(td_module_get(m, s.name));
        else if (s.kind == TD_SLOT_PLAIN) in[i] = args.v[s.index];
    }
    return n;
}

static inline bool run(const td_exported *e, td_module *m, td_values args, td_value *in,
                       td_value *out) {
    int n = fill(e, m, args, in);
    return td_exported_run(e, (td_values){in, n}, out, td_exported_outputs(e));
}

static inline bool products(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1);
    return td_return(c, td_mul(x, y), td_mul(y, td_detach(y)), 3);
}

/* Writes, views, geometry: x becomes its transpose, y is written, a view returned. */
static inline bool moves(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1), *z = td_arg(c, 2);
    td_transpose_(x, 0, 1);
    td_mul_(y, 2.0);
    td_mul_(z, 3.0);
    td_transpose_(z, 0, 1);
    return td_return(c, td_select(y, 0, 1), x, td_mul(z, 2.0));
}

#endif
