/* cpu_name.c -- the model name of this machine's CPU, for reports. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* Linux only: other systems give "an unknown CPU". */
const char *td__cpu_name(char *out, size_t cap) {
    char  row[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, cap, "an unknown CPU");
    while (f && fgets(row, sizeof row, f)) {
        char *name = strchr(row, ':');
        if (strncmp(row, "model name", 10) || !name || !name[1]) continue;
        name[strcspn(name, "\n")] = 0;
        snprintf(out, cap, "%s", name + 2);
        break;
    }
    if (f) fclose(f);
    return out;
}
