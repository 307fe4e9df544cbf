#!/bin/sh
# gen-entries.sh CC -- reads tandem.h through the preprocessor and writes C to standard
# output: for each public function one that calls it with arguments chosen by number,
# and a table of them all. tests/programs/entries.c includes it; a new public function is
# in it without further ado.
printf '#include "tandem/tandem.h"\n' |
    ${1:-cc} -E -P -DTD_NO_SUGAR -Iinclude -x c - |
    awk '
{
    gsub(/__attribute__\(\(visibility\("default"\)\)\)/, "TD_PUBLIC")
    text = text " " $0
}
function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); gsub(/[ \t]+/, " ", s); return s }
# "const td_tensor * t" gives "td_tensor *": neither const nor the name.
function type_of(p,   n, word, i, t, last) {
    if (p ~ /\(\*/) return "callback"
    gsub(/\*/, " * ", p)
    n = split(p, word, " ")
    last = word[n] == "*" ? n : n - 1 # without the name
    for (i = 1; i <= last; i++) {
        if (word[i] == "const" || word[i] == "struct") continue
        t = t (t == "" || (word[i] == "*" && word[i - 1] ~ /\*|const/) ? "" : " ") word[i]
    }
    sub(/\* +\*/, "**", t)
    return t
}
function known(t) {
    return t ~ /^(td_ctx|td_tensor|td_module|td_fn|td_optim|td_loader|td_store|td_exported|td_staged|td_backward_fn|td_safetensors|td_tree|td_gfile|td_graph|td_program|td_flat|td_node|td_call|td_mode_call|td_split|td_fcall) \*$/ ||
           t ~ /^(td_tensor|td_module|char) \*\*$/ ||
           t ~ /^(td_tensors|td_values|td_modules|td_ints|td_value|td_rule|td_branches|td_loop|size_t)$/ ||
           t ~ /^(char|td_value|td_body|td_region|td_function|td_saved_hooks|td_mode_hook|td_module_type|td_member_fn|td_module_fn|td_grad_hook|td_leaf_hook|td_pre_hook|td_post_hook|td_log_fn|td_param_filter|td_loss_fn|td_distance_fn) \*$/
}
function mangled(t) { gsub(/ /, "", t); gsub(/\*/, "_p", t); return t }
function chosen(t, i) {
    if (t == "callback") return "NULL"
    if (known(t)) return "A_" mangled(t) "(w, k[" i "])"
    if (t ~ /_opts \*$|^td_config \*$/)
        return "A_opts(" substr(t, 1, length(t) - 2) ", w, k[" i "])"
    if (t ~ /\*$/) return "A_pointer(w, k[" i "])"
    if (t in structs) return "((" t "){0})"
    return "A_number(" t ", w, k[" i "])"
}
function choices(t) {
    if (t == "callback") return "1"
    if (known(t)) return "N_" mangled(t)
    if (t ~ /_opts \*$|^td_config \*$/) return "3"
    if (t ~ /\*$/) return "2"
    if (t in structs) return "1"
    return "3"
}
function emit(d,   at, head, name, ret, rest, i, c, depth, n, p, args, sizes, t) {
    at = match(d, /td_[a-z0-9_]+ ?\(/)
    head = substr(d, 1, at - 1)
    name = trim(substr(d, RSTART, RLENGTH - 1))
    rest = substr(d, RSTART + RLENGTH)
    sub(/\)[^)]*$/, "", rest)
    ret = trim(head)
    n = depth = 0
    p = ""
    args = sizes = ""
    for (i = 1; i <= length(rest) + 1; i++) {
        c = i > length(rest) ? "," : substr(rest, i, 1)
        if (c == "(") depth++
        if (c == ")") depth--
        if (c != "," || depth) { p = p c; continue }
        p = trim(p)
        if (p != "" && p != "void" && p != "...") {
            t = type_of(p)
            args = args (n ? ", " : "") chosen(t, n)
            sizes = sizes (n ? ", " : "") choices(t)
            n++
        }
        p = ""
    }
    printf "static void call_%s(world *w, const int *k) {\n    (void)w, (void)k;\n    ", name
    if (ret ~ /\*$/) printf "w->result = (const void *)(uintptr_t)"
    else if (ret != "void") printf "(void)"
    printf "%s(%s);\n}\n", name, args
    table = table sprintf("    {\"%s\", \"%s\", call_%s, %d, {%s}},\n", name, ret, name,
                          n, n ? sizes : "0")
}
END {
    rest = text
    while (match(rest, /typedef struct [a-zA-Z_0-9]* ?\{/)) {
        rest = substr(rest, RSTART + RLENGTH)
        depth = 1
        for (i = 1; depth; i++) {
            c = substr(rest, i, 1)
            depth += (c == "{") - (c == "}")
        }
        rest = substr(rest, i)
        if (match(rest, /^ *[a-zA-Z_0-9]+ *;/)) {
            s = trim(substr(rest, RSTART, RLENGTH - 1))
            structs[s] = 1
        }
    }
    n = split(text, part, /TD_PUBLIC/)
    for (k = 2; k <= n; k++) {
        d = part[k]
        sub(/;.*/, "", d)
        d = trim(d)
        if (d ~ /td_[a-z0-9_]+ ?\(/) emit(d)
    }
    printf "static const entry entries[] = {\n%s};\n", table
}'
