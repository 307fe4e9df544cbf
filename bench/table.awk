# table.awk -- medians of JSON lines of figures, as JSON lines on standard output and as a
# table on standard error. Lines have name, value, unit, perhaps who (else tandem) and
# size; lines of one name, size and who are runs of one figure. A ratio is the best
# peer's value over Tandem's: above 1 Tandem is better.

function field(key,   m) {
    if (!match($0, "\"" key "\": *\"?[^,\"}]*")) return ""
    m = substr($0, RSTART, RLENGTH)
    sub("\"" key "\": *\"?", "", m)
    return m
}

# Of the values "a b c ".
function median(list,   v, n, i, k, t) {
    n = split(list, v, " ")
    for (i = 2; i <= n; i++)
        for (k = i; k > 1 && v[k] + 0 < v[k - 1] + 0; k--) {
            t = v[k]; v[k] = v[k - 1]; v[k - 1] = t
        }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

BEGIN { n_who = split("tandem tandem_eager torch torch_compile jax llm.c", all, " ") }

/^{/ {
    name = field("name"); who = field("who"); size = field("size")
    if (who == "") who = "tandem"
    key = name (size == "" ? "" : " " size)
    if (!(key in unit)) order[++n] = key
    unit[key] = field("unit")
    runs[key, who] = runs[key, who] field("value") " "
    seen[who] = 1
}

END {
    head = sprintf("%-44s %5s", "", "unit")
    for (k = 1; k <= n_who; k++)
        if (all[k] in seen) head = head sprintf(" %13s", all[k])
    print head "   ratio" > "/dev/stderr"
    for (i = 1; i <= n; i++) {
        key = order[i]; split(key, part, " ")
        line = "{\"name\": \"" part[1] "\""
        if (part[2] != "") line = line ", \"size\": " part[2]
        line = line ", \"unit\": \"" unit[key] "\""
        row = sprintf("%-44s %5s", key, unit[key]); best = ""
        for (k = 1; k <= n_who; k++) {
            who = all[k]
            if (!(who in seen)) continue
            if (!((key, who) in runs)) { row = row sprintf(" %13s", "-"); continue }
            v = median(runs[key, who])
            line = line sprintf(", \"%s\": %.5g", who, v)
            row = row sprintf(" %13.4g", v)
            if (k > 2 && (best == "" || v < best)) best = v
        }
        ours = (key, "tandem") in runs ? median(runs[key, "tandem"]) : 0
        if (best != "" && ours > 0) {
            line = line sprintf(", \"ratio\": %.3g", best / ours)
            row = row sprintf(" %7.2f", best / ours)
        }
        print line "}"
        print row > "/dev/stderr"
    }
}
