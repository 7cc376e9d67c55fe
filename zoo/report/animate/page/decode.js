// Reads what Python packed: see payload.py.

const TOLD = JSON.parse(document.getElementById("data").textContent);

// Numbers from base64 of little-endian 16-bit whole numbers, divided by their unit.
function unpacked(text, unit = 1) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float64Array.from({ length: bytes.length / 2 }, (_, i) => view.getInt16(2 * i, true) / unit);
}

// A flat x, y, x, y, ... as [x, y] pairs.
function pairs(flat) {
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]);
}

// One chain: its draws, and for each iteration its points, their energy errors and times (-2, -1, 1, 2, ...).
function decodedRun(packed) {
  const { position, error, chance } = TOLD.units;
  const path = pairs(unpacked(packed.path, position));
  const errors = unpacked(packed.error, error);
  const run = { draws: pairs(unpacked(packed.draws, position)), chance: unpacked(packed.chance, chance), paths: [] };
  let begin = 0;
  for (const count of unpacked(packed.count)) {
    const times = [];
    let first = 0, last = 0;
    for (let i = begin; i < begin + count; i++) {
      times.push(packed.forward && packed.forward[i] === "0" ? --first : ++last);
    }
    run.paths.push({ points: path.slice(begin, begin + count), errors: errors.slice(begin, begin + count), times });
    begin += count;
  }
  run.moved = run.paths.map((_, t) => run.draws[t].join() !== run.draws[t + 1].join());
  return run;
}

const targets = TOLD.targets.map((target) => ({
  ...target,
  outlines: target.outlines.map((level) => level.map((line) => pairs(unpacked(line, TOLD.units.position)))),
}));
const runs = {};

function runOf(key) {
  runs[key] ??= decodedRun(TOLD.runs[key]);
  return runs[key];
}

// Share of the first `count` draws in each bin of one coordinate, and half the summed distance to the exact shares.
function histogram(run, count, target, axis) {
  const [low, high] = target.box[axis], shares = new Float64Array(TOLD.bins);
  let outside = count;
  for (let t = 1; t <= count; t++) {
    const bin = Math.floor(((run.draws[t][axis] - low) / (high - low)) * TOLD.bins);
    if (bin >= 0 && bin < TOLD.bins) {
      shares[bin] += 1 / count;
      outside--;
    }
  }
  const mass = target.marginals[axis].mass;
  const beyond = Math.abs(outside / Math.max(count, 1) - (1 - mass.reduce((a, b) => a + b)));
  const off = shares.reduce((sum, share, i) => sum + Math.abs(share - mass[i]), beyond) / 2;
  return { shares, off };
}
