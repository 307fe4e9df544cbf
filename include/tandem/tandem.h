/* tandem/tandem.h -- everything. */
#ifndef TANDEM_TANDEM_H
#define TANDEM_TANDEM_H

#include "tandem/version.h"
#include "tandem/tensor.h"
#include "tandem/device.h"
#include "tandem/config.h"
#include "tandem/cache.h"
#include "tandem/ops.h"
#include "tandem/object.h"
#include "tandem/user_op.h"
#include "tandem/grad.h"
#include "tandem/autocast.h"
#include "tandem/graph.h"
#include "tandem/backend.h"
#include "tandem/capture.h"
#include "tandem/store.h"
#include "tandem/aot.h"
#include "tandem/compiled_backward.h"
#include "tandem/fake.h"
#include "tandem/module.h"
#include "tandem/nn.h"
#include "tandem/checkpoint.h"
#include "tandem/distributions.h"
#include "tandem/optim.h"
#include "tandem/data.h"
#include "tandem/export.h"
#include "tandem/facts.h"
#include "tandem/mode.h"
#include "tandem/type.h"
#include "tandem/sparse.h"
#include "tandem/tree.h"
#include "tandem/io.h"
#include "tandem/dlpack.h"
#include "tandem/cpp.h"
#include "tandem/place.h" /* last: it makes macros of the names above */

#endif
