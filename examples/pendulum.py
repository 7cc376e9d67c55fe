"""The pendulum H = p^2/2 + 1 - cos q by Euler, symplectic Euler, leapfrog and scipy's RK45.

Look for: in 100 periods Euler's energy runs away and RK45's drifts, the others' swing about the right one; reversed,
only leapfrog finds back to its start. `--broken` takes the slide's "good old Euler" for leapfrog: all goes wrong.

Source: Ambrogioni II, "Momentum and the pendulum"; Ambrogioni, "Leapfrog"; Hairer, Lubich & Wanner 2006, chapter I.
"""

import argparse
from math import pi, radians, sin

import numpy as np
from scipy.integrate import solve_ivp

from zoo.report import canvas


def path(name, q, p, h, n, force=lambda q: -sin(q)):  # n steps of size h from (q, p): (n + 1, 2)
    if name == "RK45":
        return solve_ivp(lambda t, z: (z[1], force(z[0])), (0, h * n), (q, p), t_eval=np.linspace(0, h * n, n + 1)).y.T
    out, share = [(q, p)], 0.5 if name == "leapfrog" else 1.0
    for _ in range(n):
        new = p + share * h * force(q)
        q += h * (p if name == "Euler" else new)  # Euler: both from the old point; else q by the new momentum
        p = new + (1 - share) * h * force(q)
        out.append((q, p))
    return np.array(out)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="changes nothing: it is quick")
parser.add_argument("--broken", action="store_true", help="good old Euler in leapfrog's place")
parser.add_argument("--picture", metavar="FILE", help="draw energy and phase portrait")
args = parser.parse_args()
good = "Euler" if args.broken else "leapfrog"
for angle, right in {90: 7.4162987092, 170: 15.3269679991}.items():
    z = path(good, radians(angle), 0.0, 0.001, round(right * 300))
    i = int(np.argmax(z[:, 0] < 0))  # just past the bottom: a quarter of a period
    seen = 0.004 * (i - z[i, 0] / (z[i, 0] - z[i - 1, 0]))
    print(f"period from {angle} degrees: {seen:.7f} by {good}, {right} exactly, {2 * pi:.10f} for small angles")
    assert (abs(seen - right) < 1e-6) != args.broken
(left, right), h, period = canvas.panels(None, 2, (7.5, 5)), 0.1, 7.4162987092
for i, name in enumerate(("Euler", "symplectic Euler", good, "RK45")):
    z = path(name, pi / 2, 0.0, h, n := round(100 * period / h))
    e, off = z[:, 1] ** 2 / 2 + 1 - np.cos(z[:, 0]), abs(path(name, z[-1, 0], -z[-1, 1], h, n)[-1] - (pi / 2, 0)).max()
    print(f"{name}: energy {e.min():.4f} to {e.max():.4f}, at the end {e[-1]:.4f}; reversed, it misses by {off:.0e}")
    assert (abs(e - 1).max() < 0.05, off < 1e-10) == (name in ("symplectic Euler", "leapfrog"), name == "leapfrog")
    left.plot(h * np.arange(1, n + 1) / period, e[1:], label=name, **canvas.line(i))
    right.plot(*(z[:220] if name == "Euler" else z[-75:]).T, **canvas.line(i))
for h in (0.5, 1.9, 2.01):
    q, p = path(good, 1.0, 0.0, h, 300, force=lambda q: -q).T
    off = abs((1 - h**2 / 4) * (q**2 - 1) + p**2).max()
    print(f"H = (q^2 + p^2)/2, h = {h}: (1 - h^2/4) q^2 + p^2 off by {off:.0e}, largest |q| {abs(q).max():.2g}")
    assert (off < 1e-12 and abs(q).max() < 2) == (h < 2 and not args.broken)
if args.picture:
    left.set(xlabel="time (periods)", ylabel="energy H (m g l)", xscale="log", xlim=(0.05, 100), ylim=(0.75, 1.25))
    right.set(xlabel="angle q (rad)", ylabel="momentum p (m l sqrt(g l))", xlim=(-3.2, 3.2), ylim=(-2.3, 2.3))
    right.set_title("last of 100 periods (Euler: the first three)")
    canvas.dress(left), canvas.dress(right), canvas.legend_above([left, right], None)
    left.figure.savefig(args.picture, dpi=150)
