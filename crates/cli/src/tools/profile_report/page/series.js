// Values over time, one row per series, on the axis of the timeline.

const SERIES_HEIGHT = 64;
const MAX_SERIES = 40;

/// The series, or why they cannot be read, which is a matter of their section only.
const { series, error: seriesError } = (() => {
  try {
    return { series: readSeries(), error: null };
  } catch (error) {
    return { series: [], error };
  }
})();
for (const it of series) {
  if (it.time.length > 0) lastMoment = Math.max(lastMoment, it.time[it.time.length - 1]);
}

function readSeries() {
  return activity.series.map((encoded) => {
    const value = column(encoded.value);
    return {
      ...encoded,
      time: times(encoded.time),
      value,
      most: value.reduce((most, it) => Math.max(most, it), 0),
      least: value.reduce((least, it) => Math.min(least, it), 0),
    };
  });
}

const quantity = (it, value) => (it.unit === "bytes" ? bytes(value) : `${Number(value.toPrecision(6))} ${it.unit === "none" ? "" : it.unit}`.trim());

class SeriesView extends View {
  constructor(canvas, axis) {
    super(canvas, axis, GUTTER);
    this.shown = series.slice(0, MAX_SERIES);
    this.contentHeight = AXIS_HEIGHT + this.shown.length * SERIES_HEIGHT + 4;
    this.setHeight(Math.min(this.contentHeight, 420));
    canvas.setAttribute("aria-label", this.shown.map((it) => `${it.name} of device ${it.device}: at most ${quantity(it, it.most)}`).join("; "));
  }
  draw(context) {
    this.drawAxis(moment, AXIS_HEIGHT);
    context.save();
    context.beginPath();
    context.rect(0, AXIS_HEIGHT, this.width, this.height);
    context.clip();
    this.shown.forEach((it, index) => this.drawSeries(it, AXIS_HEIGHT + index * SERIES_HEIGHT - this.top));
    this.drawGutter(AXIS_HEIGHT);
    this.shown.forEach((it, index) => {
      const y = AXIS_HEIGHT + index * SERIES_HEIGHT - this.top;
      this.text(it.name, 8, y + 18, GUTTER - 14, colors.text);
      this.text(it.device === null ? "" : `device ${it.device}`, 8, y + 34, GUTTER - 14, colors.muted);
      this.text(`peak ${quantity(it, it.most)}`, 8, y + 50, GUTTER - 14, colors.muted);
      context.fillStyle = colors.line;
      context.fillRect(0, y + SERIES_HEIGHT - 1, this.width, 1);
    });
    context.restore();
  }
  /// A step per value. Of those within one pixel, a line from the least to the greatest is drawn.
  drawSeries(it, top) {
    const { context, axis } = this;
    const room = SERIES_HEIGHT - 12;
    const range = it.most - it.least || 1;
    const yOf = (value) => top + 6 + room - ((value - it.least) / range) * room;
    const base = yOf(Math.max(it.least, 0));
    let at = Math.max(0, lowerBound(it.time, 0, it.time.length, axis.from) - 1);
    while (at < it.time.length && it.time[at] <= axis.to) {
      const left = Math.max(this.x(it.time[at]), GUTTER);
      const pixel = Math.floor(left) + 1;
      let [least, most] = [it.value[at], it.value[at]];
      let next = at + 1;
      while (next < it.time.length && this.x(it.time[next]) < pixel) {
        least = Math.min(least, it.value[next]);
        most = Math.max(most, it.value[next]);
        next++;
      }
      const value = it.value[next - 1];
      const right = next < it.time.length ? Math.min(this.x(it.time[next]), this.width) : this.width;
      context.fillStyle = colors.area;
      const y = yOf(value);
      context.fillRect(left, Math.min(y, base), right - left, Math.abs(base - y));
      context.fillStyle = colors.accent;
      context.fillRect(left, y - 0.75, Math.max(right - left, 1), 1.5);
      context.fillRect(left, yOf(most), 1, Math.max(yOf(least) - yOf(most), 1));
      at = next;
    }
  }
  hit(x, y) {
    const index = Math.floor((y - AXIS_HEIGHT + this.top) / SERIES_HEIGHT);
    if (x < GUTTER || y < AXIS_HEIGHT || index >= this.shown.length) return null;
    const at = lowerBound(this.shown[index].time, 0, this.shown[index].time.length, this.valueAt(x) + 1e-9) - 1;
    return at < 0 ? null : { index, at };
  }
  describe({ index, at }) {
    const it = this.shown[index];
    return { title: it.name, rows: [["value", quantity(it, it.value[at])], ["since", moment(it.time[at])]] };
  }
}
