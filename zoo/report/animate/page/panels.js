// The joint picture with a histogram along each side, and the energy errors.

// Round numbers for an axis, about `count` of them.
function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + 1e-9; i++) found.push(Number((i * step).toPrecision(6)));
  return found;
}

const text = (value) => String(value).replace("-", "−");

function axes(g, em, plot, target) {
  Object.assign(g, { fillStyle: INK, textAlign: "center", textBaseline: "top" });
  for (const x of ticks(...target.box[0], 6)) {
    const [px] = plot.at([x, 0]), below = plot.top + plot.side;
    stroke(g, [[px, below], [px, below + em * 0.3]], INK, 1.5);
    g.fillText(text(x), px, below + em * 0.4);
  }
  g.fillText(target.axes[0], plot.left + plot.side / 2, plot.top + plot.side + em * 1.5);
  Object.assign(g, { textAlign: "right", textBaseline: "middle" });
  for (const y of ticks(...target.box[1], 6)) {
    const [, py] = plot.at([0, y]);
    stroke(g, [[plot.left - em * 0.3, py], [plot.left, py]], INK, 1.5);
    g.fillText(text(y), plot.left - em * 0.45, py);
  }
  g.fillText(target.axes[1], plot.left - em * 2.2, plot.top + plot.side / 2);
  Object.assign(g, { strokeStyle: INK, lineWidth: 2 });
  g.strokeRect(plot.left, plot.top, plot.side, plot.side);
}

// Bars of one coordinate's draws and the exact curve. `place(along, height)`: fractions -> canvas.
function marginal(g, em, now, axis, place) {
  const { target, run, drawn } = now, [low, high] = target.box[axis];
  const density = target.marginals[axis].density;
  const { shares, off } = histogram(run, drawn, target, axis);
  const bars = shares.map((share) => (share * TOLD.bins) / (high - low));
  const top = Math.max(...density) * 1.6;
  bars.forEach((bar, i) => {
    if (!bar) return;
    const corners = [[i, 0], [i, bar / top], [i + 1, bar / top], [i + 1, 0]];
    g.beginPath();
    corners.forEach(([a, h], j) => g[j ? "lineTo" : "moveTo"](...place(a / TOLD.bins, Math.min(h, 1))));
    Object.assign(g, { fillStyle: "#9a9a9a", strokeStyle: "#fff", lineWidth: 1 });
    g.fill();
    g.stroke();
  });
  stroke(g, density.map((d, i) => place(i / (density.length - 1), d / top)), INK, em * 0.17);
  stroke(g, [place(0, 0), place(1, 0)], INK, 1);
  return off;
}

// Draws the joint picture; returns how far the two histograms are off.
function drawJoint(now) {
  const { g, em, width, height } = context("joint");
  const left = em * 3.2, bottom = em * 2.9, band = Math.min(width, height) * 0.17, gap = em * 0.5;
  const side = Math.max(50, Math.min(width - left - band - gap, height - bottom - band - gap));
  const [[x0, x1], [y0, y1]] = now.target.box;
  const plot = { left, top: band + gap, side };
  plot.at = ([x, y]) => [left + ((x - x0) / (x1 - x0)) * side, plot.top + side - ((y - y0) / (y1 - y0)) * side];
  g.save();
  g.beginPath();
  g.rect(left, plot.top, side, side);
  g.clip();
  scene(g, plot.at, now, em);
  g.restore();
  axes(g, em, plot, now.target);
  return [
    marginal(g, em, now, 0, (a, h) => [left + a * side, band - h * (band - 2)]),
    marginal(g, em, now, 1, (a, h) => [left + side + gap + h * (band - 2), plot.top + side - a * side]),
  ];
}

// [time, error, whether it moved] of the points to show: the trajectory's, or of the last proposals where each is one.
function errorsShown(now) {
  const { run, path, k, shown } = now;
  if (!path) return [];
  if (path.points.length > 1 || now.sampler.name === "nuts") {
    const found = Array.from(path.errors.slice(0, shown), (e, i) => [path.times[i], e, true]);
    return [[0, 0, true], ...found].sort((a, b) => a[0] - b[0]);
  }
  const last = shown ? k + 1 : k, first = Math.max(0, last - 30);
  return Array.from({ length: last - first }, (_, i) => [first + i + 1, run.paths[first + i].errors[0], run.moved[first + i]]);
}

// One scale for the whole chain: what 9 of 10 errors keep to, rounded upwards, at most 10.
function scaleOf(run) {
  const sizes = run.paths.flatMap((path) => Array.from(path.errors, Math.abs)).sort((a, b) => a - b);
  run.scale ??= [0.1, 0.3, 1, 3].find((s) => s >= sizes[Math.floor(0.9 * (sizes.length - 1))]) ?? 10;
  return run.scale;
}

function drawEnergy(now) {
  const { g, em, width, height } = context("energy"), points = errorsShown(now);
  if (!now.sampler.accepts) return;
  const single = now.path && now.path.points.length === 1 && now.sampler.name !== "nuts";
  const largest = scaleOf(now.run) * 1.1;
  const all = now.path ? now.path.times : [1];
  const [first, last] = single ? [points.length ? points[0][0] - 1 : 0, points.length ? points.at(-1)[0] + 1 : 1]
    : [Math.min(0, ...all), Math.max(1, ...all)];
  const left = em * 3.2, bottom = em * 2.6, w = width - left - em, h = height - bottom - em * 0.6;
  const at = ([t, e]) => [left + ((t - first) / (last - first)) * w,
    em * 0.6 + h / 2 - (Math.max(-largest, Math.min(largest, e)) / largest) * (h / 2)];
  Object.assign(g, { fillStyle: INK, textAlign: "right", textBaseline: "middle" });
  for (const e of ticks(-largest, largest, 4)) {
    g.fillText(text(e), left - em * 0.4, at([0, e])[1]);
    stroke(g, [[left, at([0, e])[1]], [left + w, at([0, e])[1]]], e ? "#ccc" : INK, e ? 1 : 2);
  }
  Object.assign(g, { textAlign: "center", textBaseline: "top" });
  for (const t of ticks(first, last, 6).filter(Number.isInteger)) g.fillText(text(t), at([t, 0])[0], em * 0.6 + h + em * 0.2);
  g.fillText(single ? "proposal" : "step along the trajectory", left + w / 2, em * 0.6 + h + em * 1.3);
  if (single) points.forEach((p) => stroke(g, [at([p[0], 0]), at(p)], p[2] ? BLUE : RED, em * 0.12));
  else stroke(g, points.map(at), BLUE, em * 0.14);
  points.forEach((p) => (p[2] ? disc(g, at(p), em * 0.25, BLUE) : cross(g, at(p), em * 0.26)));
  const beyond = points.filter(([, e]) => Math.abs(e) > largest).length;
  if (beyond) {
    Object.assign(g, { textAlign: "right", textBaseline: "bottom", fillStyle: RED });
    g.fillText(`${beyond} beyond the scale`, left + w, em * 0.4 + h);
  }
}
