"""How work is cut, so that no number depends on how many threads share it. Light."""
from __future__ import annotations

ROWS_OF_A_SUM = 64      # rows that a partial sum of columns covers before it is added to the others
