"""nnet3py fine-tune: a model folder and some speech become a new model folder."""
from __future__ import annotations

import sys

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Options, declared, fields_from
from nnet3py.cli.recognition.recognizers import NAMED_MODEL
from nnet3py.errors import UsageError
from nnet3py.fine_tuning.plan import FineTuneOptions
from nnet3py.option_fields import settings_of

_ARGUMENTS = ("model", "data", "feat-dir")


@kaldi_command("fine-tune", group="Recognition", help="Teach a model a voice, words, a room: a new model folder.",
               launcher=False, usage="""
Teach a model a new voice, new words, a new room: from a model folder (any that transcribe takes) and some speech with
its words a new folder is made, in the layout of the old one. Word error rates before and after are measured on speech
that was held out; if they rise, the old model stays.

<speech-and-text> is a data folder of Kaldi (wav.scp, text, perhaps segments and utt2spk), a folder of sounds with a
text file of the same name beside each, or a table (csv, tsv, jsonl) with columns for file and text, perhaps speaker,
start and end.
--check only looks at the model and the data, and says what can be done and what is wrong.

Everything but the new folder is in OUT.work: the report (report.txt, report.html), problems of the data (problems.txt),
logs. Interrupted work goes on where it stopped when the command is given again; --stage=N begins at a
stage: 1 data, 2 model, 3 words and graph, 4 features, 5 alignments, 6 examples, 7 training, 8 folder, 9 report.

Usage:  nnet3py fine-tune [options] <model-folder> <speech-and-text> --out <new-model-folder>
or:     nnet3py fine-tune --demo [options] <speech-and-text> --out <new-model-folder>

e.g.:
 nnet3py fine-tune vosk-model-small-ko-0.22 recordings.csv --check
 nnet3py fine-tune vosk-model-small-ko-0.22 recordings.csv --out my-model
 nnet3py fine-tune vosk-model-small-ko-0.22 data/train --out my-model --old-test data/old --lexicon names.txt
See also: transcribe, inspect
""", arguments=(1, 2), detached_values=True, options_anywhere=True, options=[
    QUIET,
    *NAMED_MODEL,
    *(declared for declared in declared(settings_of(FineTuneOptions)) if declared.name not in _ARGUMENTS),
])
def fine_tune(args: list[str], options: Options) -> int:
    """Fine-tune, or check model and data; return 1 if the old model stays, or the data cannot be used."""
    values = fields_from(options, FineTuneOptions())
    values.model, values.data = _model_and_data(args, options)
    values.check()
    from nnet3py.io.streams import write_text

    if values.check_only:
        from nnet3py.fine_tuning.model import check_report

        report = check_report(values)
        write_text("-", report.text)
        return 0 if report.is_good else 1
    from nnet3py.fine_tuning.fine_tuning import run

    terminal = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
    outcome = run(values, terminal)
    write_text("-", outcome.report)
    return 0 if outcome.is_new or not outcome.report else 1


def _model_and_data(args: list[str], options: Options) -> tuple[str, str]:
    from nnet3py.cli.recognition.recognizers import model_and_rest

    model, rest = model_and_rest(args, options)
    if len(rest) != 1:
        raise UsageError("expected a model folder and data" if len(rest) < 1 else
                         "--demo, --lang and --model-name take the place of a model folder, but "
                         f"{rest[0]} was given, too",
                         "nnet3py fine-tune MODEL DATA --out=NEW_MODEL")
    return model, rest[0]
