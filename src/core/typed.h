/* core/typed.h -- tensors of a type (tandem/type.h): inner tensors and metadata in
 * place of elements. The storage of such a tensor has a version and no bytes. */
#ifndef TD_TYPED_H
#define TD_TYPED_H

#include "core/core.h"
#include "tandem/type.h"

enum { TD_MOST_INNER = 8, TD_MOST_TYPES = 64, TD_TYPE_DEPTH = 8 };

/* A registered type; the strings are its own. */
struct td_type {
    td_type_opts opts;
    int          nr; /* in the order of registration, from 1 */
};

/* The inner tensors and metadata of typed tensors. Shared by aliases, and immutable: a
 * metadata write replaces it. */
struct td_typed {
    int32_t        refs;
    int            n;
    const td_type *type;
    const char    *metadata; /* behind inner[] */
    td_tensor     *inner[];  /* [n], referenced, without history */
};

/* The type of that name; NULL: none is registered. */
const td_type *td__type_find(const char *name);
/* Registers a type of the library, if it is not; NULL: out of memory. */
const td_type *td__type_add(const td_type_opts *o);
/* With aliases of the inner tensors. NULL after td__fail. */
td_typed      *td__typed_make(td_ctx *cx, const td_type *type, td_tensor *const *inner,
                              const char *metadata);
/* Replaces the td_typed of t by `to`, which may be NULL; adds a reference. */
void           td__typed_set(td_tensor *t, td_typed *to);
void           td__typed_drop(td_typed *d); /* NULL is fine */
/* A storage that has a size and no bytes. NULL: out of memory, without an error. */
td_storage    *td__storage_hollow(size_t bytes);
/* The same type and metadata? Both may be NULL: plain. */
bool           td__typed_same(const td_typed *a, const td_typed *b);
/* ...and so are their inner tensors, where types nest? */
bool           td__typed_same_inside(const td_typed *a, const td_typed *b);
/* Writes a key that is equal for tensors whose inner tensors have equal types, dtypes,
 * sizes and strides; returns its length. to NULL: counts only. d NULL: plain. */
int            td__typed_key(const td_typed *d, int64_t *to);
/* Makes t, a fake tensor, consist of fake tensors like those of d. */
bool           td__typed_fake(td_tensor *t, const td_typed *d);
/* "pair("m")" or "a plain tensor", for messages. */
const char    *td__typed_str(const td_typed *d, char *out, size_t cap);
/* Calls fn for each plain tensor that t consists of; for t itself if it is plain. False
 * if fn returns false. */
typedef bool   td_leaf_fn(void *env, td_tensor *leaf);
bool           td__typed_leaves(td_tensor *t, td_leaf_fn *fn, void *env);
/* Part nr of t: 0 is t, then come its inner tensors, each followed by its own. NULL: t
 * has fewer. */
td_tensor     *td__typed_part(td_tensor *t, int nr);
/* How deeply types are nested: 0 of a plain tensor. */
int            td__typed_depth(const td_tensor *t);
/* Fails: `who` needs elements. Returns false. */
bool           td__fail_typed(const td_tensor *t, const char *who);

#endif
