/* core/files.h -- shared by the file formats: mapped bytes that tensors
 * reference, and files that appear complete or not at all. */
#ifndef TD_FILES_H
#define TD_FILES_H

#include "core/core.h"

/* Fault injection for calls of the system: before each one that may fail. True makes
 * the caller fail with errno EIO, which is set. */
bool td__io_fault(void);

/* Bytes of a file, shared by the tensors in it. */
typedef struct td_mapping {
    _Atomic int32_t refs;
    const uint8_t  *bytes;
    size_t          n;
    bool            mapped; /* else borrowed from a caller */
} td_mapping;

/* Fails in a captured body, whose program would not read the file again. */
bool        td__may_read_file(td_ctx *cx, const char *who);
/* NULL after td__fail. `who` is the public function, for messages. */
td_mapping *td__mapping_open(td_ctx *cx, const char *who, const char *path);
/* A mapping of borrowed bytes, which must outlive it (tests). */
td_mapping *td__mapping_over(td_ctx *cx, const void *bytes, size_t n);
void        td__mapping_drop(td_mapping *m);
/* A read-only tensor over the bytes at `at`, or a copy if they are not aligned.
 * The caller has checked the range. NULL after td__fail. */
td_tensor  *td__mapping_tensor(td_ctx *cx, td_mapping *m, size_t at,
                               const td_meta *meta);
/* Index of the first of n bytes that is neither 0 nor 1, -1 if there is none;
 * kernels rely on it for bool. */
int64_t     td__mapping_bad_bool(const td_mapping *m, size_t at, int64_t n);

/* A file being written. A regular or new file is written under a temporary name
 * beside `target`; anything else that `path` refers to (a device, a pipe)
 * directly. */
typedef struct td_out {
    td_ctx     *cx;
    const char *who, *path;
    char       *target; /* path, or where the symbolic link there leads */
    char       *temp;   /* NULL: written directly */
    int         fd;
} td_out;

/* All four return false after td__fail and then have removed the temporary file;
 * the struct needs no further care. */
bool td__out_open(td_out *o, td_ctx *cx, const char *who, const char *path);
bool td__out_write(td_out *o, const void *p, size_t n);
bool td__out_tensor(td_out *o, const td_tensor *t); /* its elements, row-major */
bool td__out_finish(td_out *o);                     /* on disk and in place */

/* The formats from bytes in memory, which the results borrow (fuzzing, tests). */
td_tensor *td__npy_read(td_ctx *cx, td_mapping *m, const char *path);
struct td_safetensors;
/* They open and save the file for `who`, a literal, which messages name. */
struct td_safetensors *td__safetensors_open(td_ctx *cx, const char *who,
                                            const char *path);
bool td__safetensors_save(td_ctx *cx, const char *who, const char *path,
                          const char *const *names, td_tensors tensors,
                          const char *const *notes);
struct td_safetensors *td__safetensors_read(td_ctx *cx, td_mapping *m,
                                            const char *path);

#endif
