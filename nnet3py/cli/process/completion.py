"""Completion of options, commands and files in shells: click's, adapted to Kaldi's command lines.

``_NNET3PY_COMPLETE=bash_source nnet3py`` (or ``zsh_source``, ``fish_source``) prints a script for the start file of the
shell. One script serves ``nnet3py``, ``nnet3py-NAME`` and the launchers with Kaldi's names; for completions the shell
calls the program whose command line is completed.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click import shell_completion
from click.shell_completion import CompletionItem, ShellComplete

from nnet3py.cli.process.options import COMPLETION_VARIABLE, Option, normalize
from nnet3py.cli.registry import COMMANDS, PERSON_NAMES


def complete(command: click.Command, instruction: str) -> int:
    """Run a shell's instruction: ``bash_source`` prints the script, ``bash_complete`` the completions.

    Returns the exit status, 1 for an unknown instruction.
    """
    shell, _, question = instruction.partition("_")
    if shell not in SHELLS or question not in ("source", "complete"):
        return 1
    answer = SHELLS[shell](command, {}, command.name or "", COMPLETION_VARIABLE)
    click.echo(answer.source() if question == "source" else answer.complete())
    return 0


def option_items(options: Sequence[Option], incomplete: str) -> list[CompletionItem]:
    """Return the options whose names begin with ``incomplete``, each followed by an equal sign."""
    start = normalize(incomplete)
    words = {f"--{option_.name}" + ("" if option_.name == "help" else "="): option_ for option_ in options}
    return [CompletionItem(word, help=words[word].help) for word in sorted(words) if word.startswith(start)]


def _known_names() -> list[str]:
    launchers = [name for name, entry in COMMANDS.items() if entry.launcher]
    return ["nnet3py", *launchers, *(f"nnet3py-{name}" for name in PERSON_NAMES)]


class _KaldiComplete(ShellComplete):
    """Base of the shells' completion classes, adapted to values after an equal sign and one script for all commands."""

    def source_vars(self) -> Any:
        """Return the values of the placeholders in the template of the shell's script."""
        return {**super().source_vars(), "complete_func": "_nnet3py_completion", "names": " ".join(_known_names())}

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return the completions of ``incomplete``.

        A completed value is returned with its option, ``--name=value``, since shells complete the whole word.
        """
        # Some shells give "--name=value" as three words.
        args = [normalize(word) if word.startswith("--") else word for word in args if word != "="]
        name, equals, value = incomplete.partition("=")
        if not incomplete.startswith("--") or not equals:
            return super().get_completions(args, incomplete)
        items = super().get_completions(args, f"{normalize(name)}={value}")
        for item in items:
            item.value = f"{name}={item.value}"
        return items


class Bash(_KaldiComplete, shell_completion.BashComplete):
    """Completion for bash 4.4 and later."""

    source_template = r"""
%(complete_func)s() {
    local IFS=$'\n' response completion type value
    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1" 2>/dev/null)
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            file) COMPREPLY=(); compopt -o default ;;
            plain) COMPREPLY+=("$value"); [[ $value != *= ]] || compopt -o nospace ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(names)s
"""


class Zsh(_KaldiComplete, shell_completion.ZshComplete):
    """Completion for zsh."""

    source_template = r"""
%(complete_func)s() {
    local -a response assigned described names
    local type key descr
    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) %(complete_var)s=zsh_complete \
        ${words[1]} 2>/dev/null)}")
    for type key descr in ${response}; do
        if [[ $type == file ]]; then
            compset -P '--*='    # what stands before the name: an option, the kind of a table
            compset -P '*:'
            _files
        elif [[ $key == *= ]]; then
            assigned+=("$key:$descr")
        elif [[ $descr == _ ]]; then
            names+=("$key")
        else
            described+=("$key:$descr")
        fi
    done
    (( ! $#assigned )) || _describe -V unsorted assigned -U -S ''
    (( ! $#described )) || _describe -V unsorted described -U
    (( ! $#names )) || compadd -U -V unsorted -a names
}
compdef %(complete_func)s %(names)s
"""


class Fish(_KaldiComplete, shell_completion.FishComplete):
    """Completion for fish."""

    source_template = r"""
function %(complete_func)s
    set -l words (commandline -cp)
    set -l program (string split -m 1 " " -- $words)[1]
    for completion in (env %(complete_var)s=fish_complete COMP_WORDS="$words" COMP_CWORD=(commandline -t) $program)
        set -l found (string split -m 1 "," -- $completion)
        if test $found[1] = file
            set -l prefix (string match -r '^(?:--[^=]*=)?(?:[a-z,]*:)?' -- $found[2])
            for name in (string sub -s (math (string length -- "$prefix") + 1) -- $found[2])*
                echo $prefix$name
            end
        else
            echo $found[2]
        end
    end
end
for name in %(names)s
    complete --no-files --command $name --arguments "(%(complete_func)s)"
end
"""


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}
