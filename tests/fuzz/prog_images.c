/* prog_images.c -- arguments of windows, resampling, padding and convolutions: images
 * of 3 to 5 dims, and tensors and lists whose sizes follow from the first image. */
#include "prog.h"

#include <string.h>

static bool has_param(td_op op, const char *name) { return td__op_arg(op, name) >= 0; }

bool prog_takes_images(td_op op) {
    static const char *const names[] = {"kernel_size", "output_size", "padding", "grid",
                                        "input_size"};
    bool                     any = false;
    for (int i = 0; i < TD_COUNT(names); i++) any |= has_param(op, names[i]);
    return any && td__opinfo(op)->s.in[0].type == TD_T_TENSOR;
}

/* [N,C,..] with 1 to 3 dims behind, none empty. */
static int image(prog_rng *r, int64_t *size) {
    static const int8_t ranks[] = {3, 4, 4, 4, 5};
    int                 rank = ranks[prog_upto(r, TD_COUNT(ranks))];
    for (int i = 0; i < rank; i++) size[i] = prog_range(r, 1, i < 2 ? 2 : 3);
    return rank;
}

int prog_image_sizes(prog_call *c, const char *name, int64_t *size) {
    prog_rng        *r = &c->w->r;
    const td_tensor *x = c->self;
    if (!x) return image(r, size);
    if (x->rank < 3 || x->rank > 5) return -1;
    if (!strcmp(name, "weight")) {
        for (int i = 0; i < x->rank; i++) size[i] = prog_range(r, 1, 2);
        size[1] = x->size[1];
        return x->rank;
    }
    if (!strcmp(name, "grid")) {
        for (int i = 0; i < x->rank; i++) size[i] = prog_range(r, 1, 3);
        size[0] = x->size[0];
        size[x->rank - 1] = x->rank - 2;
        return x->rank;
    }
    return -1;
}

int prog_image_list(prog_call *c, const char *name, int64_t *v) {
    static const struct {
        const char *name;
        int         lo, hi;
    } lists[] = {{"kernel_size", 1, 2},    {"dilation", 1, 2},
                 {"stride", 1, 2},         {"padding", 0, 1},
                 {"output_padding", 0, 1}, {"output_size", 1, 4}};
    prog_rng *r = &c->w->r;
    int       n = c->self ? c->self->rank - 2 : 0;
    if (n < 1 || n > 3) return -1;
    /* without windows, two numbers for each dim */
    bool pads = !strcmp(name, "padding") && !has_param(c->op, "kernel_size") &&
                !has_param(c->op, "weight");
    if (pads) n *= 2;
    else if (strcmp(name, "output_size") && prog_chance(r, 40)) n = 1;
    for (int i = 0; i < TD_COUNT(lists); i++) {
        if (strcmp(lists[i].name, name)) continue;
        for (int k = 0; k < n; k++) v[k] = prog_range(r, lists[i].lo, lists[i].hi);
        return n;
    }
    return -1;
}
