"""A VAE is shown 2,000 faces and told nothing of smile and pose: the two numbers of its code turn out to be these.

Look for: both factors of 500 new faces can be read off their codes (R^2 of the mean of the five nearest codes). The
difference between the mean codes of smiling and of other faces, added to the code of a face that does not smile, makes
it smile and leaves its pose. What a decoded face shows is read off the drawn face most like it. `--picture FILE` draws
20 x 20 faces decoded at normal quantiles: smile one way, pose the other, or turned.

Source: Leal-Taixe, "Variational autoencoders: traversing the latent space of faces"; Kingma & Welling 2014.
"""

import argparse

import torch

import zoo
from zoo.data.faces import face, factors
from zoo.data.toy import faces
from zoo.report.codes import decoded, encoded

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer steps")
parser.add_argument("--picture", metavar="FILE", help="draw the grid")
args = parser.parse_args()
data = faces(2000, seed=0)
problem = zoo.load("vae", data, hidden=256, latent=2, likelihood="normal")
steps = 600 if args.quick else 2000
fit = zoo.run(problem, "svi", steps=steps, batch_size=50, lr=0.005, draws=2, engine="eager", seed=0)
z, z_new = encoded(fit), encoded(fit, data.y_test, data.x_test)
known, truth = factors(data), factors(data, test=True)

guess = known[torch.cdist(z_new, z).topk(5, largest=False).indices].mean(1)
r2 = 1 - (guess - truth).square().sum(0) / (truth - truth.mean(0)).square().sum(0)
print(f"R^2 from the code, 500 new faces:  smile {r2[0]:.4f}  pose {r2[1]:.4f}")
assert min(r2) >= 0.95

grid = torch.cartesian_prod(*2 * [torch.linspace(-1, 1, 41)])
drawn = face(*grid.T)


def read(images: torch.Tensor) -> torch.Tensor:
    """Smile and pose of the drawn face nearest to each image."""
    return grid[torch.cdist(images, drawn).argmin(1)]


smiles = known[:, 0] > 0.3
direction = z[smiles].mean(0) - z[known[:, 0] < -0.3].mean(0)
sad = z_new[truth[:, 0] < -0.3]
print("what the decoded faces show    smile    pose    (means of those that did not smile)")
for share in (0.0, 0.5, 1.0):
    now = read(decoded(fit, sad + share * direction))
    print(f"code + {share:.1f} smile direction  {now[:, 0].mean():8.2f}{now[:, 1].mean():8.2f}")
change = now - read(decoded(fit, sad))
print(f"change {change[:, 0].mean():.2f} of smile, {change[:, 1].abs().mean():.2f} of pose either way")
assert change[:, 0].mean() > 0.9
assert change[:, 1].abs().mean() < 0.15
if args.picture:
    zoo.plot(fit, "grid", args.picture)
