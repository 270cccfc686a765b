# The commands of nnet3py come first on the PATH; NNET3PY_BIN may name another folder of launchers.
export PATH="${NNET3PY_BIN:-$PWD/../../bin}:$PATH"
export LC_ALL=C
