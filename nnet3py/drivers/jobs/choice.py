"""The choice of an executor: what runs jobs on this machine, by a command for each, or by dask."""
from __future__ import annotations

from nnet3py.drivers.jobs.command import CommandExecutor, parse_command
from nnet3py.drivers.jobs.executor import Executor
from nnet3py.drivers.jobs.local import LocalExecutor


def make_executor(cmd: str = "run.pl", scheduler: str | None = None, slots: int | None = None,
                  cores: int | None = None) -> Executor:
    """The executor that a driver's options ask for.

    Parameters
    ----------
    cmd : ``run.pl``, perhaps with ``--max-jobs-run N`` and ``--num-threads N``, runs the jobs on this machine;
        ``queue.pl -l …``, ``slurm.pl …``, ``ssh.pl …`` or another such command is called for each job
    scheduler : the address of a dask scheduler whose workers run the jobs, or ``local`` for workers started here
    slots : the most jobs at once; None for the number of cores (run.pl), or no limit
    cores : that jobs on this machine share; None for all that this process may use
    """
    if scheduler:
        from nnet3py.drivers.jobs.on_dask import DaskExecutor

        return DaskExecutor(scheduler, slots)
    command = parse_command(cmd)
    if command.is_local:
        return LocalExecutor(slots or command.max_jobs, command.threads, cores)
    return CommandExecutor(command, slots)
