"use strict";
// The data of the page, and numbers as text.

const data = JSON.parse(document.getElementById("data").textContent);
const NONE = 0xffffffff;
const byId = (id) => document.getElementById(id);

/// A column as a typed array. Numbers of 64 bits that a double represents exactly become doubles.
function column(encoded) {
  if (encoded.type === "constant") {
    const value = BigInt(encoded.value);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) return new BigUint64Array(encoded.count).fill(value);
    return new Float64Array(encoded.count).fill(Number(value));
  }
  const text = atob(encoded.data);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  const types = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, u64: BigUint64Array, f64: Float64Array };
  const values = new types[encoded.type](bytes.buffer);
  if (encoded.type !== "u64") return values;
  const largest = BigInt(Number.MAX_SAFE_INTEGER);
  return values.every((value) => value <= largest) ? Float64Array.from(values, Number) : values;
}

/// Times, which may lose precision.
const times = (encoded) => Float64Array.from(column(encoded), Number);

const activity = data.activity;
const isTimed = activity.axis === "nanoseconds";
const names = activity.names;
const tracks = activity.tracks;
const events = { count: activity.events.count };
for (const [name, encoded] of Object.entries(activity.events.columns)) {
  events[name] = name === "start" || name === "duration" ? times(encoded) : column(encoded);
}
for (const track of tracks) {
  const device = track.device === null ? "" : `device ${track.device}`;
  track.group = [device, track.queue].filter(Boolean).join(", ");
  track.label = [track.kind, track.group].filter(Boolean).join(", ");
}

/// What more than half of some names begin with, up to a separator. It is the beginning that saves most if it is left out.
function sharedPrefix(all) {
  let group = [...new Set(all)];
  const least = Math.max(group.length / 2, 1);
  let [best, saved, end] = ["", 0, 0];
  while (group.length > least) {
    const byWord = new Map();
    for (const name of group) {
      const [word] = name.slice(end).match(/^[^_$@.:/]*[_$@.:/](?=.)/s) ?? [];
      if (word) byWord.set(word, byWord.get(word) ?? []).get(word).push(name);
    }
    const [word, sharing] = [...byWord].reduce((one, other) => (other[1].length > one[1].length ? other : one), ["", []]);
    [group, end] = [sharing, end + word.length];
    if (group.length > least && end * group.length > saved) [best, saved] = [group[0].slice(0, end), end * group.length];
  }
  return best;
}
/// Often the name of the program, which narrow events have no room for.
const prefix = sharedPrefix(activity.functions.map((it) => names[it.name]));
const shortNames = names.map((name) => (prefix && name.startsWith(prefix) ? name.slice(prefix.length) : name));

/// The shape in the name of a function, such as 8×48×32 of `matmul_8x48x32_f32`, or `null`. D is a size that is not known.
function shapeOf(name) {
  const found = name.replace(/(?:dispatch|initializer)_\d+/g, "").match(/_((?:\d+|D)(?:x(?:\d+|D))*)(?=x[a-z]|_|$)/);
  return found ? found[1].replaceAll("x", "×") : null;
}

const isDispatch = (event) => events.function[event] !== NONE;
const endOf = (event) => events.start[event] + events.duration[event];

/// A span of the axis: `1.234 ms`, or a number of records.
function duration(value) {
  if (!isTimed) return `${count(value)} ${value === 1 ? "record" : "records"}`;
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(4))} ${unit}`;
  }
  return `${Math.round(value * 10) / 10} ns`;
}

/// A point of the axis.
function moment(value) {
  return isTimed ? duration(value) : `record ${count(Math.floor(value))}`;
}

const count = (value) => (typeof value === "bigint" ? value : Math.round(value)).toLocaleString("en-US").replaceAll(",", "\u2009");

function bytes(value) {
  const number = Number(value);
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (number >= size) return `${Number((number / size).toPrecision(4))} ${unit}`;
  }
  return `${number} B`;
}

const triple = (prefix, event) => [0, 1, 2].map((axis) => events[`${prefix}_${axis}`][event]).join("×");
const workgroups = (event) => [0, 1, 2].reduce((all, axis) => all * events[`workgroup_count_${axis}`][event], 1);

const STRATEGIES = ["none", "inline", "device barrier", "software defer"];
const strategyName = (number) => STRATEGIES[number] ?? `unknown (${number})`;

/// What is known of an event: its name, and pairs of a title and a text.
function describe(event) {
  const rows = [["track", tracks[events.track[event]].label]];
  if (!events.timed[event]) rows.push(["time", "not valid"]);
  else if (isTimed) rows.push(["start", duration(events.start[event])], ["duration", duration(events.duration[event])]);
  else rows.push(["record", count(events.id[event])]);
  if (isTimed) rows.push(["event", String(events.id[event])]);
  const add = (title, value, text = String(value)) => { if (Number(value) !== 0) rows.push([title, text]); };
  if (events.replayed_record[event] !== NONE) rows.push(["record of the capture", count(events.replayed_record[event])]);
  add("submission", events.submission[event]);
  add("command buffer", events.command_buffer[event]);
  if (events.command[event] !== NONE) rows.push(["command", String(events.command[event])]);
  if (isDispatch(event)) {
    const called = activity.functions[events.function[event]];
    rows.push(["function", `${called.ordinal} of executable ${called.executable}`]);
    rows.push(["workgroups", triple("workgroup_count", event)], ["workgroup size", triple("workgroup_size", event)]);
  }
  add("bytes", events.bytes[event], bytes(events.bytes[event]));
  if (events.strategy[event] !== NONE) rows.push(["dependencies", strategyName(events.strategy[event])]);
  add("waits", events.waits[event]);
  add("signals", events.signals[event]);
  add(isTimed ? "operations" : "executions", events.operations[event]);
  add("tiles", events.tiles[event]);
  add("time of tiles", events.tile_duration[event], duration(Number(events.tile_duration[event])));
  const status = events.status[event];
  if (status !== 0 && status !== NONE) rows.push(["status", activity.statuses[status] ?? `code ${status}`]);
  return { title: names[events.name[event]], rows };
}

/// The first index from `low` to `high` whose value is at least `limit`; the values ascend.
function lowerBound(values, low, high, limit) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] < limit) low = middle + 1; else high = middle;
  }
  return low;
}

/// An element with text and attributes.
function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  if (text !== "") made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
