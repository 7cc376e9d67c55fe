"""One sampler a file: which of the zoo's kernels it drives, over which step sizes and lengths, and what is seen of it.

kernel             the module of `zoo.infer.kernels`
SIZES, LENGTHS     the grid; a length is a number of integrator steps, (0,) where there is none to choose
SIZE               how the kernel's formula calls the step size: "e", or "h" where it moves by sqrt(h)
VERDICT            whether a proposal is accepted or refused as a whole
setup_of(length)   the kernel's Setup for two coordinates and step size 1 (see `zoo.report.animate.record`)
seen(old, new, asked, mass)   the point (chain, 2) that one call of `step` reached, and its energy error (chain,):
                   minus the log of the acceptance ratio, were it the proposal; asked = (q, lp, grad): what the
                   density was asked, and its answer
"""
