# The commands of nnet3py come first on the PATH; NNET3PY_BIN may name another folder of launchers.
export PATH="${NNET3PY_BIN:-$PWD/../../bin}:$PATH"
export LC_ALL=C

# Messages go to logs; on a terminal one line of it shows what goes on.
if [ -t 2 ]; then export NNET3PY_PROGRESS=${NNET3PY_PROGRESS:-$(tty <&2)}; fi
