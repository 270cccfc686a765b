#!/usr/bin/env bash
# usage: results.sh RESULTS: a table of lines `VECTORS SCORING EER` in percent, a row for each scoring
set -euo pipefail
awk 'BEGIN { title["mean"] = "mean features"; title["xvector"] = "x-vectors" }
  !($1 in vectors) { vectors[$1]; order[++n] = $1 }
  !($2 in scoring) { scoring[$2]; rows[++m] = $2 }
  { eer[$1, $2] = $3 }
  END {
    printf "%-26s", "equal-error rate (%)"; for (j = 1; j <= n; j++) printf "%15s", title[order[j]]; print ""
    for (i = 1; i <= m; i++) { printf "%-26s", rows[i]; for (j = 1; j <= n; j++) printf "%15s", eer[order[j], rows[i]]; print "" }
  }' "$1"
