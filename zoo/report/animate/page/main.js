// What is chosen, how far the chain is, and the controls.

const byId = (id) => document.getElementById(id);
const SPEEDS = [0.2, 0.5, 1, 3, 10, 30]; // draws a second
// The share of an iteration's time in which its trajectory grows; then its outcome is shown.
const GROWING = 0.65;
// done: finished iterations; part: how far the next one is, 0 to 1.
const state = { target: 0, sampler: 0, size: 1, length: 1, speed: 2, done: 0, part: 0, playing: false };
let before = null;

const sampler = () => TOLD.samplers[state.sampler];
const key = () => [targets[state.target].name, sampler().name, sampler().sizes[state.size],
  sampler().lengths[state.length]].join("/");

// What there is to see at this moment: iteration k, of whose points `shown` are there; `over`: its outcome is known.
function present() {
  const run = runOf(key()), resting = state.part === 0;
  const k = resting ? state.done - 1 : state.done;
  const drawn = state.done;
  const now = { run, target: targets[state.target], sampler: sampler(), drawn, k: Math.max(k, 0), path: null, shown: 0, over: false };
  if (k < 0) return now;
  const path = run.paths[k], grown = resting ? 1 : Math.min(1, state.part / GROWING);
  const shown = Math.ceil(grown * path.points.length);
  return { ...now, path, shown, over: grown >= 1, moved: run.moved[k], next: run.draws[k + 1], chance: run.chance[k] };
}

const number = (value) => (Math.abs(value) > 300 ? (value < 0 ? "below −300" : "above 300") : text(value.toFixed(2)));

const outside = (now) => now.target.box.some(([low, high], i) => now.next[i] < low || now.next[i] > high);

function outcome(now) {
  if (!now.path) return "At its start";
  const steps = now.path.points.length;
  if (!now.over) return steps > 1 ? `Step ${now.shown} of ${steps}` : "Proposed";
  if (outside(now)) return "The chain has left the picture";
  if (!now.sampler.accepts) return "Taken: no accept step";
  if (!now.sampler.verdict) return `Drawn from ${steps} step${steps > 1 ? "s" : ""}`;
  return `${now.moved ? "Accepted" : "Refused"} at a = ${now.chance.toFixed(2)}`;
}

function rate(now) {
  const done = state.done;
  if (!now.sampler.accepts) return ["Accept step", "none"];
  if (!now.sampler.verdict) {
    const mean = now.run.chance.slice(0, done).reduce((a, b) => a + b, 0) / done;
    return ["Mean acceptance", done ? mean.toFixed(2) : "–"];
  }
  const yes = now.run.moved.slice(0, done).filter(Boolean).length;
  return ["Accepted so far", done ? `${yes} of ${done} (${Math.round((100 * yes) / done)} %)` : "–"];
}

function show() {
  const now = present(), off = drawJoint(now), axes = now.target.axes;
  drawEnergy(now);
  const last = now.path ? now.path.errors[now.shown - 1] : 0;
  byId("draw").textContent = `${state.done} of ${TOLD.draws}`;
  byId("verdict").textContent = outcome(now);
  byId("verdict").className = now.over && now.sampler.verdict && !now.moved ? "refused" : "";
  [byId("rate-name").textContent, byId("rate").textContent] = rate(now);
  const points = now.run.paths.slice(0, now.k + (now.over ? 1 : 0)).reduce((sum, path) => sum + path.points.length, 0);
  byId("cost").textContent = `${points + (now.over ? 0 : now.shown)} times`;
  byId("off").textContent = state.done ? axes.map((axis, i) => `${axis} ${Math.round(100 * off[i])} %`).join(", ") : "–";
  byId("energy-name").textContent = now.sampler.accepts
    ? `Energy error ΔH${now.path ? ` = ${number(last)}` : ""}; a = min(1, exp(−ΔH))` : "No accept step, no energy error";
  byId("play").textContent = state.playing ? "Pause" : "Play";
  byId("joint").setAttribute("aria-label", described(now));
}

function described(now) {
  const [x, y] = now.run.draws[now.over ? now.k + 1 : now.k].map((v) => v.toFixed(2));
  return `${now.target.title}, ${now.sampler.title}: draw ${state.done} of ${TOLD.draws} ` +
    `at ${now.target.axes[0]} = ${x}, ${now.target.axes[1]} = ${y}. ${outcome(now)}. ${rate(now).join(": ")}.`;
}

const say = () => (byId("status").textContent = described(present()));

// -- time ------------------------------------------------------------------------------------------------

function advance(by) {
  state.part += by;
  state.done = Math.min(TOLD.draws, state.done + Math.floor(state.part));
  state.part = state.done < TOLD.draws ? state.part % 1 : 0;
}

function frame(time) {
  if (!state.playing) return;
  if (before !== null) advance((Math.min(time - before, 250) / 1000) * SPEEDS[state.speed]);
  before = time;
  if (state.done >= TOLD.draws) pause();
  else requestAnimationFrame(frame);
  show();
}

function pause() {
  state.playing = false;
  show();
  say();
}

function play() {
  if (state.playing) return pause();
  if (state.done >= TOLD.draws) restart();
  Object.assign(state, { playing: true });
  before = null;
  requestAnimationFrame(frame);
  show();
}

// To the end of this iteration, or through the next one.
function step() {
  state.playing = false;
  state.done = Math.min(TOLD.draws, state.done + 1);
  state.part = 0;
  show();
  say();
}

function restart() {
  Object.assign(state, { done: 0, part: 0, playing: false });
  show();
  say();
}

// -- choices ---------------------------------------------------------------------------------------------

function fill(id, words, chosen) {
  byId(id).replaceChildren(...words.map((word, i) => new Option(word, i, i === chosen, i === chosen)));
  byId(id).disabled = words.length < 2;
}

// Lists what the sampler offers, begins a new chain, and keeps the choice in the address (a link into a lecture).
function choose() {
  state.size = Math.min(state.size, sampler().sizes.length - 1);
  const lengths = sampler().lengths, turns = sampler().name === "nuts";
  if (state.length >= lengths.length) state.length = 0;
  fill("target", targets.map((t) => t.title), state.target);
  fill("sampler", TOLD.samplers.map((s) => s.title), state.sampler);
  fill("size", sampler().sizes.map((size) => `${sampler().size} = ${size}`), state.size);
  fill("length", lengths.map((length) => (length ? String(length) : turns ? "until it turns" : "1")), state.length);
  fill("speed", SPEEDS.map((speed) => `${speed} draw${speed === 1 ? "" : "s"} a second`), state.speed);
  const [target, chosen] = [targets[state.target], sampler()];
  byId("about").replaceChildren(...[target, chosen].map((it) => {
    const line = document.createElement("span"), name = document.createElement("b");
    name.textContent = `${it.title}: `;
    line.append(name, it.text, " ");
    return line;
  }));
  history.replaceState(null, "", `#${key()}`);
  restart();
}

function next(what) {
  byId(what).selectedIndex = (byId(what).selectedIndex + 1) % byId(what).length;
  changed(what);
}

function changed(what) {
  state[what] = byId(what).selectedIndex;
  if (what === "sampler") Object.assign(state, { size: 1, length: 1 });
  if (what !== "speed") choose();
}

function faster(by) {
  state.speed = Math.max(0, Math.min(SPEEDS.length - 1, state.speed + by));
  byId("speed").selectedIndex = state.speed;
}

const KEYS = {
  " ": play, ArrowRight: step, PageDown: step, r: restart, "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1),
  t: () => next("target"), m: () => next("sampler"), e: () => next("size"), l: () => next("length"),
};

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  // A focused button is pressed by the space bar anyway.
  if (event.key === " " && event.target.tagName === "BUTTON") return;
  const act = KEYS[event.key.length > 1 ? event.key : event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
}

// #banana/hmc/0.2/20 opens there, #banana/hmc/0.2/20/35 at its 35th draw, .../35.4 in the middle of the next.
function opened() {
  const [target, name, size, length, draw] = decodeURIComponent(location.hash.slice(1)).split("/");
  const found = (list, wanted, otherwise) => Math.max(list.indexOf(wanted), list.includes(wanted) ? 0 : otherwise);
  state.target = found(targets.map((t) => t.name), target, 0);
  state.sampler = found(TOLD.samplers.map((s) => s.name), name, 0);
  state.size = found(sampler().sizes, size, 1);
  state.length = found(sampler().lengths.map(String), length, 1);
  choose();
  advance(Math.max(0, Number(draw) || 0));
  show();
}

byId("shares").textContent = `regions of ${TOLD.shares.map((s) => Math.round(100 * s)).join(", ")} % probability`;
for (const what of ["target", "sampler", "size", "length", "speed"]) byId(what).addEventListener("change", () => changed(what));
byId("choices").addEventListener("submit", (event) => event.preventDefault());
byId("play").addEventListener("click", play);
byId("step").addEventListener("click", step);
byId("restart").addEventListener("click", restart);
document.addEventListener("keydown", pressed);
window.addEventListener("resize", show);
window.addEventListener("hashchange", opened);
opened();
