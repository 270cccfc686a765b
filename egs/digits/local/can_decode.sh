#!/usr/bin/env bash
# usage: can_decode.sh: whether the packages are there that words are decoded with, nnet3py's extra `decode`
. "$(dirname "$0")/../../utils/recipe.sh"
python -c 'import importlib.util as util; raise SystemExit(
not all(map(util.find_spec, ("kaldifst", "kaldi_decoder", "kaldialign"))))'
