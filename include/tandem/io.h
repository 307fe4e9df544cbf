/* tandem/io.h -- tensors in files: NumPy's .npy and Hugging Face's .safetensors.
 *
 * Reading maps the file: nothing is read before it is looked at, and a tensor
 * stays valid after its file is closed or removed. Such a tensor may not be
 * written; td_clone makes one that may. (Where a file leaves elements unaligned
 * they are copied instead.) A file that another process shortens while it is
 * mapped is beyond help: replace files, do not rewrite them.
 *
 * Every malformed file is an error, TD_E_IO, that names the file, the rule and
 * the place; something well-formed that Tandem has no form for is
 * TD_E_UNSUPPORTED. Saving writes a new file beside the old one and puts it in
 * its place when it is complete and on disk: a failure leaves the old file. */
#ifndef TANDEM_IO_H
#define TANDEM_IO_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- .npy --------------------------------------------------------------- */

/* The array of a .npy file (format versions 1 to 3, either order of dims).
 *
 *   returns  nil when it fails
 *   fails    TD_E_IO           no such file, malformed, shorter than its sizes say
 *            TD_E_UNSUPPORTED  big-endian; complex, unsigned above u8, strings,
 *                              records; "V2", under which some save bf16
 *   since    0.1
 */
TD_API td_tensor *td_load_npy(td_ctx *cx, const char *path);

/* Writes t in row-major order, whatever its strides are. NumPy has no bf16: such
 * a tensor is refused with TD_E_UNSUPPORTED; save it as f32, or as .safetensors.
 * False: see td_message. */
TD_API bool td_save_npy(const td_tensor *t, const char *path);

/* ---- .safetensors ------------------------------------------------------- */

typedef struct td_safetensors td_safetensors; /* an open file */

/* nil after a failure. Belongs to the context; td_close closes it if nobody did. */
TD_API td_safetensors *td_safetensors_open(td_ctx *cx, const char *path);
TD_API void            td_safetensors_close(td_safetensors *f); /* NULL is fine */

/* How many tensors there are, and their names in the order of their bytes. */
TD_API int         td_safetensors_count(const td_safetensors *f);
TD_API const char *td_safetensors_name(const td_safetensors *f, int i);
/* The file's own note under `key`, NULL when there is none. */
TD_API const char *td_safetensors_note(const td_safetensors *f, const char *key);

/* The tensor called `name`.
 *
 *   returns  nil when it fails
 *   aliases  the mapped file, which lives as long as the tensor
 *   fails    TD_E_ARG          no such name
 *            TD_E_UNSUPPORTED  an element type Tandem does not have
 *   since    0.1
 */
TD_API td_tensor *td_safetensors_get(td_safetensors *f, const char *name);

/* Writes tensors[i] under names[i]. `notes` is key, value, key, value, ..., NULL;
 * or NULL. Larger elements come first, so that all are aligned. False: see
 * td_message. */
TD_API bool td_safetensors_save(td_ctx *cx, const char *path, const char *const *names,
                                td_tensors tensors, const char *const *notes);

#ifdef __cplusplus
}
#endif

#endif
