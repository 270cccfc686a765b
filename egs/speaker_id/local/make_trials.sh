#!/usr/bin/env bash
# usage: make_trials.sh UTT2SPK > TRIALS: every pair of utterances, as Kaldi lists trials (target: of one speaker)
set -euo pipefail
awk 'BEGIN { n = 0 }
  NF != 2 { print "make_trials.sh: expected two fields in line " NR " of " FILENAME > "/dev/stderr"; exit 1 }
  { for (i = 0; i < n; i++) print name[i], $1, ($2 == speaker[i] ? "target" : "nontarget"); name[n] = $1; speaker[n++] = $2 }
' "$1"
