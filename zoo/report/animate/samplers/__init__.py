"""One sampler a file: which of the zoo's kernels it drives, over which step sizes and lengths, and what is seen of it.

kernel             the module of `zoo.infer.kernels`
SIZES, LENGTHS     the grid; a length is a number of integrator steps, (0,) where there is none to choose
SIZE               how the kernel's formula calls the step size: "e", or "h" where it moves by sqrt(h)
VERDICT            whether a proposal is accepted or refused as a whole
OPTIONS            of the kernel's `setup`
error(old, new, asked, mass)   the energy error (chain,) of the point that one call of `step` reached: minus the log of
                   the acceptance ratio, were it the proposal; asked = (q, lp, grad): what the density was asked, and
                   its answer. Left out where no point is ever refused
"""
