"""The command lines of training jobs, against those of Kaldi's scripts."""
from __future__ import annotations

from pathlib import Path

import pytest
from driver_cases import write_egs
from driver_chain_cases import write_chain_egs

from nnet3py.drivers.commands import ACOUSTIC, CHAIN, RAW, ChainCommands, ChunkCommands, FrameCommands, Network, Step
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.options import ChainOptions, DnnOptions, RawDnnOptions, RawRnnOptions, RnnOptions
from nnet3py.drivers.schedules import Plan, models_to_combine
from nnet3py.errors import UsageError

NETWORK = Network(16, 12)


@pytest.fixture(scope="module")
def egs(tmp_path_factory: pytest.TempPathFactory) -> EgsFolder:
    return EgsFolder(write_egs(tmp_path_factory.mktemp("egs") / "egs"))


def acoustic_dnn(egs: EgsFolder, **values: object) -> FrameCommands:
    return FrameCommands(DnnOptions(dir="exp/a", ali_dir="exp/ali", use_gpu="yes", **values), egs, ACOUSTIC, NETWORK)


def test_a_training_job(egs: EgsFolder) -> None:
    commands = acoustic_dnn(egs, srand=7, minibatch_size="256", momentum=0.5)
    step = Step(iteration=5, num_jobs=4, processed=6, learning_rate=0.0012, shrink=0.99,
                dropout_edits="set-dropout-proportion name=* proportion=0.2")
    assert commands.train(step, 1) == (      # k = 6: archive 6 % 3 + 1 = 1, frame (6 // 3 + 1) % 8 = 3
        "nnet3-train --use-gpu=yes --read-cache=exp/a/cache.5 --write-cache=exp/a/cache.6 --print-interval=10 "
        "--momentum=0.5 --max-param-change=2.0 --backstitch-training-scale=0.0 --l2-regularize-factor=0.25 "
        "--backstitch-training-interval=1 --srand=12 "
        '"nnet3-copy --learning-rate=0.0012 --scale=0.99 exp/a/5.mdl - |'
        "nnet3-copy --edits='set-dropout-proportion name=* proportion=0.2' - - |\" "
        f'"ark,bg:nnet3-copy-egs --frame=3 ark:{egs.path}/egs.1.ark ark:- | '
        "nnet3-shuffle-egs --buffer-size=5000 --srand=12 ark:- ark:- | "
        'nnet3-merge-egs --minibatch-size=256 ark:- ark:- |" exp/a/6.1.raw')
    second = commands.train(step, 2)          # k = 7: archive 2, frame (2 + 2) % 8 = 4
    assert "--frame=4" in second and "egs.2.ark" in second and second.endswith("exp/a/6.2.raw")
    assert "--read-cache" in second and "--write-cache" not in second and "--verbose" not in second
    assert "--verbose=1" in commands.train(Step(20, 1, 6, 0.1), 1)


def test_the_first_iteration_is_more_careful(egs: EgsFolder) -> None:
    command = acoustic_dnn(egs, minibatch_size="256,64/20=9").train(Step(0, 1, 0, 0.0003), 1)
    assert "--minibatch-size=128,32/20=4 " in command and "--max-param-change=1.414213562373095" in command
    assert "--read-cache" not in command and "--write-cache=exp/a/cache.1" in command
    assert "--verbose" not in command and "--edits" not in command


def test_options_go_through(egs: EgsFolder) -> None:
    command = acoustic_dnn(egs, add_option=("--optimization.memory-compression-level=2", "--x=1"),
                           backstitch_scale=0.3, backstitch_interval=4).train(Step(3, 2, 1, 0.1), 1)
    assert " --srand=3 --optimization.memory-compression-level=2 --x=1 \"nnet3-copy" in command
    assert "--backstitch-training-scale=0.3" in command and "--backstitch-training-interval=4" in command


def test_chunks_have_no_frame_but_limits_of_derivatives(egs: EgsFolder) -> None:
    options = RawRnnOptions(dir="exp/r", num_chunk_per_minibatch="100,50")
    commands = ChunkCommands(options, egs, RAW, NETWORK)
    command = commands.train(Step(2, 1, 2, 0.1), 1)
    assert "--frame" not in command and "--minibatch-size=100,50 " in command and "--momentum=0.5" in command
    assert "--optimization.min-deriv-time=-24 --optimization.max-deriv-time-relative=20 " in command   # 8+16, 8+12
    assert '"nnet3-copy --learning-rate=0.1 --scale=1.0 exp/r/2.raw - |"' in command
    assert commands.passes == 1
    without = ChunkCommands(RawRnnOptions(dir="exp/r", deriv_truncate_margin=None), egs, RAW, NETWORK)
    assert "deriv-time" not in without.train(Step(2, 1, 2, 0.1), 1)


def test_images_are_changed_between_shuffling_and_merging(egs: EgsFolder) -> None:
    options = RawDnnOptions(dir="exp/i", augmentation_opts="--horizontal-flip-prob=0.5 --num-channels=3", srand=2)
    command = FrameCommands(options, egs, RAW, NETWORK).train(Step(1, 2, 9, 0.1), 2)
    assert ("ark:- ark:- | nnet3-egs-augment-image --srand=12 --horizontal-flip-prob=0.5 --num-channels=3 ark:- ark:- "
            "| nnet3-merge-egs") in command


def test_averaging_and_selecting(egs: EgsFolder) -> None:
    acoustic, raw = acoustic_dnn(egs), FrameCommands(RawDnnOptions(dir="exp/r"), egs, RAW, NETWORK)
    assert acoustic.average(3, [1, 3]) == ("nnet3-average exp/a/4.1.raw exp/a/4.3.raw - | "
                                           "nnet3-am-copy --set-raw-nnet=- exp/a/3.mdl exp/a/4.mdl")
    assert raw.average(3, [1, 2]) == "nnet3-average exp/r/4.1.raw exp/r/4.2.raw exp/r/4.raw"
    assert acoustic.select(0, 2) == ("nnet3-copy exp/a/1.2.raw - | "
                                     "nnet3-am-copy --set-raw-nnet=- exp/a/0.mdl exp/a/1.mdl")
    assert raw.select(0, 1) == "nnet3-copy exp/r/1.1.raw exp/r/1.raw"


def test_diagnostics(egs: EgsFolder) -> None:
    commands = acoustic_dnn(egs, compute_per_dim_accuracy=True)
    merged = "ark:- | nnet3-merge-egs --minibatch-size=1:64 ark:- ark:- |"
    assert commands.compute_prob(4, "valid") == (
        f'nnet3-compute-prob "exp/a/4.mdl" "ark,bg:nnet3-copy-egs ark:{egs.path}/valid_diagnostic.egs {merged}"')
    assert commands.compute_prob("combined", "train") == (
        f'nnet3-compute-prob --compute-per-dim-accuracy "exp/a/combined.mdl" '
        f'"ark,bg:nnet3-copy-egs ark:{egs.path}/train_diagnostic.egs {merged}"')
    assert commands.progress(4) == {
        "progress.4": "nnet3-info exp/a/4.mdl && nnet3-show-progress --use-gpu=no exp/a/3.mdl exp/a/4.mdl"}
    assert commands.progress(10) == {
        "progress.10": "nnet3-info exp/a/10.mdl && nnet3-show-progress --use-gpu=no exp/a/9.mdl exp/a/10.mdl",
        "full_progress.10": "nnet3-show-progress --use-gpu=no --verbose=2 exp/a/9.mdl exp/a/10.mdl",
        "full_info.10": "nnet3-info --verbose=2 exp/a/10.mdl"}


def test_combination(egs: EgsFolder) -> None:
    acoustic = FrameCommands(DnnOptions(dir="exp/a", use_gpu="false", minibatch_size="64"), egs, ACOUSTIC, NETWORK)
    examples = (f'"ark,bg:nnet3-copy-egs ark:{egs.path}/combine.egs ark:- | '
                'nnet3-merge-egs --minibatch-size=1:64 ark:- ark:- |"')
    assert acoustic.combine([8, 7], "exp/a/combined.mdl") == (
        "nnet3-combine --use-gpu=no --max-objective-evaluations=30 --verbose=3 exp/a/8.mdl exp/a/7.mdl "
        f'{examples} "| nnet3-am-copy --set-raw-nnet=- exp/a/8.mdl exp/a/combined.mdl"')
    raw = FrameCommands(RawDnnOptions(dir="exp/r", minibatch_size="64", use_gpu="no"), egs, RAW, NETWORK)
    assert raw.combine([8, 7], "exp/r/final.raw").endswith(f"exp/r/8.raw exp/r/7.raw {examples} exp/r/final.raw")


def test_priors(tmp_path: Path) -> None:
    egs = EgsFolder(write_egs(tmp_path / "egs"))
    commands = acoustic_dnn(egs)
    assert "--minibatch-size=1:128 " in commands.average_posterior("combined", 2, 3, 20000)      # 5 examples an archive
    egs.egs_per_archive = 10000
    assert commands.average_posterior("combined", 2, 3, 20000) == (
        f"nnet3-copy-egs ark:{egs.path}/egs.2.ark ark:- | nnet3-subset-egs --srand=2 --n=20000 ark:- ark:- | "
        "nnet3-merge-egs --minibatch-size=128 ark:- ark:- | "
        'nnet3-compute-from-egs --use-gpu=yes --apply-exp=true "exp/a/combined.mdl" ark:- ark:- | '
        "matrix-sum-rows ark:- ark:- | vector-sum ark:- exp/a/post.combined.2.vec")
    assert "egs.1.ark" in commands.average_posterior("combined", 2, 10, 100)      # fewer archives than jobs


def test_lda_statistics(egs: EgsFolder) -> None:
    assert acoustic_dnn(egs).lda_stats(3) == (
        f'nnet3-acc-lda-stats --rand-prune=4.0 exp/a/init.raw "ark:nnet3-copy-egs ark:{egs.path}/egs.3.ark ark:- |" '
        "exp/a/3.lda_stats")


def test_examples_of_several_tasks(tmp_path: Path) -> None:
    folder = write_egs(tmp_path / "egs")
    (folder / "valid_diagnostic.egs").unlink()
    for name in ("valid_diagnostic.scp", "egs.output.1.ark", "egs.weight.1.ark", "valid_diagnostic.output.ark"):
        (folder / name).write_text("x")
    commands = FrameCommands(RawDnnOptions(dir="exp/m"), EgsFolder(folder), RAW, NETWORK)
    assert (f"nnet3-copy-egs --frame=1 --outputs=ark:{folder}/egs.output.1.ark "
            f"--weights=ark:{folder}/egs.weight.1.ark scp:{folder}/egs.1.scp ark:- |") in commands.train(
                Step(0, 1, 0, 0.1), 1)
    valid = commands.compute_prob(1, "valid")
    assert f"nnet3-copy-egs --outputs=ark:{folder}/valid_diagnostic.output.ark scp:" in valid


def test_rnn_options_have_their_own_defaults() -> None:
    assert (RnnOptions().momentum, RnnOptions().samples_per_iter, RnnOptions().num_chunk_per_minibatch) == (
        0.5, 20000, "100")
    assert (DnnOptions().momentum, DnnOptions().samples_per_iter, DnnOptions().minibatch_size) == (0.0, 400000, "512")


CHAIN_NETWORK = Network(28, 27)


@pytest.fixture(scope="module")
def chain_egs(tmp_path_factory: pytest.TempPathFactory) -> EgsFolder:
    return EgsFolder(write_chain_egs(tmp_path_factory.mktemp("chain_egs") / "chain_egs"))


def chain_commands(chain_egs: EgsFolder, **values: object) -> ChainCommands:
    options = ChainOptions(**{"dir": "exp/c", "use_gpu": "yes", "leaky_hmm_coefficient": 0.1,     # type: ignore
                              "l2_regularize": 0.00005, "xent_regularize": 0.1, **values})
    return ChainCommands(options, chain_egs, CHAIN, CHAIN_NETWORK)


def test_a_chain_training_job(chain_egs: EgsFolder) -> None:
    made = chain_commands(chain_egs, srand=7, momentum=0.5, minibatch_size="128,64", deriv_truncate_margin=5)
    step = Step(iteration=20, num_jobs=4, processed=7, learning_rate=0.0012, shrink=0.99,
                dropout_edits="set-dropout-proportion name=* proportion=0.2")
    assert made.train(step, 1) == (          # k = 7: archive 7 % 2 + 1 = 2, frame shift (2 + 7 // 2) % 3 = 2
        "nnet3-chain-train --use-gpu=yes --apply-deriv-weights=true --l2-regularize=5e-05 "
        "--leaky-hmm-coefficient=0.1 --xent-regularize=0.1 --read-cache=exp/c/cache.20 --write-cache=exp/c/cache.21 "
        "--verbose=1 --print-interval=10 --momentum=0.5 --max-param-change=2.0 --backstitch-training-scale=0.0 "
        "--l2-regularize-factor=0.25 --backstitch-training-interval=1 --srand=27 --optimization.min-deriv-time=-33 "
        '--optimization.max-deriv-time-relative=32 "nnet3-am-copy --raw=true --learning-rate=0.0012 --scale=0.99 '
        "exp/c/20.mdl - |nnet3-copy --edits='set-dropout-proportion name=* proportion=0.2' - - |\" exp/c/den.fst "
        f'"ark,bg:nnet3-chain-copy-egs --frame-shift=2 ark:{chain_egs.path}/cegs.2.ark ark:- | '
        "nnet3-chain-shuffle-egs --buffer-size=5000 --srand=27 ark:- ark:- | "
        'nnet3-chain-merge-egs --minibatch-size=128,64 ark:- ark:- |" exp/c/21.1.raw')
    second = made.train(step, 2)             # k = 8: archive 1, frame shift (1 + 4) % 3 = 2
    assert "--frame-shift=2" in second and "cegs.1.ark" in second and "--write-cache" not in second


def test_every_archive_is_trained_on_at_each_shift(chain_egs: EgsFolder) -> None:
    made = chain_commands(chain_egs)
    assert made.passes == 3
    assert sorted(made.archive(number) for number in range(6)) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    plan = Plan(chain_egs.num_archives, made.passes, 10.0, 1, 2, 1, 0.001, 0.0001)
    assert (plan.to_process, plan.num_iters) == (60, 40)
    assert models_to_combine(plan, 20) == list(range(21, 41))


def test_jobs_may_share_an_archive(chain_egs: EgsFolder) -> None:
    made = chain_commands(chain_egs)
    assert made.most_jobs == 6
    assert Plan(chain_egs.num_archives, made.passes, 1.0, 1, 6, 1, 0.001, 0.0001, made.most_jobs).jobs(0) == 1
    with pytest.raises(UsageError, match="num-jobs-final=7"):
        Plan(chain_egs.num_archives, made.passes, 1.0, 1, 7, 1, 0.001, 0.0001, made.most_jobs)


def test_the_first_iteration_of_chain_models(chain_egs: EgsFolder) -> None:
    command = chain_commands(chain_egs, minibatch_size="150=128,64/90=256").train(Step(0, 1, 0, 0.0002), 1)
    assert "--minibatch-size=150=64,32/90=128 " in command and "--max-param-change=1.414213562373095" in command
    assert "--read-cache" not in command and "--verbose" not in command and "deriv-time" not in command


def test_backstitch_begins_gently(chain_egs: EgsFolder) -> None:
    made = chain_commands(chain_egs, backstitch_scale=0.3, backstitch_interval=4)
    assert [made.backstitch_scale(Step(number, 1, 0, 0.1)) for number in (0, 5, 15, 40)] == pytest.approx(
        [0.0, 0.1, 0.3, 0.3])


def test_an_older_option_limits_derivatives(chain_egs: EgsFolder) -> None:
    command = chain_commands(chain_egs, left_deriv_truncate=-5).train(Step(3, 1, 1, 0.1), 1)
    assert "--optimization.min-deriv-time=-33 --optimization.max-deriv-time-relative=32 " in command


def test_options_of_chain_models_go_through(chain_egs: EgsFolder) -> None:
    command = chain_commands(chain_egs, chain_opts="--lwf-scale=1 --lwf-den-scale=-1", apply_deriv_weights=False,
                       add_option=("--optimization.memory-compression-level=2",)).train(Step(3, 2, 1, 0.1), 1)
    assert "--apply-deriv-weights=false " in command and " --lwf-scale=1 --lwf-den-scale=-1 " in command
    assert " --optimization.memory-compression-level=2 " in command


def test_another_models_posteriors(chain_egs: EgsFolder) -> None:
    """They are added to minibatches, behind all that changes these; not to those of diagnostics and combination."""
    made = chain_commands(chain_egs, lwf_model="teacher.mdl", lwf_scale=0.5, lwf_clip_threshold=0.01)
    command = made.train(Step(3, 2, 1, 0.1), 1)
    assert " --lwf-scale=0.5 " in command
    assert ("ark:- ark:- | nnet3-chain-add-post-to-egs --use-gpu=no --type=den --batchnorm-test-mode=true "
            "--dropout-test-mode=true --leaky-hmm-coefficient=0.1 --clip-threshold=0.01 teacher.mdl exp/c/den.fst "
            'ark:- ark:- |"') in command
    assert "nnet3-chain-merge-egs" in command[:command.index("nnet3-chain-add-post")]
    for other in (made.compute_prob(4, "valid"), made.combine([8], "exp/c/final.mdl")):
        assert "add-post" not in other and "lwf" not in other


def test_the_phones_of_lattices(chain_egs: EgsFolder) -> None:
    made = ChainCommands.phone_lm(ChainOptions(dir="exp/c", semisup_lat_dir="lat", semisup_lm_repeats="2,1"), "m.mdl",
                                  "ark:a")
    phones = 'ali-to-phones m.mdl "ark:a" ark:-'
    assert made == (f'{{ {phones} && {phones} && lattice-best-path --acoustic-scale=0.1 "ark:gunzip -c lat/lat.*.gz |" '
                    "ark:/dev/null ark:- | ali-to-phones lat/final.mdl ark:- ark:-; } | chain-est-phone-lm ark:- "
                    "exp/c/phone_lm.fst")


def test_diagnostics_of_chain_models(chain_egs: EgsFolder) -> None:
    made = chain_commands(chain_egs, compute_per_dim_accuracy=True)
    for subset in ("valid", "train"):
        assert made.compute_prob(4, subset) == (
            "nnet3-chain-compute-prob --l2-regularize=5e-05 --leaky-hmm-coefficient=0.1 --xent-regularize=0.1 "
            f'"exp/c/4.mdl" exp/c/den.fst "ark,bg:nnet3-chain-copy-egs ark:{chain_egs.path}/{subset}_diagnostic.cegs '
            'ark:- | nnet3-chain-merge-egs --minibatch-size=1:64 ark:- ark:- |"')
    assert made.progress(4) == {
        "progress.4": "nnet3-am-info exp/c/4.mdl && nnet3-show-progress --use-gpu=no exp/c/3.mdl exp/c/4.mdl"}


def test_models(chain_egs: EgsFolder) -> None:
    made = chain_commands(chain_egs, use_gpu="no", minibatch_size="64")
    assert made.average(3, [1, 3]) == ("nnet3-average exp/c/4.1.raw exp/c/4.3.raw - | "
                                       "nnet3-am-copy --set-raw-nnet=- exp/c/3.mdl exp/c/4.mdl")
    assert made.combine([8, 7], "exp/c/final.mdl") == (
        "nnet3-chain-combine --use-gpu=no --max-objective-evaluations=30 --l2-regularize=5e-05 "
        "--leaky-hmm-coefficient=0.1 --verbose=3 exp/c/den.fst exp/c/8.mdl exp/c/7.mdl "
        f'"ark,bg:nnet3-chain-copy-egs ark:{chain_egs.path}/combine.cegs ark:- | '
        'nnet3-chain-merge-egs --minibatch-size=1:64 ark:- ark:- |" '
        '"| nnet3-am-copy --set-raw-nnet=- exp/c/8.mdl exp/c/final.mdl"')


def test_what_comes_first(chain_egs: EgsFolder) -> None:
    options = ChainOptions(dir="exp/c", lm_opts="--num-extra-lm-states=200  --ngram-order=4")
    assert ChainCommands.phone_lm(options, "exp/t/final.mdl", "ark:gunzip -c exp/t/ali.1.gz |") == (
        'ali-to-phones exp/t/final.mdl "ark:gunzip -c exp/t/ali.1.gz |" ark:- | chain-est-phone-lm '
        "--num-extra-lm-states=200 --ngram-order=4 ark:- exp/c/phone_lm.fst")
    assert chain_commands(chain_egs).lda_stats(2) == (
        "nnet3-chain-acc-lda-stats --rand-prune=4.0 exp/c/init.raw "
        f'"ark:nnet3-chain-copy-egs ark:{chain_egs.path}/cegs.2.ark ark:- |" exp/c/2.lda_stats')


def test_defaults_are_those_of_the_chain_script() -> None:
    options = ChainOptions()
    assert (options.num_epochs, options.samples_per_iter, options.minibatch_size, options.chunk_width) == (
        10.0, 800000, "128", "20")
    assert (options.initial_effective_lrate, options.final_effective_lrate, options.momentum) == (0.0002, 0.00002, 0.0)
    assert (options.leaky_hmm_coefficient, options.chunk_left_context, options.shrink_value) == (1e-5, 0, 1.0)
