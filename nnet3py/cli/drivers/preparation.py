"""Preparations of a training, and discriminative training: they run in stages, and continue after interruptions.

train-ivector-extractor, extract-ivectors, nnet3-build-tree, prepare-e2e, make-denlats and train-discriminative.
"""
from __future__ import annotations

from collections.abc import Sequence

from nnet3py.cli.drivers import RESUMES, run_work
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared
from nnet3py.drivers.staged_options import (
    DiscriminativeTrainingOptions,
    ExtractorOptions,
    FlatStartOptions,
    IvectorOptions,
    LatticesOptions,
    TreeOptions,
)
from nnet3py.option_fields import settings_of


@kaldi_command("train-ivector-extractor", "Speakers and i-vectors",
               "Train an extractor of i-vectors from a data directory.", f"""
Train an extractor of i-vectors for online recognition from a data directory: a transform of spliced features (by PCA,
or a given one), a mixture of Gaussians, and the extractor. In the end the folder has final.ie, final.dubm, final.mat,
global_cmvn.stats, online_cmvn.conf and splice_opts, as made by Kaldi's steps/online/nnet2/train_ivector_extractor.sh.
{RESUMES}

The stages: -6 lists, -5 transform, -4 mixture in memory, -3 passes over all data for it, -2 full covariances and the
first extractor, -1 posteriors, 0 to --num-iters less one the iterations.

Usage:  train-ivector-extractor [options]

e.g.:
train-ivector-extractor --feat-dir=data/train_hires --dir=exp/nnet3/extractor --nj=10
See also: extract-ivectors, ivector-extract-online2
""", arguments=(0, 0), options=declared(settings_of(ExtractorOptions)), detached_values=True)
def train_ivector_extractor(args: Sequence[str], options: Options) -> int:
    return run_work("ivectors", "train_ivector_extractor", ExtractorOptions, options)


@kaldi_command("extract-ivectors", "Speakers and i-vectors",
               "Extract the i-vectors of a data directory, for training and decoding.", f"""
Extract the i-vectors of a data directory, at regular intervals of frames, as an online recognizer does. The folder gets
ivector_online.scp, ivector_period, final.ie.id and conf/, as made by Kaldi's
steps/online/nnet2/extract_ivectors_online.sh, and is given to train-chain as --feat.online-ivector-dir.
{RESUMES}

Usage:  extract-ivectors [options]

e.g.:
extract-ivectors --feat-dir=data/train_hires --extractor-dir=exp/nnet3/extractor --dir=exp/nnet3/ivectors_train \\
  --utts-per-spk-max=2
See also: train-ivector-extractor, ivector-extract-online2, train-chain
""", arguments=(0, 0), options=declared(settings_of(IvectorOptions)), detached_values=True)
def extract_ivectors(args: Sequence[str], options: Options) -> int:
    return run_work("ivectors", "extract_ivectors", IvectorOptions, options)


@kaldi_command("nnet3-build-tree", "Trees and topologies",
               "Build a tree from alignments and features, and convert the alignments to it.", f"""
Build a tree from alignments and features, for the topology of a lang folder: statistics, questions, tree, model,
and the alignments converted to this model. In the end the folder has tree, final.mdl, ali.*.gz, num_jobs and
phones.txt, as made by Kaldi's steps/nnet3/chain/build_tree.sh, and is given to train-chain as --tree-dir. The program
that builds a tree from statistics is build-tree.
{RESUMES}

The stages: -5 model without context, -4 statistics, -3 questions and tree, -2 model, -1 alignments.

Usage:  nnet3-build-tree [options]

e.g.:
nnet3-build-tree --frame-subsampling-factor=3 --context-opts="--context-width=2 --central-position=1" \\
  --num-leaves=3500 --feat-dir=data/train --lang=data/lang_chain --ali-dir=exp/tri_ali --dir=exp/chain/tree
See also: build-tree, tree-info, draw-tree, train-chain
""", arguments=(0, 0), options=declared(settings_of(TreeOptions)), detached_values=True)
def nnet3_build_tree(args: Sequence[str], options: Options) -> int:
    return run_work("trees", "build_tree", TreeOptions, options)


@kaldi_command("prepare-e2e", "Chain training",
               "Make tree, phone language model and graphs for end-to-end chain training.", f"""
Prepare end-to-end training from a flat start, which needs no alignments: make a tree without statistics, a phone
language model and a graph of each transcript. The folder is given to train-chain --e2e=true as --tree-dir; it has the
files of Kaldi's steps/nnet3/chain/e2e/prepare_e2e.sh, and phone_lm.fst.
{RESUMES}

The stages: -1 lists, 0 tree and model, 1 phone language model, 2 graphs.

Usage:  prepare-e2e [options]

e.g.:
prepare-e2e --feat-dir=data/train --lang=data/lang_chain --dir=exp/e2e_tree --nj=2
See also: train-chain, nnet3-chain-e2e-get-egs, text-to-phones
""", arguments=(0, 0), options=declared(settings_of(FlatStartOptions)), detached_values=True)
def prepare_e2e(args: Sequence[str], options: Options) -> int:
    return run_work("trees", "prepare_e2e", FlatStartOptions, options)


@kaldi_command("train-discriminative", "Discriminative training",
               "Train a model further with MMI, MPFE or sMBR, from a data directory.", f"""
Train a model further with a sequence-discriminative objective (MMI, MPFE or sMBR): transcripts are aligned with the
model, the data is decoded with a weak language model, and training increases the probability of transcripts against
other paths of the lattices. Models with priors and chain models can be trained. In the end the folder has epoch1.mdl
and so on, epoch1_adj.mdl and so on with adjusted priors, and final.mdl, the last of these; objectives are in log/.
{RESUMES}

The stages: -4 lists, -3 alignments, -2 graph and lattices, -1 examples, 0 and up the iterations.

Usage:  train-discriminative [options]

e.g.:
train-discriminative --feat-dir=data/train --lang=data/lang --src-dir=exp/tdnn --dir=exp/tdnn_smbr --nj=4
See also: train-dnn, train-chain, nnet3-discriminative-train
""", arguments=(0, 0), options=declared(settings_of(DiscriminativeTrainingOptions)), detached_values=True)
def train_discriminative(args: Sequence[str], options: Options) -> int:
    return run_work("discriminative_training", "train_discriminative", DiscriminativeTrainingOptions, options)


@kaldi_command("make-denlats", "Discriminative training",
               "Make lattices of training data for discriminative training.", f"""
Make denominator lattices: decode training data with a model and a weak language model, a unigram of its transcripts,
and write lattices at the level of states. The folder gets lat.1.gz and so on, and num_jobs, as made by Kaldi's
steps/nnet3/make_denlats.sh. train-discriminative makes such lattices itself.
{RESUMES}

The stages: -4 lists, -2 graph and lattices.

Usage:  make-denlats [options]

e.g.:
make-denlats --feat-dir=data/train --lang=data/lang --src-dir=exp/tdnn --dir=exp/tdnn_denlats --nj=4
See also: train-discriminative, nnet3-discriminative-get-egs
""", arguments=(0, 0), options=declared(settings_of(LatticesOptions)), detached_values=True)
def make_denlats(args: Sequence[str], options: Options) -> int:
    return run_work("discriminative_training", "make_denlats", LatticesOptions, options)
