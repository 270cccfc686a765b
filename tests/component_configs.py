"""Config lines of every component type, small and odd, for tests that go through all of them.

``CONFIGS`` maps a type to what may follow ``component name=c type=TYPE``: at least one line for each form that computes
differently (blocks, without bias, further outputs …).
"""
from __future__ import annotations

CONFIGS: dict[str, list[str]] = {
}
