"""One file = one method that is not a Markov kernel, each with one function `fit`."""
