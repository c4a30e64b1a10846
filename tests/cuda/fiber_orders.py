"""The orders in which the stand-in runs a block's threads."""

from __future__ import annotations

import pytest

ORDERS = ("forward", "reverse", "shuffle:7")
ONE_FAST = (*(pytest.param(order, marks=pytest.mark.slow) for order in ORDERS[:2]), ORDERS[2])
"""For a test's parameters: one order in the fast tier, all in the slow one."""
