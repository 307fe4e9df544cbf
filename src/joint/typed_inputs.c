/* typed_inputs.c -- tangents of a type in a joint trace, and inner tensors that inputs
 * share. func/typed_values.c makes inner tensors values of the graph. */
#include "core/typed.h"
#include "joint/joint_int.h"

bool td__joint_type_tangent(td_joint_run *r, td_tensor *t, const td_tensor *value) {
    const td_typed *of = value->typed;
    td_tensor      *inner[TD_MOST_INNER];
    for (int i = 0; i < of->n; i++) {
        td_meta m;
        int64_t like[TD_MAX_RANK];
        td__tensor_meta(of->inner[i], &m);
        td__strides_like(m.rank, m.size, m.stride, like);
        for (int d = 0; d < m.rank; d++) m.stride[d] = like[d];
        m.offset = 0;
        inner[i] = td__tensor_make(r->cx, &m, true);
        if (!inner[i]) return false;
        if (of->inner[i]->typed && !td__joint_type_tangent(r, inner[i], of->inner[i]))
            return false;
    }
    td_typed *d = td__typed_make(r->cx, of->type, inner, of->metadata);
    if (!d) return false;
    td__typed_set(t, d);
    td__typed_drop(d);
    return true;
}

/* ---- inner tensors that share elements ---------------------------------- */

/* The inputs that use a storage. */
typedef struct sharers {
    int  writer, last_writer; /* the first and last that the call writes; -1: none */
    bool typed;               /* one of them uses it as an inner tensor */
} sharers;

typedef struct sharing {
    td_joint_run *r;
    td_ptrmap     all; /* by bytes: sharers */
    int           input;
    bool          typed; /* the input is of a type */
} sharing;

static bool is_written(const td_joint_run *r, int i) {
    return r->to->primals[i].written || r->to->primals[r->to->primals[i].same].written;
}

static const void *bytes_of(const td_tensor *leaf) {
    return leaf->st->data ? leaf->st->data : (const void *)leaf->st;
}

static bool note_leaf(void *env, td_tensor *leaf) {
    sharing            *s = env;
    const td_joint_run *r = s->r;
    sharers            *of = td__ptrmap_get(&s->all, bytes_of(leaf));
    if (!of) {
        of = td__arena_zalloc(&r->to->arena, sizeof *of);
        if (!of || !td__ptrmap_put(&s->all, bytes_of(leaf), of))
            return td__fail_memory(r->cx);
        *of = (sharers){.writer = -1, .last_writer = -1};
    }
    bool writes = is_written(r, s->input);
    of->typed |= s->typed;
    if (writes && of->writer < 0) of->writer = s->input;
    if (writes) of->last_writer = s->input;
    return true;
}

/* Counts an input as written if the write of another input changes its elements: the
 * graph reads a copy of it. */
static bool mark_leaf(void *env, td_tensor *leaf) {
    sharing       *s = env;
    td_joint_run  *r = s->r;
    const sharers *of = td__ptrmap_get(&s->all, bytes_of(leaf));
    if (!of->typed || of->writer < 0) return true;
    if (of->writer == s->input && of->last_writer == s->input) return true;
    r->opts.find_saved = true;
    r->inputs[s->input].shared = r->to->primals[s->input].written = true;
    return true;
}

/* Calls fn for the leaves of each input once. */
static bool each_leaf(sharing *s, td_leaf_fn *fn) {
    bool ok = true;
    for (int i = 0; ok && i < s->r->to->n_primals; i++) {
        td_tensor *t = s->r->inputs[i].real;
        if (!t || s->r->to->primals[i].same != i) continue;
        s->input = i;
        s->typed = t->typed != NULL;
        ok = td__typed_leaves(t, fn, s);
    }
    return ok;
}

bool td__joint_share_inner(td_joint_run *r) {
    sharing s = {.r = r};
    if (TD_LIKELY(r->cx->n_typed == 0)) return true;
    bool ok = each_leaf(&s, note_leaf) && each_leaf(&s, mark_leaf);
    td__ptrmap_free(&s.all);
    return ok;
}

bool td__joint_check_saved(const td_joint_run *r) {
    const td_joint *j = r->to;
    for (int i = 0; i < j->n_primals; i++)
        if (r->inputs[i].shared &&
            td__set_any(j->primals[i].saved, td__set_words(j->n_tangents)))
            return td__fail(r->cx, TD_E_UNSUPPORTED,
                            "@%.60s: unsupported: input %d is saved for backward, and "
                            "shares an inner tensor with an input that the call "
                            "writes, so that eager's backward may read other elements; "
                            "pass clones",
                            r->program->name, i);
    return true;
}
