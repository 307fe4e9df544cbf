/* plot.c -- plots a curve with braille dots; with stars where there is no UTF-8. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

/* ---- a canvas of dots --------------------------------------------------- */

enum { ROWS = 12, MAX_COLS = 100 };

/* A cell of text has 2 by 4 dots, or one without braille. */
typedef struct canvas {
    bool    fine;
    int     cols;
    uint8_t cell[ROWS][MAX_COLS]; /* a bit per dot, as in Unicode's braille block */
} canvas;

static int dots_wide(const canvas *c) { return c->fine ? 2 * c->cols : c->cols; }
static int dots_high(const canvas *c) { return c->fine ? 4 * ROWS : ROWS; }

static void set_dot(canvas *c, int x, int y) {
    static const uint8_t bit[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    if (x < 0 || y < 0 || x >= dots_wide(c) || y >= dots_high(c)) return;
    if (c->fine) c->cell[y / 4][x / 2] |= bit[y % 4][x % 2];
    else c->cell[y][x] = 1;
}

static void put_cell(const cli_term *t, const canvas *c, uint8_t dots) {
    if (!c->fine || !dots) fputc(dots ? '*' : ' ', t->out);
    else /* U+2800 + dots */
        fprintf(t->out, "\xe2%c%c", 0xa0 | dots >> 6, 0x80 | (dots & 0x3f));
}

/* ---- the curve ---------------------------------------------------------- */

/* Exponents of ten at the top and bottom of the plot. */
typedef struct scale {
    double top, low;
} scale;

/* Slightly more than the values span; whole decades if the plot would show fewer than
 * two. */
static scale scale_of(const float *v, int n) {
    double most = -300, least = 300;
    for (int i = 0; i < n; i++) {
        double e = v[i] > 0 ? log10((double)v[i]) : -12;
        if (!isfinite(e)) continue;
        most = e > most ? e : most, least = e < least ? e : least;
    }
    if (most < least) return (scale){1, 0};
    scale s = {most + 0.1, fmax(least, most - 12) - 0.1};
    if (floor(s.top) - ceil(s.low) < 1) s = (scale){ceil(s.top), floor(s.low)};
    return s;
}

/* The row of the geometric mean of a column's values. */
static int height_of(const canvas *c, scale s, const float *v, int from, int to) {
    double sum = 0;
    for (int i = from; i < to; i++) sum += v[i] > 0 ? log10((double)v[i]) : s.low;
    double at = (s.top - sum / (to - from)) / (s.top - s.low);
    if (!(at >= 0)) at = isnan(at) ? -1 : 0;
    return (int)lround(at * (dots_high(c) - 1));
}

static void draw_curve(canvas *c, scale s, const float *v, int n) {
    int wide = dots_wide(c), last = -1;
    for (int x = 0; x < wide; x++) {
        int from = (int)((int64_t)x * n / wide),
            to = (int)((int64_t)(x + 1) * n / wide);
        int y = height_of(c, s, v, from, to > from ? to : from + 1);
        int a = last < 0 ? y : last, step = a < y ? 1 : -1;
        for (set_dot(c, x, y); a != y; a += step) set_dot(c, x, a);
        last = y;
    }
}

/* The label of the decade line on this text row; "" between decades. */
static void label_of(scale s, int row, char *out, size_t cap) {
    out[0] = 0;
    for (int e = (int)floor(s.top); e >= (int)ceil(s.low); e--) {
        int at = (int)lround((s.top - e) * (ROWS - 1) / (s.top - s.low));
        if (at == row)
            snprintf(out, cap, e >= -4 && e <= 4 ? "%g" : "%.0e", pow(10, e));
    }
}

static void draw_axis(const cli_term *t, int cols, int n, const char *unit) {
    static const char *const corner[] = {"+", "\u2514"}, *const line[] = {"-",
                                                                          "\u2500"};
    char right[32];
    fprintf(t->out, "  %s%8s%s", cli_ink_on(t, CLI_DIM), "", corner[t->utf8]);
    for (int i = 0; i < cols; i++) fputs(line[t->utf8], t->out);
    int width = snprintf(right, sizeof right, "%d %s", n, unit);
    fprintf(t->out, "\n  %8s 1%*s%s%s\n", "", cols - 1 - width, "", right,
            cli_ink_on(t, CLI_PLAIN));
}

void cli_plot_log(const cli_term *t, const float *v, int n, const char *unit) {
    static const char *const bar[] = {"|", "\u2502"}, *const tick[] = {"+", "\u2524"};
    canvas c = {.fine = t->utf8, .cols = t->width - 14};
    if (n < 1) return;
    if (c.cols > 64) c.cols = 64;
    scale s = scale_of(v, n);
    draw_curve(&c, s, v, n);
    for (int row = 0; row < ROWS; row++) {
        char label[16];
        label_of(s, row, label, sizeof label);
        fprintf(t->out, "  %s%7s %s%s%s", cli_ink_on(t, CLI_DIM), label,
                (label[0] ? tick : bar)[t->utf8], cli_ink_on(t, CLI_PLAIN),
                cli_ink_on(t, CLI_LINE));
        for (int i = 0; i < c.cols; i++) put_cell(t, &c, c.cell[row][i]);
        fprintf(t->out, "%s\n", cli_ink_on(t, CLI_PLAIN));
    }
    draw_axis(t, c.cols, n, unit);
}
