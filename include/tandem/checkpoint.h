/* tandem/checkpoint.h -- all state of a training run in one file.
 *
 *     int64_t             step = 0;
 *     td_checkpoint_parts parts = {
 *         TD_CHECKPOINT_PARTS, .module = net, .optim = opt, .step = &step};
 *     td_checkpoint_load(cx, "run.safetensors", &parts);
 *     for (; step < 1000; step++) {
 *         ...
 *         if (step % 100 == 99) td_checkpoint_save(cx, "run.safetensors", &parts);
 *     }
 */
#ifndef TANDEM_CHECKPOINT_H
#define TANDEM_CHECKPOINT_H

#include "tandem/data.h"
#include "tandem/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parts of a run; NULL: the run has none. The step is all the state of a schedule
 * (td_lr_...), but for a td_plateau. */
typedef struct td_checkpoint_parts {
    TD_SIZE(td_checkpoint_parts);
    td_module *module   TD_0; /* "module.0.weight" */
    td_optim *optim     TD_0; /* "optim.state.0.weight.exp_avg" */
    td_module *average  TD_0; /* a second module, such as an EMA: "average.0.weight" */
    td_plateau *plateau TD_0; /* "plateau": f64[3], best, bad, cooling */
    td_loader *loader   TD_0; /* "loader": i64[2], epoch, batch */
    int64_t *step       TD_0; /* "step": i64[] */
    bool no_generator   TD_0; /* else "generator": i64[2], seed, offset */
} td_checkpoint_parts;
#define TD_CHECKPOINT_PARTS .td_checkpoint_parts_size = sizeof(td_checkpoint_parts)

/* Writes a .safetensors file and renames it over an old one when it is complete and on
 * disk. False after a failure: then the old file is as before. */
TD_API bool td_checkpoint_save(td_ctx *cx, const char *path,
                               const td_checkpoint_parts *parts);
/* Reads all parts by name. Everything is checked before anything is written.
 *
 *   returns  false after a failure: then nothing has changed
 *   fails    TD_E_ARG    a part or name is missing or unexpected
 *            TD_E_SHAPE  other sizes    TD_E_DTYPE  another dtype
 *            TD_E_IO     no such file, or it is malformed */
TD_API bool td_checkpoint_load(td_ctx *cx, const char *path,
                               const td_checkpoint_parts *parts);

#ifdef __cplusplus
}
#endif

#endif
