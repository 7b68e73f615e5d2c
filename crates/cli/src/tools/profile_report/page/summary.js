// Where the time goes, in sentences, with buttons that show it.

/// The times in which no dispatch runs, from the first dispatch to the last, of each clock; `timedBy` selects the dispatches.
function gapsBetweenDispatches(timedBy) {
  const dispatches = [];
  for (let event = 0; event < timedCount; event++) {
    if (isDispatch(event) && tracks[events.track[event]].timed_by === timedBy) dispatches.push(event);
  }
  dispatches.sort((a, b) => events.start[a] - events.start[b]);
  const clocks = new Map();
  for (const event of dispatches) {
    const track = tracks[events.track[event]];
    const key = track.correlated ? null : track.device;
    const [start, end] = [events.start[event], endOf(event)];
    let clock = clocks.get(key);
    if (!clock) clocks.set(key, (clock = { first: start, last: start, count: 0, total: 0, longest: 0, longestEnd: 0 }));
    const gap = start - clock.last;
    if (gap > 0) {
      clock.count++;
      clock.total += gap;
      if (gap > clock.longest) [clock.longest, clock.longestEnd] = [gap, start];
    }
    clock.last = Math.max(clock.last, end);
  }
  return [...clocks.values()];
}

/// Adds a sentence to the summary, and a button if something can be shown.
function say(text, title, show) {
  const item = element("li", `${text} `);
  if (show) {
    const button = element("button", title, { type: "button" });
    button.addEventListener("click", show);
    item.append(button);
  }
  byId("findings").append(item);
}

const percent = (part, whole) => `${((part / whole) * 100).toFixed(1)}\u00a0%`;
const sum = (list, value) => list.reduce((all, it) => all + value(it), 0);

/// Fills the summary of a capture, which has no times: what its functions bind. Returns whether there is anything to say.
function showCosts(groups) {
  const ranked = [...costOf.values()].filter((it) => it.bound_bytes > 0).sort((a, b) => b.bound_bytes - a.bound_bytes);
  if (ranked.length === 0) return false;
  const [top] = ranked;
  const whole = sum(ranked, (it) => it.bound_bytes);
  const three = ranked.length > 3 ? `; the first three functions bind ${percent(sum(ranked.slice(0, 3), (it) => it.bound_bytes), whole)}` : "";
  const group = groups.find((it) => names[events.name[it.event]] === top.name);
  say(
    `${top.name} binds ${percent(top.bound_bytes, whole)} of the bytes of all dispatches, ${bytes(top.bound_bytes)} in ${plural(top.dispatches, "dispatch")}${three}. How long they take, rehal kernels measures.`,
    "Show one", group && (() => select(group.event, "table")),
  );
  return true;
}

/// Fills the summary; `groups` are the functions. Returns whether there is anything to say.
function showFindings(groups) {
  // A dispatch may be timed by both.
  const clock = groups.some((it) => it.timedBy === "device" && it.total > 0) ? "device" : "host";
  const ranked = groups.filter((it) => it.total > 0 && it.timedBy === clock).sort((a, b) => b.total - a.total);
  const whole = sum(ranked, (it) => it.total);
  if (ranked.length > 0) {
    const [top] = ranked;
    const three = ranked.length > 3 ? `; the first three functions take ${percent(sum(ranked.slice(0, 3), (it) => it.total), whole)}` : "";
    say(
      `${names[events.name[top.event]]} takes ${percent(top.total, whole)} of the time of all dispatches, ${duration(top.total)} in ${plural(top.count, "dispatch")}${three}.`,
      "Show its longest", () => select(top.longest, "table"),
    );
  }
  for (const { first, last, count: gaps, total, longest, longestEnd } of gapsBetweenDispatches(clock)) {
    const span = last - first;
    if (gaps === 0) continue;
    say(
      `No dispatch runs in ${percent(total, span)} of the time from the first dispatch to the last, ${duration(total)} of ${duration(span)} in ${plural(gaps, "gap")}; the longest is ${duration(longest)}.`,
      "Show the longest", () => axis.set(longestEnd - longest * 1.5, longestEnd + longest * 0.5),
    );
  }
  const threaded = ranked.filter((it) => it.threadTime > 0);
  if (threaded.length > 0) {
    const time = sum(threaded, (it) => it.total);
    const serial = threaded.filter((it) => it.threadTime < it.total * 1.05);
    const verb = serial.length === 1 ? "keeps" : "keep";
    const one = serial.length > 0 && serial.length < threaded.length
      ? `; ${plural(serial.length, "function")} with ${percent(sum(serial, (it) => it.total), time)} of the time ${verb} one at most` : "";
    say(`A dispatch keeps ${(sum(threaded, (it) => it.threadTime) / time).toFixed(2)} threads busy on average${one}.`);
  }
  let waiting = -1;
  for (let event = 0; event < timedCount; event++) {
    if (tracks[events.track[event]].kind !== "submissions" || events.duration[event] === 0) continue;
    if (waiting < 0 || events.duration[event] > events.duration[waiting]) waiting = event;
  }
  if (waiting >= 0) {
    say(
      `The submission that waited longest for its semaphores, ${events.submission[waiting]} (${names[events.name[waiting]]}), waited ${duration(events.duration[waiting])}.`,
      "Show it", () => select(waiting, "table"),
    );
  }
  return byId("findings").childElementCount > 0;
}
