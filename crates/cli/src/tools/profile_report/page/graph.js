// The graph of semaphores: a row per semaphore, a column per submission. A submission is a line between the semaphores that it
// waits for (circles) and signals (discs); along a row, a wait is joined to the signal that it waits for.

const SEMAPHORE_HEIGHT = 22;

class Graph {
  constructor(encoded) {
    this.count = encoded.count;
    this.id = column(encoded.id);
    this.device = column(encoded.device);
    this.hasDevices = new Set(this.device).size > 1;
    const operation = column(encoded.operation);
    this.operationOf = (submission) => encoded.operations[operation[submission]];
    this.rowOf = new Map();
    this.semaphores = [];
    this.waits = this.lists(encoded.waits);
    this.signals = this.lists(encoded.signals);
    // Semaphores in the order in which submissions first name them.
    for (let submission = 0; submission < this.count; submission++) {
      for (const list of [this.waits, this.signals]) {
        for (let at = list.first[submission]; at < list.first[submission + 1]; at++) list.row[at] = this.row(list.semaphore[at]);
      }
    }
    this.points = this.semaphores.map(() => []);
    this.signalsOf = this.semaphores.map(() => ({ value: [], submission: [] }));
    for (let submission = 0; submission < this.count; submission++) {
      for (const [list, isSignal] of [[this.waits, false], [this.signals, true]]) {
        for (let at = list.first[submission]; at < list.first[submission + 1]; at++) {
          this.points[list.row[at]].push({ submission, isSignal, value: list.value[at] });
          if (isSignal) {
            this.signalsOf[list.row[at]].value.push(list.value[at]);
            this.signalsOf[list.row[at]].submission.push(submission);
          }
        }
      }
    }
    this.columnsOf = this.points.map((points) => Float64Array.from(points, (point) => point.submission));
    for (const signals of this.signalsOf) {
      // Payloads increase, but records of several threads may be in another order.
      const order = signals.value.map((_, index) => index).sort((a, b) => compare(signals.value[a], signals.value[b]));
      signals.submission = order.map((index) => signals.submission[index]);
      signals.value = order.map((index) => signals.value[index]);
    }
    this.successorsOf = new Map();
  }
  lists({ count: counts, semaphore, value }) {
    const lengths = column(counts);
    const first = new Uint32Array(lengths.length + 1);
    for (let at = 0; at < lengths.length; at++) first[at + 1] = first[at] + lengths[at];
    return { first, semaphore: column(semaphore), value: column(value), row: new Uint32Array(first[lengths.length]) };
  }
  row(semaphore) {
    const key = String(semaphore);
    let row = this.rowOf.get(key);
    if (row === undefined) {
      row = this.semaphores.length;
      this.rowOf.set(key, row);
      this.semaphores.push(key);
    }
    return row;
  }
  /// The submission whose signal ends a wait: that of the least payload which is enough. `null` if the host signals it.
  signaller(row, value) {
    const signals = this.signalsOf[row];
    const at = lowerBound(signals.value, 0, signals.value.length, value);
    return at < signals.submission.length ? signals.submission[at] : null;
  }
  pointsOf(list, submission) {
    const found = [];
    for (let at = list.first[submission]; at < list.first[submission + 1]; at++) {
      found.push({ row: list.row[at], value: list.value[at] });
    }
    return found;
  }
  predecessors(submission) {
    const found = this.pointsOf(this.waits, submission).map(({ row, value }) => this.signaller(row, value));
    return [...new Set(found.filter((it) => it !== null && it !== submission))];
  }
  successors(submission) {
    const found = new Set();
    for (const { row } of this.pointsOf(this.signals, submission)) {
      for (const point of this.points[row]) {
        if (!point.isSignal && this.signaller(row, point.value) === submission) found.add(point.submission);
      }
    }
    return [...found];
  }
  /// What a text calls a submission.
  nameOf(submission) {
    const name = `${isTimed ? "submission" : "record"} ${this.id[submission]}`;
    return isTimed && this.hasDevices ? `${name} of device ${this.device[submission]}` : name;
  }
  describe(submission) {
    const list = (points) => points.map(({ row, value }) => `${this.semaphores[row]} ≥ ${value}`);
    const waits = this.pointsOf(this.waits, submission).map(({ row, value }) => {
      const by = this.signaller(row, value);
      return `${this.semaphores[row]} ≥ ${value}${by === null ? " (host)" : ` (${this.nameOf(by)})`}`;
    });
    const signals = list(this.pointsOf(this.signals, submission)).map((text) => text.replace("≥", "="));
    return {
      title: this.operationOf(submission) || "submission",
      rows: [
        [isTimed ? "submission" : "record", String(this.id[submission])],
        ...(this.hasDevices ? [["device", String(this.device[submission])]] : []),
        ["waits for", waits.join(", ") || "nothing"],
        ["signals", signals.join(", ") || "nothing"],
      ],
    };
  }
}

class GraphView extends View {
  constructor(canvas, graph, onPick) {
    super(canvas, new Axis(-0.5, Math.max(graph.count - 0.5, 0.5), Math.min(4, graph.count)), 120);
    Object.assign(this, { graph, onPick, selected: null, near: new Set(), keys: ["n", "p"] });
    this.contentHeight = AXIS_HEIGHT + graph.semaphores.length * SEMAPHORE_HEIGHT + 16;
    this.setHeight(Math.min(Math.max(this.contentHeight, 100), 420));
    canvas.setAttribute("aria-label", `Graph of ${count(graph.count)} submissions and ${count(graph.semaphores.length)} semaphores`);
  }
  rowY(row) { return AXIS_HEIGHT + (row + 0.5) * SEMAPHORE_HEIGHT + 8 - this.top; }
  draw(context) {
    const { graph } = this;
    this.drawAxis((value) => this.axisLabel(value), AXIS_HEIGHT);
    context.save();
    context.beginPath();
    context.rect(0, AXIS_HEIGHT, this.width, this.height);
    context.clip();
    const firstRow = Math.max(0, Math.floor(this.top / SEMAPHORE_HEIGHT) - 1);
    const lastRow = Math.min(graph.semaphores.length, firstRow + Math.ceil(this.height / SEMAPHORE_HEIGHT) + 2);
    const isDetailed = this.scale >= 5;
    if (isDetailed) this.drawSubmissions(firstRow, lastRow);
    for (let row = firstRow; row < lastRow; row++) this.drawRow(row, isDetailed);
    this.drawGutter(AXIS_HEIGHT);
    for (let row = firstRow; row < lastRow; row++) {
      this.text(`semaphore ${graph.semaphores[row]}`, 8, this.rowY(row), this.gutter - 14, colors.muted);
    }
    context.restore();
  }
  axisLabel(value) {
    const submission = Math.round(value);
    return submission >= 0 && submission < this.graph.count ? `#${this.graph.id[submission]}` : "";
  }
  colorOf(submission) {
    if (submission === this.selected) return colors.selected;
    return this.near.has(submission) ? colors.accent : colors.plain;
  }
  /// The line of each submission in view.
  drawSubmissions() {
    const { context, graph, axis } = this;
    const last = Math.min(graph.count - 1, Math.ceil(axis.to));
    for (let submission = Math.max(0, Math.floor(axis.from)); submission <= last; submission++) {
      const rows = [...graph.pointsOf(graph.waits, submission), ...graph.pointsOf(graph.signals, submission)].map((it) => it.row);
      const x = this.x(submission);
      const [top, bottom] = rows.length ? [this.rowY(Math.min(...rows)), this.rowY(Math.max(...rows))] : [AXIS_HEIGHT, AXIS_HEIGHT + 6];
      context.fillStyle = this.colorOf(submission);
      context.fillRect(x - 1, top, 2, Math.max(bottom - top, 2));
      if (this.scale > 90) {
        this.text(graph.operationOf(submission).replace("device.queue_", ""), x + 8, top - 9, this.scale - 14, colors.text);
      }
    }
  }
  drawRow(row, isDetailed) {
    const { context, graph, axis } = this;
    const y = this.rowY(row);
    const columns = graph.columnsOf[row];
    let at = lowerBound(columns, 0, columns.length, axis.from - 1);
    if (!isDetailed) {
      context.fillStyle = colors.plain;
      while (at < columns.length && columns[at] <= axis.to + 1) {
        const pixel = Math.floor(this.x(columns[at]));
        const next = lowerBound(columns, at + 1, columns.length, this.valueAt(pixel + 1));
        const height = Math.min(3 + Math.log2(next - at + 1) * 3, SEMAPHORE_HEIGHT - 4);
        context.fillRect(pixel, y - height / 2, 1, height);
        at = next;
      }
      return;
    }
    // A wait in view, or the first behind it, may be joined to a signal far to the left.
    const last = Math.min(columns.length, lowerBound(columns, at, columns.length, axis.to + 1) + 1);
    for (let point = at; point < last; point++) this.drawWait(row, graph.points[row][point], y);
    for (let point = at; point < last; point++) this.drawPoint(graph.points[row][point], y);
  }
  drawWait(row, point, y) {
    if (point.isSignal) return;
    const { context, graph } = this;
    const by = graph.signaller(row, point.value);
    if (by === point.submission) return;
    const isSelected = point.submission === this.selected || (by !== null && by === this.selected);
    const from = by === null ? this.x(point.submission) - 14 : this.x(by);
    context.fillStyle = isSelected ? colors.accent : colors.plain;
    const [left, right] = [Math.max(Math.min(from, this.x(point.submission)), 0), this.x(Math.max(point.submission, by ?? 0))];
    context.fillRect(left, y - (isSelected ? 1 : 0.5), right - left, isSelected ? 2 : 1);
  }
  drawPoint(point, y) {
    const { context } = this;
    context.beginPath();
    // A submission that waits for a semaphore and signals it is a disc in a circle.
    const radius = point.isSignal ? Math.min(3.5, this.scale / 2.8) : Math.min(5.5, this.scale / 2.2);
    context.arc(this.x(point.submission), y, radius, 0, 2 * Math.PI);
    context.fillStyle = point.isSignal ? (point.submission === this.selected ? colors.selected : colors.series[0]) : colors.page;
    context.fill();
    context.lineWidth = 1.5;
    context.strokeStyle = point.submission === this.selected ? colors.selected : colors.series[0];
    context.stroke();
    if (this.scale > 44) this.text(String(point.value), this.x(point.submission) + 8, y + 8, this.scale / 2, colors.muted);
  }
  hit(x, y) {
    if (x < this.gutter || y < AXIS_HEIGHT) return null;
    const submission = Math.round(this.valueAt(x));
    if (submission < 0 || submission >= this.graph.count) return null;
    return Math.abs(this.x(submission) - x) <= Math.max(8, Math.min(this.scale / 2, 40)) || this.scale < 5 ? submission : null;
  }
  describe(submission) { return this.graph.describe(submission); }
  pick(submission) {
    this.selected = submission;
    this.near = new Set(submission === null ? [] : [...this.graph.predecessors(submission), ...this.graph.successors(submission)]);
    this.onPick(submission);
    this.redraw();
  }
  key(key) {
    if (this.graph.count === 0) return;
    const at = this.selected === null ? 0 : this.selected + (key === "n" ? 1 : -1);
    this.show(Math.max(0, Math.min(this.graph.count - 1, at)));
  }
  /// Selects a submission, and pans to it.
  show(submission) {
    this.pick(submission);
    if (submission < this.axis.from || submission > this.axis.to) {
      const half = this.axis.length / 2;
      this.axis.set(submission - half, submission + half);
    }
  }
}
