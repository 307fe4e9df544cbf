/* rules/patch_args.h -- the patches of im2col and col2im, read and checked. */
#ifndef TD_PATCH_ARGS_H
#define TD_PATCH_ARGS_H

#include "rules/windows.h"

/* kernel_size, dilation, padding and stride, from argument `at` on, over planes [h,w].
 * The result of a plane is seen as od = kh * kw planes of oh x ow. */
bool td__patches_read(td_opcall *c, int at, int64_t h, int64_t w, td_planes *p);

#endif
