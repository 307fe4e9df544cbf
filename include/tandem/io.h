/* tandem/io.h -- tensors in files: NumPy's .npy and Hugging Face's .safetensors.
 *
 * Loading maps the file into memory: elements are read on first access, and a
 * tensor stays valid after its file is closed or removed. Such a tensor is
 * read-only; td_clone makes a writable copy. (Unaligned elements are copied when
 * loading.) If another process truncates a mapped file, access to it crashes:
 * replace files instead of rewriting them.
 *
 * A malformed file is an error, TD_E_IO, that names the file, the rule and the
 * position; a well-formed file with a type that Tandem does not have is
 * TD_E_UNSUPPORTED. Saving writes a new file and renames it over the old one when
 * it is complete and on disk: a failure leaves the old file. */
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

/* Writes t in row-major order, whatever its strides. NumPy has no bf16:
 * TD_E_UNSUPPORTED; save such a tensor as f32, or as .safetensors. False after a
 * failure. */
TD_API bool td_save_npy(const td_tensor *t, const char *path);

/* ---- .safetensors ------------------------------------------------------- */

typedef struct td_safetensors td_safetensors; /* an open file */

/* Opens a file; nil after a failure. td_close closes it if td_safetensors_close did
 * not. */
TD_API td_safetensors *td_safetensors_open(td_ctx *cx, const char *path);
TD_API void            td_safetensors_close(td_safetensors *f); /* NULL is allowed */

/* The number of tensors, and their names in file order. */
TD_API int         td_safetensors_count(const td_safetensors *f);
TD_API const char *td_safetensors_name(const td_safetensors *f, int i);
/* The file's metadata under `key`; NULL: none. */
TD_API const char *td_safetensors_note(const td_safetensors *f, const char *key);

/* The tensor of that name.
 *
 *   returns  nil after a failure
 *   aliases  the mapped file, which lives as long as the tensor
 *   fails    TD_E_ARG          no such name
 *            TD_E_UNSUPPORTED  an element type that Tandem does not have
 *   since    0.1 */
TD_API td_tensor *td_safetensors_get(td_safetensors *f, const char *name);

/* Writes tensors[i] under names[i]. `notes` is key, value, key, value, ..., NULL; or
 * NULL. Larger element types come first, so that all are aligned. False after a
 * failure. */
TD_API bool td_safetensors_save(td_ctx *cx, const char *path, const char *const *names,
                                td_tensors tensors, const char *const *notes);

#ifdef __cplusplus
}
#endif

#endif
