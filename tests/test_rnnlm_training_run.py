"""Whole trainings on small texts: what is learned, what the folder holds, what goes on after an interruption."""
from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import nnet3py
from nnet3py.cli.fst.train_rnnlm import train_rnnlm as command
from nnet3py.errors import ConfigError, FormatError, Nnet3Error, UsageError
from nnet3py.formats.matrices import read_matrix
from nnet3py.io.object_files import read_object
from nnet3py.rnnlm.training import run
from nnet3py.rnnlm.training.options import NetworkOptions, TrainRnnlmOptions
from nnet3py.rnnlm.training.run import RnnlmHistory, train_on

NUM_WORDS, FOLLOWERS = 12, 2
SMALL = NetworkOptions(dim=24, num_lstm_layers=0)        # quick to compile


class Source:
    """A Markov chain of words: three may follow each, and a sentence may end after any."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        letters = "abcdefgh"
        self.words = [first + second for first in letters for second in letters][:NUM_WORDS]
        self._next = np.array([self._rng.permutation(NUM_WORDS)[:FOLLOWERS] for _ in range(NUM_WORDS + 1)])
        self._probs = self._rng.dirichlet(np.ones(FOLLOWERS), NUM_WORDS + 1) * 0.9         # 0.1: the end

    def text(self, count: int) -> tuple[str, float]:
        """Sentences, and their perplexity by the chain itself."""
        lines, log_prob, tokens = [], 0.0, 0
        for _ in range(count):
            state = NUM_WORDS
            sentence: list[str] = []
            while True:
                draw = self._rng.random()
                chosen = int(np.searchsorted(np.cumsum(self._probs[state]), draw))
                ends = bool(chosen == FOLLOWERS and sentence)
                chosen = min(chosen, FOLLOWERS - 1)              # a sentence has one word at least
                last = self._probs[state, chosen] + (0.0 if sentence else 0.1 * (chosen == FOLLOWERS - 1))
                log_prob += math.log(0.1 if ends else last)
                tokens += 1
                if ends:
                    break
                state = int(self._next[state, chosen])
                sentence.append(self.words[state])
            lines.append(" ".join(sentence))
        return "\n".join(lines) + "\n", math.exp(-log_prob / tokens)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A folder with train.txt and held-out.txt, and the latter's perplexity by its source."""
    folder, source = tmp_path_factory.mktemp("texts"), Source()
    (folder / "train.txt").write_text(source.text(1000)[0], encoding="utf-8")
    held_out, perplexity = source.text(150)
    (folder / "held-out.txt").write_text(held_out, encoding="utf-8")
    return folder, perplexity


def options(folder: Path, out: Path, **values: object) -> TrainRnnlmOptions:
    """Of a training that takes some seconds."""
    defaults = {"dir": str(out), "held_out": str(folder / "held-out.txt"), "net": SMALL, "num_epochs": 2,
                "minibatch_words": 64, "initial_rate": 0.02, "final_rate": 0.001}
    return TrainRnnlmOptions(**{**defaults, **values})       # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trained(texts: tuple[Path, float], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RnnlmHistory]:
    out = tmp_path_factory.mktemp("trained") / "rnnlm"
    return out, train_on([str(texts[0] / "train.txt")], options(texts[0], out, num_epochs=3,
                                                                   net=NetworkOptions(dim=24)))


def unigram_perplexity(folder: Path) -> float:
    """Of the held-out text, by the frequencies of words in it: the least that frequencies can reach."""
    tokens = (folder / "held-out.txt").read_text(encoding="utf-8").replace("\n", " </s> ").split()
    _, counts = np.unique(tokens, return_counts=True)
    probs = counts / counts.sum()
    return math.exp(-(probs * np.log(probs)).sum())


def test_a_markov_chain_is_learned(texts: tuple[Path, float], trained: tuple[Path, RnnlmHistory]) -> None:
    folder, true = texts
    history = trained[1]
    assert true <= history.best.perplexity < 1.05 * true and true < 0.35 * unigram_perplexity(folder)
    assert abs(history.best.mean_log_z) < 0.1 and history.best.log_z_deviation < 0.2      # nearly normalized
    assert [epoch.epoch for epoch in history.epochs] == [1, 2, 3]
    assert history.epochs[-1].learning_rate == pytest.approx(0.001, rel=0.1)


def test_a_few_samples_are_enough(texts: tuple[Path, float], tmp_path: Path) -> None:
    """Of 15 words each output is compared with 4 that are drawn, and with those that follow."""
    folder, true = texts
    history = train_on([str(folder / "train.txt")], options(folder, tmp_path / "out", num_samples=4))
    assert history.best.perplexity < 1.06 * true


def test_files_of_the_folder(trained: tuple[Path, RnnlmHistory]) -> None:
    out = trained[0]
    names = {path.name for path in out.iterdir()}
    assert {"final.raw", "feat_embedding.final.mat", "word_feats.txt", "words.txt", "config", "special_symbol_opts.txt",
            "special_symbol_opts.conf", "3.raw", "feat_embedding.3.mat", "unigram_probs.txt"} <= names
    assert not {"1.raw", "2.raw", "feat_embedding.1.mat", "feat_embedding.2.mat"} & names
    words = (out / "words.txt").read_text(encoding="utf-8").splitlines()
    assert words[:5] == ["<eps> 0", "<s> 1", "</s> 2", "<brk> 3", "<unk> 4"] and len(words) > 12
    assert (out / "config" / "words.txt").read_text(encoding="utf-8").splitlines() == words
    assert (out / "special_symbol_opts.txt").read_text() == "--bos-symbol=1 --eos-symbol=2 --brk-symbol=3\n"
    assert (out / "special_symbol_opts.conf").read_text().split() == ["--bos-symbol=1", "--eos-symbol=2",
                                                                     "--brk-symbol=3"]
    assert (out / "config" / "oov.txt").read_text() == "<unk>\n"
    embedding = read_object(str(out / "feat_embedding.final.mat"), read_matrix)
    features = (out / "config" / "features.txt").read_text(encoding="utf-8").splitlines()
    assert embedding.shape == (len(features), 24) and np.isfinite(embedding).all()
    lines = (out / "word_feats.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(words) and all(re.fullmatch(r"\d+\t(\d+ -?[\d.e-]+ ?)*", line) for line in lines)
    nnet = nnet3py.read_nnet(out / "final.raw")
    assert nnet.input_dim("input") == nnet.output_dim("output") == 24


def test_the_folder_is_used(texts: tuple[Path, float], trained: tuple[Path, RnnlmHistory]) -> None:
    """Word by word, as in rescoring, the network says the same as in training."""
    model = nnet3py.RnnLanguageModel(trained[0])
    held_out = (texts[0] / "held-out.txt").read_text(encoding="utf-8").splitlines()
    assert model.perplexity(held_out) == pytest.approx(trained[1].best.perplexity, rel=1e-4)
    assert model.words.names[model.unknown_word] == "<unk>" and not model.options.normalize
    log_probs = np.concatenate([model.log_probs(line) for line in held_out])
    assert math.exp(-log_probs.mean()) == pytest.approx(
        trained[1].best.perplexity * math.exp(-trained[1].best.mean_log_z), rel=1e-3)


def test_the_same_seed_gives_the_same_model(texts: tuple[Path, float], tmp_path: Path) -> None:
    files = []
    for number, seed in enumerate((4, 4, 5)):
        out = tmp_path / str(number)
        train_on([str(texts[0] / "held-out.txt")], options(texts[0], out, seed=seed, num_epochs=1, num_samples=5))
        files.append([(out / name).read_bytes() for name in ("final.raw", "feat_embedding.final.mat")])
    assert files[0] == files[1] and files[0][0] != files[2][0] and files[0][1] != files[2][1]


def test_an_interrupted_training_goes_on(texts: tuple[Path, float], tmp_path: Path,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = texts[0], tmp_path / "out"
    wanted = options(folder, out, num_epochs=2)
    measure = run.measure

    def interrupt(*args: object) -> object:
        if (out / "1.raw").exists():
            raise KeyboardInterrupt
        return measure(*args)                                  # type: ignore[arg-type]

    monkeypatch.setattr(run, "measure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train_on([str(folder / "held-out.txt")], wanted)
    monkeypatch.setattr(run, "measure", measure)
    first = json.loads((out / "train_rnnlm.json").read_text())["epochs"]
    history = train_on([str(folder / "held-out.txt")], wanted)
    assert len(first) == 1 and [epoch.epoch for epoch in history.epochs] == [1, 2]
    assert history.epochs[0].perplexity == first[0]["perplexity"] > history.epochs[1].perplexity
    before = (out / "final.raw").stat().st_mtime_ns
    out = out.rename(tmp_path / "moved")
    wanted = options(folder, out, num_epochs=2)
    again = train_on([str(folder / "held-out.txt")], wanted)        # nothing is left to do
    assert again.epochs == history.epochs and (out / "final.raw").stat().st_mtime_ns == before
    with pytest.raises(UsageError, match="has a training with --seed=0"):
        train_on([str(folder / "held-out.txt")], options(folder, out, num_epochs=2, seed=1))
    with pytest.raises(UsageError, match="on other texts, words or another network"):
        train_on([str(folder / "train.txt")], wanted)
    (out / "train_rnnlm.json").write_text("{")
    with pytest.raises(FormatError, match="expected the state of a training"):
        train_on([str(folder / "held-out.txt")], wanted)


def test_the_n_gram_model_is_compared_with(texts: tuple[Path, float], tmp_path: Path) -> None:
    folder, true = texts
    lines = (folder / "train.txt").read_text(encoding="utf-8").splitlines()
    arpa = str(tmp_path / "lm.arpa")
    from nnet3py.decoding.grammar import Ngram
    model = Ngram.estimate([line.split() for line in lines], 2)
    model.write(arpa)
    held_out = [line.split() for line in (folder / "held-out.txt").read_text(encoding="utf-8").splitlines()]
    surprise = [-model.log10_prob((["<s>", *sentence])[:place + 1], word) for sentence in held_out
                for place, word in enumerate([*sentence, "</s>"])]
    history = train_on([str(folder / "train.txt"), arpa], options(folder, tmp_path / "out", num_epochs=1,
                                                                    num_samples=4))
    assert history.ngram is not None and history.ngram.num_words == history.num_held_out == len(surprise)
    assert history.ngram.perplexity == pytest.approx(10.0 ** np.mean(surprise), rel=1e-4)
    assert true <= history.ngram.perplexity and f"the n-gram model: {history.ngram.perplexity:.2f}" in history.summary()


def test_words_of_a_lang_folder(texts: tuple[Path, float], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, out = texts[0], tmp_path / "out"
    words = sorted({word for line in (folder / "train.txt").read_text(encoding="utf-8").splitlines()
                    for word in line.split()})
    table = ["<eps>", *words[1:], "#0", "<s>", "</s>"]          # one word is unknown
    (tmp_path / "words.txt").write_text("".join(f"{word} {number}\n" for number, word in enumerate(table)))
    history = train_on([str(folder / "train.txt")], options(
        folder, out, words=str(tmp_path / "words.txt"), held_out="", num_epochs=1))
    written = (out / "config" / "words.txt").read_text(encoding="utf-8")
    assert written == (tmp_path / "words.txt").read_text() + f"<brk> {len(table)}\n"
    assert (out / "config" / "oov.txt").read_text() == "\n" and history.num_held_out > 100
    assert any("are left out: they have words outside the vocabulary" in line for line in caplog.messages)
    features = (out / "word_feats.txt").read_text().splitlines()
    assert features[table.index("#0")].split("\t")[1] == features[table.index("<s>")].split("\t")[1]


def test_a_network_of_one_s_own(texts: tuple[Path, float], tmp_path: Path) -> None:
    """Config lines, of a network that sees two words only, and no bias that could be set."""
    config = tmp_path / "net.config"
    config.write_text("""input-node name=input dim=12
component name=a type=NaturalGradientAffineComponent input-dim=24 output-dim=20
component name=t type=TanhComponent dim=20
component name=o type=LinearComponent input-dim=20 output-dim=12
component-node name=a component=a input=Append(input, IfDefined(Offset(input, -1)))
component-node name=t component=t input=a
component-node name=o component=o input=t
output-node name=output input=o
""", encoding="utf-8")
    out = tmp_path / "out"
    history = train_on([str(texts[0] / "train.txt")], options(
        texts[0], out, net=NetworkOptions(network=str(config)), num_epochs=2))
    assert history.best.perplexity < 0.7 * unigram_perplexity(texts[0])
    assert (out / "config" / "xconfig").read_text() == config.read_text()
    assert read_object(str(out / "feat_embedding.final.mat"), read_matrix).shape[1] == 12


@pytest.mark.parametrize("layer, message", [
    ("input dim=8 name=input\noutput-layer name=output dim=8 include-log-softmax=false input=Append(-1, 0)",
     "the network needs the 1 words before and the 0 after"),
    ("input dim=8 name=input\noutput-layer name=output dim=8 include-log-softmax=false input=Append(0, "
     "IfDefined(-1), 1)", "the network needs the 0 words before and the 1 after"),
    ("input dim=8 name=input\noutput-layer name=output dim=9 include-log-softmax=false", "found 8 and 9"),
    ("input dim=8 name=ivector\ninput dim=8 name=input\noutput-layer name=output dim=8 input=Append(input, "
     "ReplaceIndex(ivector, t, 0))", "a language model has one input"),
    ("input dim=8 name=input\noutput-layer name=output dimension=8", "dimension")])
def test_networks_that_are_no_language_models(layer: str, message: str, texts: tuple[Path, float],
                                              tmp_path: Path) -> None:
    (tmp_path / "net.xconfig").write_text(layer + "\n", encoding="utf-8")
    net = NetworkOptions(network=str(tmp_path / "net.xconfig"))
    with pytest.raises(ConfigError, match=message):
        train_on([str(texts[0] / "train.txt")], options(texts[0], tmp_path / "out", net=net))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments, message", [
    (["train.txt"], "--dir was not given"),
    (["train.txt", "--dir=out", "--num-epochs=0"], "--num-epochs=0: expected 1 or more"),
    (["train.txt", "--dir=out", "--initial-effective-lrate=-1"], "--initial-effective-lrate=-1: expected"),
    (["nothing.txt", "--dir=out"], "nothing.txt"),
    (["train.txt", "--dir=out", "--held-out=nothing.txt"], "nothing.txt"),
    (["train.txt", "--dir=train.txt"], "cannot make the folder train.txt"),
    (["lm.arpa", "--dir=out"], "found only the ARPA file lm.arpa"),
    (["train.txt", "lm.arpa", "lm.arpa", "--dir=out"], "expected one ARPA file at most"),
    (["short.txt", "--dir=out"], "1 sentences are too few to hold out one in 20"),
    (["train.txt", "--dir=out", "--words=words.txt"], "no word of the texts is in words.txt"),
    (["train.txt", "--dir=out", "--embedding-dim=7", "--network=net.xconfig"], "leave out --embedding-dim"),
    (["marked.txt", "--dir=out"], "expected sentences without <s>")])
def test_what_the_command_refuses(arguments: list[str], message: str, texts: tuple[Path, float], here: Path,
                                  capfd: pytest.CaptureFixture[str]) -> None:
    (here / "train.txt").write_text((texts[0] / "held-out.txt").read_text())
    (here / "short.txt").write_text("a b\n")
    (here / "marked.txt").write_text("<s> a b </s>\n")
    (here / "words.txt").write_text("<eps> 0\nAA 1\n")
    (here / "lm.arpa").write_text("\\data\\\nngram 1=1\n\n\\1-grams:\n-1\ta\n\n\\end\\\n")
    (here / "net.xconfig").write_text("input dim=8 name=input\noutput-layer name=output dim=8 "
                                          "include-log-softmax=false\n")
    assert command.execute(arguments) != 0
    said = capfd.readouterr().err
    assert message in said and "Traceback" not in said


def test_the_command(texts: tuple[Path, float], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = [str(texts[0] / "train.txt"), f"--held-out={texts[0] / 'held-out.txt'}", f"--dir={out}", "--num-epochs",
                 "1", "--embedding-dim=16", "--num-lstm-layers=0", "--num-threads=1"]
    assert command.execute(arguments) == 0
    shown = capfd.readouterr()
    assert re.fullmatch(rf"{re.escape(str(out))}: perplexity [\d.]+ on \d+ held-out words \(epoch 1 of 1\)\n",
                        shown.out)
    assert re.search(r"epoch 1: perplexity [\d.]+ on the held-out text \(log Z -?[\d.]+ \+- [\d.]+\), [\d.]+ in "
                     r"training; \d+ words a second", shown.err)
    assert (out / "final.raw").is_file()


def test_a_training_that_diverges_says_so(texts: tuple[Path, float], tmp_path: Path) -> None:
    from nnet3py.rnnlm.training.options import EmbeddingOptions

    wanted = options(texts[0], tmp_path / "out", initial_rate=1e20, final_rate=1e20, max_change=0.0,
                     embedding=EmbeddingOptions(max_change=0.0))
    with pytest.raises(Nnet3Error, match="minibatch"):
        train_on([str(texts[0] / "train.txt")], wanted)


def test_from_python(texts: tuple[Path, float], tmp_path: Path) -> None:
    held_out = texts[0] / "held-out.txt"
    history = nnet3py.train_rnnlm(held_out, tmp_path / "out", held_out=held_out, num_epochs=1, embedding_dim=16,
                                  num_lstm_layers=0, initial_effective_lrate=0.01)
    assert len(history.epochs) == 1 and history.best.perplexity < 1.1 * unigram_perplexity(texts[0])
    for values, message in (({"epochs": 1}, "train_rnnlm has no option epochs"), ({"dir": "x"}, "no option dir"),
                            ({"num_epochs": 1.5}, "num_epochs=1.5: expected int, found float")):
        with pytest.raises(UsageError, match=message):
            nnet3py.train_rnnlm([held_out], tmp_path / "out", **values)       # type: ignore[arg-type]
