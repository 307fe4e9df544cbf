/* json_text.c -- strings from outside in JSON, which must be UTF-8. */
#include "cli/cli.h"
#include "core/utf8.h"

#include <cjson/cJSON.h>

bool cli_json_text(cJSON *object, const char *key, const char *text) {
    td_buf k = {0}, t = {0};
    td__utf8_add(&k, key);
    td__utf8_add(&t, text);
    bool ok = !k.failed && !t.failed &&
              cJSON_AddStringToObject(object, td__buf_str(&k), td__buf_str(&t));
    td__buf_free(&k);
    td__buf_free(&t);
    return ok;
}
