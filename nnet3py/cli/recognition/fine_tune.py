"""nnet3py fine-tune: make a new model folder from a model folder and transcribed speech.

In a file of its own, since the declarations of its options import many modules.
"""
from __future__ import annotations

import sys

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Options, declared, fields_from
from nnet3py.cli.recognition.recognizers import NAMED_MODEL, model_and_rest
from nnet3py.errors import UsageError
from nnet3py.fine_tuning.plan import FineTuneOptions
from nnet3py.option_fields import settings_of

_ARGUMENTS = ("model", "data", "feat-dir")


@kaldi_command("fine-tune", "Recognition",
               "Fine-tune a model on transcribed speech: a new model folder.", launcher=False, usage="""
Fine-tune a model on transcribed speech, for a new voice, new words or a new acoustic environment. The input is a model
folder (any that transcribe takes) and speech with its text; the output is a new model folder in the layout of the old
one. Word error rates before and after are measured on held-out speech; if they rise, no new folder is written.

<speech-and-text> is a Kaldi data folder (wav.scp, text, optionally segments and utt2spk), a folder of sounds with a
text file of the same name beside each, or a table (csv, tsv, jsonl) with columns for file and text, optionally speaker,
start and end. --check inspects the model and the data, reports problems, and stops.

The folder OUT.work has the report (report.txt, report.html), problems of the data (problems.txt) and logs. Run the same
command again to continue interrupted work; --stage=N starts at a stage: 1 data, 2 model, 3 words and graph, 4 features,
5 alignments, 6 examples, 7 training, 8 folder, 9 report.

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
    values = fields_from(options, FineTuneOptions())
    values.model, values.data = _model_and_data(args, options)
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
    model, rest = model_and_rest(args, options)
    if len(rest) != 1:
        raise UsageError("expected a model folder and data" if len(rest) < 1 else
                         f"--demo, --lang and --model-name name the model, but {rest[0]} was given, too",
                         "nnet3py fine-tune MODEL DATA --out=NEW_MODEL")
    return model, rest[0]
