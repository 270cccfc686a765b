"""The command line: Kaldi's nnet3 programs as commands, in rooms by subject, and the click group of them all.

``registry.py``: for each group of commands, name → (room and module, one-line help), which ``make launchers`` collects
from the declarations in the sources. ``process/``: what every process of a command does. Its ``parser.py`` reads
options (``options.py``: ``Option``, a ``click.Option``, and the types of values) as Kaldi does; ``command.py`` makes a
``click.Command`` (``KaldiCommand``) of a function, the same object for ``bin/``, ``nnet3py NAME``, ``nnet3py-NAME`` and
click's ``CliRunner``; ``group.py``: the click group ``nnet3py``; ``run.py``: signals, streams, and a status and a line
for every error; ``completion.py``: completion in shells; ``kaldi_programs.py``: Kaldi's programs that are not here,
with what to use instead. ``machine/``: commands about this installation. The other rooms have the commands of the
package's folder of that name, or of a task.

A command is declared with ``@kaldi_command(name, group=…, help=…, usage=…, arguments=(least, most), options=[…])`` on
``function(args, options) -> exit status or None``; options come from ``option(name, type, default, help)`` and the
groups in ``option_groups.py``, and are read as ``options.minibatch_size``, ``options["optimization.optimize"]`` or
``options.group("optimization")``. Nothing heavy is imported outside the function. ``compute_setup.py``:
``set_up(options)`` applies ``--num-threads`` and returns the device. ``log.py``: ``log.log``, ``log.warning``,
``log.vlog``; library modules use ``logging.getLogger(__name__)``, with ``extra=log.kaldi_place(function, file,
line)`` where scripts read the header. Whatever a command raises becomes one ERROR line; ``Nnet3Error.exit_code`` is
the exit status. ``errors.within("utterance u1")`` says where an error came from; ``formats.general.check_finite(matrix,
what)`` finds NaN and infinity in any form of matrix. ``make launchers`` writes the
table of commands, ``bin/`` and docs/commands.md; tests ask for it when a declaration has changed.
"""
