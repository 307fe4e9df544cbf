#!/bin/sh
# man.sh TANDEM DIR -- man pages of the command, written from its own help: tandem.1 and
# one page for each subcommand. Headings of the help become sections, and its lines stay
# as they are.
set -eu
tandem=$1 dir=$2
mkdir -p "$dir"

page() { # NAME, the help on standard input
    awk -v name="$1" -v version="$("$tandem" --version | cut -d' ' -f2)" '
    BEGIN { printf ".TH %s 1 \"\" \"tandem %s\" \"Tandem\"\n", toupper(name), version }
    /^[A-Z][A-Z ]*$/ {
        if (open) print ".fi"
        open = 0
        print ".SH " $0
        next
    }
    {
        if (!open && section_text($0)) next
        if (!open) print ".nf"
        open = 1
        sub(/^    /, "")
        gsub(/\\/, "\\e")
        gsub(/-/, "\\-")
        if ($0 ~ /^[.\047]/) $0 = "\\&" $0
        print
    }
    END { if (open) print ".fi" }
    # The NAME section is one filled line, which whatis reads.
    function section_text(line) {
        if (line !~ /^    tandem[a-z -]* - /) return 0
        sub(/^.* - /, "", line)
        print name " \\- " line
        return 1
    }'
}

"$tandem" help | page tandem >"$dir/tandem.1"
"$tandem" help | awk '/^COMMANDS$/ { on = 1; next } /^[A-Z]/ { on = 0 } on && NF { print $1 }' |
while read -r c; do
    [ "$c" = help ] && continue
    "$tandem" help "$c" | page "tandem-$c" >"$dir/tandem-$c.1"
done
