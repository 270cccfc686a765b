#!/usr/bin/env bash
# A network of run.sh trained by two dask workers of this machine, one thread each (needs the extra `dask`).
#
#   local/with_dask.sh                 the TDNN
#   local/with_dask.sh --nets lstm --num-epochs 2
#
# What it makes lies under exp/dask/, laid out as run.sh does it. Workers on other machines are started in the same way;
# they must see this folder under the same name.

set -euo pipefail
cd "$(dirname "$0")/.."
. ../utils/recipe.sh

dir=exp/dask
nets=tdnn
num_epochs=
num_workers=2
decode=auto
. ../utils/parse_options.sh

has_extra dask || fail "this needs dask ($extra_hint)"
mkdir -p $dir/log
rm -f $dir/scheduler.json
processes=()              # the scheduler, then its workers
stop() {   # workers first: without a scheduler they wait for it to come back
  local n tenths
  for ((n = ${#processes[@]} - 1; n >= 0; n--)); do
    kill ${processes[n]} 2>/dev/null || continue
    for ((tenths = 0; tenths < 50; tenths++)); do
      kill -0 ${processes[n]} 2>/dev/null || break
      sleep 0.1
    done
    kill -9 ${processes[n]} 2>/dev/null || true
  done
}
trap stop EXIT
trap 'exit 1' INT TERM HUP

"$python" -m distributed.cli.dask_scheduler --host 127.0.0.1 --port 0 --no-dashboard \
  --scheduler-file $dir/scheduler.json > $dir/log/scheduler.log 2>&1 &
processes+=($!)
for ((n = 1; n <= num_workers; n++)); do
  "$python" -m distributed.cli.dask_worker --scheduler-file $dir/scheduler.json --nthreads 1 --no-nanny --no-dashboard \
    --local-directory $dir/worker.$n > $dir/log/worker.$n.log 2>&1 &
  processes+=($!)
done
for ((tenths = 0; ; tenths++)); do
  [ ! -s $dir/scheduler.json ] || break
  [ $tenths -lt 600 ] && kill -0 ${processes[0]} 2>/dev/null || fail "dask's scheduler does not start (its log: $dir/log/scheduler.log)"
  sleep 0.1
done
address=$(sed -n 's/.*"address": "\([^"]*\)".*/\1/p' $dir/scheduler.json)
echo "$0: scheduler $address with $num_workers workers"
./run.sh --dir $dir --nets "$nets" --num-epochs "$num_epochs" --decode $decode --scheduler $address
