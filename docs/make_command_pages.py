"""Writes the reference of all commands, docs/commands.md, anew from the registry: python docs/make_command_pages.py

What stands there comes from each command's usage text, options and line in the registry; what belongs to the page
alone are the words about kinds of arguments. Options that many commands share stand at its end once.
"""
from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from nnet3py.cli.egs import options as egs_options
from nnet3py.cli.nnet import utterances
from nnet3py.cli.process import option_groups
from nnet3py.cli.process.command import KaldiCommand, load
from nnet3py.cli.process.kaldi_programs import missing_programs
from nnet3py.cli.process.options import INT_MAX, INT_MIN, STANDARD_OPTIONS, Option, declared
from nnet3py.cli.registry import COMMANDS, GROUPS, PERSON_NAMES, person_name
from nnet3py.egs.options import SplitOptions
from nnet3py.option_fields import settings_of

PAGE = Path(__file__).resolve().parent / "commands.md"


class Shared(NamedTuple):
    """Options that several commands share: a heading of the page, and what the section says first."""

    heading: str
    about: str
    options: tuple[Option, ...]



SHARED = (
    Shared("Options of computing utterances", "How utterances are cut into chunks. Frames are those of the input.",
           utterances.SIMPLE[:8]),
    Shared("Options of i-vectors", "An i-vector per utterance or speaker, or one every few frames.",
           utterances.IVEC),
    Shared("Options of making examples", "How utterances are cut into examples.", declared(settings_of(SplitOptions))),
    Shared("Options of merging examples", "How minibatches are made of examples.", egs_options.MERGE),
    Shared("Options of the device", "What computes, with how many threads, and where compiled computations are kept.",
           option_groups.DEVICE),
    Shared("Options of the optimizer", "Which passes of the compiler improve a computation. Results depend on the "
           "limits of derivative times alone; the rest is for looking for errors.",
           (*option_groups.OPTIM, *option_groups.COMPUTE)),
    Shared("Options of the compiler", "How requests are compiled, and how many computations are kept.",
           option_groups.COMPILER),
)
# What an argument is, by its name; the first pattern that fits.
ARGUMENTS: tuple[tuple[str, str], ...] = (
    ("command", "a program to run"),
    ("argument", "its options and arguments, as they are"),
    ("symbol*", "the number of a nonterminal in phones.txt"),
    ("top-level-fst", "a graph to read, in which decoding begins"),
    ("page", "a page, a command, or a public name in Python"),
    ("new-model-folder", "the folder to make"),
    ("plain-text", "a text file to read, one sentence a line"),
    ("arpa", "an n-gram model in ARPA form, a file to read"),
    ("model-folder", "the folder of a model for recognition, as `nnet3py inspect` knows it"),
    ("*rxfilename|*rspecifier*", "a file to read (`-` is standard input), or a table: `ark:FILE`"),
    ("*wxfilename|*wspecifier*", "a file to write (`-` is standard output), or a table: `ark:FILE`"),
    ("fst-in|*", "a decoding graph (a file to read), or a table to read with a graph for each utterance"),
    ("*silence-phones", "numbers of phones, with colons between; empty for none"),
    ("*nonsilence-phones", "numbers of phones, with colons between"),
    ("*ali-dir or *", "a folder of alignments, or a file or folder of other targets, as described above"),
    ("topo", "a topology, a file to read"),
    ("*diagonal-gmm", "a mixture of Gaussians with diagonal covariance, a file"),
    ("*full-gmm", "a mixture of Gaussians with full covariance, a file"),
    ("scale", "a number"),
    ("number-of-components", "how many Gaussians the statistics are of"),
    ("plda", "a PLDA model, a file to read"),
    ("reco2utt", "a table to read: each recording's utterances"),
    ("phone-sym*", "names of phones with their numbers, a text file to read"),
    ("silence-weight", "a number, usually 0 or a small one"),
    ("const-arpa", "an n-gram model in const-ARPA form, a file to read"),
    ("old-lm", "a language model to read: an FST, or with `--use-const-arpa=true`, where there is that option, in "
     "const-ARPA form"),
    ("rnnlm", "a raw network, a file to read"),
    *((name, "the vectors of words, a matrix to read; `-` is standard input, `'COMMAND \\|'` a pipe")
      for name in ("word-embedding", "word-embedding-matrix")),
    ("new-lm", "a language model to read: an FST, or with `--add-const-arpa=true` in const-ARPA form"),
    ("dim", "the dimension of the features"),
    ("extra", "the name of an extra: decode, chain, features, sound, plot, dask, cuda or bench"),
    ("exp-dir*", "the folder of a training"),
    ("*data-dir", "a folder of data, with feats.scp"),
    ("chain-dir", "a folder with the tree, 0.trans_mdl and normalization.fst of a chain training"),
    ("speech-and-text", "a data folder of Kaldi, sounds with a text file beside each, or a table of file and text"),
    ("sound", "a file of sound"),
    ("data", "a folder of sounds with texts, a data folder of Kaldi, or a table of file and text"),
    ("sound-or-folder", "a file of sound, a folder with such files in it and below, or `-` for standard input"),
    ("egs-dir", "the folder to write examples to"),
    ("graph-dir", "the folder to write the graph to"),
    ("lang-dir or lexicon", "a text file with a word and its phones in each line, or a folder made by --write-lang"),
    ("*lexicon*", "a text file to read, with a word and its phones in each line"),
    ("*lang-dir*", "a folder with words.txt, phones.txt and a lexicon"),
    ("grammar", "what words may follow each other, as described above"),
    ("den*-fst-dir", "a folder with a denominator graph for each language"),
    ("*fst*out", "a file to write, with a graph"),
    ("*fst", "a file to read, with a graph"),
    ("*tree", "a file to read, with a tree"),
    ("*topology*", "a file to read, with a topology"),
    ("*text", "a text file to read: in each line an utterance's name and its words"),
    ("*rspecifier*", "a table to read: `ark:FILE`, `scp:FILE`, `'ark:COMMAND \\|'`, `ark:-`"),
    ("*wspecifier*", "a table to write: `ark:FILE`, `ark,t:FILE`, `ark,scp:FILE,FILE`, `ark:-`"),
    ("*rxfilename*", "a file to read; `-` is standard input, `'COMMAND \\|'` a pipe"),
    ("*wxfilename*", "a file to write; `-` is standard output"),
    ("*egs*out*", "a table to write, with examples: `ark:FILE`"),
    ("*examples-in*", "a table to read, with merged examples: `ark:FILE`"),
    ("matrices-out", "a table to write, with a matrix for each example: `ark:FILE`"),
    ("*-in", "a file to read; `-` is standard input, `'COMMAND \\|'` a pipe"),
    ("*-out", "a file to write; `-` is standard output"),
    ("*acc*", "a file of statistics to read"),
    ("global-cmvn-stats", "a file to read, with statistics of many utterances"),
    ("input-*", "a file to read"), ("output-*", "a file to write"),
    ("*label*", "a number"), ("...", "and so on"),
    ("name", "an input or output of the network"),
    ("selection", "numbers of columns from 0, and ranges: `0,24-22,3-12`"),
    ("fake-dims", "numbers of columns from 0, with colons between: `13:14:15`"),
    ("model-or-folder", "a file with a network or an acoustic model, or the folder of one"),
    ("*symbol-table*", "a file to read, with a word and its number in each line"),
    ("*occs*", "a file to read, with a count for each pdf"),
    ("ranges*", "a text file to read, as described above"),
    ("*nnet*", "a file with a network or an acoustic model to read"),
    ("*model*", "a file with a model to read"),
    ("*file*", "a file to read"),
)


def make_page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for heading, names in GROUPS.items():
        parts.append(f"- [{heading}](#{_anchor(heading)}): "
                     + ", ".join(f"[{name}](#{_anchor(name)})" for name in names) + "\n")
    for heading, names in GROUPS.items():
        parts.append(f"\n## {heading}\n")
        parts.extend(_command_section(name) for name in names)
    parts.append("\n## Shared options\n\nA command's section says which of these groups it has.\n")
    for group in SHARED:
        parts.append(f"\n### {group.heading}\n\n{group.about}\n\n{_option_table(group.options)}")
    parts.append(f"\n### Standard options\n\nEvery command has these.\n\n{_option_table(STANDARD_OPTIONS)}")
    parts.append(_missing_section())
    return "".join(parts)


def _missing_section() -> str:
    """Kaldi's programs that are not here, by what to use instead."""
    names: dict[str, list[str]] = {}
    for name, hint in missing_programs().items():
        names.setdefault(hint, []).append(f"`{name}`")
    lines = [f"| {', '.join(some)} | {_cell(hint)} |\n" for hint, some in names.items()]
    return ("\n## Not there\n\nKaldi's programs that are not here, and what to use instead; "
            f"`nnet3py NAME` says the same.\n\n| programs | instead |\n|---|---|\n{''.join(lines)}")


_INTRODUCTION = """# The commands

<!-- Made by docs/make_command_pages.py from the commands themselves: change their usage and options, then run it. -->

Each command is a program in `bin/` with Kaldi's name, and a word after `nnet3py`: `nnet3-compute` is also
`nnet3py compute`; where the usage begins with `nnet3py`, it is that alone. What is said here is what `--help` prints.

Options stand before the arguments, with the value attached: `--name=value`; `--name` alone is `true`. Data go to
standard output, messages to standard error. The exit status is 0, or 1 for a wrong number of arguments and where
nothing could be done, or 255 for an error. A command that is started as `nnet3py NAME` or `nnet3py-NAME` leaves out the
line `kaldi::KaldiFatalError` after an error, for which scripts look.

The tab key completes commands, options, their values and files, after one line in the start file of the shell:

```sh
eval "$(_NNET3PY_COMPLETE=bash_source nnet3py)"    # bash 4.4 or later: ~/.bashrc
eval "$(_NNET3PY_COMPLETE=zsh_source nnet3py)"     # zsh: ~/.zshrc, after compinit
_NNET3PY_COMPLETE=fish_source nnet3py | source     # fish: ~/.config/fish/config.fish
```

It serves `nnet3py`, the names in `bin/` and `nnet3py-NAME` alike. The script can also be written to a file once, and
read from there: that is sooner by the start of a command.

Every command is a [click](https://click.palletsprojects.com) command, for programs in Python as well:
`nnet3py.cli.main.load("nnet3-copy")` is a `click.Command`; its `execute(["in.raw", "out.raw"])` returns the status.

"""


def _anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def _command_section(name: str) -> str:
    made = load(name)
    purpose, usage, example, see = _usage_parts(made.usage)
    lines = [f"\n### {name}\n\n{COMMANDS[name].help}"]
    if PERSON_NAMES.get(person_name(name)) == name and COMMANDS[name].launcher:
        lines.append(f" For a person: `nnet3py {person_name(name)}`.")
    lines.append(f"\n\n{_purpose_text(purpose)}\n```text\n{usage}\n```\n")
    if example:
        lines.append(f"\nFor example:\n\n```sh\n{example}\n```\n")
    arguments = argument_names(usage)
    if arguments:
        lines.append("\n| argument | what it is |\n|---|---|\n")
        lines += [f"| `{argument.replace('|', chr(92) + '|')}` | {_argument_text(argument)} |\n"
                  for argument in arguments]
    lines.append(_options_text(made))
    if see:
        others = [other.strip() for other in see.split(",")]
        lines.append("\nSee also: " + ", ".join(f"[{one}](#{_anchor(one)})" if one in COMMANDS else one
                                                for one in others) + ".\n")
    return "".join(lines)


def _usage_parts(text: str) -> tuple[str, str, str, str]:
    """A usage text as its description, its usage lines, its examples and what it refers to."""
    text, _, see = text.partition("See also:")
    purpose, _, usage = text.partition("Usage:")
    usage, _, example = usage.partition("e.g.:")
    return purpose.strip(), _without_or(usage), _without_or(example), " ".join(see.split())


def _without_or(text: str) -> str:
    """Lines without the words "or:" in front of alternatives; what continues a line stays indented."""
    lines, continues = [], False
    for line in text.strip().splitlines():
        words = re.sub(r"^or:\s*", "", line.strip())
        if words:
            lines.append(f"    {words}" if continues else words)
        continues = words.endswith("\\")
    return "\n".join(lines)


def _purpose_text(purpose: str) -> str:
    """The description as Markdown: lines that begin with a blank are shown as they are."""
    out, shown = [], False
    for line in purpose.splitlines():
        if line.startswith(" ") != shown:
            shown = not shown
            out.append("\n```text" if shown else "```\n")
        out.append(line if shown else line.replace("<", "\\<").replace("*", "\\*"))
    return "\n".join([*out, *(["```"] if shown else [])]) + "\n"


def argument_names(usage: str) -> list[str]:
    """The names of arguments in usage lines, but for values of options; of numbered ones the first, its number gone."""
    usage = re.sub(r"--[\w.-]+[= ]<[^>]*>", "", usage)
    found = re.findall(r"<([^<>]*)>", re.sub(r"\(([\w-]+)\|([\w-]+)\)", r"<\1>|<\2>", usage))
    return list(dict.fromkeys(re.sub(r"(?<=[a-z])\d$|(?<=-in)N$", "", name).replace("-0-", "-N-").replace("-1-", "-N-")
                              for name in found))


def _argument_text(name: str) -> str:
    return next((text for pattern, text in ARGUMENTS if fnmatchcase(name, pattern)), "see above")


def _options_text(made: KaldiCommand) -> str:
    """The command's own options as a table, and references to those that it shares."""
    rest = {one.name: one for one in made.declared}
    shared = []
    for group in SHARED:
        here = {one.name for one in group.options if _same(rest.get(one.name), one)}
        if 2 * len(here) > len(group.options):
            shared.append(_reference(group, [rest.pop(name) for name in sorted(here)]))
    text = ""
    if rest:
        text += "\n" + _option_table(tuple(sorted(rest.values(), key=lambda one: one.name)))
    if shared:
        text += "\nAlso " + "; ".join(shared) + ".\n"
    return text


def _same(one: Option | None, other: Option) -> bool:
    return one is not None and (one.name, one.type, one.help) == (other.name, other.type, other.help)


def _reference(group: Shared, here: list[Option]) -> str:
    """A link to the shared options, with what is different for this command."""
    text = f"the [{group.heading[0].lower()}{group.heading[1:]}](#{_anchor(group.heading)})"
    names = {one.name for one in here}
    missing = [f"`--{one.name}`" for one in group.options if one.name not in names]
    defaults = {one.name: one.default for one in group.options}
    changed = [f"`--{one.name}` being {_default(one)} unless given" for one in here
               if one.default != defaults[one.name]]
    if missing:
        text += f" without {', '.join(missing)}"
    return text + (f", {', '.join(changed)}" if changed else "")


def _option_table(options: tuple[Option, ...]) -> str:
    lines = ["| option | type | default | meaning |\n|---|---|---|---|\n"]
    for one in options:
        meaning = _cell(one.help)
        lines.append(f"| `--{one.name}` | {one.type.name} | {_default(one)} | {meaning} |\n")
    return "".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


def _default(one: Option) -> str:
    if one.type.name == "bool":
        return "true" if one.default else "false"
    if one.type.name == "string":
        return f"`{one.default}`" if one.default else "empty"
    if one.default in (INT_MIN, INT_MAX):
        return "no limit"
    return f"{one.default:g}" if one.type.name in ("float", "double") else str(one.default)


def main() -> None:
    """Write the page."""
    PAGE.write_text(make_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
