"""The parts of every process that runs a command: declaration, options, errors, completion, forks.

The most important names: :func:`kaldi_command` (``command.py``) declares a command, :func:`option` (``options.py``) an
option, and :func:`guarded` (``run.py``) turns errors into ERROR lines and exit statuses. ``option_groups.py`` has the
options that many commands share. Nothing here imports numpy, numba or a module of commands when it is imported, since a
command's start is a part of every recipe's time.

click does the work of the group ``nnet3py``, of types and of completion. Its parser is replaced, since Kaldi's command
lines differ: names are compared in lower case with "-" for "_", a value follows "=", options end at the first argument.
"""
