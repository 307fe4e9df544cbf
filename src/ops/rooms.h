/* ops/rooms.h -- storages that wait for results: compiled code says where those of the
 * op it calls next shall lie. */
#ifndef TD_ROOMS_H
#define TD_ROOMS_H

#include "core/core.h"

/* By result; NULL: a fresh one. Of this thread, and gone with the next op that makes
 * results; one that does not fit is left alone. NULL: none. */
void td__rooms_set(td_storage *const *rooms);

#endif
