/* checkpoint.h -- a run of training in a folder, from which it goes on after any end.
 *
 * DIR/step-N holds all there is after step N: config.json, model.safetensors (both as
 * Hugging Face's, whose from_pretrained takes the folder), optim.safetensors, place.
 * It is written under another name and then renamed, so it is there whole or not at
 * all. Only the newest is kept. False after a failure; td_message tells. */
#ifndef GPT2_CHECKPOINT_H
#define GPT2_CHECKPOINT_H

#include "model.h"

#include <tandem/data.h>
#include <tandem/optim.h>

typedef struct gpt2_run {
    gpt2_sizes sizes;
    td_module *net;
    td_optim  *opt;
    td_loader *data;
    int64_t    at; /* steps done */
} gpt2_run;

bool gpt2_save_run(const gpt2_run *r, const char *dir);
/* Goes to the newest checkpoint below dir. Without one nothing happens. */
bool gpt2_resume_run(gpt2_run *r, const char *dir);

#endif
