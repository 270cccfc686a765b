"""The command line: Kaldi's nnet3 programs as commands, in folders by subject, and their click group ``nnet3py``.

``registry.py``: for each group of commands, name → (module and one-line help), which ``make launchers`` collects from
the declarations in the sources. ``process/``: what every process of a command does. Its ``options.py`` declares options
(``Option``, a ``click.Option``, and the types of values) and parses them as Kaldi does; ``command.py`` makes a
``click.Command`` (``KaldiCommand``) of a function, the same object for ``bin/``, ``nnet3py NAME``, ``nnet3py-NAME`` and
click's ``CliRunner``; ``group.py``: the click group ``nnet3py``; ``run.py``: signals, streams, and a status and a line
for every error; ``completion.py``: completion in shells; ``kaldi_programs.py``: Kaldi's programs that are not here,
with what to use instead. ``machine/``: commands about this installation. Each of the other folders has the commands for
the package's folder of the same name, or for a task.

A command is declared with ``@kaldi_command(name, group, help, usage, arguments=(least, most), options=[…])`` on
``function(args, options) -> exit status or None``; options come from ``option(name, type, default, help)`` and the
groups in ``option_groups.py``, and are read as ``options.minibatch_size``, ``options["optimization.optimize"]`` or
``options.group("optimization")``. Nothing heavy is imported outside the function. ``set_up(options)`` of
``option_groups.py`` applies ``--num-threads`` and returns the device. Commands call ``log.log``, ``log.warning`` and
``log.vlog`` of nnet3py.log; library modules use ``logging.getLogger(__name__)``, with
``extra=log.kaldi_place(function, file, line)`` where scripts read the header. An exception becomes one ERROR line;
``Nnet3Error.exit_code`` is the exit status. ``errors.within("utterance u1")`` adds to an error where it occurred;
``formats.general.check_finite(matrix, what)`` raises an error for NaN and infinity in any form of matrix. ``make
launchers`` writes the table of commands, ``bin/`` and docs/commands.md; tests fail if these are outdated.
"""
