"""The commands of chain training: their lines, exit statuses and files, and what does not fit."""
from __future__ import annotations

import re

import numpy as np
import pytest
from chain_graphs import acceptor, chain_example, random_graph
from paths import shared_golden
from runtime_cases import parameters
from test_chain_trainer import NET, PDFS

from nnet3py.cli.chain.train import add_post_to_egs, combine, combine2, compute_prob, train, train2
from nnet3py.cli.egs.outputs import chain_acc_lda_stats
from nnet3py.egs.chain_example import CHAIN_EXAMPLE, read_chain_egs
from nnet3py.formats.lda_stats import LdaStats
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tables import write_table
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.transducers.fst_text import write_fst

LEAKY = "--leaky-hmm-coefficient=0.1"


def write_fst_file(path, fst):
    write_object(str(path), lambda writer: write_fst(writer, fst), True)


def write_egs(name, examples):
    write_table(f"ark:{name}", CHAIN_EXAMPLE, dict(examples))


def example(seed, num_sequences=2, **settings):
    return chain_example(np.random.default_rng(seed), num_sequences, 4, PDFS, **settings)


@pytest.fixture
def folder(here):
    """The current folder, with two networks, den.fst and merged examples."""
    for seed in (1, 2):
        Nnet.from_config(NET, seed=seed).write(f"{seed}.raw")
    write_fst_file("den.fst", random_graph(np.random.default_rng(1), 6, PDFS))
    write_egs("1.cegs", [(f"eg{seed}", example(seed)) for seed in range(5)])
    return here


def lines(capfd):
    """The messages on standard error, without headers."""
    return re.findall(r"^(?:LOG|WARNING|ERROR) \(\S+?\[[^]]*\]:\S+\) (.*)$", capfd.readouterr().err, re.MULTILINE)


def test_train_lines(folder, capfd):
    assert train.execute([LEAKY, "--l2-regularize=0.01", "--xent-regularize=0.1", "--print-interval=2", "1.raw",
                          "den.fst", "ark:1.cegs", "out.raw"]) == 0
    found = [line for line in lines(capfd) if "taken in" not in line]
    number = r"-?\d\S*"
    sums = rf"{number} \+ {number} = {number}"
    patterns = [rf"Average objective function for '{name}' for minibatches {which} is {value} over 16 frames\."
                for which in ("0-1", "2-3") for name, value in (("output-xent", number), ("output", sums))]
    patterns += [rf"Overall average objective function for 'output' is {sums} over 40 frames\.",
                 rf"\[this line is to be parsed by a script:\] log-prob-per-frame={number}",
                 rf"Overall average objective function for 'output-xent' is {number} over 40 frames\.",
                 rf"\[this line is to be parsed by a script:\] log-prob-per-frame={number}",
                 r"Wrote raw model to out\.raw"]
    assert len(found) == len(patterns)
    for line, pattern in zip(found, patterns, strict=True):
        assert re.fullmatch(pattern, line), line
    assert any((value != parameters(read_nnet("1.raw"))[name]).any()
               for name, value in parameters(read_nnet("out.raw")).items())


def test_compute_prob_lines_of_kaldi(capfd, monkeypatch):
    monkeypatch.chdir(shared_golden() / "chain")
    assert compute_prob.execute(["--xent-regularize=0.1", "init.raw", "den.fst", "ark:merged.cegs"]) == 0
    pattern = r"^LOG \(nnet3-chain-compute-prob\[\S+\]:PrintTotalStats\(\):\S+\) Overall .*$"
    found, expected = (re.findall(pattern, text, re.MULTILINE) for text in (
        capfd.readouterr().err, (shared_golden() / "chain" / "compute-prob.log").read_text()))
    assert found == expected and len(found) == 2


def test_compute_prob_has_the_trainers_objective(folder, capfd):
    """The trainer's first line is of the network before any change, if it does not learn."""
    assert train.execute([LEAKY, "--max-param-change=1e-20", "1.raw", "den.fst", "ark:1.cegs", "o.raw"]) == 0
    trained = [line for line in lines(capfd) if line.startswith("Overall")][0]
    assert compute_prob.execute([LEAKY, "1.raw", "den.fst", "ark:1.cegs"]) == 0
    (probability,) = (line for line in lines(capfd) if line.startswith("Overall"))
    value = re.search(r"is (\S+) over 40 frames", trained)[1]
    assert probability == f"Overall log-probability for 'output' is {value} per frame, over 40 frames."


def test_no_examples(folder):
    write_egs("empty.cegs", [])
    assert train.execute(["1.raw", "den.fst", "ark:empty.cegs", "out.raw"]) == 1
    assert compute_prob.execute(["1.raw", "den.fst", "ark:empty.cegs"]) == 1


def test_combine(folder, capfd):
    train.execute([LEAKY, "2.raw", "den.fst", "ark:1.cegs", "new.raw"])
    capfd.readouterr()
    assert combine.execute([LEAKY, "den.fst", "new.raw", "2.raw", "1.raw", "ark:1.cegs", "best.raw"]) == 0
    found = lines(capfd)
    assert found[0] == "Read 5 examples."
    assert found[1].startswith("objective function using the last model is ")
    assert found[2].startswith("Combining last 2 models, objective function is ")
    assert re.fullmatch(r"Combining \d nnets, objective function changed from \S+ to \S+", found[4])
    assert found[-1] == "Finished combining neural nets, wrote model to best.raw"
    assert read_nnet("best.raw").num_parameters() == read_nnet("1.raw").num_parameters()


NORMALIZED = NET.replace("component-node name=a component=a input=input",
                         "component name=n type=BatchNormComponent dim=3\n"
                         "component-node name=n component=n input=input\n"
                         "component-node name=a component=a input=n")


def test_combine_computes_batch_norm_anew(folder, capfd):
    Nnet.from_config(NORMALIZED, seed=1).write("1.raw")
    assert combine.execute([LEAKY, "den.fst", "1.raw", "ark:1.cegs", "best.raw"]) == 0
    found = lines(capfd)
    place = found.index("Recomputing stats on nnet (affects batch-norm)")
    assert [line.split(" is ")[0] for line in found[place + 1:place + 3]] == [
        "Overall log-probability for 'output-xent'", "Overall log-probability for 'output'"]
    assert found[place + 3] == "Done recomputing stats."
    assert read_nnet("best.raw").component("n").count == 5 * 2 * 4


def test_languages(folder, capfd):
    languages = NET.replace("name=output ", "name=output-en ").replace("name=output-xent", "name=output-en-xent")
    for seed in (1, 2):
        Nnet.from_config(languages, seed=seed).write(f"{seed}.raw")
    (folder / "den").mkdir()
    (folder / "den.fst").rename(folder / "den" / "en.den.fst")
    write_egs("1.cegs", [(f"eg{seed}?lang=en", example(seed)) for seed in range(3)])
    assert train2.execute(["--xent-regularize=0.1", "1.raw", "den", "ark:1.cegs", "out.raw"]) == 0
    totals = [line for line in lines(capfd) if line.startswith("Overall")]
    assert [re.search("'(.*)'", line)[1] for line in totals] == ["output-en", "output-en-xent"]
    assert combine2.execute(["den", "out.raw", "2.raw", "ark:1.cegs", "best.raw"]) == 0
    assert lines(capfd)[-1] == "Finished combining neural nets, wrote model to best.raw"
    write_egs("2.cegs", [("eg", example(1))])
    assert train2.execute(["1.raw", "den", "ark:2.cegs", "out.raw"]) != 0
    assert "output node named 'output-default'" in lines(capfd)[-1].replace("output named", "output node named")


@pytest.mark.parametrize("end_to_end", [False, True])
def test_lda_statistics(folder, capfd, end_to_end):
    examples = [(f"eg{seed}", example(seed, num_sequences=1, end_to_end=end_to_end)) for seed in range(3)]
    for _, eg in examples:
        if end_to_end:
            eg.outputs[0].supervision.alignment_pdfs = np.array([0, 1, 1, 4], dtype=np.int32)
    write_egs("single.cegs", examples)
    assert chain_acc_lda_stats.execute(["1.raw", "ark:single.cegs", "1.acc"]) == 0
    found = lines(capfd)
    assert found[0] == "Processed 3 examples."
    assert found[1] == "Accumulated stats, soft frame count = 12.  Wrote to 1.acc"
    stats = read_object("1.acc", LdaStats.read)
    assert stats.num_classes == PDFS and stats.dim == PDFS
    if end_to_end:
        np.testing.assert_array_equal(stats.counts, [3, 6, 0, 0, 3])
    assert chain_acc_lda_stats.execute(["1.raw", "ark:1.cegs", "2.acc"]) != 0
    assert "merged of 2 sequences, expected one" in lines(capfd)[-1]


def test_lda_statistics_need_an_alignment(folder, capfd):
    write_egs("single.cegs", [("eg", example(1, num_sequences=1, end_to_end=True))])
    assert chain_acc_lda_stats.execute(["1.raw", "ark:single.cegs", "1.acc"]) != 0
    assert "Alignment pdfs not present or wrong length" in lines(capfd)[-1]


@pytest.mark.parametrize("kind", ["den", "raw"])
def test_posteriors_in_examples(folder, capfd, kind):
    assert add_post_to_egs.execute([f"--type={kind}", "1.raw", "den.fst", "ark:1.cegs", "ark:2.cegs"]) == 0
    assert "Added posteriors to 5 examples." in lines(capfd)
    for _, eg in read_chain_egs("ark:2.cegs"):
        io = eg.inputs[-1]
        assert io.name == "__LWF-posteriors"
        assert io.indexes.tolist() == [[n, 3 * t, 0] for n in range(2) for t in range(4)]
        if kind == "den":
            np.testing.assert_allclose(io.features.sum(axis=1), 1.0, rtol=1e-5)
        else:
            assert (io.features > 0.0).all()
    assert train.execute(["--lwf-scale=0.5", "1.raw", "den.fst", "ark:2.cegs", "out.raw"]) == 0
    assert add_post_to_egs.execute(["1.raw", "den.fst", "ark:2.cegs", "ark:3.cegs"]) != 0
    assert not (folder / "3.cegs").exists()


def added(*options):
    """The posteriors that the options add to the examples, one below the other."""
    assert add_post_to_egs.execute([LEAKY, "--use-gpu=no", *options, "n.raw", "den.fst", "ark:1.cegs",
                                    "ark:n.cegs"]) == 0
    return np.concatenate([eg.inputs[-1].features for _, eg in read_chain_egs("ark:n.cegs")])


def test_posteriors_in_test_mode_and_clipped(folder):
    nnet = Nnet.from_config(NORMALIZED, seed=1)
    component = nnet.component("n")
    component.sum[:], component.sumsq[:], component.count[:] = 3.0, 30.0, 10.0     # mean 0.3, variance 2.91
    nnet.write("n.raw")
    raw = added("--type=raw", "--apply-exp=false"), added("--type=raw", "--apply-exp=false",
                                                          "--batchnorm-test-mode=true", "--dropout-test-mode=true")
    assert np.abs(raw[0] - raw[1]).max() > 0.1, "by the statistics of the example, as in Kaldi, and by those stored"
    all_of_them = added("--type=den")
    clipped = added("--type=den", "--clip-threshold=0.3")
    np.testing.assert_array_equal(clipped, np.where(all_of_them < 0.3, 0.0, all_of_them))
    assert (clipped == 0.0).any() and (clipped > 0.0).any()
    negative = added("--type=raw", "--apply-exp=false", "--clip-threshold=0.3")
    np.testing.assert_array_equal(negative, raw[0])


@pytest.mark.parametrize("words, complaint", [
    (["--leaky-hmm-coefficient=0", "1.raw", "den.fst", "ark:1.cegs", "out.raw"], "--leaky-hmm-coefficient=0: expected"),
    (["1.raw", "epsilon.fst", "ark:1.cegs", "out.raw"], "epsilon.fst: an arc from state 1 .* no epsilons"),
    (["1.raw", "large.fst", "ark:1.cegs", "out.raw"], "large.fst: the denominator FST has pdf 5"),
    (["1.raw", "den.fst", "ark:other.cegs", "out.raw"], "example eg: output 'output': the supervision is of 6 pdfs"),
    (["1.raw", "den.fst", "ark:raw.cegs", "out.raw"], "example eg: .*holds epsilons, so it is not normalized"),
    (["1.raw", "1.raw", "ark:1.cegs", "out.raw"], "FST"),
])
def test_bad_input(folder, capfd, words, complaint):
    write_fst_file("epsilon.fst", acceptor(2, 0, [(0, 1, 1, 0.0), (1, 0, 0, 0.0)], {}))

    write_fst_file("large.fst", acceptor(2, 0, [(0, PDFS + 1, 1, 0.0), (1, 1, 0, 0.0)], {}))
    write_egs("other.cegs", [("eg", chain_example(np.random.default_rng(0), 2, 4, PDFS + 1))])
    raw = example(0, num_sequences=1)
    raw.outputs[0].supervision.fst.input_labels[-1] = 0
    write_egs("raw.cegs", [("eg", raw)])
    assert train.execute(words) != 0
    (error,) = (line for line in lines(capfd)[-1:])
    assert re.search(complaint, error), error
    assert not (folder / "out.raw").exists()
