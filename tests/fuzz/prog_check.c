/* prog_check.c -- is a program the same in every way of running it? The ways of
 * `tandem check`, and more that only a fuzzer needs: captured again, cleaned up by
 * the passes, both for the program and its joint graph. On the way every graph goes
 * through text and back and is verified. */
#include "prog.h"

#include "cli/case_check.h"
#include "core/config.h"
#include "tandem/device.h"
#include "aot/facts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- stages ------------------------------------------------------------- */

/* A mistake of ours, not the program's: never an error eager could have. Without
 * memory nothing is known. */
static bool broken(td_ctx *cx, const char *what, const char *why) {
    char was[512];
    if (td_error(cx) == TD_E_MEMORY) return false;
    snprintf(was, sizeof was, "%s", why);
    td_clear(cx);
    return td__fail(cx, TD_E_BUILD, "%s: %s", what, was);
}

/* print -> parse -> the same graph, the same hash. */
static bool survives_text(const td_graph *g) {
    td_ctx   *cx = g->cx;
    td_buf    b = {0};
    char      why[256] = "no memory";
    bool      ok = td__graph_print(&b, g, TD_PRINT_TYPES);
    td_gfile *f = ok ? td__gfile_parse(cx, td__buf_str(&b), b.n, "trip") : NULL;
    if (td_is_nil(f)) ok = broken(cx, "text", td_message(cx));
    else if (f->graphs.n != 1 || !td__graph_equal(g, f->graphs.v[0], why, sizeof why))
        ok = broken(cx, "text comes back as another graph", why);
    else if (td__graph_hash(g) != td__graph_hash(f->graphs.v[0]))
        ok = broken(cx, "text", "another hash");
    td__gfile_drop(f);
    td__buf_free(&b);
    return ok;
}

/* How many calls are still to come whose graphs go through text: those of a case's
 * first run. Later runs, one for each output that is written, make the same graphs. */
static int n_texts;

static bool is_sound(const td_graph *g, td_stage stage) {
    if (!td__graph_verify(g, stage)) return broken(g->cx, "verify", td_message(g->cx));
    return n_texts <= 0 || survives_text(g);
}

typedef bool          pass_fn(td_graph *g);
static pass_fn *const passes[] = {td__graph_views, td__graph_fold, td__graph_cse,
                                  td__graph_dce, td__graph_order};
enum { N_PASSES = sizeof passes / sizeof *passes, NO_PASS };

/* One pass, none, or all of them. */
static bool clean(td_graph *g, td_stage stage, unsigned nr) {
    for (unsigned i = 0; i < N_PASSES && nr != NO_PASS; i++) {
        if (nr < N_PASSES && nr != i) continue;
        if (!passes[i](g)) return broken(g->cx, "pass", td_message(g->cx));
        if (!is_sound(g, stage)) return false;
    }
    return true;
}

bool prog_all_passes;

/* ---- ways --------------------------------------------------------------- */

/* Numbers are constants of a captured graph, and none of its inputs. Passes may leave
 * it constants of its own behind these. */
static bool replay(const td_graph *g, int n, const td_value *in, td_value *out) {
    td_value *all = td__zalloc(sizeof *all * ((size_t)(g->inputs.n + n) + 1));
    if (!all) return td__fail_memory(g->cx);
    for (int i = 0, k = 0; i < n; i++)
        if (in[i].kind == TD_K_TENSOR) all[k++] = in[i];
    bool ok = td__graph_replay(g, all, out);
    td__free(all);
    return ok;
}

/* A view of an inference tensor that requires grad requires none: it is not what it
 * shows all of, and passes go by looks, which do not tell. */
static bool has_odd_input(const td_graph *fn, const td_value *in) {
    for (int i = 0; i < fn->inputs.n; i++) {
        const td_tensor *t = in[i].kind == TD_K_TENSOR ? in[i].u.t : NULL;
        if (t && t->flags & TD_TF_INFERENCE && td__needs_grad(t)) return true;
    }
    return false;
}

/* Does the graph assume something of sizes that depend on values? */
static bool has_guess(const td_graph *g) {
    bool guess = false;
    for (int i = 0; i < g->nodes.n; i++) guess |= td__node_is_guess(g->nodes.v[i]);
    return guess;
}

/* With sizes that depend on values as they are, where those may not be symbols, and in
 * random programs where something is assumed of the symbols: a graph checks that when
 * it runs, for which kept programs are tests. */
static td_graph *capture(const td_graph *fn, const td_value *in) {
    td_dim_list sizes = {0};
    td_graph   *g = td__capture_graph(fn, in), *guess = NULL;
    if (g && !prog_all_passes && has_guess(g)) {
        guess = g;
        g = NULL;
        td__fail(fn->cx, TD_E_UNSUPPORTED, "sizes are assumed");
    }
    if (!g && td__sizes_measure(fn, in, &sizes)) {
        td_dim_given was = td__dim_give((td_dim_given){sizes.v, sizes.n, 0});
        g = td__capture_graph(fn, in);
        td__dim_give(was);
    }
    td__vec_free(&sizes);
    if (!guess || g || td_error(fn->cx) == TD_E_MEMORY) return td__graph_drop(guess), g;
    td_clear(fn->cx);
    return guess;
}

static bool call_captured(case_run *run, const td_graph *fn, const td_value *in,
                          td_value *out) {
    td_graph *g = capture(fn, in);
    bool      ok = g && is_sound(g, TD_STAGE_PROGRAM);
    if (!has_odd_input(fn, in))
        ok = ok && clean(g, TD_STAGE_PROGRAM, *(unsigned *)run->way->env);
    n_texts--;
    ok = ok && replay(g, fn->inputs.n, in, out);
    run->refused = !ok; /* in the capture, or by what that assumed */
    td__graph_drop(g);
    return ok;
}

/* Is the joint graph sound, and its plan, as traced and after passes? Facts must be
 * there wherever it is; whether it must be there is for the compiled ways to say. */
static bool has_joint(const td_graph *fn, const td_value *in, unsigned pass) {
    td_ctx   *cx = fn->cx;
    td_joint *j = td__joint(fn, in, &(td_joint_opts){.train = true});
    td_facts *facts = j ? td__facts(fn, in, pass == NO_PASS) : NULL;
    /* a type may have no view that facts need, and the joint graph does not */
    bool      typed = j && td__graph_is_typed(j->g) && td_error(cx) == TD_E_UNSUPPORTED;
    bool      ok = !j || facts || typed || broken(cx, "facts", td_message(cx));
    if (typed) td_clear(cx);
    if (j && ok)
        ok = is_sound(j->g, TD_STAGE_JOINT) &&
             is_sound(j->epilogue, TD_STAGE_PROGRAM) &&
             clean(j->g, TD_STAGE_JOINT, pass);
    if (!j && td_error(cx) != TD_E_MEMORY) td_clear(cx);
    td__facts_drop(facts);
    td__joint_drop(j);
    return ok && td_ok(cx);
}

/* Eager, behind a look at the graphs that compiling makes first. */
static bool call_joint(case_run *run, const td_graph *fn, const td_value *in,
                       td_value *out) {
    bool ok = n_texts <= 0 || has_joint(fn, in, *(unsigned *)run->way->env);
    n_texts--;
    ok = ok && td__graph_replay(fn, in, out);
    run->refused = !ok;
    return ok;
}

const char *prog_only;
bool        prog_mistaken;

static bool call_mistaken(case_run *run, const td_graph *fn, const td_value *in,
                          td_value *out) {
    (void)fn;
    if (!case_body(run, run->step, in, out)) return false;
    for (int i = 0; i < case_results(run->step); i++)
        if (out[i].kind == TD_K_TENSOR && td__is_float((td_dtype)out[i].u.t->dtype))
            out[i] = td_value_tensor(td_mul(out[i].u.t, 1 + 0x1p-14));
    return td_ok(run->file->cx);
}

static const case_way mistaken = {.name = "mistaken", .call = call_mistaken};

/* ---- verdicts ----------------------------------------------------------- */

/* Which op it is does not matter. */
static const char *behind_op(const char *why) {
    const char *end = strstr(why, ": ");
    char        name[48];
    if (!end || end - why >= (ptrdiff_t)sizeof name) return why;
    snprintf(name, sizeof name, "%.*s", (int)(end - why), why);
    return td__op_find(name) == TD_OP_COUNT ? why : end + 2;
}

/* The first difference without what is another's in every program: lines, names and
 * numbers. */
void prog_sum_up(char *out, size_t cap, const char *way, const char *why) {
    size_t n = (size_t)snprintf(out, cap, "%s: ", way);
    if (!strncmp(why, "line ", 5) && strstr(why, ": ")) why = strstr(why, ": ") + 2;
    why = behind_op(why);
    for (const char *p = why; *p && *p != ';' && n + 2 < cap;) {
        if (*p == '[') { /* of sizes only that they are there */
            out[n++] = *p;
            p += strcspn(p, "]");
        }
        bool odd = strchr("%0123456789-", *p) != NULL;
        out[n++] = odd ? '#' : *p++;
        while (odd && *p && !strchr(" ,:;()[]{}", *p)) p++;
    }
    out[n] = '\0';
}

/* Has the name of a way one of the words asked for in it, and none with a ! before? */
bool prog_is_asked_for(const char *name) {
    bool asked = !prog_only;
    for (const char *p = prog_only; p; p = strchr(p, ','), p += p != NULL) {
        char word[48];
        bool without = *p == '!';
        snprintf(word, sizeof word, "%.*s", (int)strcspn(p + without, ","),
                 p + without);
        if (strstr(name, word)) {
            if (without) return false;
            asked = true;
        }
    }
    return asked;
}

bool prog_only_numbers(const char *why) {
    for (const char *end;; why = end + 2) {
        const char *at = strstr(why, ": element ");
        end = strstr(why, "; ");
        if (!at || (end && at > end)) return false;
        if (!end) return true;
    }
}

/* Is it `%x is f32[2], compiled f32[3]`, other sizes alone? end NULL: the text's. */
static bool is_of_sizes(const char *why, const char *end) {
    const char *is = strstr(why, " is "), *last = end ? end : why + strlen(why);
    while (last > why && *last != ' ') last--;
    return is && is < last && !strncmp(is + 4, last + 1, strcspn(is + 4, " [") + 1) &&
           is[4 + strcspn(is + 4, " [")] == '[';
}

bool prog_only_values(const char *why) {
    for (const char *end;; why = end + 2) {
        const char *at = strstr(why, ": element ");
        end = strstr(why, "; ");
        bool numbers = at && !(end && at > end);
        if (!numbers && !is_of_sizes(why, end)) return false;
        if (!end) return true;
    }
}

double prog_rounding;

/* Is the difference one of rounding that more digits have made smaller? */
static bool shrinks(case_verdict *v) {
    return v->off <= prog_rounding && prog_only_numbers(td__buf_str(&v->why));
}

/* Native code is made of simpler forms, which round otherwise than the kernels of norms
 * and losses, and a program may make much of the last digit. Is it equal to a replay of
 * the graph it is made of? Then its loops are right; that the forms are is for the
 * samples of ops to show. */
static bool only_rounds(const td_gfile *f, const td_gcase *c, const case_way *way,
                        const char *why) {
    case_verdict v = {0};
    case_way     w = *way;
    if (td__config(f->cx)->backend == TD_BACKEND_INTERP) return false;
    if (!prog_only_values(why)) return false;
    for (int i = 0; i < CASE_RANDOM; i++)
        if (way->env == case_compiled[i].env) w.against = &case_replayed[i];
    bool same = w.against && case_check(f, c, &w, &v) != CASE_DIFFERS;
    td__buf_free(&v.why);
    return same;
}

static bool uses(const td_gfile *f, td_op op) {
    bool found = false;
    for (int i = 0; i < f->graphs.n; i++)
        for (int k = 0; k < f->graphs.v[i]->nodes.n; k++)
            found |= f->graphs.v[i]->nodes.v[k]->op == op;
    return found;
}

/* May numbers that are not near each other still be right? Whether a partial product
 * overflows depends on the order of the factors, which loops choose; and native code
 * rounds otherwise than kernels, so that the bits of a number, read as another dtype,
 * are others. */
static bool may_be_far(const td_gfile *f, const char *why) {
    bool odd = strstr(why, "nan") || strstr(why, "inf");
    bool native = td__config(f->cx)->backend != TD_BACKEND_INTERP;
    return prog_only_numbers(why) &&
           ((odd && uses(f, TD_OP_prod)) || (native && uses(f, TD_OP_view_dtype)));
}

static bool check_way(const td_gfile *f, const td_gcase *c, const case_way *way,
                      prog_result *r) {
    case_verdict v = {0};
    if (!prog_is_asked_for(way->name) || (way->of_graphs && case_needs_body(c)))
        return true;
    n_texts = 0;
    for (int i = 0; i < c->steps.n; i++) n_texts += c->steps.v[i].kind == TD_STEP_CALL;
    case_result is = case_check(f, c, way, &v);
    r->off = v.off;
    if (is == CASE_DIFFERS && shrinks(&v)) is = CASE_EQUAL;
    const char *why = td__buf_str(&v.why);
    if (is == CASE_DIFFERS && (only_rounds(f, c, way, why) || may_be_far(f, why) ||
                               prog_is_unstable(f, c, why, v.off))) {
        is = CASE_EQUAL;
        r->rounds = true;
        snprintf(r->why, sizeof r->why, "%s: %s", way->name, why);
    }
    if (is == CASE_BOTH_FAIL) r->failed = true;
    if (is == CASE_REFUSED && r->verdict == PROG_AGREE) r->verdict = PROG_REFUSED;
    if (is == CASE_DIFFERS) r->verdict = PROG_DIFFER;
    if (is == CASE_REFUSED || is == CASE_DIFFERS) {
        prog_sum_up(r->kind, sizeof r->kind, way->name, why);
        snprintf(r->why, sizeof r->why, "%s: %s", way->name, why);
    }
    td__buf_free(&v.why);
    return is != CASE_DIFFERS;
}

/* A compiled way with backwards as code, too: the backward graphs of its calls become
 * part of it. */
static bool with_backward(const td_gfile *f, const td_gcase *c, uint64_t hash,
                          prog_way_fn *fn, prog_result *r) {
    case_way way = case_compiled[hash % CASE_COMPILED];
    char     name[64];
    snprintf(name, sizeof name, "%s, backward", way.name);
    way.name = name;
    way.backward = true;
    return fn(f, c, &way, r);
}

/* ---- with other settings ------------------------------------------------ */

/* Calls fn for a compiled way with less memory for what is kept, without some of the
 * passes over the plan, and with what calls promise checked. */
static bool with_settings(const td_gfile *f, const td_gcase *c, uint64_t hash,
                          prog_way_fn *fn, prog_result *r) {
    char      name[128];
    td_config was = *td__config(f->cx), now = was;
    /* Kept programs may not be refused, as packed and offloaded ones may be. */
    int       ways = prog_all_passes ? CASE_COMPILED : CASE_RANDOM;
    case_way  way = case_compiled[hash / 2 % (unsigned)ways];
    now.memory_budget = (double)(hash % 2) / 2;
    now.debug_asserts = true;
    now.merge_writes = hash >> 32 & 1;
    now.merge_made = hash >> 33 & 1;
    now.assign_writes = hash >> 34 & 1;
    now.functional_rng = hash >> 35 & 1;
    snprintf(name, sizeof name, "%s with %s%s%s%s%s", way.name,
             hash % 2 ? "half the budget" : "budget 0",
             now.merge_writes ? "" : ", merge_writes=off",
             now.merge_made ? "" : ", merge_made=off",
             now.assign_writes ? "" : ", assign_writes=off",
             now.functional_rng ? ", functional_rng=on" : "");
    way.name = name;
    bool ok = td_config_put(f->cx, &now) && fn(f, c, &way, r);
    return td_config_put(f->cx, &was) && ok;
}

/* A gradient that comes through a view shares the tangent's storage, one that reaches
 * the leaf directly is a copy; so a pass that drops views changes which tangents a
 * later backward adds to. */
static bool names_tangents(const td_gcase *c) {
    for (int i = 0; i < c->steps.n; i++)
        if (c->steps.v[i].n_args > c->steps.v[i].n_roots && c->steps.v[i].n_roots)
            return true;
    return false;
}

/* Calls fn for the program, or with `joint` its joint graph, after no pass, after all
 * of them (N_PASSES), or after one. */
static bool after_pass(const td_gfile *f, const td_gcase *c, bool joint, unsigned pass,
                       prog_way_fn *fn, prog_result *r) {
    static const char *const by[] = {" cleaned by views", " cleaned by fold",
                                     " cleaned by cse",   " cleaned by dce",
                                     " cleaned by order", " cleaned",
                                     " in text"};
    char                     name[48];
    if (!joint && pass != NO_PASS && names_tangents(c)) return true;
    snprintf(name, sizeof name, "%s%s", joint ? "joint" : "captured", by[pass]);
    case_way way = {.name = name,
                    .call = joint ? call_joint : call_captured,
                    .env = &pass,
                    .of_graphs = true,
                    /* another order of sums */
                    .grad_slack = pass == NO_PASS ? 0 : 256};
    return fn(f, c, &way, r);
}

void prog_each_way(const td_gfile *f, const td_gcase *c, uint64_t hash, prog_way_fn *fn,
                   prog_result *r) {
    for (int i = 0; case_ways[i]; i++)
        if (!fn(f, c, case_ways[i], r)) return;
    if (prog_mistaken && !fn(f, c, &mistaken, r)) return;
    if (!with_backward(f, c, hash, fn, r)) return;
    for (uint64_t k = 0; k < (prog_all_passes ? 2 * CASE_COMPILED : 1); k++)
        if (!with_settings(f, c, hash + k, fn, r)) return;
    for (int joint = 0; joint < 2; joint++, hash /= 16) {
        unsigned which = (unsigned)(hash % 3); /* one of three: time is short */
        unsigned from = which == 0   ? NO_PASS
                        : which == 1 ? N_PASSES
                                     : (unsigned)(hash / 3 % N_PASSES);
        unsigned to = prog_all_passes ? NO_PASS : from;
        for (unsigned pass = prog_all_passes ? 0 : from; pass <= to; pass++)
            if (!after_pass(f, c, joint, pass, fn, r)) return;
    }
}

/* Types that say all are enough to capture by. */
static bool check_graph(const td_graph *g, prog_result *r) {
    n_texts = 1;
    bool ok = is_sound(g, TD_STAGE_PROGRAM);
    if (ok) return true;
    r->verdict = PROG_DIFFER;
    prog_sum_up(r->kind, sizeof r->kind, "program", td_message(g->cx));
    snprintf(r->why, sizeof r->why, "%s", td_message(g->cx));
    td_clear(g->cx);
    return false;
}

bool prog_native;

const char *prog_device;

td_ctx *prog_open(void) {
    td_ctx   *cx = td_open();
    td_device dev;
    if (!cx || !prog_device) return cx;
    if (td_device_parse(prog_device, &dev)) td_set_default_device(cx, dev);
    if (td_ok(cx) && td_default_device(cx).kind != TD_CPU) return cx;
    fprintf(stderr, "%s: %s\n", prog_device, td_message(cx));
    exit(2);
}

void prog_check_text(const char *text, size_t n, td_dtype floats, prog_result *r) {
    td_ctx *cx = prog_open();
    if (cx) cx->default_dtype = floats;
    prog_native = cx && td__config(cx)->backend != TD_BACKEND_INTERP;
    *r = (prog_result){.verdict = PROG_BROKEN};
    td_gfile *f = cx ? td__gfile_parse(cx, text, n, "program.td") : NULL;
    if (td_is_nil(f) || f->cases.n == 0) {
        snprintf(r->why, sizeof r->why, "%s", cx ? td_message(cx) : "no memory");
        snprintf(r->kind, sizeof r->kind, "no program");
    } else {
        bool ok = true;
        r->verdict = PROG_AGREE;
        for (int i = 0; ok && i < f->graphs.n; i++) ok = check_graph(f->graphs.v[i], r);
        for (int i = 0; ok && i < f->cases.n; i++) {
            prog_each_way(f, f->cases.v[i], td__hash(text, n, 0), check_way, r);
            ok = r->verdict != PROG_DIFFER;
        }
    }
    td__gfile_drop(f);
    if (cx) td_close(cx);
}

void prog_check(const char *text, size_t n, prog_result *r) {
    if (prog_faults) {
        prog_check_faults(text, n, r);
        return;
    }
    prog_check_text(text, n, TD_F32, r);
    if (!prog_is_noise(text, n, r)) return;
    r->verdict = PROG_AGREE;
    r->rounds = true;
}

/* ---- rehearsals --------------------------------------------------------- */

td_code prog_run(const td_gfile *f, const td_gcase *c, const case_way *way, char *why,
                 size_t cap) {
    case_run run = {.file = f, .c = c, .way = way};
    td_ctx  *cx = f->cx;
    uint64_t seed = cx->rng_seed, offset = cx->rng_offset;
    bool     grad = cx->grad_enabled, inference = cx->inference;
    case_run_all(&run);
    td_code code = td_error(cx);
    if (cap) snprintf(why, cap, "%s", td_message(cx));
    td_clear(cx);
    td_rng_set(cx, seed, offset);
    cx->grad_enabled = grad;
    cx->inference = inference;
    return code;
}

static bool run_way(const td_gfile *f, const td_gcase *c, const case_way *way,
                    prog_result *r) {
    (void)r;
    if (prog_is_asked_for(way->name)) prog_run(f, c, way, NULL, 0);
    return true;
}

void prog_rehearse(const char *text, size_t n) {
    td_ctx   *cx = prog_open();
    td_gfile *f = cx ? td__gfile_parse(cx, text, n, "program.td") : NULL;
    for (int i = 0; f && i < f->cases.n; i++) {
        for (int k = 0; k < CASE_COMPILED; k++)
            run_way(f, f->cases.v[i], &case_compiled[k], NULL);
        with_settings(f, f->cases.v[i], td__hash(text, n, 0), run_way, NULL);
    }
    td__gfile_drop(f);
    if (cx) td_close(cx);
}
