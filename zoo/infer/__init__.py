"""Inference: the density of a Pyro model, and the methods and kernels that use it."""
