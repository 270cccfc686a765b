"""Whole trainings, train-dnn, train-rnn, train-raw-dnn, train-raw-rnn, train-chain, and the folders of their examples.

The latter: make-egs and make-chain-egs. Kaldi: steps/nnet3/train_dnn.py and its siblings, get_egs.sh,
get_egs_targets.sh; train.py and get_egs.sh in steps/nnet3/chain/.
"""
from __future__ import annotations

import os
from collections.abc import Sequence

from nnet3py.cli.drivers import run_work
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.drivers.options import (
    ChainEgsOptions,
    ChainOptions,
    DnnOptions,
    EgsOptions,
    RawDnnOptions,
    RawRnnOptions,
    RnnOptions,
)
from nnet3py.option_fields import settings_of

_COMMON = """
The folder given by --dir must contain configs/, as xconfig-to-configs writes it. Models, logs and reports are written
there, laid out as by Kaldi's steps/nnet3/{script}. When the command is given again after an interruption, the training
goes on from where it stopped; --stage=N begins at stage N instead, as in Kaldi. Jobs are processes on this machine,
which share its cores, unless --cmd or --scheduler say otherwise.

Usage:  {name} [options]

e.g.:
{example}
"""


def _usage(name: str, first: str, example: str, script: str = "") -> str:
    return first + "\n" + _COMMON.format(script=script or name.replace("-", "_") + ".py", name=name, example=example)


@kaldi_command("train-dnn", "Training", "Train an acoustic model from features and alignments.",
               _usage("train-dnn", "Train an acoustic model without recurrence.", (
    "xconfig-to-configs --xconfig-file=network.xconfig --config-dir=exp/tdnn/configs\n"
    "train-dnn --feat-dir=data/train --ali-dir=exp/mono_ali --dir=exp/tdnn --trainer.num-epochs=4 \\\n"
    "  --trainer.optimization.num-jobs-final=2 --use-gpu=no")), arguments=(0, 0),
    options=declared(settings_of(DnnOptions)), detached_values=True)
def train_dnn(args: Sequence[str], options: Options) -> int:
    return run_work("frame_level", "train_dnn", DnnOptions, options)


@kaldi_command("train-rnn", "Training", "Train a recurrent acoustic model from features and alignments.",
               _usage("train-rnn", "Train a recurrent acoustic model.", (
    "xconfig-to-configs --xconfig-file=network.xconfig --config-dir=exp/lstm/configs\n"
    "train-rnn --feat-dir=data/train --ali-dir=exp/mono_ali --dir=exp/lstm --trainer.num-epochs=4 \\\n"
    "  --egs.chunk-width=20 --trainer.optimization.num-jobs-final=2 --use-gpu=no")), arguments=(0, 0),
    options=declared(settings_of(RnnOptions)), detached_values=True)
def train_rnn(args: Sequence[str], options: Options) -> int:
    return run_work("frame_level", "train_rnn", RnnOptions, options)


@kaldi_command("train-raw-dnn", "Training", "Train a network from features and targets.",
               _usage("train-raw-dnn", "Train a network without recurrence on targets.", (
    "xconfig-to-configs --xconfig-file=network.xconfig --config-dir=exp/map/configs\n"
    "train-raw-dnn --feat-dir=data/noisy --targets-scp=data/clean/feats.scp --dir=exp/map \\\n"
    "  --trainer.optimization.num-jobs-final=2 --use-gpu=no")), arguments=(0, 0),
    options=declared(settings_of(RawDnnOptions)), detached_values=True)
def train_raw_dnn(args: Sequence[str], options: Options) -> int:
    return run_work("frame_level", "train_raw_dnn", RawDnnOptions, options)


@kaldi_command("train-raw-rnn", "Training", "Train a recurrent network from features and targets.",
               _usage("train-raw-rnn", "Train a recurrent network on targets.", (
    "xconfig-to-configs --xconfig-file=network.xconfig --config-dir=exp/map/configs\n"
    "train-raw-rnn --feat-dir=data/noisy --targets-scp=data/clean/feats.scp --dir=exp/map \\\n"
    "  --trainer.optimization.num-jobs-final=2 --use-gpu=no")), arguments=(0, 0),
    options=declared(settings_of(RawRnnOptions)), detached_values=True)
def train_raw_rnn(args: Sequence[str], options: Options) -> int:
    return run_work("frame_level", "train_raw_rnn", RawRnnOptions, options)


@kaldi_command("train-chain", "Chain training", "Train an acoustic model with LF-MMI from alignments.",
               _usage("train-chain", """
Train an acoustic model with the LF-MMI objective: a phone language model of the alignments in --tree-dir, denominator
graph, examples from lattices (--lat-dir) or alignments (--ali-dir), network, iterations, and the combination of the
last models. Decode the model with --acoustic-scale=1.0 and the factor in the file frame_subsampling_factor, with a
graph made with --self-loop-scale=1.0. With --e2e=true, training needs no alignments, but the folder that prepare-e2e
made. --semisup.lat-dir adds data without transcripts; --languages trains a network for several languages.
""".strip(), (
    "xconfig-to-configs --xconfig-file=network.xconfig --config-dir=exp/chain/configs\n"
    "train-chain --feat-dir=data/train --tree-dir=exp/chain_tree --ali-dir=exp/tri_ali --dir=exp/chain \\\n"
    "  --chain.leaky-hmm-coefficient=0.1 --chain.l2-regularize=0.0005 --chain.xent-regularize=0.1 \\\n"
    "  --egs.chunk-width=150,110,90 --trainer.optimization.num-jobs-final=2 --use-gpu=no"), "chain/train.py"),
    arguments=(0, 0), options=declared(settings_of(ChainOptions)), detached_values=True)
def train_chain(args: Sequence[str], options: Options) -> int:
    return run_work("chain_training", "train_chain", ChainOptions, options)


_JOBS = (
    option("cmd", str, "run.pl", "Runs the jobs: run.pl (here), or queue.pl, slurm.pl and the like"),
    option("scheduler", str, "", "Address of a dask scheduler whose workers run the jobs"),
)


@kaldi_command("make-egs", "Examples", "Make a folder of training examples from data and alignments.", """
Make a folder of training examples from a data directory and either alignments (a folder with ali.*.gz, num_jobs,
final.mdl and tree) or targets (a list, such as targets.scp). The folder gets archives egs.N.ark, combine.egs,
train_diagnostic.egs, valid_diagnostic.egs (of utterances that are held out), and info/. Given again after an
interruption, the command goes on from where it stopped. Features are normalized by apply-cmvn with --cmvn-opts;
--cmvn-opts=--norm-means=false leaves them as they are.

Usage:  make-egs [options] <data-dir> <ali-dir or targets-scp> <egs-dir>
e.g.:
 make-egs --left-context=16 --right-context=12 data/train exp/tri_ali exp/tdnn/egs
or:
 make-egs --target-type=dense --cmvn-opts=--norm-means=false data/noisy data/clean/feats.scp exp/map/egs
See also: make-chain-egs, nnet3-get-egs, nnet3-get-egs-dense-targets, train-dnn
""", arguments=(3, 3), options=[
    *declared(settings_of(EgsOptions)),
    option("target-type", str, "dense", "Targets are matrices (dense), or one number per frame (sparse)",
           choices=("dense", "sparse")),
    option("num-targets", int, 0, "Number of classes, for sparse targets", least=1),
    *_JOBS,
], detached_values=True)
def make_egs(args: list[str], options: Options) -> int:
    from nnet3py.drivers import make_egs as maker
    from nnet3py.drivers.executors import make_executor

    data, labels, folder = args
    values = fields_from(options, EgsOptions())
    with make_executor(options.cmd, options.scheduler or None) as executor:
        if os.path.isdir(labels):
            maker.make_egs(data, labels, folder, values, executor)
        else:
            maker.make_target_egs(data, labels, folder, values, executor, options.target_type,
                                  options.num_targets or None)
    return 0


@kaldi_command("make-chain-egs", "Chain training", "Make a folder of chain examples from data and alignments.", """
Make a folder of chain examples from a data directory, a folder with tree, 0.trans_mdl and normalization.fst, and
either alignments (a folder with ali.*.gz, num_jobs, final.mdl and tree) or lattices (a folder with lat.*.gz and
final.mdl; this needs Kaldi's lattice programs on PATH). The folder gets archives cegs.N.ark, combine.cegs,
train_diagnostic.cegs, valid_diagnostic.cegs, and info/. Given again after an interruption, the command goes on from
where it stopped.

Usage:  make-chain-egs [options] <data-dir> <chain-dir> <ali-dir or lat-dir> <egs-dir>
e.g.:
 make-chain-egs --frames-per-eg=150,110,90 --left-context=25 data/train exp/chain exp/tri_ali exp/chain/egs
See also: make-egs, chain-make-den-fst, chain-get-supervision, nnet3-chain-get-egs
""", arguments=(4, 4), options=[*declared(settings_of(ChainEgsOptions)), *_JOBS], detached_values=True)
def make_chain_egs(args: list[str], options: Options) -> int:
    from nnet3py.drivers import make_chain_egs as maker
    from nnet3py.drivers.executors import make_executor

    data, chain, labels, folder = args
    values = fields_from(options, ChainEgsOptions())
    with make_executor(options.cmd, options.scheduler or None) as executor:
        maker.make_chain_egs(data, chain, labels, folder, values, executor)
    return 0
