/* call.h -- between call.c and exec.c, and for modes that run a call themselves. */
#ifndef TD_CALL_H
#define TD_CALL_H

#include "ops/ops.h"

/* Runs one non-composite op below all modes: shape rule, results, kernel. */
bool td__exec(td_opcall *c);

#endif
