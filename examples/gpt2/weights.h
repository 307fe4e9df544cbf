/* weights.h -- GPT-2's weights and sizes in the files of Hugging Face: config.json and
 * model.safetensors, below one folder. False after a failure; td_message tells. */
#ifndef GPT2_WEIGHTS_H
#define GPT2_WEIGHTS_H

#include "model.h"

/* Weights by name, of any float dtype. Names may begin with "transformer."; masks, and
 * the last layer where it equals the table of tokens, may be there. Everything is
 * checked before the first weight is written. */
bool gpt2_load(td_module *net, const char *path);

bool gpt2_read_config(td_ctx *cx, const char *path, gpt2_sizes *to);
bool gpt2_write_config(td_ctx *cx, const char *path, gpt2_sizes sizes);

#endif
