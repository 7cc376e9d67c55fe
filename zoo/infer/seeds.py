"""Seeds that differ for everything that draws numbers of its own."""

from __future__ import annotations

import hashlib


def block_seed(seed: int, chain: int, block: int, purpose: str = "noise") -> int:
    """A 63-bit seed that differs for every (seed, chain, block, purpose)."""
    digest = hashlib.blake2b(f"{purpose}:{seed}:{chain}:{block}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
