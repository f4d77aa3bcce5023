"use strict";
// The page shows all words of workers, nodes and the user as text, and never makes markup of them.

const token = new URLSearchParams(location.search).get("token") || "";
const url = (path, more = "") => path + "?token=" + encodeURIComponent(token) + more;
const $ = (id) => document.getElementById(id);

// Worst first. A state is a word and a shape, not a colour alone.
const STATES = [
  { name: "failed", shape: "✕" },
  { name: "unknown", shape: "?" },
  { name: "stopped", shape: "■" },
  { name: "running", shape: "●" },
  { name: "ended", shape: "✓" },
];
const UNKNOWN = 1, RUNNING = 3;
const severity = (state) => {
  const at = STATES.findIndex((one) => one.name === state);
  return at < 0 ? UNKNOWN : at;
};

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 10) return Math.max(0, seconds).toFixed(1) + " s";
  if (whole < 120) return whole + " s";
  if (whole < 7200) return Math.floor(whole / 60) + " min";
  return Math.floor(whole / 3600) + " h " + Math.floor((whole % 3600) / 60) + " min";
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < units.length - 1; ++unit) count /= 1024;
  return (unit > 0 && count < 10 ? count.toFixed(1) : Math.round(count)) + " " + units[unit];
}

// ---- The state of the job

let status = null, history = null, ranks = [], answered = 0;
const before = new Map();  // by rank: an earlier sample, for its CPU use

function cpuShare(rank) {
  const last = before.get(rank.rank);
  const same = last && last.pid === rank.pid && last.seconds <= rank.seconds;
  const passed = same ? rank.seconds - last.seconds : 0;
  if (!same || passed >= 1.5) {
    before.set(rank.rank, { pid: rank.pid, seconds: rank.seconds, cpu: rank.cpu_seconds,
                            share: passed > 0 ? (rank.cpu_seconds - last.cpu) / passed : null });
  }
  const now = before.get(rank.rank);
  return now.share !== null ? now.share : rank.seconds > 0 ? rank.cpu_seconds / rank.seconds : 0;
}

// Includes the ranks of nodes that do not answer.
function ranksOf(job) {
  const all = [];
  for (const node of job.nodes) {
    const known = new Set();
    for (const rank of node.ranks) {
      known.add(rank.rank);
      const runs = rank.state === "running" || rank.state === "stopped";
      all.push({ ...rank, host: node.host, share: runs ? cpuShare(rank) : null,
                 severity: severity(rank.state) });
    }
    if (node.node_rank < 0 || !node.problem) continue;
    for (let rank = node.first_rank; rank < node.first_rank + node.local_size; ++rank) {
      if (known.has(rank)) continue;
      all.push({ rank, host: node.host, state: "unknown", how: node.problem, share: null,
                 severity: UNKNOWN });
    }
  }
  return all.sort((a, b) => a.rank - b.rank);
}

function counts() {
  const found = STATES.map(() => 0);
  for (const rank of ranks) ++found[rank.severity];
  return found.map((count, at) => [count, STATES[at].name]).filter(([count]) => count > 0)
      .map(([count, name]) => count + " " + name).join(", ");
}

// ---- Verdict and facts

const isOver = () => history !== null && history.events.some((one) => one.kind === "end");

function showVerdict() {
  const box = $("verdict");
  const stopped = ranks.filter((rank) => rank.state === "stopped");
  let text = history ? history.verdict : "connecting";
  if (history && history.state === "waiting" && status?.waiting) text = "waits for " + status.waiting;
  let matter = history !== null && !history.well;
  if (history && history.well && stopped.length > 0) {
    text = (stopped.length === 1 ? "rank " : "ranks ") +
        stopped.slice(0, 8).map((rank) => rank.rank).join(", ") +
        (stopped.length > 8 ? " and " + (stopped.length - 8) + " more are" : stopped.length > 1 ? " are" : " is") +
        " stopped by a signal";
    matter = true;
  }
  set(box, (matter ? "▲ " : isOver() ? "✓ " : "● ") + text);
  box.className = matter ? "matter" : isOver() ? "over" : "";
  showTitle(matter ? "▲ " : "", history ? history.state : "connecting");
}

// Parts that have nothing to show are hidden. After the end ddprun does not answer.
function showParts() {
  const hasRanks = ranks.length > 0, hasEvents = history.events.length > 0;
  $("time-part").hidden = !hasRanks && !hasEvents;
  $("events-part").hidden = !hasEvents;
  $("ranks").hidden = !hasRanks;
  for (const name of ["log", "stacks"]) $(name + "-part").hidden = (isOver() || !hasRanks) && $(name).hidden;
}

function showLost() {
  const box = $("verdict");
  set(box, "◌ no answer: the job has ended, its ddprun cannot be reached, or too many look at it" +
      (history ? "\nlast: " + history.verdict : ""));
  box.className = "lost";
  showTitle("◌ ", "no answer");
}

// A job without an id has its program's name.
function showTitle(mark, state) {
  const name = !status ? "ddprun" : status.job === "none" ? status.program : status.job;
  document.title = mark + name + ": " + state;
}

// The last status may be from before the end, and its ddprun no longer answers.
function endRanks() {
  const failure = history.events.findLast((one) => one.kind === "failure" || one.kind === "round");
  for (const rank of ranks) {
    if (rank.state !== "running" && rank.state !== "stopped") continue;
    const state = rank.rank === failure?.rank ? "failed" : "ended";
    Object.assign(rank, { state, how: "", share: null, memory: 0, output_age: undefined, severity: severity(state) });
  }
}

// A node that does not answer delays the status of all.
function showAge() {
  const age = (performance.now() - answered) / 1000;
  set($("age"), status && age > 5 && !isOver() ? "What is below is " + duration(age) + " old." : "");
}

function showFacts() {
  const facts = [
    [isOver() ? "Ran for" : "Running for", duration(status.seconds)],
    ["Ranks", status.world_size + (ranks.length ? " (" + counts() + ")" : "")],
    ["Nodes", String(status.node_count)],
    ["Round", status.round < 0 ? "none yet" : String(status.round)],
    ["Restarts", status.restarts + " of " + status.max_restarts],
  ];
  if (status.waiting && history.state !== "waiting") facts.push(["Waits for", status.waiting]);
  const slow = status.slow;
  if (slow) facts.push(["Slow rank", `${slow.rank}, for ${duration(slow.waited)} of ${duration(slow.seconds)}`]);
  const list = $("facts");
  while (list.children.length > facts.length) list.lastChild.remove();
  facts.forEach(([name, value], at) => {
    if (at === list.children.length) {
      const pair = make("div");
      pair.append(make("dt"), make("dd"));
      list.append(pair);
    }
    set(list.children[at].firstChild, name);
    set(list.children[at].lastChild, value);
  });
  set($("job"), status.job === "none" ? "ddprun" : status.job);
  set($("program"), status.program);
}

// ---- Time: from the start of the job to now, or to its end, in both pictures

function span() {
  const end = history.events.find((one) => one.kind === "end");
  return Math.max(1, end ? end.at : Math.max(history.seconds, status ? status.seconds : 0));
}

const MARK_WIDTH = 16;
const timeScale = (width) => (at) => MARK_WIDTH / 2 + (width - MARK_WIDTH) * at / span();

// The times [begin, end] in which workers ran.
function rounds() {
  const all = [];
  let since = null;
  const end = (until) => {
    if (since !== null) all.push([since, until]);
    since = null;
  };
  for (const one of history.events) {
    if (["failure", "change", "stop", "end"].includes(one.kind)) end(one.at);
    if (one.kind === "round") since = one.at;
  }
  end(span());
  return all;
}

// ---- Ranks over time: a column for some seconds, a row for a rank or several, a cell for the worst state

const COLUMNS = 240, MOST_ROWS = 64, ROW = 24, MOST_HEIGHT = 192, UNSEEN = 255;
let columns = [];        // the worst state by rank; a hole: the page was not open
let columnSeconds = 2.5;

function addTo(places, at, states) {
  const column = places[at] = places[at] || [];
  states.forEach((state, rank) => { column[rank] = Math.min(column[rank] ?? UNSEEN, state); });
}

function sample() {
  const now = isOver() ? span() : status.seconds;
  while (now >= COLUMNS * columnSeconds) {
    const fewer = [];
    columns.forEach((states, at) => addTo(fewer, at >> 1, states));
    columns = fewer;
    columnSeconds *= 2;
  }
  const states = [];
  for (const rank of ranks) states[rank.rank] = rank.severity;
  addTo(columns, Math.floor(now / columnSeconds), states);
}

function prepared(canvas) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const draw = canvas.getContext("2d");
  draw.scale(scale, scale);
  return { draw, width, height };
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// A state's height tells it from others even without its colour.
const HEIGHTS = [1, .8, 1, .6, .25];

// A cell is a state of one row. If the page was not open, the rounds show, paler, when all ranks ran.
function drawGrid() {
  const size = ranks.reduce((most, rank) => Math.max(most, rank.rank + 1), 0);
  const rows = Math.min(size, MOST_ROWS);
  const wanted = Math.min(Math.max(rows, 1) * ROW, MOST_HEIGHT) + "px";
  if ($("grid").style.height !== wanted) $("grid").style.height = wanted;
  const { draw, width, height } = prepared($("grid"));
  const colours = STATES.map((state) => colour(state.name));
  const edge = colour("page");
  const x = timeScale(width), tall = height / Math.max(rows, 1);
  const cell = (row, state, from, until) => {
    const high = Math.max(1, tall * HEIGHTS[state] - (rows > 40 ? 0 : 1));
    const y = row * tall + (tall - high) / 2;
    const left = Math.floor(x(from)), wide = Math.max(1, Math.floor(x(until)) - left);
    draw.fillStyle = colours[state];
    draw.fillRect(left, y, wide, high);
    if (STATES[state].name === "failed" || STATES[state].name === "unknown") {
      draw.fillStyle = edge;
      draw.fillRect(left, y + high / 2 - 1, wide, Math.min(2, high / 3));
    }
  };
  const past = rounds();
  for (let at = 0; at * columnSeconds < span(); ++at) {
    const from = at * columnSeconds, until = Math.min(from + columnSeconds, span());
    draw.globalAlpha = columns[at] ? 1 : .4;
    for (const [begin, end] of columns[at] ? [] : past) {
      if (begin >= until || end <= from) continue;
      for (let row = 0; row < rows; ++row) cell(row, RUNNING, Math.max(begin, from), Math.min(end, until));
    }
    const worst = [];
    (columns[at] || []).forEach((state, rank) => {
      const row = Math.floor(rank * rows / size);
      if (rank < size) worst[row] = Math.min(worst[row] ?? UNSEEN, state);
    });
    worst.forEach((state, row) => cell(row, state, from, until));
  }
  const label = size ? size + " ranks: " + counts() : "no ranks yet";
  if ($("grid").getAttribute("aria-label") !== label) $("grid").setAttribute("aria-label", label);
  set($("grid-note"), "From the start of the job, " + duration(span()) +
      (rows < size ? "; a row is up to " + Math.ceil(size / rows) + " ranks, as the worst of them" : ", a row for each rank") +
      (columns.includes(undefined) ? "; paler before this page looked." : "."));
}

function makeLegend() {
  for (const state of STATES) {
    $("legend").append(make("span", state.name, state.shape + " " + state.name), " ");
  }
}

// ---- Events

const MARKS = { round: "▶", failure: "✕", change: "◆", suspect: "→", hang: "■", warning: "▲", progress: "●", stop: "■", end: "✓" };
const BAD = ["failure", "hang", "warning"];

const markOf = (one) => one.kind === "end" && !history.well ? "■" : MARKS[one.kind] || "·";

// Marks of events at almost the same time stand side by side.
function markPlaces(x, width) {
  const places = history.events.map((one) => x(one.at));
  const apart = Math.min(MARK_WIDTH, (width - MARK_WIDTH) / Math.max(places.length, 1));
  for (let at = 1; at < places.length; ++at) places[at] = Math.max(places[at], places[at - 1] + apart);
  let limit = width - MARK_WIDTH / 2;
  for (let at = places.length - 1; at >= 0; --at, limit -= apart) places[at] = Math.min(places[at], limit);
  return places;
}

function drawTimeline() {
  const { draw, width, height } = prepared($("timeline"));
  draw.font = "bold 14px system-ui, sans-serif";
  draw.textAlign = "center";
  draw.textBaseline = "middle";
  const places = markPlaces(timeScale(width), width);
  history.events.forEach((one, at) => {
    draw.fillStyle = colour(BAD.includes(one.kind) ? "failed" : "text");
    draw.fillText(markOf(one), places[at], height / 2);
  });
}

function showEvents() {
  const list = $("events");
  const texts = history.events.map((one) => [duration(one.at), markOf(one) + " " + one.text]).reverse();
  while (list.children.length > texts.length) list.lastChild.remove();
  texts.forEach(([time, text], at) => {
    if (at === list.children.length) {
      const item = make("li");
      item.append(make("time"), make("span"));
      list.append(item);
    }
    set(list.children[at].firstChild, time);
    set(list.children[at].lastChild, "  " + text);
  });
}

// ---- The table

const FEW = 50;
const rows = new Map();  // by rank
const ORDERS = {
  worst: (a, b) => a.severity - b.severity || a.rank - b.rank,
  silent: (a, b) => (b.output_age ?? -1) - (a.output_age ?? -1) || a.rank - b.rank,
  idle: (a, b) => (a.share ?? Infinity) - (b.share ?? Infinity) || a.rank - b.rank,
  memory: (a, b) => (b.memory ?? 0) - (a.memory ?? 0) || a.rank - b.rank,
  rank: (a, b) => a.rank - b.rank,
};

function makeRow(rank) {
  const row = make("tr"), head = make("th"), button = make("button", "", String(rank));
  head.scope = "row";
  head.dataset.title = "Rank";
  button.type = "button";
  button.setAttribute("aria-label", "last lines of rank " + rank);
  button.addEventListener("click", () => openLog(rank));
  head.append(button);
  row.append(head);
  for (const title of ["Host", "State", "Time", "CPU", "Memory", "Output", "GPU", "Progress"]) {
    row.append(make("td"));
    row.lastChild.dataset.title = title;  // for a narrow page, which has no heading
  }
  for (const at of [4, 5, 7]) {
    const bar = make("span", "bar");
    bar.setAttribute("aria-hidden", "true");
    bar.append(make("span"));
    row.children[at].append(bar, make("span"));
  }
  return row;
}

function setBar(cell, share, text) {
  cell.firstChild.firstChild.style.width = Math.round(100 * Math.min(1, share || 0)) + "%";
  set(cell.lastChild, text);
}

function fillRow(row, rank, mostMemory) {
  const state = STATES[rank.severity];
  const cells = row.children;
  set(cells[1], rank.host);
  set(cells[2], state.shape + " " + state.name + (rank.how ? " (" + rank.how + ")" : ""));
  cells[2].className = state.name;
  set(cells[3], rank.seconds === undefined ? "" : duration(rank.seconds));
  setBar(cells[4], rank.share, rank.share === null ? "" : Math.round(100 * rank.share) + " %");
  setBar(cells[5], rank.memory / mostMemory, rank.memory ? bytes(rank.memory) : "");
  set(cells[6], rank.output_age === undefined ? "" : duration(rank.output_age) + " ago");
  setBar(cells[7], rank.gpu_busy, gpuText(rank));
  cells[7].title = rank.gpu === undefined ? "" : "GPU " + rank.gpu;
  set(cells[8], rank.progress || "");
}

function gpuText(rank) {
  if (!rank.gpu_memory_total) return "";
  const busy = rank.gpu_busy === undefined ? "" : Math.round(100 * rank.gpu_busy) + " %, ";
  const watts = rank.gpu_watts === undefined ? "" : ", " + Math.round(rank.gpu_watts) + " W";
  return busy + bytes(rank.gpu_memory) + " of " + bytes(rank.gpu_memory_total) + watts;
}

const HINTS = {  // by the place of their column
  4: "CPU is the share of one processor in the last seconds", 5: "", 6: "output is how long ago the rank wrote last",
  7: "GPU is its use and memory, by all processes", 8: "progress is the status of its last heartbeat",
};

// A column without a value is not shown, nor is its hint.
function showColumns(shown) {
  const hints = [];
  for (const [at, hint] of Object.entries(HINTS)) {
    const isEmpty = shown.every((row) => row.children[at].textContent === "");
    $("ranks").classList.toggle("no-" + at, isEmpty);
    if (!isEmpty && hint) hints.push(hint);
  }
  set($("hints"), hints.join("; "));
}

// While a row has the focus, all rows keep their places: moving it would take the focus away.
function showTable() {
  const body = $("rows");
  const wanted = [...ranks].sort(ORDERS[$("order").value]);
  const all = $("all").getAttribute("aria-pressed") === "true";
  const shown = all ? wanted : wanted.slice(0, FEW);
  const mostMemory = Math.max(1, ...ranks.map((rank) => rank.memory || 0));
  const keep = new Set(shown.map((rank) => rank.rank));
  const focused = body.contains(document.activeElement);
  for (const [rank, row] of rows) {
    if (keep.has(rank) || (focused && row.contains(document.activeElement))) continue;
    row.remove();
    rows.delete(rank);
  }
  shown.forEach((rank, at) => {
    if (!rows.has(rank.rank)) {
      rows.set(rank.rank, makeRow(rank.rank));
      body.append(rows.get(rank.rank));
    }
    const row = rows.get(rank.rank);
    fillRow(row, rank, mostMemory);
    if (!focused && body.children[at] !== row) body.insertBefore(row, body.children[at] || null);
  });
  showColumns([...rows.values()]);
  $("all").hidden = ranks.length <= FEW;
  set($("shown"), ranks.length <= FEW ? "" : shown.length + " of " + ranks.length + " ranks are shown");
}

// ---- Last lines of a rank

const MOST_TEXT = 64 * 1024;
let log = null;  // { rank, from, round }

async function ask(path, more) {
  const answer = await fetch(url(path, more), { cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || "no answer");
  return body;
}

async function readLog(mine) {
  for (;;) {
    const piece = await ask("api/logs/" + mine.rank, "&from=" + mine.from);
    if (log !== mine) return;
    if (piece.round !== mine.round) {
      const fresh = mine.round !== null;
      mine.round = piece.round;
      set($("log"), "");
      if (fresh && mine.from > 0) { mine.from = 0; continue; }
    }
    if (!piece.text) {
      set($("log-note"), "Rank " + mine.rank + ", round " + piece.round + ". " +
          (piece.files.length ? "It writes to " + piece.files.join(", ") + " itself." : ""));
      return;
    }
    mine.from = piece.next;
    // eslint-disable-next-line no-control-regex
    const text = piece.text.replace(/\x1b\[[0-9;]*[A-Za-z]/g, "").replace(/[^\n]*\r(?!\n)/g, "");
    const box = $("log"), atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
    box.textContent = (box.textContent + text).slice(-MOST_TEXT);
    if (atEnd) box.scrollTop = box.scrollHeight;
  }
}

async function follow(mine) {
  while (log === mine) {
    try {
      if (!document.hidden) await readLog(mine);
    } catch (failure) {
      if (log === mine) set($("log-note"), "Rank " + mine.rank + ": " + failure.message);
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

function openLog(rank) {
  log = { rank, from: 0, round: null };
  set($("log"), "");
  $("log").hidden = false;
  set($("log-note"), "Rank " + rank);
  follow(log);
  $("log").focus();
}

// ---- Stacks

function stackLines(calls, outer, indent) {
  const lines = [];
  for (const call of calls) {
    const apart = call.ranks !== outer;
    if (apart) lines.push(indent + (/^\d+$/.test(call.ranks) ? "rank " : "ranks ") + call.ranks + ":");
    const inner = apart ? indent + "  " : indent;
    lines.push(inner + call.at, ...stackLines(call.in || [], call.ranks, inner));
  }
  return lines;
}

async function showStacks() {
  const button = $("ask-stacks");
  button.disabled = true;
  set($("stacks-note"), "asking all nodes");
  try {
    const answer = await ask("api/stacks", "");
    $("stacks").textContent = [...(answer.notes || []), ...stackLines(answer.stacks || [], "", "")].join("\n");
    set($("stacks-note"), "as of " + new Date().toLocaleTimeString());
    $("stacks").hidden = false;
    $("stacks").focus();
  } catch (failure) {
    set($("stacks-note"), failure.message);
  }
  button.disabled = false;
}

// ---- Updates, only while somebody can see them

let source = null;

function show(news) {
  history = news.history;
  if (news.status) {
    status = news.status;
    answered = performance.now();
    ranks = ranksOf(status);
  }
  if (isOver()) endRanks();
  showParts();
  if (status) {
    showFacts();
    sample();
    drawGrid();
    showTable();
  }
  showVerdict();
  showAge();
  showEvents();
  drawTimeline();
}

function connect() {
  source = new EventSource(url("api/events"));
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.onerror = onLost;
}

// A browser connects again by itself, but not after a refusal, such as for too many viewers.
function onLost() {
  if (isOver()) return disconnect();
  showLost();
  if (!source || source.readyState !== EventSource.CLOSED) return;
  disconnect();
  setTimeout(() => { if (!source && !document.hidden) connect(); }, 5000);
}

function disconnect() {
  if (source) source.close();
  source = null;
}

document.addEventListener("visibilitychange", () => {
  disconnect();
  if (!document.hidden) connect();
});
$("order").addEventListener("change", () => { if (status) showTable(); });
$("all").addEventListener("click", () => {
  $("all").setAttribute("aria-pressed", String($("all").getAttribute("aria-pressed") !== "true"));
  if (status) showTable();
});
$("ask-stacks").addEventListener("click", showStacks);
setInterval(showAge, 1000);
makeLegend();
if (!document.hidden) connect();
