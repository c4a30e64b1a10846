"""Cards that a program may run on, by their makers' figures."""

from __future__ import annotations

from logos import Card

RESERVED = 600_000_000
"""Bytes that the driver and the runtime take of a card before a program does: some 300 to 500 MB, and some to spare."""

GAP = 1.3e-6
"""Seconds between the kernels of a replayed graph, as others have measured; programmatic dependent launch hides a part
of it."""


def _card(name: str, gigabytes: int, bandwidth: float) -> Card:
    """A gigabyte is taken for 10^9 bytes, also where the maker means 2^30: error correction takes some of the rest."""
    memory = gigabytes * 10**9
    return Card(name, memory, memory - RESERVED, bandwidth * 1e9, GAP)


CARDS = (
    _card("H200", 141, 4800),
    _card("H100", 80, 3350),
    _card("A100-80", 80, 2039),
    _card("L40S", 48, 864),
    _card("RTX 5090", 32, 1792),
    _card("RTX 4090", 24, 1008),
    _card("RTX 3090", 24, 936),
    _card("RTX 3060", 12, 360),
)
"""Name, gigabytes and gigabytes a second, as the data sheets have them: H200 and H100 of the SXM form, A100 of SXM4."""
