/* core/readonly.h -- the text of messages about storages that may not be written
 * (td_storage.readonly), with the remedy. */
#ifndef TD_READONLY_H
#define TD_READONLY_H

/* "copy_: self " TD_READONLY "; write to a clone of it (td_clone)" */
#define TD_READONLY                                                               \
    "is read-only: its storage is mapped from a file, was imported by DLPack as " \
    "read-only, or carries an object (td_object)"
#define TD_READONLY_CLONE TD_READONLY "; write to a clone of it (td_clone)"

#endif
