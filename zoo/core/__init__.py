"""The nouns: Data, Problem, Exact, Posterior, and what a model must promise."""
