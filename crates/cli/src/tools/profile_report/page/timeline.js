// The timeline: tracks, their lanes, and the events in them.

const GUTTER = Math.min(200, Math.floor(document.documentElement.clientWidth / 3));
const AXIS_HEIGHT = 24;
const LANE_HEIGHT = 18;
const GROUP_HEIGHT = 22;
const TRACK_GAP = 5;

/// Where the events of each lane are: they are sorted by track, lane and start, and those without times are last.
function laneRanges() {
  let timed = 0;
  while (timed < events.count && events.timed[timed]) timed++;
  const ranges = tracks.map((track) => Array.from({ length: track.lanes }, () => [0, 0]));
  for (let at = 0; at < timed;) {
    const [track, lane] = [events.track[at], events.lane[at]];
    const first = at;
    while (at < timed && events.track[at] === track && events.lane[at] === lane) at++;
    ranges[track][lane] = [first, at];
  }
  return { ranges, timed };
}

const { ranges, timed: timedCount } = laneRanges();

/// The latest end of an event and those before it in its lane.
const latestEnds = new Float64Array(timedCount);
/// The sum of the durations of all events before an index.
const durationsBefore = new Float64Array(timedCount + 1);
for (let at = 0; at < timedCount; at++) durationsBefore[at + 1] = durationsBefore[at] + events.duration[at];
/// The last point of the axis that an event or value has.
let lastMoment = 0;
for (const lanes of ranges) {
  for (const [first, last] of lanes) {
    let latest = 0;
    for (let at = first; at < last; at++) latestEnds[at] = latest = Math.max(latest, endOf(at));
    lastMoment = Math.max(lastMoment, latest);
  }
}

/// Colors are by function; other operations are gray, so that dispatches stand out.
const colorOf = (event) => (isDispatch(event) || tracks[events.track[event]].colored ? events.name[event] % 10 : -1);

class Timeline extends View {
  constructor(canvas, axis) {
    super(canvas, axis, GUTTER);
    this.keys = ["n", "p"];
    this.selected = null;
    this.rows = [];
    let y = 0;
    let group = null;
    tracks.forEach((track, index) => {
      if (track.group && track.group !== group) {
        this.rows.push({ y, height: GROUP_HEIGHT, group: track.group });
        y += GROUP_HEIGHT;
      }
      group = track.group;
      const height = track.lanes * LANE_HEIGHT + TRACK_GAP;
      this.rows.push({ y, height, track: index });
      y += height;
    });
    this.rowTops = Float64Array.from(this.rows, (row) => row.y);
    this.contentHeight = y + AXIS_HEIGHT + 6;
    this.setHeight(Math.min(Math.max(this.contentHeight, 90), 560));
    canvas.setAttribute("aria-label", `Timeline of ${count(timedCount)} events on ${tracks.length} tracks`);
  }
  draw(context) {
    this.drawAxis(moment, AXIS_HEIGHT);
    context.save();
    context.beginPath();
    context.rect(0, AXIS_HEIGHT, this.width, this.height);
    context.clip();
    const visible = this.rows.slice(this.rowAt(this.top), this.rowAt(this.top + this.height) + 1);
    for (const row of visible) if (row.track !== undefined) this.drawTrack(row);
    this.drawSelection();
    this.drawGutter(AXIS_HEIGHT);
    for (const row of visible) this.drawLabel(row);
    context.restore();
  }
  rowAt(y) { return Math.max(0, lowerBound(this.rowTops, 0, this.rows.length, y + 1e-9) - 1); }
  rowY(row) { return AXIS_HEIGHT + row.y - this.top; }
  drawLabel(row) {
    const y = this.rowY(row);
    if (row.group !== undefined) {
      const { context } = this;
      context.fillStyle = colors.line;
      context.fillRect(0, y, this.width, 1);
      context.font = "600 " + FONT;
      this.text(row.group, 8, y + GROUP_HEIGHT / 2 + 1, GUTTER - 14, colors.text);
      context.font = FONT;
    } else {
      this.text(tracks[row.track].kind, 16, y + LANE_HEIGHT / 2, GUTTER - 22, colors.muted);
    }
  }
  drawTrack(row) {
    const top = this.rowY(row);
    ranges[row.track].forEach(([first, last], lane) => {
      const y = top + lane * LANE_HEIGHT;
      if (y + LANE_HEIGHT >= AXIS_HEIGHT && y <= this.height) this.drawLane(first, last, y);
    });
  }
  /// Draws the events in view. Those within one pixel are one bar, so that the time depends on the width, not on their number.
  drawLane(first, last, y) {
    const { context, axis } = this;
    const height = LANE_HEIGHT - 2;
    let at = lowerBound(latestEnds, first, last, axis.from);
    while (at < last && events.start[at] <= axis.to) {
      const left = this.x(events.start[at]);
      const right = this.x(endOf(at));
      const color = colorOf(at);
      context.fillStyle = color < 0 ? colors.plain : colors.series[color];
      if (right - left >= 1.5) {
        const from = Math.max(left, GUTTER - 2);
        const width = Math.min(right, this.width + 2) - from;
        context.fillRect(from, y + 1, Math.max(width - (width > 4 ? 1 : 0), 1), height);
        if (width > 28) {
          const ink = color < 0 ? colors.text : colors.onSeries[color];
          this.text(shortNames[events.name[at]], from + 4, y + LANE_HEIGHT / 2 + 0.5, width - 9, ink);
        }
        at++;
        continue;
      }
      const pixel = Math.floor(left);
      let next = lowerBound(events.start, at + 1, last, this.valueAt(pixel + 1));
      // The last of them may reach further.
      if (next - 1 > at && (endOf(next - 1) - events.start[next - 1]) * this.scale >= 1.5) next--;
      // How solid it is says how much of the time it covers.
      const covered = (durationsBefore[next] - durationsBefore[at]) * this.scale;
      context.globalAlpha = Math.min(1, 0.3 + 0.7 * covered);
      context.fillRect(pixel, y + 1, 1.5, height);
      context.globalAlpha = 1;
      at = next;
    }
  }
  drawSelection() {
    if (this.selected === null || !events.timed[this.selected]) return;
    const { context } = this;
    const submission = events.submission[this.selected];
    const device = tracks[events.track[this.selected]].device;
    if (Number(submission) !== 0) {
      // Those of the same submission show how it went through the tracks. Far away they would only be dots.
      for (const event of this.related(submission, device)) this.outline(event, colors.accent, 1);
    }
    context.setLineDash([]);
    this.outline(this.selected, colors.selected, 2);
  }
  /// The timed events of a submission, at most 2000.
  related(submission, device) {
    if (this.relatedKey !== `${device} ${submission}`) {
      this.relatedKey = `${device} ${submission}`;
      this.relatedEvents = [];
      for (let at = 0; at < timedCount && this.relatedEvents.length < 2000; at++) {
        if (events.submission[at] === submission && tracks[events.track[at]].device === device) this.relatedEvents.push(at);
      }
    }
    return this.relatedEvents;
  }
  outline(event, color, width) {
    const row = this.rows.find((it) => it.track === events.track[event]);
    const y = this.rowY(row) + events.lane[event] * LANE_HEIGHT;
    const left = Math.max(this.x(events.start[event]), GUTTER - 4);
    const right = Math.min(this.x(endOf(event)), this.width + 4);
    if (right < GUTTER || left > this.width || y + LANE_HEIGHT < 0 || y > this.height) return;
    this.context.strokeStyle = color;
    this.context.lineWidth = width;
    this.context.strokeRect(left, y + 1, Math.max(right - left - 1, 2), LANE_HEIGHT - 2);
  }
  hit(x, y) {
    if (x < GUTTER || y < AXIS_HEIGHT || this.rows.length === 0) return null;
    const row = this.rows[this.rowAt(y - AXIS_HEIGHT + this.top)];
    if (row.track === undefined) return null;
    const lane = Math.floor((y - this.rowY(row)) / LANE_HEIGHT);
    const range = ranges[row.track][lane];
    if (!range) return null;
    const slack = 2.5 / this.scale;
    const at = this.valueAt(x);
    let best = null;
    let distance = slack;
    const candidate = lowerBound(events.start, range[0], range[1], at);
    for (let event = Math.max(range[0], candidate - 2); event < Math.min(range[1], candidate + 2); event++) {
      const away = Math.max(events.start[event] - at, at - endOf(event), 0);
      if (away <= distance) [best, distance] = [event, away];
    }
    return best;
  }
  describe(event) { return describe(event); }
  pick(event) { select(event, "timeline"); }
  /// The next or previous event of the selected one's lane.
  key(key) {
    if (timedCount === 0) return;
    let event = this.selected;
    if (event === null || event >= timedCount) {
      event = this.rows.map((row) => ranges[row.track]?.[0]).find((range) => range && range[0] < range[1])[0];
    } else {
      const [first, last] = ranges[events.track[event]][events.lane[event]];
      event = Math.max(first, Math.min(last - 1, event + (key === "n" ? 1 : -1)));
    }
    select(event, "timeline");
    this.show(event);
  }
  /// Pans and scrolls so that an event is in view; zooms to it if `zooms`.
  show(event, zooms = false) {
    if (!events.timed[event]) return;
    const [start, end] = [events.start[event], endOf(event)];
    if (zooms) {
      const room = Math.max((end - start) * 1.5, this.axis.smallest * 4);
      this.axis.set(start - room, end + room);
    } else if (end < this.axis.from || start > this.axis.to) {
      const half = this.axis.length / 2;
      this.axis.set((start + end) / 2 - half, (start + end) / 2 + half);
    }
    const row = this.rows.find((it) => it.track === events.track[event]);
    const y = row.y + events.lane[event] * LANE_HEIGHT;
    if (y < this.top || y + LANE_HEIGHT + AXIS_HEIGHT > this.top + this.height) this.top = y - this.height / 2;
    this.redraw();
  }
}
