"""An autoencoder and a VAE of the same size: one remembers digits better, the other can also invent them.

Look for: the autoencoder's reconstructions are closer to the truth. Codes at random, drawn from the prior, are digits
to the VAE's decoder; to the autoencoder's many are none: they lie in holes between its codes, far from every training
image, even when drawn from the Normal that fits its codes best. Distances are root mean squares of a pixel. (With a
code of 2 numbers, try --latent 2, an autoencoder has hardly any holes.) `--picture FILE` draws both decoders' images.

Source: Leal-Taixe, "Autoencoder: latent space"; Hinton & Salakhutdinov 2006; Kingma & Welling 2014.
"""

import argparse

import torch

import zoo
from zoo.data.images import unlabelled
from zoo.report.codes import decoded, encoded, held_out, spread

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer steps")
parser.add_argument("--latent", type=int, default=8, help="numbers in a code")
parser.add_argument("--picture", metavar="FILE", help="draw images of codes at random")
args = parser.parse_args()
data = unlabelled(0, "digits")
hyper = {"latent": args.latent, "hidden": 100}
svi = {"steps": 1000 if args.quick else 3000, "batch_size": 100, "lr": 0.005, "draws": 2, "engine": "eager"}
noise = torch.randn(1000, args.latent, generator=torch.Generator().manual_seed(1))


def nearest(images: torch.Tensor) -> float:
    """Distance to the nearest training image, on average."""
    return float(torch.cdist(images, data.y).min(1).values.mean()) / data.y.shape[1] ** 0.5


fits, error, far = {}, {}, {}
print("              error of              to the nearest training image")
print("              reconstruction   reconstruction   N(0, I)   own sds   own covariance")
for name in ("autoencoder", "vae"):
    fit = fits[name] = zoo.run(zoo.load(name, data, **hyper), "svi", **svi)
    again = decoded(fit, encoded(fit, *held_out(fit)))
    z, (loc, scale) = encoded(fit), spread(fit)
    spreads = {"N(0, I)": noise, "own sds": loc + scale * noise}
    spreads["own covariance"] = z.mean(0) + noise @ torch.linalg.cholesky(z.T.cov() + 1e-6 * torch.eye(args.latent)).T
    error[name] = float((again - data.y_test).square().mean().sqrt())
    far[name] = {what: nearest(decoded(fit, codes)) for what, codes in spreads.items()}
    print(f"{name:12s}{error[name]:12.3f}{nearest(again):17.3f}" + "".join(f"{d:12.3f}" for d in far[name].values()))
if args.latent >= 8:
    assert error["autoencoder"] < 0.95 * error["vae"]
    assert min(far["autoencoder"].values()) > 1.1 * far["vae"]["N(0, I)"]
if args.picture:
    zoo.plot(list(fits.values()), "grid", args.picture, codes="random")
