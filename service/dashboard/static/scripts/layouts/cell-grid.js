/**
 * Many cells in rows, of which a part is in view: scrolled, zoomed, pointed at by the pointer and by keys.
 * @module layouts/cell-grid
 */

import { Figure, font } from "../charts/figure.js";
import { seriesColor } from "../charts/legend.js";
import { color } from "../colors.js";
import { element } from "../dom.js";

/** @typedef {import("../charts/pen.js").Pen} Pen */
/** So many cells from the one numbered `first` on, in rows of `width`, under a title. @typedef {{title: string, first: number, count: number, width: number}} Block */
/**
 * What cells show: texts, numbers of colors (-1 for padding), and borders above and to the left: 0 none, 1 and 2 thin, 3 strong.
 * @typedef {{blocks: Block[], text: (cell: number) => string, hue: (cell: number) => number, above: (cell: number) => number,
 *   left: (cell: number) => number, longest: number}} Cells
 */

const ZOOMS = [0.2, 0.35, 0.6, 0.8, 1, 1.4, 2];
const ROW = 24; // px, of a cell at a zoom of 1
const LETTER = 6.7; // px
const TITLE = 26;
const GAP = 14;
const MARGIN = 10;
const READABLE = 0.8;
const STROKES = [0.5, 1, 1.75, 3];
const MOST_SAVED = 2 ** 14; // cells of a picture; of more only those in view
const WIDEST = 4096; // px
const [LOWEST, HIGHEST, SCROLLBAR] = [160, 560, 18]; // px

/** A grid of cells with one that is pointed at and some that are marked. */
export class CellGrid extends Figure {
  /** @param {HTMLElement} place @param {string} label @param {{onPoint: (cell: number) => void, onPin: (cell: number) => void}} listeners */
  constructor(place, label, { onPoint, onPin }) {
    super(place, label);
    this.onPoint = onPoint;
    this.onPin = onPin;
    this.spacer = element("div", { class: "cell-space" });
    this.place.classList.add("cells");
    this.place.append(this.spacer);
    /** @type {Cells | null} */
    this.cells = null;
    this.zoom = 1;
    this.pointed = -1;
    /** @type {Set<number>} */
    this.marked = new Set();
    this.place.addEventListener("scroll", () => this.redraw());
    this.place.addEventListener("wheel", (/** @type {WheelEvent} */ event) => this.#wheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
    this.canvas.addEventListener("click", () => this.pointed >= 0 && this.onPin(this.pointed));
  }

  /** @param {Cells} cells */
  show(cells) {
    this.cells = cells;
    this.pointed = -1;
    this.marked = new Set();
    this.#fit();
    this.place.scrollTo(0, 0);
    this.redraw();
  }

  /** The largest cells with which all is in view, or those of the usual size. */
  #fit() {
    for (const zoom of [...ZOOMS].reverse()) {
      this.zoom = Math.max(1, zoom);
      this.#measure();
      if (zoom <= 1 || (this.whole.width <= this.place.clientWidth && this.whole.height <= HIGHEST)) return;
    }
  }

  /** Where blocks are, and how large cells are, px. */
  #measure() {
    const { blocks, longest } = /** @type {Cells} */ (this.cells);
    this.cell = { width: Math.max(14, (longest * LETTER + 10) * this.zoom), height: ROW * this.zoom };
    if (this.zoom < READABLE) this.cell.width = Math.max(3, this.cell.height * 1.4);
    let top = MARGIN;
    /** @type {number[]} */
    this.tops = blocks.map(({ title, count, width }) => {
      const own = top + (title ? TITLE : 0);
      top = own + Math.ceil(count / width) * this.cell.height + GAP;
      return own;
    });
    const widest = blocks.reduce((most, { width, count }) => Math.max(most, Math.min(width, count)), 0);
    this.whole = { width: Math.ceil(widest * this.cell.width + 2 * MARGIN), height: Math.ceil(top) };
    this.spacer.style.width = `${this.whole.width}px`;
    this.spacer.style.height = `${this.whole.height}px`;
    const frame = /** @type {HTMLElement} */ (this.place.parentElement);
    frame.style.height = `${Math.min(HIGHEST, Math.max(LOWEST, this.whole.height + SCROLLBAR))}px`;
  }

  /** Cells larger or smaller, with what is pointed at in view. @param {number} steps */
  zoomBy(steps) {
    if (!this.cells) return;
    const at = ZOOMS.indexOf(this.zoom) + steps;
    const next = ZOOMS[Math.min(ZOOMS.length - 1, Math.max(0, at))];
    if (next === this.zoom) return;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.place;
    const share = [(scrollLeft + clientWidth / 2) / this.whole.width, (scrollTop + clientHeight / 2) / this.whole.height];
    this.zoom = next;
    this.#measure();
    this.place.scrollTo(share[0] * this.whole.width - clientWidth / 2, share[1] * this.whole.height - clientHeight / 2);
    if (this.pointed >= 0) this.reveal(this.pointed);
    this.redraw();
  }

  /** The place of a cell in the whole drawing, px. @param {number} cell @returns {[number, number]} */
  at(cell) {
    const k = this.#blockOf(cell);
    const { first, width } = /** @type {Cells} */ (this.cells).blocks[k];
    const [row, column] = [Math.floor((cell - first) / width), (cell - first) % width];
    return [MARGIN + column * this.cell.width, this.tops[k] + row * this.cell.height];
  }

  /** @param {number} cell */
  #blockOf(cell) {
    const { blocks } = /** @type {Cells} */ (this.cells);
    let [low, high] = [0, blocks.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (blocks[middle].first <= cell) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Scroll as little as brings a cell into view. @param {number} cell */
  reveal(cell) {
    const [left, top] = this.at(cell);
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.place;
    const within = (/** @type {number} */ now, /** @type {number} */ from, /** @type {number} */ size, /** @type {number} */ room) =>
      Math.max(from + size + MARGIN - room, Math.min(now, from - MARGIN));
    this.place.scrollTo(within(scrollLeft, left, this.cell.width, clientWidth), within(scrollTop, top, this.cell.height, clientHeight));
  }

  /** Mark cells, and bring the first of them into view if none is. @param {number[]} marked @param {boolean} isRevealed */
  mark(marked, isRevealed) {
    this.marked = new Set(marked);
    if (isRevealed && marked.length && !marked.some((cell) => this.#isInView(cell))) this.reveal(marked[0]);
    this.redraw();
  }

  /** @param {number} cell */
  #isInView(cell) {
    const [left, top] = this.at(cell);
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.place;
    return left >= scrollLeft && top >= scrollTop && left + this.cell.width <= scrollLeft + clientWidth && top + this.cell.height <= scrollTop + clientHeight;
  }

  /** Point at a cell, as the pointer does; -1: at none. @param {number} cell */
  point(cell) {
    if (cell === this.pointed) return;
    this.pointed = cell;
    this.redraw();
  }

  /** @override @param {Pen} pen @param {number} width @param {number} height */
  paint(pen, width, height) {
    const { scrollLeft, scrollTop } = this.place;
    this.#paintFrom(pen, scrollLeft, scrollTop, width, height);
  }

  /** Draw what a window on the whole drawing shows. @param {Pen} pen @param {number} x @param {number} y @param {number} width @param {number} height px */
  #paintFrom(pen, x, y, width, height) {
    if (!this.cells) return;
    const { cell } = this;
    this.cells.blocks.forEach((block, k) => {
      const top = this.tops[k] - y;
      const rows = Math.ceil(block.count / block.width);
      if (top - TITLE > height || top + rows * cell.height < 0) return;
      if (block.title) this.#title(pen, block.title, MARGIN - x, top - TITLE / 2);
      const [from, to] = [Math.max(0, Math.floor(-top / cell.height)), Math.min(rows, Math.ceil((height - top) / cell.height))];
      const [left, right] = [Math.max(0, Math.floor((x - MARGIN) / cell.width)), Math.min(block.width, Math.ceil((x - MARGIN + width) / cell.width))];
      for (const part of [this.#fill, this.#lines, this.#sign])
        for (let row = from; row < to; row += 1)
          for (let column = left; column < right; column += 1) {
            const number = row * block.width + column;
            if (number < block.count) part.call(this, pen, block.first + number, MARGIN - x + column * cell.width, top + row * cell.height);
          }
    });
  }

  /** @param {Pen} pen @param {string} title @param {number} x @param {number} y */
  #title(pen, title, x, y) {
    pen.font = font(12, 600);
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillStyle = color("muted");
    pen.fillText(title, x, y);
  }

  /** @param {Pen} pen @param {number} number @param {number} x @param {number} y */
  #fill(pen, number, x, y) {
    const hue = /** @type {Cells} */ (this.cells).hue(number);
    const { width, height } = this.cell;
    pen.fillStyle = color(hue < 0 ? "sunken" : seriesColor(hue));
    pen.globalAlpha = hue < 0 ? 1 : 0.22;
    pen.fillRect(x, y, width, height);
    pen.globalAlpha = 1;
    if (hue >= 0 || height < 8) return;
    pen.strokeStyle = color("line");
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x, y + height);
    pen.lineTo(x + Math.min(width, height), y + height - Math.min(width, height));
    pen.stroke();
  }

  /** The borders of a cell above and to the left. @param {Pen} pen @param {number} number @param {number} x @param {number} y */
  #lines(pen, number, x, y) {
    const { width, height } = this.cell;
    const { above, left } = /** @type {Cells} */ (this.cells);
    const isFine = height < 8;
    this.#line(pen, above(number), isFine, x, y, x + width, y);
    this.#line(pen, left(number), isFine, x, y, x, y + height);
  }

  /** @param {Pen} pen @param {number} kind @param {boolean} isFine @param {number} x @param {number} y @param {number} right @param {number} bottom */
  #line(pen, kind, isFine, x, y, right, bottom) {
    if (!kind && isFine) return;
    pen.strokeStyle = color(kind ? "text" : "line");
    pen.lineWidth = STROKES[kind];
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(right, bottom);
    pen.stroke();
  }

  /** The text of a cell, and whether it is marked. @param {Pen} pen @param {number} number @param {number} x @param {number} y */
  #sign(pen, number, x, y) {
    const { width, height } = this.cell;
    const { text, hue } = /** @type {Cells} */ (this.cells);
    const isMarked = this.marked.has(number);
    if (isMarked) {
      pen.fillStyle = color("mark-fastest");
      pen.fillRect(x, y, width, height);
    }
    if (number === this.pointed) {
      pen.strokeStyle = color("mark-fastest");
      pen.lineWidth = 2.5;
      pen.strokeRect(x + 1.25, y + 1.25, width - 2.5, height - 2.5);
    }
    if (this.zoom < READABLE) return;
    pen.font = font(Math.min(14, 11.5 * Math.min(this.zoom, 1.2)), isMarked || number === this.pointed ? 650 : 400);
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillStyle = color(isMarked ? "surface" : hue(number) < 0 ? "muted" : "text");
    pen.fillText(text(number), x + width / 2, y + height / 2);
  }

  /** The cell at a place of the view, or -1. @param {number} x @param {number} y px */
  #cellAt(x, y) {
    if (!this.cells) return -1;
    const [left, top] = [x + this.place.scrollLeft - MARGIN, y + this.place.scrollTop];
    const column = Math.floor(left / this.cell.width);
    for (let k = this.tops.length - 1; k >= 0; k -= 1) {
      if (top < this.tops[k]) continue;
      const { first, count, width } = this.cells.blocks[k];
      const number = Math.floor((top - this.tops[k]) / this.cell.height) * width + column;
      return column >= 0 && column < width && number < count ? first + number : -1;
    }
    return -1;
  }

  /** @override @param {number} x @param {number} y */
  hover(x, y) {
    const found = this.#cellAt(x, y);
    if (found === this.pointed) return;
    this.point(found);
    this.onPoint(found);
  }

  /** @override */
  leave() {
    super.leave();
    if (this.pointed < 0) return;
    this.point(-1);
    this.onPoint(-1);
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    this.zoomBy(event.deltaY < 0 ? 1 : -1);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (!this.cells) return;
    const last = this.cells.blocks.reduce((most, { first, count }) => Math.max(most, first + count - 1), -1);
    const now = Math.max(0, this.pointed);
    const { width } = this.cells.blocks[this.#blockOf(now)];
    /** @type {Record<string, number>} */
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: width, ArrowUp: -width, PageDown: 8 * width, PageUp: -8 * width };
    if (event.key in steps) this.#go(this.pointed < 0 ? 0 : now + steps[event.key], last);
    else if (event.key === "Home") this.#go(0, last);
    else if (event.key === "End") this.#go(last, last);
    else if (event.key === "+" || event.key === "-") this.zoomBy(event.key === "+" ? 1 : -1);
    else if (event.key === "Enter" && this.pointed >= 0) this.onPin(this.pointed);
    else if (event.key === "Escape") this.leave();
    else return;
    event.preventDefault();
  }

  /** @param {number} cell @param {number} last */
  #go(cell, last) {
    if (cell < 0 || cell > last) return;
    this.point(cell);
    this.reveal(cell);
    this.onPoint(cell);
  }

  /** What is saved: all of it, or where there is too much what is in view. */
  get #saved() {
    const count = this.cells?.blocks.reduce((sum, block) => sum + block.count, 0) ?? 0;
    const isWhole = count <= MOST_SAVED && Math.max(this.whole.width, this.whole.height) <= WIDEST;
    return isWhole
      ? { x: 0, y: 0, ...this.whole }
      : { x: this.place.scrollLeft, y: this.place.scrollTop, width: this.width, height: this.height };
  }

  /** @override */
  svg() {
    const { x, y, width, height } = this.#saved;
    return this.svgOf(width, height, (pen) => this.#paintFrom(pen, x, y, width, height));
  }

  /** @override */
  png() {
    const { x, y, width, height } = this.#saved;
    return this.pngOf(width, height, (pen) => this.#paintFrom(pen, x, y, width, height));
  }
}
