#!/usr/bin/env bash
# usage: make_chain_xconfig.sh FEAT_DIM IVECTOR_DIM NUM_PDFS CONFIG_DIR DIM BOTTLENECK "STRIDES" [PITCH_DIM]: a TDNN-F for LF-MMI
#
# PITCH_DIM of the features, the last ones, are pitch, which goes past what is done with cepstra. These become log mel energies again, so that bands of frequency and of time can be masked in training. STRIDES are
# the time strides of the factored layers, such as "1 1 1 0 3 3 3"; IVECTOR_DIM is 0 for none.
set -euo pipefail
[ $# -eq 7 ] || [ $# -eq 8 ] || { sed -n 2p "$0" >&2; exit 1; }
feat_dim=$1 ivector_dim=$2 num_pdfs=$3 configs=$4 dim=$5 bottleneck=$6 strides=$7 pitch_dim=${8:-0}
num_ceps=$((feat_dim - pitch_dim)) cepstra=input pitch=
l2=l2-regularize=0.01 prefinal_dim=$((dim / 2)) ivector=

[ "$ivector_dim" -eq 0 ] || echo "input dim=$ivector_dim name=ivector"
echo "input dim=$feat_dim name=input"
if [ "$pitch_dim" -gt 0 ]; then
  cepstra=cepstra pitch=", pitch-norm"
  cat <<END
dim-range-component name=cepstra input=input dim=$num_ceps dim-offset=0
dim-range-component name=pitch input=input dim=$pitch_dim dim-offset=$num_ceps
batchnorm-component name=pitch-norm input=pitch
END
fi
cat <<END
idct-layer name=idct input=$cepstra dim=$num_ceps cepstral-lifter=22 affine-transform-file=$configs/idct.mat
batchnorm-component name=norm input=idct
spec-augment-layer name=mask freq-max-proportion=0.4 time-zeroed-proportion=0.1 time-mask-max-frames=15
END
if [ "$ivector_dim" -gt 0 ]; then
  ivector=", ReplaceIndex(ivector-norm, t, 0)"
  cat <<END
linear-component name=ivector-linear input=ivector dim=$ivector_dim $l2
batchnorm-component name=ivector-norm input=ivector-linear target-rms=0.5
END
fi
echo "relu-batchnorm-dropout-layer name=tdnn1 dim=$dim input=Append(-2@mask, -1@mask, mask, 1@mask, 2@mask$pitch$ivector) $l2" \
  "dropout-per-dim=true dropout-per-dim-continuous=true dropout-proportion=0.0" | sed 's/\(-*[0-9]\)@mask/Offset(mask, \1)/g'
number=2
for stride in $strides; do
  echo "tdnnf-layer name=tdnnf$number dim=$dim bottleneck-dim=$bottleneck time-stride=$stride $l2 dropout-proportion=0.0"
  number=$((number + 1))
done
cat <<END
linear-component name=prefinal-l dim=$prefinal_dim $l2 orthonormal-constraint=-1.0
prefinal-layer name=prefinal-chain input=prefinal-l $l2 big-dim=$dim small-dim=$prefinal_dim
output-layer name=output include-log-softmax=false dim=$num_pdfs l2-regularize=0.005
prefinal-layer name=prefinal-xent input=prefinal-l $l2 big-dim=$dim small-dim=$prefinal_dim
output-layer name=output-xent dim=$num_pdfs learning-rate-factor=5 l2-regularize=0.005
END
