# Sourced by a recipe's run.sh: the commands of nnet3py come first on the PATH (NNET3PY_BIN may name
# another folder of launchers), `python` runs the Python that those commands run.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PATH="${NNET3PY_BIN:-$root/bin}:$PATH"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
export LC_ALL=C

python=${NNET3PY_PYTHON:-$(nnet3-extras --print-args=false --python)} || exit 1

python() {
  command "$python" "$@"
}

fail() {   # fail MESSAGE…
  echo "$0: $*" >&2
  exit 1
}

need() {   # need FILE…: each must be there and not be empty
  local file
  for file in "$@"; do
    [ -s "$file" ] || fail "no $file, or it is empty"
  done
}

run() {   # run LOG COMMAND…: the log keeps the command's messages; they are shown if it fails
  local log=$1; shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" 2>"$log"; then
    echo "$0: failed: $* (messages: $log)" >&2
    grep -E '^(ERROR|WARNING|ASSERTION)' "$log" >&2 || tail -n 5 "$log" >&2
    exit 1
  fi
}

has_extra() {   # has_extra NAME: whether the packages of an extra are there; if not, extra_hint says what to do
  extra_hint=$(nnet3-extras --print-args=false "$1" 2>&1) && return
  extra_hint=${extra_hint##*: }
  return 1
}
