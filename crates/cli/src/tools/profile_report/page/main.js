// The page: its sections, and the selection that they share.

readColors();
document.title = `${data.title} – rehal report`;
byId("title").textContent = data.title;
byId("notes").replaceChildren(...data.notes.map((note) => element("p", note)));

/// Says in a section why it is empty, instead of what it has.
function replaceSection(id, text) {
  const section = byId(id);
  section.replaceChildren(section.querySelector("h2"), element("p", text, { class: "hint" }));
}

/// Draws a section. Each is drawn on its own: one that cannot be drawn says so, and the others are drawn.
function drawSection(id, draw) {
  try {
    draw();
  } catch (error) {
    console.error(error);
    replaceSection(id, `This section cannot be drawn: ${error.message}`);
  }
}

const recordedBy = (...modes) => `--device_profiling_mode=${modes.join(" or ")} records them.`;
// What is not on the page may be what a section lacks.
const omitted = activity.omitted;
const OMITTED = `${count(omitted)} event${omitted === 1 ? " is" : "s are"} left out (--max_events)`;
const NO_DISPATCHES = omitted > 0 ? `No dispatches on this page: ${OMITTED}.` : `No dispatches${isTimed ? `: ${recordedBy("host-execution", "dispatch-events")}` : "."}`;
const NO_EVENTS = omitted > 0 ? `No events on this page: ${OMITTED}.` : isTimed
  ? `No events: ${recordedBy("queue-events", "host-execution", "device-queue-events", "dispatch-events", "command-region-events")}`
  : "The capture has no events.";

const axis = new Axis(0, lastMoment, isTimed ? 1 : 4);
let timeline = null;
let dispatches = null;
let functions = null;
let graphView = null;

function drawTimeline() {
  if (timedCount === 0) {
    // The details of events without times, which the table has, stay.
    byId("timeline").querySelector(".toolbar").remove();
    byId("timeline-canvas").replaceWith(element("p", events.count === 0 ? NO_EVENTS : "No event has a valid time.", { class: "hint" }));
    return;
  }
  timeline = new Timeline(byId("timeline-canvas"), axis);
  byId("zoom-in").addEventListener("click", () => axis.zoom(2));
  byId("zoom-out").addEventListener("click", () => axis.zoom(0.5));
  byId("zoom-fit").addEventListener("click", () => axis.fit());
}

/// Selects an event in the timeline and the table, except in the one `from` which it comes.
function select(event, from) {
  if (timeline) {
    timeline.selected = event;
    timeline.redraw();
  }
  if (from === "table") {
    if (event !== null) timeline?.show(event, true);
  } else if (event !== null) dispatches?.reveal(event);
  const details = byId("details");
  // A timeline that cannot be drawn has none.
  if (!details) return;
  if (event === null) {
    details.replaceChildren();
    return;
  }
  const { title, rows } = describe(event);
  const zoom = element("button", "Zoom to it", { type: "button" });
  zoom.addEventListener("click", () => timeline.show(event, true));
  details.replaceChildren(element("b", title), ...rows.map(([name, value]) => element("span", `${name}: ${value}`)));
  if (timeline && events.timed[event]) details.append(zoom);
}

const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;

/// The median of times, which it sorts; 0 without any.
function median(times) {
  times.sort((a, b) => a - b);
  const half = times.length / 2;
  return times.length === 0 ? 0 : (times[Math.ceil(half) - 1] + times[Math.floor(half)]) / 2;
}

/// Says which functions have means that a few dispatches decide about.
function warnOfMeans(rows) {
  const differ = rows.filter((row) => Math.abs(row.total / row.timed - row.median) > 0.1 * row.median);
  if (differ.length === 0) return;
  const of = differ.slice(0, 3).map((row) => names[events.name[row.event]]).join(", ") + (differ.length > 3 ? ", ..." : "");
  const text = `The mean and the median of ${plural(differ.length, "function")} differ by more than 10 % (${of}): a few dispatches took much longer or shorter. Compare medians.`;
  byId("functions-table").before(element("p", text, { class: "hint", id: "means" }));
}

/// Says of which functions the times are not a distribution.
function warnOfSingles(rows) {
  const single = rows.filter((row) => row.timed === 1);
  if (single.length === 0) return;
  const text = single.length === rows.length
    ? "Each time is that of a single dispatch: record more iterations to see how it varies."
    : `The times of ${plural(single.length, "function")} are each of a single dispatch: record more iterations to see how they vary.`;
  byId("functions-table").before(element("p", text, { class: "hint", id: "singles" }));
}

/// What functions cost, as far as a capture says it, by name.
const costOf = new Map((data.costs ?? []).map((cost) => [cost.name, cost]));

/// Functions: how often and how long. Those of one name are one, since each iteration of a benchmark may load its executable again.
function functionTable() {
  const groups = new Map();
  for (let event = 0; event < events.count; event++) {
    if (!isDispatch(event)) continue;
    const key = `${events.name[event]} ${tracks[events.track[event]].timed_by}`;
    let group = groups.get(key);
    if (!group) {
      const timedBy = tracks[events.track[event]].timed_by;
      group = { event, timedBy, count: 0, timed: 0, total: 0, least: Infinity, most: 0, lengths: [], longest: event, threadTime: 0, executed: 0, workgroups: 0 };
      groups.set(key, group);
    }
    group.count++;
    group.executed += Number(events.operations[event]);
    group.workgroups += workgroups(event) * Number(events.operations[event]);
    if (!events.timed[event]) continue;
    const length = events.duration[event];
    group.timed++;
    group.lengths.push(length);
    group.total += length;
    group.threadTime += Number(events.tile_duration[event]);
    group.least = Math.min(group.least, length);
    if (length > group.most) [group.most, group.longest] = [length, event];
  }
  const rows = [...groups.values()];
  for (const row of rows) row.median = median(row.lengths);
  warnOfMeans(rows.filter((row) => row.timed > 0));
  if (isTimed) warnOfSingles(rows.filter((row) => row.timed > 0));
  if (prefix && rows.length > 0) {
    const which = rows.every((row) => names[events.name[row.event]].startsWith(prefix)) ? "all" : "most";
    byId("functions-table").before(element("p", `Names are without what ${which} begin with: ${prefix}`, { class: "hint", id: "prefix" }));
  }
  if (omitted > 0 && rows.length > 0) {
    const whole = `${OMITTED}: numbers and times are those of the events on this page, not of the whole run.`;
    byId("functions-table").before(element("p", whole, { class: "hint" }));
  }
  // A dispatch may be timed by both the host and the device.
  const wholes = { host: 0, device: 0 };
  const name = (row) => names[events.name[rows[row].event]];
  const shortName = (row) => element("span", shortNames[events.name[rows[row].event]], { title: name(row) });
  const shapes = rows.map((row) => shapeOf(names[events.name[row.event]]));
  const cost = (row) => costOf.get(name(row));
  const weight = (row) => (isTimed ? rows[row].total : (cost(row)?.bound_bytes ?? rows[row].executed));
  rows.forEach((row, index) => { wholes[row.timedBy] += weight(index); });
  const largest = rows.reduce((most, _, index) => Math.max(most, weight(index)), 0) || 1;
  const share = (row) => {
    const part = weight(row);
    const made = element("span", "", { class: "share" });
    const bar = element("i");
    bar.style.width = `${Math.max(1, (part / largest) * 70)}px`;
    made.append(bar, element("span", `${((part / (wholes[rows[row].timedBy] || 1)) * 100).toFixed(1)} %`));
    return made;
  };
  const time = (title, value) => ({
    title,
    value: (row) => (rows[row].timed === 0 ? null : value(rows[row])),
    text: (row) => (rows[row].timed === 0 ? null : duration(value(rows[row]))),
  });
  const timedColumns = () => [
    { title: "Timed by", value: (row) => rows[row].timedBy, isText: true, width: "90px" },
    { title: "Count", value: (row) => rows[row].count, text: (row) => count(rows[row].count) },
    time("Total", (row) => row.total),
    { title: "Share", value: (row) => rows[row].total, text: share, width: "150px" },
    time("Mean", (row) => row.total / row.timed),
    time("Median", (row) => row.median),
    time("Min", (row) => row.least),
    time("Max", (row) => row.most),
    // Devices report no times of threads.
    ...(rows.some((row) => row.threadTime > 0) ? [{
      title: "Threads",
      value: (row) => (rows[row].threadTime > 0 ? rows[row].threadTime / rows[row].total : null),
      text: (row) => (rows[row].threadTime > 0 ? (rows[row].threadTime / rows[row].total).toFixed(2) : null),
    }] : []),
  ];
  const recordedColumns = () => [
    { title: "Recorded", value: (row) => rows[row].count, text: (row) => count(rows[row].count) },
    { title: "Executed", value: (row) => rows[row].executed, text: (row) => count(rows[row].executed) },
    { title: costOf.size > 0 ? "Share of bytes" : "Share", value: weight, text: share, width: "150px" },
    { title: "Workgroups", value: (row) => rows[row].workgroups, text: (row) => count(rows[row].workgroups) },
    ...(costOf.size > 0 ? [{
      title: "Bytes bound",
      value: (row) => cost(row)?.bound_bytes ?? null,
      text: (row) => (cost(row) ? bytes(cost(row).bound_bytes) : null),
    }, {
      title: "of each",
      value: (row) => (cost(row) ? cost(row).bound_bytes / cost(row).dispatches : null),
      text: (row) => (cost(row) ? bytes(cost(row).bound_bytes / cost(row).dispatches) : null),
    }] : []),
  ];
  const columns = [
    { title: "Function", value: name, text: shortName, isText: true },
    ...(isTimed ? timedColumns() : recordedColumns()),
    ...(shapes.some((shape) => shape !== null)
      ? [{ title: "Shape", value: (row) => shapes[row], isText: true, width: "minmax(72px, 1fr)" }]
      : []),
  ];
  const table = new Table(byId("functions-table"), {
    label: "functions",
    columns,
    count: rows.length,
    height: 10,
    sort: { index: 3, descending: true },
    empty: NO_DISPATCHES,
    onPick: (row) => {
      const filter = byId("filter");
      if (!filter || !dispatches) return;
      // Exactly this function: the name of another may begin with its name.
      filter.value = `name=${JSON.stringify(names[events.name[rows[row].event]])}`;
      applyFilter();
    },
  });
  return Object.assign(table, { groups: rows });
}

function dispatchTable() {
  const id = (title, values, width) => ({
    title,
    value: (event) => values[event],
    text: (event) => (Number(values[event]) === 0 ? null : String(values[event])),
    width,
  });
  const time = (title, values) => ({
    title,
    width: "96px",
    value: (event) => (events.timed[event] ? values[event] : null),
    text: (event) => (events.timed[event] ? duration(values[event]) : null),
  });
  const columns = [
    { title: isTimed ? "Event" : "Record", value: (event) => events.id[event], text: (event) => String(events.id[event]), width: "80px" },
    {
      title: "Name",
      value: (event) => names[events.name[event]],
      text: (event) => element("span", shortNames[events.name[event]], { title: names[events.name[event]] }),
      isText: true,
    },
    ...(isTimed ? [time("Start", events.start), time("Duration", events.duration)] : []),
    { title: "Track", value: (event) => tracks[events.track[event]].label, isText: true, width: "minmax(120px, 2fr)" },
    ...(isTimed ? [id("Submission", events.submission, "102px")] : []),
    ...(events.replayed_record.some((record) => record !== NONE)
      ? [{ title: "Record", width: "84px", value: (event) => (events.replayed_record[event] === NONE ? null : events.replayed_record[event]) }]
      : []),
    id("Command buffer", events.command_buffer, "136px"),
    { title: "Command", width: "96px", value: (event) => (events.command[event] === NONE ? null : events.command[event]) },
    { title: "Workgroups", width: "112px", value: (event) => (isDispatch(event) ? workgroups(event) : null), text: (event) => (isDispatch(event) ? triple("workgroup_count", event) : null) },
    ...(isTimed
      ? [{ title: "Tiles", width: "72px", value: (event) => events.tiles[event], text: (event) => (Number(events.tiles[event]) ? count(events.tiles[event]) : null) }]
      : [
        { title: "Executions", width: "104px", value: (event) => (isDispatch(event) ? events.operations[event] : null) },
        { title: "Bytes bound", width: "112px", value: (event) => (isDispatch(event) ? events.bytes[event] : null), text: (event) => (isDispatch(event) && costOf.size > 0 ? bytes(events.bytes[event]) : null) },
      ]),
  ];
  return new Table(byId("dispatches-table"), {
    label: "dispatches",
    columns,
    count: events.count,
    height: 16,
    sort: isTimed ? { index: 3, descending: true } : { index: 0, descending: false },
    empty: "No event matches.",
    onPick: (event) => select(event, "table"),
  });
}

/// Applies the filter to the table; says what is wrong with it, and which other events match if no dispatch does.
function applyFilter() {
  const { matches, problems } = parseFilter(byId("filter").value);
  const all = byId("scope").value === "all";
  dispatches.empty = events.count === 0 ? NO_EVENTS : "No event matches.";
  dispatches.filter((event) => (all || isDispatch(event)) && matches(event));
  const shown = dispatches.rows.length;
  byId("matches").textContent = `${count(shown)} of ${count(events.count)} events`;
  const others = shown > 0 || all ? 0 : dispatches.all.reduce((sum, event) => sum + matches(event), 0);
  if (others > 0) problems.push(`No dispatch matches, but ${plural(others, "other event")}: choose “all events”.`);
  byId("filter-problems").textContent = problems.join(" ");
}

function drawDispatches() {
  dispatches = dispatchTable();
  if (!dispatches.all.some(isDispatch)) byId("scope").value = "all";
  byId("scope").addEventListener("change", applyFilter);
  byId("filter").addEventListener("input", applyFilter);
  applyFilter();
}

function drawSummary() {
  if (!isTimed && !showCosts(functions?.groups ?? [])) byId("summary").remove();
  else if (isTimed && !showFindings(functions?.groups ?? [])) {
    replaceSection("summary", functions?.groups.length ? "No dispatch has a time." : NO_DISPATCHES);
  }
}

function drawMemory() {
  if (seriesError) throw seriesError;
  if (series.length === 0) {
    replaceSection("memory", isTimed ? `No memory events: ${recordedBy("memory-events")}` : "The capture allocates no memory.");
    return;
  }
  new SeriesView(byId("memory-canvas"), axis);
  const more = series.length > MAX_SERIES ? ` The first ${MAX_SERIES} of ${series.length} series are shown.` : "";
  byId("memory-text").textContent = (isTimed
    ? "Bytes in use since the profile began, by kind of allocation."
    : "Bytes in use in the order of the records. Captures do not contain when buffers are freed, except those of queues.") + more;
}

/// How long submissions waited, by strategy.
function waitsTable() {
  const groups = new Map();
  for (let event = 0; event < events.count; event++) {
    if (tracks[events.track[event]].kind !== "submissions") continue;
    const key = events.strategy[event];
    if (!groups.has(key)) groups.set(key, { key, count: 0, waits: 0, signals: 0, total: 0, most: 0 });
    const group = groups.get(key);
    group.count++;
    group.waits += events.waits[event];
    group.signals += events.signals[event];
    group.total += events.duration[event];
    group.most = Math.max(group.most, events.duration[event]);
  }
  const rows = [...groups.values()];
  if (rows.length === 0) return false;
  new Table(byId("waits-table"), {
    label: "waits of submissions",
    columns: [
      { title: "Dependencies", value: (row) => strategyName(rows[row].key), isText: true },
      { title: "Submissions", value: (row) => rows[row].count, text: (row) => count(rows[row].count) },
      { title: "Waits", value: (row) => rows[row].waits, text: (row) => count(rows[row].waits) },
      { title: "Signals", value: (row) => rows[row].signals, text: (row) => count(rows[row].signals) },
      { title: "Mean wait", value: (row) => rows[row].total / rows[row].count, text: (row) => duration(rows[row].total / rows[row].count) },
      { title: "Max wait", value: (row) => rows[row].most, text: (row) => duration(rows[row].most) },
    ],
    count: rows.length,
    sort: { index: 1, descending: true },
  });
  return true;
}

/// The event of a submission of the graph, or `null`.
function eventOf(submission) {
  const { id, device } = graphView.graph;
  const ids = isTimed ? events.submission : events.id;
  for (let event = 0; event < events.count; event++) {
    if (ids[event] !== id[submission]) continue;
    const track = tracks[events.track[event]];
    if (track.kind === "submissions" && (track.device ?? NONE) === device[submission]) return event;
  }
  return null;
}

function showLinks(submission) {
  const links = byId("links");
  select(submission === null ? null : eventOf(submission), "graph");
  if (submission === null) return links.replaceChildren();
  const { title, rows } = graphView.graph.describe(submission);
  links.replaceChildren(element("b", title), ...rows.map(([name, value]) => element("span", `${name} ${value}`)));
  for (const [text, found] of [["after", graphView.graph.predecessors(submission)], ["before", graphView.graph.successors(submission)]]) {
    for (const other of found.slice(0, 12)) {
      const button = element("button", `${text} #${graphView.graph.id[other]}`, { type: "button" });
      button.addEventListener("click", () => graphView.show(other));
      links.append(button);
    }
  }
}

function drawSemaphores() {
  if (data.graph.count > 0) {
    graphView = new GraphView(byId("semaphores-canvas"), new Graph(data.graph), showLinks);
    byId("semaphores-text").textContent =
      `A line is a submission, in the order ${isTimed ? "of submission" : "of the records"}. It waits for the semaphores at its circles and signals those at its discs; along a row, a wait is joined to the signal that ends it.`;
    if (isTimed) waitsTable();
  } else {
    byId("semaphores-canvas").remove();
    byId("links").remove();
    if (!isTimed) replaceSection("semaphores", "The capture has no submissions.");
    else if (waitsTable()) {
      byId("semaphores-text").textContent =
        "This profile contains how many semaphores a submission waits for, not which: profiles that rehal records contain both.";
    } else {
      replaceSection("semaphores", `No submissions: ${recordedBy("queue-events")}`);
    }
  }
}

/// A titled table of the section with the contents.
function contentsTable(title, list, columns, height = 12) {
  if (list.count === 0 || list.length === 0) return;
  const root = element("div");
  byId("contents").append(element("h3", title), root);
  new Table(root, { label: title, count: list.count ?? list.length, height, columns });
}

/// A column of a list of objects.
const field = (title, list, value, text = null, isText = false) => ({
  title,
  value: (row) => value(list[row]),
  text: text && ((row) => text(value(list[row]))),
  isText,
});

function captureContents(contents) {
  const { records, executables, scopes, external_files: files, failed_operations: failed } = contents;
  contentsTable("Records", records, [
    field("Kind", records, (it) => (it.name === "none" ? it.type : `${it.type} ${it.name}`), null, true),
    field("Count", records, (it) => it.count, count),
    field("Bytes", records, (it) => it.size_bytes, bytes),
  ]);
  const shares = Object.entries(contents.bytes).map(([name, size]) => ({ name: name.replaceAll("_", " "), size })).filter((it) => it.size > 0);
  contentsTable("Bytes", shares, [
    field("Of", shares, (it) => it.name, null, true),
    field("Size", shares, (it) => it.size, bytes),
    field("Share", shares, (it) => it.size / contents.size_bytes, (share) => `${(share * 100).toFixed(1)} %`),
  ]);
  const list = executables.flatMap((executable) => executable.functions.map((it) => ({ ...it, executable })));
  contentsTable("Executables and their functions", list, [
    field("Executable", list, (it) => it.executable.id),
    field("Format", list, (it) => it.executable.format, null, true),
    field("Code", list, (it) => it.executable.size_bytes, bytes),
    field("Function", list, (it) => it.name || `#${it.ordinal}`, null, true),
    field("Dispatches", list, (it) => it.dispatches, count),
    field("Bindings", list, (it) => it.bindings),
    field("Constants", list, (it) => it.constants),
  ]);
  contentsTable("Scopes", scopes, [
    field("Name", scopes, (it) => it.name, null, true),
    field("Entered", scopes, (it) => it.count, count),
  ]);
  const { operations } = data.buffers;
  const buffers = { count: data.buffers.count };
  for (const name of ["id", "ordinal", "operation", "bytes", "deallocated"]) buffers[name] = column(data.buffers[name]);
  contentsTable("Buffers", buffers, [
    { title: "Buffer", value: (row) => buffers.id[row], text: (row) => String(buffers.id[row]) },
    { title: "Created by", value: (row) => operations[buffers.operation[row]], isText: true },
    { title: "Record", value: (row) => buffers.ordinal[row] },
    { title: "Size", value: (row) => buffers.bytes[row], text: (row) => bytes(buffers.bytes[row]) },
    { title: "Freed by record", value: (row) => buffers.deallocated[row] || null, width: "minmax(130px, 1fr)" },
  ]);
  contentsTable("Files outside of the capture", files, [
    field("Path", files, (it) => it.path, null, true),
    field("Size", files, (it) => it.size_bytes, bytes),
    field("Validated by", files, (it) => (it.validation === "none" ? "length" : it.validation), null, true),
  ]);
  contentsTable("Operations that failed when they were captured", failed, [
    field("Record", failed, (it) => it.ordinal),
    field("Operation", failed, (it) => it.operation, null, true),
    field("Status", failed, (it) => it.status, null, true),
  ]);
}

/// Counts of what is in the file, in the header.
function facts() {
  const shown = [data.kind === "capture" ? `Capture ${data.contents.version}` : `Profile ${data.version}`];
  if (data.kind === "capture") {
    const { counts } = data.contents;
    shown.push(bytes(data.contents.size_bytes), plural(counts.records, "record"), plural(counts.devices, "device"));
    shown.push(plural(counts.submissions, "submission"), plural(counts.dispatches, "dispatch"));
  } else {
    const devices = new Set([...tracks, ...series].map((it) => it.device).filter((it) => it !== null));
    shown.push(bytes(data.size_bytes));
    // Executables belong to no device.
    if (devices.size > 0) shown.push(plural(devices.size, "device"));
    shown.push(plural(events.count, "event"));
    if (lastMoment > 0) shown.push(`${duration(lastMoment)} long`);
  }
  return shown.join(" · ");
}

function profileContents() {
  const kinds = new Map();
  for (let event = 0; event < events.count; event++) {
    const { label } = tracks[events.track[event]];
    kinds.set(label, (kinds.get(label) ?? 0) + 1);
  }
  const list = [...kinds].map(([label, number]) => ({ label, number }));
  contentsTable("Events", list, [
    field("Track", list, (it) => it.label, null, true),
    field("Count", list, (it) => it.number, count),
  ]);
  contentsTable("Sessions", data.sessions, [
    field("Session", data.sessions, (it) => it.id),
    field("Device", data.sessions, (it) => it.name, null, true),
    field("Ended with", data.sessions, (it) => it.status, null, true),
  ]);
  if (list.length + data.sessions.length === 0) replaceSection("contents", "The profile has no session and no events.");
}

byId("facts").textContent = facts();
drawSection("timeline", drawTimeline);
drawSection("dispatches", drawDispatches);
drawSection("functions", () => { functions = functionTable(); });
drawSection("summary", drawSummary);
drawSection("memory", drawMemory);
drawSection("semaphores", drawSemaphores);
drawSection("contents", () => (data.kind === "capture" ? captureContents(data.contents) : profileContents()));

for (const section of document.querySelectorAll("main > section")) {
  byId("sections").append(element("a", section.querySelector("h2").textContent, { href: `#${section.id}` }));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColors();
  views.forEach((view) => view.redraw());
});
views.forEach((view) => view.redraw());
