// A table that sorts by any column, and has elements only for the rows in view.

const ROW_HEIGHT = 24;

/// Compares numbers, integers of any size and texts; what is missing is last.
function compare(a, b) {
  const [noA, noB] = [a === null || a !== a, b === null || b !== b];
  if (noA || noB) return noA - noB;
  if (typeof a === "string") return a.localeCompare(b);
  return a < b ? -1 : a > b ? 1 : 0;
}

/// `columns` have a title, the value of a row to sort by, and optionally its text (or an element), a width and `isText`.
class Table {
  constructor(root, { label, columns, count, height = 14, sort = null, onPick = null, empty = "Nothing to show." }) {
    Object.assign(this, { columns, onPick, empty });
    this.all = Uint32Array.from({ length: count }, (_, row) => row);
    this.rows = this.all;
    this.sort = sort;
    this.selected = -1;
    this.maxRows = height;
    this.root = element("div", "", { class: "table", role: "table", "aria-label": label });
    const widths = columns.map((it) => it.width ?? (it.isText ? "minmax(120px, 3fr)" : "minmax(72px, 1fr)")).join(" ");
    const head = element("div", "", { class: "head", role: "rowgroup" });
    const headRow = element("div", "", { class: "row", role: "row" });
    headRow.style.gridTemplateColumns = widths;
    this.widths = widths;
    // Where the page is narrower, the table scrolls sideways.
    const least = columns.reduce((all, it) => all + parseInt((it.width ?? (it.isText ? "120" : "72")).replace("minmax(", ""), 10), 0);
    columns.forEach((it, index) => {
      const cell = element("div", "", { role: "columnheader", class: it.isText ? "" : "number" });
      const button = element("button", it.title, { type: "button" });
      button.addEventListener("click", () => this.sortBy(index));
      cell.append(button);
      headRow.append(cell);
    });
    this.headRow = headRow;
    head.append(headRow);
    this.body = element("div", "", { class: "body", role: "rowgroup", tabindex: "0", "aria-label": `rows of ${label}` });
    this.spacer = element("div");
    this.body.append(this.spacer);
    this.body.addEventListener("scroll", () => this.redraw());
    this.body.addEventListener("keydown", (event) => this.keyDown(event));
    new ResizeObserver(() => this.redraw()).observe(this.body);
    head.style.minWidth = this.body.style.minWidth = `${least + 16}px`;
    this.root.append(head, this.body);
    root.replaceChildren(this.root);
    this.arrange();
  }
  /// Sorts by a column: numbers descending first, texts ascending first.
  sortBy(index) {
    const isSame = this.sort?.index === index;
    this.sort = { index, descending: isSame ? !this.sort.descending : !this.columns[index].isText };
    this.arrange();
    this.body.scrollTop = 0;
  }
  /// Shows only the rows for which `keeps` is true; all if it is null.
  filter(keeps) {
    this.keeps = keeps;
    this.arrange();
    this.body.scrollTop = 0;
  }
  arrange() {
    const rows = this.keeps ? this.all.filter(this.keeps) : this.all.slice();
    if (this.sort) {
      const { value } = this.columns[this.sort.index];
      const sign = this.sort.descending ? -1 : 1;
      const keys = new Array(this.all.length);
      for (const row of rows) keys[row] = value(row);
      const missing = (key) => key === null || key !== key;
      // Missing values are last in both orders; equal ones keep theirs.
      rows.sort((a, b) => (missing(keys[a]) || missing(keys[b]) ? 1 : sign) * compare(keys[a], keys[b]) || a - b);
    }
    this.rows = rows;
    [...this.headRow.children].forEach((cell, index) => {
      const isSorted = this.sort?.index === index;
      const order = this.sort?.descending ? "descending" : "ascending";
      cell.setAttribute("aria-sort", isSorted ? order : "none");
      cell.firstChild.textContent = this.columns[index].title + (isSorted ? (this.sort.descending ? " ▾" : " ▴") : "");
    });
    this.root.setAttribute("aria-rowcount", String(rows.length + 1));
    this.spacer.style.height = `${rows.length * ROW_HEIGHT}px`;
    this.body.style.height = `${Math.min(Math.max(rows.length, this.rows.length ? 1 : 2), this.maxRows) * ROW_HEIGHT}px`;
    this.redraw();
  }
  redraw() {
    const first = Math.max(0, Math.floor(this.body.scrollTop / ROW_HEIGHT) - 4);
    const last = Math.min(this.rows.length, first + Math.ceil((this.body.clientHeight || 400) / ROW_HEIGHT) + 8);
    const shown = [this.spacer];
    for (let at = first; at < last; at++) shown.push(this.rowElement(at));
    if (this.rows.length === 0) shown.push(element("div", this.empty, { class: "empty" }));
    this.body.replaceChildren(...shown);
  }
  rowElement(at) {
    const row = this.rows[at];
    const made = element("div", "", { class: "row", role: "row", "aria-rowindex": String(at + 2) });
    made.style.top = `${at * ROW_HEIGHT}px`;
    made.style.gridTemplateColumns = this.widths;
    made.setAttribute("aria-selected", String(row === this.selected));
    for (const it of this.columns) {
      const content = it.text ? it.text(row) : it.value(row);
      const cell = element("div", "", { class: it.isText ? "cell" : "cell number", role: "cell" });
      if (content instanceof Node) cell.append(content);
      else {
        cell.textContent = content === null || content !== content ? "–" : String(content);
        if (it.isText) cell.title = cell.textContent;
      }
      made.append(cell);
    }
    made.addEventListener("click", () => this.pick(row));
    return made;
  }
  pick(row) {
    this.selected = row;
    this.redraw();
    this.onPick?.(row);
  }
  /// Selects a row and scrolls to it; returns whether the table shows it.
  reveal(row) {
    const at = this.rows.indexOf(row);
    this.selected = row;
    if (at >= 0) this.body.scrollTop = Math.max(0, (at - 3) * ROW_HEIGHT);
    this.redraw();
    return at >= 0;
  }
  keyDown(event) {
    const page = Math.floor(this.body.clientHeight / ROW_HEIGHT);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || this.rows.length === 0) return;
    event.preventDefault();
    const before = this.rows.indexOf(this.selected);
    const at = Math.max(0, Math.min(this.rows.length - 1, before < 0 ? 0 : before + step));
    const top = at * ROW_HEIGHT;
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    const bottom = top + ROW_HEIGHT - this.body.clientHeight;
    if (bottom > this.body.scrollTop) this.body.scrollTop = bottom;
    this.pick(this.rows[at]);
  }
}
