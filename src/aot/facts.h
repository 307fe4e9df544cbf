/* aot/facts.h -- how facts (tandem/facts.h) are made and printed. They are derived from
 * the trace that makes the joint graph; nothing is compiled from them. */
#ifndef TD_FACTS_H
#define TD_FACTS_H

#include "joint/event_log.h"
#include "joint/joint.h"
#include "tandem/facts.h"

/* The facts of the program for inputs like these, as td__joint; the caller drops them.
 * NULL after td__fail. */
td_facts *td__facts(const td_graph *program, const td_value *in, bool keep_mutations);
void      td__facts_drop(td_facts *f); /* NULL is fine */
bool      td__facts_print(td_buf *b, const td_facts *f);

#endif
