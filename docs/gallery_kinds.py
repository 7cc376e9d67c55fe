"""What the gallery draws by `zoo plot`: a line a kind, and the small fits that the pictures are of."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import zoo


class Shown(NamedTuple):
    """One picture of a kind.

    Args:
        lecture: Whose, a key of `make_lectures.LECTURES`.
        title: The slide's, or what the lecture asks for.
        look: What to look for.
        fits: Names in `FITS`.
        options: Of the kind.
    """

    lecture: str
    title: str
    look: str
    fits: tuple[str, ...]
    options: dict[str, Any] = {}  # noqa: RUF012


class Fit(NamedTuple):
    """How a fit is made: the model, its hyperparameters, the method, its options."""

    model: str
    hyper: dict[str, Any]
    method: str
    options: dict[str, Any]


CHAINS = {"draws": 300, "warmup": 200, "chains": 4, "engine": "eager", "keep_warmup": True}
IMAGES = {"steps": 1000, "batch_size": 100, "lr": 0.005, "draws": 2, "engine": "eager"}
FITS = {
    "coin": Fit("coin_flip", {"n": 10, "heads": 7, "a": 2, "b": 2}, "exact", {}),
    "line": Fit("linear_regression", {}, "exact", {}),
    "mean field": Fit("linear_regression", {}, "svi", {"steps": 1500}),
    "underfit": Fit("linear_regression", {}, "svi", {"steps": 150}),
    "nuts": Fit("linear_regression", {}, "nuts", CHAINS),
    "mh": Fit("linear_regression", {}, "mh", CHAINS),
    "blobs": Fit("logistic_regression", {}, "laplace", {}),
    "point": Fit("logistic_regression", {}, "map", {}),
    "wheel": Fit("softmax_regression", {}, "laplace", {}),
    "wheel point": Fit("softmax_regression", {}, "map", {}),
    "net": Fit("bnn_regression", {"hidden": 4}, "svi", {"steps": 600}),
    "autoencoder": Fit("autoencoder", {"n": 1000}, "svi", IMAGES),
    "vae": Fit("vae", {"n": 1000}, "svi", IMAGES),
    "cvae": Fit("cvae", {"n": 1000, "known": "quadrant"}, "svi", IMAGES),
    "scenes": Fit(
        "segmentation", {"n": 80}, "svi", {"steps": 400, "batch_size": 8, "lr": 0.02, "draws": 20, "engine": "eager"}
    ),
    "functions": Fit("bnn_regression", {}, "prior", {"draws": 400}),
}
KINDS = {
    "acceptance": Shown("Ambrogioni", "Metropolis-adjusted Langevin: acceptance",
        "The step size is found in warm-up, then acceptance stays at the dashed rate.", ("nuts", "mh")),
    "band": Shown("Thome", "Bayesian linear regression: predictive distribution",
        "The interval widens away from the data.", ("line", "mean field")),
    "beside": Shown("Thome", "MC dropout: regression",
        "Colour inside the grey: surer than the posterior.", ("line", "mean field", "underfit")),
    "calibration": Shown("Leal-Taixe", "Uncertainty: calibration",
        "Below the diagonal: too sure.", ("line", "underfit")),
    "completions": Shown("Leal-Taixe", "Conditional variational autoencoder",
        "One known quadrant, several answers.", ("cvae",)),
    "convergence": Shown("Ambrogioni", "How large is large enough?",
        "The right method follows its dotted line, the biased one leaves it.", ("line", "nuts", "underfit")),
    "density": Shown("Yandex", "What is probability? Two coin flips", "A posterior, not a point.", ("coin",)),
    "elbo": Shown("Thome", "Stochastic variational inference: the evidence lower bound",
        "No ELBO crosses the log evidence.", ("mean field",)),
    "energy": Shown("Ambrogioni", "II: Hamiltonian Monte Carlo",
        "Steps of the energy about as wide as the energy itself.", ("nuts",)),
    "evidence": Shown("Thome", "Variational inference: log evidence = ELBO + KL",
        "The border moves, the top does not.", ("line",), {"steps": 400}),
    "forest": Shown("Thome", "Bayesian linear regression", "Intervals of each weight, side by side.",
        ("line", "mean field", "underfit")),
    "grid": Shown("Leal-Taixe", "Variational autoencoder: 2-D grid",
        "Digits turn into each other without a break.", ("vae",)),
    "latent": Shown("Leal-Taixe", "Autoencoder: latent space",
        "The autoencoder's codes spread with gaps, the VAE's fill the prior's circles.", ("autoencoder", "vae")),
    "lines": Shown("Thome", "Bayesian linear regression: sequential learning",
        "The fan of lines closes with every row.", ("line",)),
    "loo_pit": Shown("Leal-Taixe", "Uncertainty: calibration",
        "Calibration without a test set: the curve inside the grey.", ("line",)),
    "maps": Shown("Ambrogioni", "Bayesian logistic regression: point estimate and posterior averaging",
        "Draws differ far from the data; their average fans out there.", ("blobs",)),
    "pair": Shown("Thome", "Bayesian linear regression: the posterior is Gaussian",
        "What the draws say of two weights together.", ("line", "mean field")),
    "paths": Shown("Ambrogioni", "Hamiltonian Monte Carlo",
        "Long steps across the posterior against a walk.", ("nuts", "mh")),
    "ppc": Shown("Thome", "Bayesian linear regression", "The observed within what the model draws.", ("line",)),
    "predicted": Shown("Thome", "Bayesian linear regression: predictive distribution",
        "95 % of the thin bars cross the diagonal.", ("line", "underfit")),
    "prior": Shown("Gal", "Modern deep learning through Bayesian eyes: functions from the prior",
        "What the network believes before it sees data.", ("functions",)),
    "probabilities": Shown("Leal-Taixe", "I am not certain about this dog",
        "Long intervals: not certain, whatever the mean.", ("wheel", "wheel point")),
    "rank": Shown("Ambrogioni", "How large is large enough?", "Flat where chains mix.", ("nuts", "mh")),
    "reconstruct": Shown("Leal-Taixe", "Variational autoencoder: ground truth, autoencoder, VAE",
        "Two numbers an image: what they keep and what they lose.", ("autoencoder", "vae")),
    "rejection": Shown("Leal-Taixe", "Uncertainty: leave it to somebody else",
        "The error falls as the least certain rows are left out.", ("blobs", "point")),
    "segments": Shown("Leal-Taixe", "Aleatoric and epistemic uncertainty",
        "Aleatoric along the edges of the digits.", ("scenes",)),
    "surface": Shown("Ambrogioni", "Bayesian logistic regression: point estimate and posterior averaging",
        "Parallel contours of the point estimate, a fan of the average.", ("point", "blobs")),
    "trace": Shown("Ambrogioni", "Metropolis-Hastings", "Chains that lie on each other and wander quickly.",
        ("nuts", "mh")),
    "weights": Shown("Gal", "Modern deep learning through Bayesian eyes: w_i ~ N(0, I)",
        "A density on every edge of the network.", ("net",)),
}  # fmt: skip


@functools.cache
def fitted(name: str) -> zoo.Posterior:
    """The fit of a name in `FITS`."""
    fit = FITS[name]
    return zoo.run(zoo.load(fit.model, **fit.hyper), fit.method, **fit.options)
