/* aot/fn_file.h -- shared by the files that write and read td_fn_save's files. */
#ifndef TD_FN_FILE_H
#define TD_FN_FILE_H

/* The first bytes; the last are a checksum (td__hash128) of all before them. It finds
 * damage and no intent: the reader checks every number. */
#define TD_FN_MAGIC "tandem\nf"
#define TD_FN_MAGIC_BYTES 8

#endif
