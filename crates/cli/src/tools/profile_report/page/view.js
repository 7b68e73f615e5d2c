// A canvas with an axis to zoom and pan, colors, and the tooltip.

let colors = {};
function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["page", "panel", "text", "muted", "line", "grid", "accent", "selected", "plain", "area"];
  colors = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  colors.series = Array.from({ length: 10 }, (_, index) => style.getPropertyValue(`--c${index}`).trim());
  // Black and white have the same contrast, 4.58, to a luminance of 0.179: to any other, one of them has more.
  colors.onSeries = colors.series.map((color) => (luminance(color) > 0.179 ? "#000000" : "#ffffff"));
}

function luminance(color) {
  const parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255);
  const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

const FONT = "12px system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";

/// A span of an axis, which several canvases may share. Values are numbers from `first` to `last`.
class Axis {
  constructor(first, last, smallest) {
    this.first = first;
    this.last = Math.max(last, first + smallest);
    this.smallest = smallest;
    this.listeners = [];
    this.set(this.first, this.last);
  }
  set(from, to) {
    const whole = this.last - this.first;
    const length = Math.min(Math.max(to - from, this.smallest), whole);
    // Zooming keeps the center, panning the length.
    let start = (from + to) / 2 - length / 2;
    start = Math.min(Math.max(start, this.first), this.last - length);
    this.from = start;
    this.to = start + length;
    this.listeners.forEach((listener) => listener());
  }
  get length() { return this.to - this.from; }
  zoom(factor, at = (this.from + this.to) / 2) {
    this.set(at - (at - this.from) / factor, at + (this.to - at) / factor);
  }
  pan(share) { this.set(this.from + share * this.length, this.to + share * this.length); }
  fit() { this.set(this.first, this.last); }
}

/// Values for lines of a grid: a round step apart.
function ticks(axis, width) {
  const rough = (axis.length / Math.max(width, 1)) * 110;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((by) => by * power).find((it) => it >= rough);
  // There is nothing between nanoseconds, records or submissions.
  step = Math.max(step, 1);
  const values = [];
  for (let at = Math.ceil(axis.from / step); at * step <= axis.to && values.length < 200; at++) values.push(at * step);
  return values;
}

/// A canvas that redraws at most once per frame. Subclasses have `draw`, `hit`, and may have `pick` and `key`.
class View {
  constructor(canvas, axis, gutter) {
    Object.assign(this, { canvas, axis, gutter, width: 0, height: 0, top: 0, contentHeight: 0, drawn: 0 });
    this.context = canvas.getContext("2d");
    this.isDue = false;
    axis.listeners.push(() => this.redraw());
    new ResizeObserver(() => this.redraw()).observe(canvas);
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.pointerDown(event));
    canvas.addEventListener("pointermove", (event) => this.pointerMove(event));
    canvas.addEventListener("pointerup", (event) => this.pointerUp(event));
    canvas.addEventListener("pointercancel", () => { this.drag = null; });
    canvas.addEventListener("pointerleave", () => hideTooltip());
    canvas.addEventListener("dblclick", (event) => this.axis.zoom(event.shiftKey ? 0.5 : 2, this.valueAt(event.offsetX)));
    canvas.addEventListener("keydown", (event) => this.keyDown(event));
    views.push(this);
  }
  setHeight(height) { this.canvas.style.height = `${height}px`; }
  redraw() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.paint();
    });
  }
  paint() {
    const { canvas, context } = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    Object.assign(this, { width, height });
    this.scale = Math.max(width - this.gutter, 1) / this.axis.length;
    this.top = Math.max(0, Math.min(this.top, this.contentHeight - height));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colors.page;
    context.fillRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    this.draw(context);
    this.drawn++;
  }
  x(value) { return this.gutter + (value - this.axis.from) * this.scale; }
  valueAt(x) { return this.axis.from + (x - this.gutter) / this.scale; }
  wheel(event) {
    const unit = event.deltaMode === 1 ? 20 : 1;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.axis.zoom(Math.exp(-event.deltaY * unit * 0.002), this.valueAt(Math.max(event.offsetX, this.gutter)));
      return;
    }
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (sideways !== 0) {
      event.preventDefault();
      this.axis.pan((sideways * unit) / this.width);
    } else if (this.scroll(event.deltaY * unit)) {
      event.preventDefault();
    }
  }
  /// Scrolls the rows; returns whether there was room to.
  scroll(by) {
    const before = this.top;
    this.top = Math.max(0, Math.min(this.top + by, this.contentHeight - this.height));
    if (this.top !== before) this.redraw();
    return this.top !== before;
  }
  pointerDown(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { x: event.offsetX, y: event.offsetY, from: this.axis.from, to: this.axis.to, top: this.top, moved: false };
  }
  pointerMove(event) {
    const drag = this.drag;
    if (!drag) return this.hover(event);
    const [right, down] = [event.offsetX - drag.x, event.offsetY - drag.y];
    drag.moved ||= Math.abs(right) + Math.abs(down) > 3;
    if (!drag.moved) return;
    hideTooltip();
    const by = right / this.scale;
    this.axis.set(drag.from - by, drag.to - by);
    this.top = drag.top - down;
    this.redraw();
  }
  pointerUp(event) {
    const drag = this.drag;
    this.drag = null;
    if (drag && !drag.moved) this.pick?.(this.hit(event.offsetX, event.offsetY));
  }
  hover(event) {
    const found = this.hit(event.offsetX, event.offsetY);
    const shown = found === null ? null : this.describe(found);
    if (shown) showTooltip(shown, event.clientX, event.clientY); else hideTooltip();
  }
  keyDown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      ArrowLeft: () => this.axis.pan(-0.15),
      ArrowRight: () => this.axis.pan(0.15),
      ArrowUp: () => this.scroll(-40),
      ArrowDown: () => this.scroll(40),
      "+": () => this.axis.zoom(1.5),
      "=": () => this.axis.zoom(1.5),
      "-": () => this.axis.zoom(1 / 1.5),
      "0": () => this.axis.fit(),
      Home: () => this.axis.pan(-1e9),
      End: () => this.axis.pan(1e9),
      Escape: () => { hideTooltip(); this.pick?.(null); },
    };
    const action = actions[event.key] ?? (this.key && (() => this.key(event.key)));
    if (!action || (!actions[event.key] && !this.keys?.includes(event.key))) return;
    event.preventDefault();
    action();
  }
  /// Clips text with an ellipsis to `width`, and draws it at the left.
  text(text, x, y, width, color) {
    const { context } = this;
    let shown = text;
    if (context.measureText(shown).width > width) {
      let [low, high] = [0, text.length];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle; else high = middle - 1;
      }
      if (low === 0) return;
      shown = text.slice(0, low) + "…";
    }
    context.fillStyle = color;
    context.fillText(shown, x, y);
  }
  /// Draws the axis on top, and its grid down to the bottom.
  drawAxis(label, height) {
    const { context } = this;
    context.fillStyle = colors.panel;
    context.fillRect(0, 0, this.width, height);
    for (const value of ticks(this.axis, this.width - this.gutter)) {
      const x = Math.round(this.x(value)) + 0.5;
      if (x < this.gutter) continue;
      context.fillStyle = colors.grid;
      context.fillRect(x - 0.5, height, 1, this.height);
      context.fillStyle = colors.line;
      context.fillRect(x - 0.5, 0, 1, height);
      context.fillStyle = colors.muted;
      context.fillText(label(value), x + 4, height / 2);
    }
  }
  /// Hides what was drawn left of the axis, so that labels can be drawn there.
  drawGutter(from) {
    const { context } = this;
    context.fillStyle = colors.page;
    context.fillRect(0, from, this.gutter, this.height);
    context.fillStyle = colors.line;
    context.fillRect(this.gutter - 1, 0, 1, this.height);
  }
}

const views = [];

function showTooltip({ title, rows }, x, y) {
  const tooltip = byId("tooltip");
  const list = element("dl");
  for (const [name, value] of rows) list.append(element("dt", name), element("dd", value));
  tooltip.replaceChildren(element("b", title), list);
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = x + 16 + box.width > window.innerWidth ? x - 12 - box.width : x + 16;
  const top = Math.min(y + 14, window.innerHeight - box.height - 8);
  tooltip.style.left = `${Math.max(left, 4)}px`;
  tooltip.style.top = `${Math.max(top, 4)}px`;
}

function hideTooltip() { byId("tooltip").hidden = true; }
