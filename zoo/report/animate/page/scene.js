// The picture of the target: regions, chain, trajectory, proposal.

const INK = "#111", SOFT = "#555", BLUE = "#0057a8", RED = "#b3261e";
const REGIONS = ["#c4c4c4", "#dcdcdc", "#f0f0f0"]; // from the innermost outwards

// A canvas in CSS pixels, sharp on any screen; em is the page's font size.
function context(id) {
  const canvas = document.getElementById(id), box = canvas.getBoundingClientRect();
  const sharp = window.devicePixelRatio || 1;
  const width = Math.round(box.width * sharp), height = Math.round(box.height * sharp);
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const g = canvas.getContext("2d"), em = parseFloat(getComputedStyle(document.documentElement).fontSize);
  g.setTransform(sharp, 0, 0, sharp, 0, 0);
  g.clearRect(0, 0, box.width, box.height);
  g.font = `${em}px ${getComputedStyle(document.body).fontFamily}`;
  g.lineJoin = g.lineCap = "round";
  return { g, em, width: box.width, height: box.height };
}

function stroke(g, points, colour, width, dash = []) {
  g.beginPath();
  points.forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
  Object.assign(g, { strokeStyle: colour, lineWidth: width });
  g.setLineDash(dash);
  g.stroke();
  g.setLineDash([]);
}

function disc(g, [x, y], radius, fill, edge, width = 2) {
  g.beginPath();
  g.arc(x, y, radius, 0, 2 * Math.PI);
  g.fillStyle = fill;
  g.fill();
  if (edge) {
    Object.assign(g, { strokeStyle: edge, lineWidth: width });
    g.stroke();
  }
}

function cross(g, [x, y], size) {
  for (const [colour, width] of [["#fff", size * 0.9], [RED, size * 0.5]]) {
    stroke(g, [[x - size, y - size], [x + size, y + size]], colour, width);
    stroke(g, [[x - size, y + size], [x + size, y - size]], colour, width);
  }
}

function regions(g, at, target) {
  for (let i = target.outlines.length - 1; i >= 0; i--) {
    g.beginPath();
    for (const line of target.outlines[i]) {
      line.forEach((point, j) => (j ? g.lineTo(...at(point)) : g.moveTo(...at(point))));
    }
    g.fillStyle = REGIONS[i];
    g.fill("evenodd");
    Object.assign(g, { strokeStyle: "#777", lineWidth: 1 });
    g.stroke();
  }
}

// The points of an iteration shown so far; each joins the end of the trajectory that it continues.
function trajectory(g, at, start, path, shown, em) {
  const ends = { 1: start, [-1]: start };
  for (let i = 0; i < shown; i++) {
    const side = Math.sign(path.times[i]);
    stroke(g, [at(ends[side]), at(path.points[i])], BLUE, em * 0.16, path.points.length > 1 ? [] : [em * 0.4, em * 0.4]);
    ends[side] = path.points[i];
  }
  if (path.points.length > 1) path.points.slice(0, shown).forEach((p) => disc(g, at(p), em * 0.2, BLUE));
}

// What was proposed, and what became of it once the iteration is over.
function proposal(g, at, now, em) {
  const { path, shown, over, sampler, moved } = now;
  if (!shown) return;
  const last = at(path.points[shown - 1]);
  if (over && sampler.verdict && !moved) {
    cross(g, last, em * 0.5);
    return;
  }
  disc(g, over ? at(now.next) : last, em * 0.42, "#fff", BLUE, em * 0.2);
}

function scene(g, at, now, em) {
  const { run, target, k, shown, over, path } = now;
  regions(g, at, target);
  g.globalAlpha = 0.55;
  for (let t = 0; t <= k; t++) disc(g, at(run.draws[t]), em * 0.2, "#444", "#fff", 1);
  g.globalAlpha = 1;
  stroke(g, run.draws.slice(Math.max(0, k - 5), k + 1).map(at), "#333", em * 0.07, [em * 0.15, em * 0.3]);
  const start = run.draws[k];
  if (path) {
    trajectory(g, at, start, path, shown, em);
    disc(g, at(start), em * 0.34, over && now.moved ? "#444" : INK, "#fff");
    proposal(g, at, now, em);
  }
  if (!path || (over && now.moved)) disc(g, at(over && path ? now.next : start), em * 0.42, INK, "#fff");
}
