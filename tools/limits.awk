# limits.awk -- the hard limits of taste. Reads tools/limits.allow, then sources.
# Prints `file:line: rule name: what is wrong`; the status says whether it did.
#
#   file 700 lines (public header 500)    function 80 lines    line 88 columns
#   nesting 4 (kernels are exempt)        parameters 6         TODO needs (#issue)
#   assert: no side effects inside TD_ASSERT
#
# A row of limits.allow is `file rule name  reason`, with - for no name. A row
# that excuses nothing is itself reported. Relies on the format that clang-format
# settles: a function's closing brace is the only `}` in the first column.

function report(line, rule, name, text,    key) {
    key = FILENAME " " rule " " name
    if (key in allowed) { used[key] = 1; return }
    print FILENAME ":" line ": " rule " " name ": " text
    bad = 1
}

function columns(s) { gsub(/[\200-\277]/, "", s); return length(s) }

function finish_file(    most) {
    if (!file) return
    most = file ~ /^include\// ? 500 : 700
    if (lines > most && !((file " file -") in allowed)) {
        print file ":" lines ": file -: " lines " lines, at most " most
        bad = 1
    } else if (lines > most) used[file " file -"] = 1
}

# Parameters of the definition in `sig`: commas at the first level of brackets.
function parameters(sig,    i, c, depth, n) {
    n = 1
    sub(/^[^(]*/, "", sig)
    if (sig ~ /^\((void)?\)/) return 0
    for (i = 1; i <= length(sig); i++) {
        c = substr(sig, i, 1)
        if (c == "(") depth++
        if (c == ")" && --depth == 0) break
        if (c == "," && depth == 1) n++
    }
    return n
}

function function_name(sig) {
    sub(/ *\(.*/, "", sig)
    sub(/.*[ *]/, "", sig)
    return sig
}

FILENAME ~ /limits\.allow$/ {
    if ($0 !~ /^#/ && NF) { allowed[$1 " " $2 " " $3] = 1 }
    next
}

FNR == 1 {
    finish_file()
    file = FILENAME; sig = ""; name = ""
    kernel = file ~ /src\/ops\/(loops\/|kern_|gemm)/
}

{ lines = FNR }

columns($0) > 88 { report(FNR, "line", "-", columns($0) " columns, at most 88") }
/(^|[^A-Za-z])(TODO|FIXME|XXX)([^A-Za-z]|$)/ && !/(TODO|FIXME)\(#[0-9]+\)/ {
    report(FNR, "todo", "-", "needs an issue number, as TODO(#12)")
}
/TD_ASSERT\(/ && !/define/ {
    body = $0
    sub(/.*TD_ASSERT\(/, "", body)
    gsub(/"([^"\\]|\\.)*"|[=!<>]=/, "", body)
    if (body ~ /\+\+|--|=/) report(FNR, "assert", "-", "has a side effect")
}

# A signature starts in the first column and runs to the line that ends in `{`.
/^[A-Za-z_]/ { sig = ""; start = FNR }
/^[A-Za-z_ ]/ && name == "" {
    sig = sig $0
    if (sig ~ /[;=]/ || sig ~ /^(typedef|struct|enum|union)[^(]*\{/) sig = ""
    else if (sig ~ /\(.*\) *\{$/) {
        name = function_name(sig)
        if (parameters(sig) > 6)
            report(start, "parameters", name, parameters(sig) " of them, at most 6")
        sig = ""
    }
}
name != "" && /^ +(\} *else |else )?(if|for|while|switch|do)[ ({]/ {
    match($0, /^ +/)
    if (RLENGTH > 16 && !kernel)
        report(FNR, "nesting", name, int(RLENGTH / 4) " deep, at most 4")
}
name != "" && /^\}/ {
    if (FNR - start + 1 > 80)
        report(start, "function", name, FNR - start + 1 " lines, at most 80")
    name = ""
}

END {
    finish_file()
    for (key in allowed) if (!(key in used)) {
        print "tools/limits.allow: excuses nothing: " key
        bad = 1
    }
    exit bad
}
