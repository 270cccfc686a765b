#!/usr/bin/env bash
# usage: words_to_numbers.sh LANG TEXT: prints TEXT with the numbers of words.txt, or of the word in oov.txt for others
set -euo pipefail
[ $# -eq 2 ] || { sed -n 2p "$0" >&2; exit 1; }
unknown=
[ ! -s $1/oov.int ] || unknown=$(cat $1/oov.int)
awk -v unknown="$unknown" 'NR == FNR { id[$1] = $2; next }
  { line = $1
    for (i = 2; i <= NF; i++) {
      if (!($i in id) && unknown == "") { print $1 ": " $i " is not in words.txt" > "/dev/stderr"; next }
      line = line " " ($i in id ? id[$i] : unknown)
    }
    print line }' $1/words.txt $2
