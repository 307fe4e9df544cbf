/* core/log.h -- messages by topic. Check td__log_on before making a costly text. */
#ifndef TD_CORE_LOG_H
#define TD_CORE_LOG_H

#include "base/base.h"
#include "tandem/config.h"

typedef enum td_topic {
#define TD_TOPIC(id, doc) TD_LOG_##id,
#include "core/log.def"
#undef TD_TOPIC
    TD_TOPIC_COUNT
} td_topic;

typedef struct td_topic_row {
    const char *name, *doc;
} td_topic_row;
extern const td_topic_row td__topics[TD_TOPIC_COUNT];

/* A context's part. */
typedef struct td_logger {
    uint32_t   topics; /* bits by td_topic */
    bool       busy;   /* the callback is running */
    td_log_fn *fn;     /* NULL: stderr */
    void      *env;
} td_logger;

/* One line. Does nothing when the topic is off. Never fails. */
void td__log(td_ctx *cx, td_topic topic, const char *fmt, ...) TD_PRINTF(3, 4);
/* A heading, and a text of many lines below it. */
void td__log_text(td_ctx *cx, td_topic topic, const char *heading, const char *text);
void td__warn(td_ctx *cx, const char *fmt, ...) TD_PRINTF(2, 3);
/* Is this the first time in the process that the hash is passed? For warnings that are
 * printed once. Of many hashes a few may be forgotten and count as new again. */
bool td__is_news(uint64_t hash);
/* The same for a warning about the user's call (td_here) of this function. */
bool td__is_news_here(const char *function);

/* The topics of "graphs,guards" as bits. If one is unknown, it is skipped, bad[0..cap)
 * gets its name, and *near the most similar topic or NULL; else bad is "". Only the
 * first unknown one is reported. */
uint32_t td__log_parse(const char *list, char *bad, size_t cap, const char **near);

#endif
