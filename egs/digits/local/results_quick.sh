#!/usr/bin/env bash
# usage: results_quick.sh DIR NET…: a table of what each net reached, beside what Kaldi reaches with the same nets and schedule.
set -euo pipefail
dir=$1; shift

number() {   # number PATTERN LOG: what the log says after the pattern
  sed -n "s/.*$1 is \([-0-9.e]*\) per frame.*/\1/p" "$2"
}

declare -A kaldi_accuracy=([tdnn]=0.906 [lstm]=0.909)
printf '%-6s %11s %17s %16s %14s %22s\n' net parameters 'train objective' 'test log-like' 'test accuracy' "Kaldi's test accuracy"
for net in "$@"; do
  printf '%-6s %11s %17s %16s %14s %22s\n' $net \
    "$(sed -n 's/^num-parameters: //p' $dir/$net/info.txt)" \
    "$(tail -n 1 $dir/$net/passes.txt | cut -d' ' -f3)" \
    "$(number "Overall log-likelihood for 'output'" $dir/$net/log/score.log)" \
    "$(number "Overall accuracy for 'output'" $dir/$net/log/score.log)" \
    "${kaldi_accuracy[$net]:--}"
done
