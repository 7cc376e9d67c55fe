"""Approximating families q(w): any Pyro model in, a Pyro guide out. Nothing here knows the zoo."""
