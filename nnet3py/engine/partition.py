"""How work is cut, so that no number depends on how many threads share it. Light."""
from __future__ import annotations

ROWS_OF_A_SUM = 64      # that a sum of columns is made of before it joins the others
