"""One file = one Markov kernel, pure functions over positions (chain, dim)."""
