/* model.h -- GPT-2 as a module. Parameters have the names and shapes of Hugging Face's
 * files, so that either side reads the other's. */
#ifndef GPT2_MODEL_H
#define GPT2_MODEL_H

#include <tandem/tandem.h>

typedef struct gpt2_sizes {
    int64_t vocab, context, layers, heads, width;
} gpt2_sizes;
extern const gpt2_sizes gpt2_small; /* 124M */

/* Called with tokens i64[B,T], T at most the context: logits [B,T,vocab]. */
td_module *gpt2_make(td_ctx *cx, gpt2_sizes sizes);
/* From now on what blocks compute is not kept for backward but computed again. */
void       gpt2_recompute(td_module *m);

#endif
