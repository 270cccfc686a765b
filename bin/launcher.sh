# Read by the launchers in this folder, which set name, self and here. Written by
# "python -m nnet3py.cli.machine.bin_files"; do not edit.
here=$(CDPATH= cd -P -- "$here" && pwd)    # the folder itself may be a link: Python takes ".." out of names by letter
python=${NNET3PY_PYTHON:-$here/../.venv/bin/python}
if [ -z "$NNET3PY_PYTHON" ] && [ ! -x "$python" ]; then
  exists() { [ -e "$1" ]; }
  able='import sys, importlib.util as u; sys.exit(sys.version_info < (3, 10) or not u.find_spec("numba"))'
  python= IFS=:
  for folder in $PATH; do
    [ -x "$folder/python3" ] || continue
    if exists "$folder"/../lib/python3*/*-packages/numba/__init__.py || "$folder/python3" -c "$able" 2>/dev/null; then
      python=$folder/python3
      break
    fi
  done
  unset IFS
  if [ -z "$python" ]; then
    echo "$name: no python3 on PATH has numba; run 'make' in the checkout of nnet3py, or set NNET3PY_PYTHON" >&2
    exit 255
  fi
fi
package=$here/..
[ -z "$NNET3PY_RESIDENT" ] ||
  exec "$python" -I -S "$package/nnet3py/cli/process/resident_client.py" "$self" "$name" "$@"
exec "$python" -c 'import _signal as s       # Ctrl-C just ends it until somebody reports that
s.getsignal(s.SIGINT) is s.default_int_handler and s.signal(s.SIGINT, s.SIG_DFL)
import os, sys; sys.path[:sys.path[0] == ""] = [os.path.realpath(sys.argv.pop(1))]
from nnet3py.cli.main import launch; launch(sys.argv.pop(1))' "$package" "$name" "$@"
