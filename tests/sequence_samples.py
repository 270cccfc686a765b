"""Chain and discriminative examples for the tests."""
from __future__ import annotations

from io_samples import reader_of
from paths import DATA

from nnet3py.egs.chain_example import NnetChainExample, read_chain_egs
from nnet3py.egs.discriminative_example import NnetDiscriminativeExample

SINGLE = DATA / "egs" / "chain-to-merge.ark"     # of Kaldi's, but one column of features
MERGED = DATA / "egs" / "chain-merged.ark"

DISCRIMINATIVE = (b"<Nnet3DiscriminativeEg> <NumInputs> 1 \n"
                  b"<NnetIo> input <I1V> 1 <I1> 0 -1 0  [\n  0.5 2 ]\n</NnetIo> \n"
                  b"<NumOutputs> 1 \n<NnetDiscriminativeSup> output <I1V> 2 <I1> 0 0 0 <I1> 0 3 0 "
                  b"<DiscriminativeSupervision> <Weight> 1 <NumSequences> 1 <FramesPerSeq> 2 <NumAli> [ 3 4 ]\n"
                  b"<DenLat> \n0\t1\t3\t7\t0.5,1.25\n1\t2\t4\t8\t-1,0\n2\t0.25,2\n\n</DiscriminativeSupervision> "
                  b"<DW>  [ 1 0.2 ]\n</NnetDiscriminativeSup> \n</Nnet3DiscriminativeEg> ")


def singles() -> list[NnetChainExample]:
    return [example for _, example in read_chain_egs(f"ark:{SINGLE}")]


def discriminative() -> NnetDiscriminativeExample:
    return NnetDiscriminativeExample.read(reader_of(DISCRIMINATIVE, False))
