"""nnet3py/drivers/commands.py: the command lines of chain training jobs, against those of Kaldi's scripts."""
from __future__ import annotations

import pytest
from driver_chain_cases import write_chain_egs

from nnet3py.drivers.commands import CHAIN, ChainCommands, Network, Step
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.options import ChainOptions
from nnet3py.drivers.schedules import Plan, models_to_combine
from nnet3py.errors import UsageError

NETWORK = Network(28, 27)


@pytest.fixture(scope="module")
def egs(tmp_path_factory: pytest.TempPathFactory) -> EgsFolder:
    return EgsFolder(write_chain_egs(tmp_path_factory.mktemp("egs") / "egs"))


def commands(egs: EgsFolder, **values: object) -> ChainCommands:
    options = ChainOptions(**{"dir": "exp/c", "use_gpu": "yes", "leaky_hmm_coefficient": 0.1,     # type: ignore
                              "l2_regularize": 0.00005, "xent_regularize": 0.1, **values})
    return ChainCommands(options, egs, CHAIN, NETWORK)


def test_a_training_job(egs: EgsFolder) -> None:
    made = commands(egs, srand=7, momentum=0.5, minibatch_size="128,64", deriv_truncate_margin=5)
    step = Step(iteration=20, num_jobs=4, processed=7, learning_rate=0.0012, shrink=0.99,
                dropout_edits="set-dropout-proportion name=* proportion=0.2")
    assert made.train(step, 1) == (          # k = 7: archive 7 % 2 + 1 = 2, frame shift (2 + 7 // 2) % 3 = 2
        "nnet3-chain-train --use-gpu=yes --apply-deriv-weights=true --l2-regularize=5e-05 "
        "--leaky-hmm-coefficient=0.1 --xent-regularize=0.1 --read-cache=exp/c/cache.20 --write-cache=exp/c/cache.21 "
        "--verbose=1 --print-interval=10 --momentum=0.5 --max-param-change=2.0 --backstitch-training-scale=0.0 "
        "--l2-regularize-factor=0.25 --backstitch-training-interval=1 --srand=27 --optimization.min-deriv-time=-33 "
        '--optimization.max-deriv-time-relative=32 "nnet3-am-copy --raw=true --learning-rate=0.0012 --scale=0.99 '
        "exp/c/20.mdl - |nnet3-copy --edits='set-dropout-proportion name=* proportion=0.2' - - |\" exp/c/den.fst "
        f'"ark,bg:nnet3-chain-copy-egs --frame-shift=2 ark:{egs.path}/cegs.2.ark ark:- | '
        "nnet3-chain-shuffle-egs --buffer-size=5000 --srand=27 ark:- ark:- | "
        'nnet3-chain-merge-egs --minibatch-size=128,64 ark:- ark:- |" exp/c/21.1.raw')
    second = made.train(step, 2)             # k = 8: archive 1, frame shift (1 + 4) % 3 = 2
    assert "--frame-shift=2" in second and "cegs.1.ark" in second and "--write-cache" not in second


def test_every_archive_is_trained_on_at_each_shift(egs: EgsFolder) -> None:
    made = commands(egs)
    assert made.passes == 3
    assert sorted(made.archive(number) for number in range(6)) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    plan = Plan(egs.num_archives, made.passes, 10.0, 1, 2, 1, 0.001, 0.0001)
    assert (plan.to_process, plan.num_iters) == (60, 40)
    assert models_to_combine(plan, 20) == list(range(21, 41))


def test_jobs_may_share_an_archive(egs: EgsFolder) -> None:
    made = commands(egs)
    assert made.most_jobs == 6
    assert Plan(egs.num_archives, made.passes, 1.0, 1, 6, 1, 0.001, 0.0001, made.most_jobs).jobs(0) == 1
    with pytest.raises(UsageError, match="num-jobs-final=7"):
        Plan(egs.num_archives, made.passes, 1.0, 1, 7, 1, 0.001, 0.0001, made.most_jobs)


def test_the_first_iteration_is_more_careful(egs: EgsFolder) -> None:
    command = commands(egs, minibatch_size="150=128,64/90=256").train(Step(0, 1, 0, 0.0002), 1)
    assert "--minibatch-size=150=64,32/90=128 " in command and "--max-param-change=1.414213562373095" in command
    assert "--read-cache" not in command and "--verbose" not in command and "deriv-time" not in command


def test_backstitch_begins_gently(egs: EgsFolder) -> None:
    made = commands(egs, backstitch_scale=0.3, backstitch_interval=4)
    assert [made.backstitch_scale(Step(number, 1, 0, 0.1)) for number in (0, 5, 15, 40)] == pytest.approx(
        [0.0, 0.1, 0.3, 0.3])


def test_an_older_option_limits_derivatives(egs: EgsFolder) -> None:
    command = commands(egs, left_deriv_truncate=-5).train(Step(3, 1, 1, 0.1), 1)
    assert "--optimization.min-deriv-time=-33 --optimization.max-deriv-time-relative=32 " in command


def test_options_go_through(egs: EgsFolder) -> None:
    command = commands(egs, chain_opts="--lwf-scale=1 --lwf-den-scale=-1", apply_deriv_weights=False,
                       add_option=("--optimization.memory-compression-level=2",)).train(Step(3, 2, 1, 0.1), 1)
    assert "--apply-deriv-weights=false " in command and " --lwf-scale=1 --lwf-den-scale=-1 " in command
    assert " --optimization.memory-compression-level=2 " in command


def test_another_models_posteriors(egs: EgsFolder) -> None:
    """They are added to minibatches, behind all that changes these; not to those of diagnostics and combination."""
    made = commands(egs, lwf_model="teacher.mdl", lwf_scale=0.5, lwf_clip_threshold=0.01)
    command = made.train(Step(3, 2, 1, 0.1), 1)
    assert " --lwf-scale=0.5 " in command
    assert ("ark:- ark:- | nnet3-chain-add-post-to-egs --use-gpu=no --type=den --batchnorm-test-mode=true "
            "--dropout-test-mode=true --leaky-hmm-coefficient=0.1 --clip-threshold=0.01 teacher.mdl exp/c/den.fst "
            'ark:- ark:- |"') in command
    assert "nnet3-chain-merge-egs" in command[:command.index("nnet3-chain-add-post")]
    for other in (made.compute_prob(4, "valid"), made.combine([8], "exp/c/final.mdl")):
        assert "add-post" not in other and "lwf" not in other


def test_the_phones_of_lattices(egs: EgsFolder) -> None:
    made = ChainCommands.phone_lm(ChainOptions(dir="exp/c", semisup_lat_dir="lat", semisup_lm_repeats="2,1"), "m.mdl",
                                  "ark:a")
    phones = 'ali-to-phones m.mdl "ark:a" ark:-'
    assert made == (f'{{ {phones} && {phones} && lattice-best-path --acoustic-scale=0.1 "ark:gunzip -c lat/lat.*.gz |" '
                    "ark:/dev/null ark:- | ali-to-phones lat/final.mdl ark:- ark:-; } | chain-est-phone-lm ark:- "
                    "exp/c/phone_lm.fst")


def test_diagnostics(egs: EgsFolder) -> None:
    made = commands(egs, compute_per_dim_accuracy=True)
    for subset in ("valid", "train"):
        assert made.compute_prob(4, subset) == (
            "nnet3-chain-compute-prob --l2-regularize=5e-05 --leaky-hmm-coefficient=0.1 --xent-regularize=0.1 "
            f'"exp/c/4.mdl" exp/c/den.fst "ark,bg:nnet3-chain-copy-egs ark:{egs.path}/{subset}_diagnostic.cegs ark:- | '
            'nnet3-chain-merge-egs --minibatch-size=1:64 ark:- ark:- |"')
    assert made.progress(4) == {
        "progress.4": "nnet3-am-info exp/c/4.mdl && nnet3-show-progress --use-gpu=no exp/c/3.mdl exp/c/4.mdl"}


def test_models(egs: EgsFolder) -> None:
    made = commands(egs, use_gpu="no", minibatch_size="64")
    assert made.average(3, [1, 3]) == ("nnet3-average exp/c/4.1.raw exp/c/4.3.raw - | "
                                       "nnet3-am-copy --set-raw-nnet=- exp/c/3.mdl exp/c/4.mdl")
    assert made.combine([8, 7], "exp/c/final.mdl") == (
        "nnet3-chain-combine --use-gpu=no --max-objective-evaluations=30 --l2-regularize=5e-05 "
        "--leaky-hmm-coefficient=0.1 --verbose=3 exp/c/den.fst exp/c/8.mdl exp/c/7.mdl "
        f'"ark,bg:nnet3-chain-copy-egs ark:{egs.path}/combine.cegs ark:- | '
        'nnet3-chain-merge-egs --minibatch-size=1:64 ark:- ark:- |" '
        '"| nnet3-am-copy --set-raw-nnet=- exp/c/8.mdl exp/c/final.mdl"')


def test_what_comes_first(egs: EgsFolder) -> None:
    options = ChainOptions(dir="exp/c", lm_opts="--num-extra-lm-states=200  --ngram-order=4")
    assert ChainCommands.phone_lm(options, "exp/t/final.mdl", "ark:gunzip -c exp/t/ali.1.gz |") == (
        'ali-to-phones exp/t/final.mdl "ark:gunzip -c exp/t/ali.1.gz |" ark:- | chain-est-phone-lm '
        "--num-extra-lm-states=200 --ngram-order=4 ark:- exp/c/phone_lm.fst")
    assert commands(egs).lda_stats(2) == (
        "nnet3-chain-acc-lda-stats --rand-prune=4.0 exp/c/init.raw "
        f'"ark:nnet3-chain-copy-egs ark:{egs.path}/cegs.2.ark ark:- |" exp/c/2.lda_stats')


def test_defaults_are_those_of_the_chain_script() -> None:
    options = ChainOptions()
    assert (options.num_epochs, options.samples_per_iter, options.minibatch_size, options.chunk_width) == (
        10.0, 800000, "128", "20")
    assert (options.initial_effective_lrate, options.final_effective_lrate, options.momentum) == (0.0002, 0.00002, 0.0)
    assert (options.leaky_hmm_coefficient, options.chunk_left_context, options.shrink_value) == (1e-5, 0, 1.0)
