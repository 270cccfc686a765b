#!/usr/bin/env bash
# usage: results.sh DIR NET…: a table of what each network reached on the test speakers.
set -euo pipefail
dir=$1; shift

number() {   # number PATTERN FILE: what stands after the pattern; - if there is no such file
  local found=
  [ ! -e "$2" ] || found=$(sed -n "s/^$1[: ]*\([-0-9.]*\).*/\1/p" "$2")
  echo "${found:--}"
}

printf '%-6s %10s %14s %14s %15s\n' net parameters frame-accuracy log-likelihood word-error-rate
for net in "$@"; do
  printf '%-6s %10s %14s %14s %15s\n' $net "$(number num-parameters $dir/$net/info.txt)" \
    "$(number 'frame accuracy' $dir/$net/frames.txt)" "$(number log-likelihood $dir/$net/frames.txt)" \
    "$(number %WER $dir/$net/decode/wer.txt)"
done
