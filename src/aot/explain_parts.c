/* explain_parts.c -- pieces of explanations that text, JSON and logs share: the
 * effects on an input, what a result is, types and counts. */
#include "aot/explain.h"

#include <stdio.h>
#include <string.h>

/* A type without storage number, from a geometry of the graph g. */
void td__explain_type(td_buf *b, const td_graph *g, const td_geom *geom) {
    td_gtype l = {.kind = TD_K_TENSOR,
                  .dtype = (uint8_t)geom->dtype,
                  .rank = (uint8_t)geom->rank,
                  .device = geom->device,
                  .dense = td__is_dense(geom->rank, geom->size, geom->stride),
                  .offset = geom->offset,
                  .size = geom->size,
                  .stride = geom->stride};
    td__gtype_print(b, g, &l);
}

const char *td__size_text(char out[32], int64_t bytes) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double                   n = (double)bytes;
    int                      u = 0;
    for (; n >= 1024 && u < TD_COUNT(unit) - 1; u++) n /= 1024;
    snprintf(out, 32, u ? "%.1f %s" : "%.0f %s", n, unit[u]);
    return out;
}

/* Counts for the line "captured"; an in-place view op counts as a write and as a
 * view. */
td_op_counts td__count_ops(const td_graph *g) {
    td_op_counts c = {0};
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind != TD_N_OP) continue;
        c.ops++;
        c.writes += td__opinfo(n->op)->writes && !td__gnode_is_idle(n);
        c.views += td__opinfo(n->op)->view_of >= 0;
        c.draws += td__op_draws(n->op) && !td__gnode_is_idle(n);
    }
    return c;
}

/* ---- inputs ------------------------------------------------------------- */

/* What happens to an input although no step of the epilogue names it: it is passed
 * twice, or shares storage with a written input. */
static void indirect_effects(td_lines *l, const td_joint *j, int i) {
    int first = j->primals[i].same;
    if (first != i && j->primals[first].touched) {
        td__epi_join(l, "the same tensor as input ");
        td__buf_printf(l->b, "%d", first);
    } else if (j->primals[i].written) td__epi_join(l, "written through another input");
}

/* Effects on input i in program order; an input that is only affected through another
 * one in its storage says so. */
void td__explain_input(td_buf *b, const td_joint *j, int i) {
    td_lines  l = {b, false};
    long long versions = (long long)td__epi_versions(j, i);
    if (td__epi_code_writes(j, i))
        td__epi_join(&l, "written by the compiled code, without history");
    td__epi_effect_lines(j, j->epilogue->inputs.v[i], td__epi_join, &l);
    if (!l.any) indirect_effects(&l, j, i);
    if (!versions) return;
    if (l.any) td__buf_printf(b, ", version +%lld", versions);
    else td__buf_printf(b, "only its version advances, by %lld", versions);
}

/* ---- results ------------------------------------------------------------ */

/* A new tensor, which the code computed. */
static void computed_text(td_buf *b, const td_joint *j, const td_gval *v) {
    td__buf_add(b, "computed");
    if (j->fwd[td__epi_made_of(j, v)].tangent >= 0) td__buf_add(b, ", with history");
    if (td__epi_is_inference(j, v->node)) td__buf_add(b, ", an inference tensor");
}

/* A tensor made by view ops. A detached view shares storage but no history. */
static void view_text(td_buf *b, const td_joint *j, const td_gval *v) {
    const td_gval *of = td__epi_origin(j, v);
    bool           detached = td__epi_is_detached(j, v);
    td__buf_add(b, detached ? "detached view of " : "view of ");
    td__epi_name_print(b, j, of);
    td__buf_add(b, ": ");
    td__epi_views_print(b, j, v, of);
    if (!detached && td__epi_is_no_grad(j, v->node))
        td__buf_add(b, ", made under no_grad");
}

/* What a new tensor is, then the effects on it. */
static void tensor_text(td_buf *b, const td_joint *j, const td_gval *v) {
    if (td__epi_made_of(j, v) >= 0) computed_text(b, j, v);
    else view_text(b, j, v);
    td__epi_effect_lines(j, v, td__epi_join, &(td_lines){b, true});
}

void td__explain_result(td_buf *b, const td_joint *j, int i) {
    const td_garg *a = &j->epilogue->outputs.v[i];
    if (a->kind == TD_G_NONE) td__buf_add(b, "absent");
    else if (a->kind != TD_G_VALUE) td__buf_add(b, "a number");
    else if (!td__epi_is_new(j, i)) {
        td__epi_name_print(b, j, a->u.v);
        td__buf_add(b, " itself");
    } else tensor_text(b, j, a->u.v);
}

void td__explain_base(td_buf *b, const td_joint *j, int i) {
    tensor_text(b, j, td__epi_base(j, i));
}

/* ---- gradients ---------------------------------------------------------- */

/* Names the tensor a tangent arrives for; a written view by its origin and the view
 * ops. */
void td__explain_tangent(td_buf *b, const td_joint *j, int i) {
    const td_gnode *n = td__epi_user(j, j->tangents[i].index);
    if (!n) {
        td__buf_printf(b, "forward output %d", j->tangents[i].index);
        return;
    }
    bool           made = n->op == TD_OP__made;
    const td_gval *v = made ? n->out[0] : n->in[0].u.v;
    bool           view = td__epi_name(j, v).as == TD_NAMED_VIEW;
    const td_gval *of = view ? td__epi_origin(j, v) : v;
    if (!made) td__buf_add(b, "written ");
    td__epi_name_print(b, j, of);
    if (view) td__buf_add(b, " through ");
    if (view) td__epi_views_print(b, j, v, of);
}

void td__explain_target(td_buf *b, const td_joint *j, int i) {
    const td_target *t = &j->targets[i];
    const td_gval   *leaf = td__epi_leaf(j, i), *in = leaf;
    if (t->input >= 0) in = j->epilogue->inputs.v[t->input];
    if (t->base) td__buf_add(b, "the base of ");
    if (in) td__epi_name_print(b, j, in);
    else td__buf_add(b, "a leaf that exists only inside the call");
    if (in && !in->node && in->name) td__buf_printf(b, " %%%.64s", in->name);
    if (leaf) td__buf_add(b, ", which becomes a leaf in the call");
}
