"""Why dropout at all: 500 hidden units on 120 patients, plain, with weight decay, dropout and Gaussian noise.

Look for: the plain net learns its 120 rows by heart and its test loss rises again; weight decay keeps it from both;
noise slows the learning by heart down and keeps part of the rise away. A mask is a thinned network: 1,000 of them,
averaged, predict better than one does on average, and about as the net without masks. For what these q do between and
outside the data, beside NUTS, see examples/sin_x_plus_x.py.

Source: Leal-Taixe, "Dropout: why it regularises"; Srivastava, Hinton, Krizhevsky, Sutskever & Salakhutdinov 2014.
"""

import argparse

import torch
from sklearn.datasets import load_diabetes

import zoo

ROWS, UNITS, EVERY = 120, 500, 20
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer epochs")
epochs, generator = 600 if parser.parse_args().quick else 3000, torch.Generator().manual_seed(0)
x, y = (torch.from_numpy(a).float() for a in load_diabetes(return_X_y=True))
order = torch.randperm(len(x), generator=generator)
x, y = ((a[order] - a[order[:ROWS]].mean(0)) / a[order[:ROWS]].std(0) for a in (x, y))
train, test = (x[:ROWS], y[:ROWS]), (x[ROWS:], y[ROWS:])


def errors(net, data, z=1.0):
    return ((data[0] @ net[0] + net[1]).relu() * z @ net[2])[..., 0] - data[1]


noises = {
    "plain": lambda rows: 1.0,
    "weight decay": lambda rows: 1.0,
    "dropout": lambda rows: 2 * torch.randint(2, (rows, UNITS), generator=generator),
    "MGN N(1, 1)": lambda rows: 1 + torch.randn(rows, UNITS, generator=generator),
}
best, last, learned = {}, {}, {}
print("test loss:     best  at epoch   last    training loss at the end")
for name, noise in noises.items():
    torch.manual_seed(0)
    net = [torch.randn(10, UNITS) / 10**0.5, torch.zeros(UNITS), torch.randn(UNITS, 1) / UNITS**0.5]
    decay = 2 * zoo.weight_decay(3.0, 2.0, 0.0, ROWS, loss="squared") if name == "weight decay" else 0.0
    adam, curve = torch.optim.Adam([w.requires_grad_() for w in net], lr=3e-3, weight_decay=decay), []
    for epoch in range(epochs):
        curve += [errors(net, test).square().mean().item()] if epoch % EVERY == 0 else []
        adam.zero_grad()
        errors(net, train, noise(ROWS)).square().mean().backward()
        adam.step()
    best[name], last[name], learned[name] = min(curve), curve[-1], errors(net, train).square().mean().item()
    print(f"{name:12s} {best[name]:6.3f} {curve.index(best[name]) * EVERY:9d} {last[name]:6.3f} {learned[name]:10.4f}")
    if name == "dropout":
        with torch.no_grad():
            each = torch.stack([errors(net, test, noise(1)) for _ in range(1000)])  # of a mask each
        thinned, ensemble = each.square().mean(1), each.mean(0).square().mean().item()
        print(f"  masks {thinned[0]:.3f}, {thinned[1]:.3f}; mean of all {thinned.mean():.3f}, together {ensemble:.3f}")
assert last["plain"] > 1.2 * best["plain"]
assert last["weight decay"] < 1.05 * best["weight decay"]
assert all(learned["plain"] < 0.2 * learned[name] and last[name] < last["plain"] for name in best if name != "plain")
assert last["dropout"] - 0.1 < ensemble < 0.95 * float(thinned.mean())
