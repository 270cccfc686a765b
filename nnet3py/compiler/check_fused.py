"""The checker's rules for fused commands, which Kaldi does not have; the other rules look at their parts."""
from __future__ import annotations

from nnet3py.compiler.check_subject import Subject
from nnet3py.compiler.commands import SIZING, CommandType
from nnet3py.compiler.fuse.fusion import Scope
from nnet3py.compiler.fuse.passes import fusion_named


def fused_commands_have_parts(subject: Subject) -> None:
    """Every fused command stands for commands that are not fused themselves, and was made by an existing pass."""
    computation = subject.computation
    entries = [command.args[0] for command in computation.commands if command.type == CommandType.FUSED]
    if sorted(entries) != list(range(len(computation.parts))):
        subject.fail("the fused commands and their parts do not belong to each other")
    for name, parts in computation.parts:
        if fusion_named(name) is None or not parts or any(part.type == CommandType.FUSED for part in parts):
            subject.fail(f"'{name}' makes no fused command of {len(parts)} parts")


def fused_commands_are_what_their_passes_make(subject: Subject) -> None:
    """The pass that made a fused command would make it again from its parts."""
    computation = subject.computation
    if not computation.parts:
        return
    scope, place = Scope(computation.unfused(), subject.nnet), 0
    for c, command in enumerate(computation.commands):
        count = len(computation.parts_of(command))
        if command.type == CommandType.FUSED:
            fusion = fusion_named(computation.parts[command.args[0]].fusion)
            working = [p for p in range(place, place + count) if scope.commands[p].type not in SIZING]
            if fusion is None or fusion.match(scope, working) != len(working):
                subject.fail("these commands cannot be run as one", c)
        place += count
