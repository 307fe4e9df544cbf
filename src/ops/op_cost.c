/* op_cost.c -- what an op costs, as its row says: which ops are cheap enough to be
 * recomputed, and how many multiply-adds the heavy ones take. */
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

/* *arg: the argument of that name, -1 for "out". */
static bool find_name(const td_schema *s, const char *name, size_t n, int8_t *arg) {
    *arg = -1;
    if (n == 3 && !strncmp(name, "out", n)) return true;
    for (int i = 0; i < s->n_in; i++) {
        if (strlen(s->in[i].name) != n || strncmp(s->in[i].name, name, n)) continue;
        *arg = (int8_t)i;
        return true;
    }
    return false;
}

/* "a.-1 out" and the like; see td_work_term. */
int td__work_parse(const td_schema *s, const char *text, td_work_term *terms) {
    int n = 0;
    for (const char *p = text; *p; n++) {
        td_work_term *t = &terms[n];
        size_t        name = strcspn(p, "./ ");
        if (n == TD_WORK_TERMS || !find_name(s, p, name, &t->arg)) return -1;
        p += name;
        t->how = *p == '.' || *p == '/' ? *p : 0;
        t->dim = 0;
        if (t->how) {
            char *end;
            long  dim = strtol(p + 1, &end, 10);
            if (end == p + 1 || dim < -TD_MAX_RANK || dim >= TD_MAX_RANK) return -1;
            t->dim = (int8_t)dim;
            p = end;
        }
        if (*p && *p != ' ') return -1;
        p += strspn(p, " ");
    }
    return n ? n : -1;
}

/* Recomputing must give the same values, so ops that draw are not cheap, and neither
 * are ops whose sizes depend on values. */
bool td__op_is_cheap(td_op op) {
    const td_opdef *def = td__row(op);
    uint32_t        kinds =
        TD_OPF_CHEAP | TD_OPF_POINTWISE | TD_OPF_VIEW | TD_OPF_SHARE | TD_OPF_CREATE;
    return (def->flags & kinds) && !def->work && !td__opinfo(op)->writes &&
           !(def->flags & (TD_OPF_RANDOM | TD_OPF_DRAWS | TD_OPF_DYNAMIC));
}
