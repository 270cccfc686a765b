"""The names by which compiled kernels refer to each other, and to memory and functions that are not compiled by us."""
from __future__ import annotations

TEAM, READ, WRITE = "nnet3py_team", "nnet3py_read", "nnet3py_write"      # of team_memory.py
SHARE = "nnet3py_share"                                                   # of team.py
SGEMM = "nnet3py_sgemm"                                                   # of sgemm.py

# the module that makes each known to LLVM when it is imported
PROVIDERS = {**dict.fromkeys((TEAM, READ, WRITE), "nnet3py.engine.team_memory"), SHARE: "nnet3py.engine.team",
             SGEMM: "nnet3py.engine.sgemm"}
