# What the recipes beside this file share: sourced by them, with dir set.

die() { echo "$0: $*" >&2; exit 1; }
note() { echo "$*" >> $dir/summary; }       # what the script read from a log or a program

# job LOG COMMAND-LINE: a log as Kaldi's run.pl leaves it; its last lines are shown if the command fails.
job() {
  local log=$1 started=$(date +%s) status=0
  shift
  echo "# $*" > $log
  echo "# Started at $(date)" >> $log
  echo "#" >> $log
  bash -o pipefail -c "$*" >> $log 2>&1 || status=$?
  echo "# Accounting: time=$(($(date +%s) - started)) threads=1" >> $log
  echo "# Ended (code $status) at $(date)" >> $log
  [ $status -eq 0 ] || { tail -n 12 $log >&2; die "failed: $log"; }
}

# parallel_jobs FIRST LAST LOG COMMAND-LINE: one job for each number, side by side; JOB is replaced by the number.
parallel_jobs() {
  local first=$1 last=$2 log=$3 pids= number pid
  shift 3
  for ((number = first; number <= last; number++)); do
    job ${log//JOB/$number} "${*//JOB/$number}" &
    pids="$pids $!"
  done
  for pid in $pids; do wait $pid || exit 1; done
}

keep() { awk 'NR == FNR { wanted[$1]; next } $1 in wanted' $1 -; }          # lines whose first word is in the list
drop() { awk 'NR == FNR { wanted[$1]; next } !($1 in wanted)' $1 -; }

# The objective of a training job: the last field before "over … frames"; -100000 if there is no number.
objective_of() {
  local value
  value=$(grep -o "^LOG .* Overall average objective function for 'output' is [-0-9e.+= ]* over [-0-9e.+]* frames" $1 |
    tail -n 1 | sed "s/.*'output' is //; s/ over .*//" | awk '{print $NF}')
  echo ${value:--100000}
}
