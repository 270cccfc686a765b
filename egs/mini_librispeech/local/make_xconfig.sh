#!/usr/bin/env bash
# usage: make_xconfig.sh FEAT_DIM IVECTOR_DIM NUM_PDFS CONFIG_DIR DIM BOTTLENECK PREFINAL_DIM "STRIDES": a TDNN-F as xconfig
#
# STRIDES are the time strides of the factored layers, such as "1 1 1 0 3 3 3"; IVECTOR_DIM is 0 for none.
set -euo pipefail
[ $# -eq 8 ] || { sed -n 2p "$0" >&2; exit 1; }
feat_dim=$1 ivector_dim=$2 num_pdfs=$3 configs=$4 dim=$5 bottleneck=$6 prefinal_dim=$7 strides=$8

ivector=
if [ "$ivector_dim" -gt 0 ]; then
  echo "input dim=$ivector_dim name=ivector"
  ivector=", ReplaceIndex(ivector, t, 0)"
fi
cat <<END
input dim=$feat_dim name=input
fixed-affine-layer name=lda input=Append(-1, 0, 1$ivector) affine-transform-file=$configs/lda.mat
relu-batchnorm-dropout-layer name=tdnn1 dim=$dim l2-regularize=0.01 dropout-per-dim=true dropout-per-dim-continuous=true dropout-proportion=0.0
END
number=2
for stride in $strides; do
  echo "tdnnf-layer name=tdnnf$number dim=$dim bottleneck-dim=$bottleneck time-stride=$stride l2-regularize=0.01 dropout-proportion=0.0"
  number=$((number + 1))
done
cat <<END
linear-component name=prefinal-l dim=$prefinal_dim l2-regularize=0.01 orthonormal-constraint=-1.0
prefinal-layer name=prefinal input=prefinal-l big-dim=$dim small-dim=$prefinal_dim l2-regularize=0.01
output-layer name=output dim=$num_pdfs max-change=1.5 l2-regularize=0.005
END
