/**
 * A mesh as its devices and the links between them along every axis.
 * @module devices/topology
 */

import { Figure, font } from "../charts/figure.js";
import { seriesColor } from "../charts/legend.js";
import { color } from "../colors.js";
import { element } from "../dom.js";
import { plain, rounded, several } from "../units.js";

/** @typedef {import("../charts/pen.js").Pen} Pen */
/** @typedef {{name: string, size: number, topology: string, bandwidth_bytes_per_s: number, device_bytes_per_s: number, latency_s: number}} Axis */
/** A place on the drawing: `along` the axis of a link, `off` across it. @typedef {(along: number, off: number) => [number, number]} Turn */

const MARGIN = 18;
const MOST_CELL = 96;
const LEAST_CELL = 16;
const SHARE = 0.24; // of a cell, half the side of a device
const MOST = { across: 16, down: 16, panels: 8 }; // that are drawn
const JOINED = { ring: true, torus: true };
const DRAWN_PAIRS = 8; // devices of a row between all of which links are drawn
const ROUND = 150; // px, the radius of the circle on which devices stand that are all joined

/** The devices of a mesh in rows, by its last two axes; what slower axes join stands side by side. */
export class Topology extends Figure {
  /** @param {HTMLElement} place @param {{name: string, axes: Axis[]}} mesh @param {(axis: number) => void} onAxis when the links of an axis are pointed at */
  constructor(place, mesh, onAxis) {
    super(place, `The mesh ${mesh.name}: its devices and their links; the table beside it has the same`);
    this.axes = mesh.axes;
    this.onAxis = onAxis;
    this.pointed = -1;
    this.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
  }

  /** Columns, rows and panels: of the mesh, and of what is drawn. */
  get grid() {
    const sizes = this.axes.map(({ size }) => size);
    const all = { across: sizes.at(-1) ?? 1, down: sizes.at(-2) ?? 1, panels: sizes.slice(0, -2).reduce((product, size) => product * size, 1) };
    const drawn = { across: Math.min(all.across, MOST.across), down: Math.min(all.down, MOST.down), panels: Math.min(all.panels, MOST.panels) };
    return { all, drawn };
  }

  /** What is not drawn, in words. */
  get leftOut() {
    const { all, drawn } = this.grid;
    const count = drawn.across * drawn.down * drawn.panels;
    const whole = all.across * all.down * all.panels;
    return count < whole ? `${plain(count)} of ${several(whole, "device")} are drawn.` : "";
  }

  /** Whether devices stand on a circle: all of one axis, with a link between any two. */
  get isRound() {
    return this.axes.length === 1 && this.axes[0].topology === "fully_connected" && this.axes[0].size <= MOST.across;
  }

  /** @override */
  get height() {
    if (this.isRound) return 2 * (ROUND + MARGIN) + LEAST_CELL;
    const { drawn } = this.grid;
    const { cell, wide } = this.#cells();
    return Math.ceil(Math.ceil(drawn.panels / wide) * (drawn.down + 0.7) * cell + 2 * MARGIN);
  }

  #cells() {
    if (this.isRound) return { cell: 72, wide: 1 };
    const { drawn } = this.grid;
    const room = Math.max(60, this.width - 2 * MARGIN);
    for (let wide = drawn.panels; wide >= 1; wide -= 1) {
      const cell = Math.min(MOST_CELL, room / (wide * (drawn.across + 0.7)));
      if (cell >= 30 || wide === 1) return { cell: Math.max(LEAST_CELL, cell), wide };
    }
    return { cell: LEAST_CELL, wide: 1 };
  }

  /** The corner of a panel, px. @param {number} panel */
  #corner(panel) {
    const { drawn } = this.grid;
    const { cell, wide } = this.#cells();
    const used = wide * (drawn.across + 0.7) * cell;
    const left = Math.max(MARGIN, (this.width - used) / 2) + 0.35 * cell;
    return [left + (panel % wide) * (drawn.across + 0.7) * cell, MARGIN + 0.45 * cell + Math.floor(panel / wide) * (drawn.down + 0.7) * cell];
  }

  /** The middle of a device, px. @param {number} column @param {number} row @param {number} panel @returns {[number, number]} */
  #at(column, row, panel) {
    if (this.isRound) {
      const angle = (2 * Math.PI * column) / this.axes[0].size - Math.PI / 2;
      const radius = Math.min(ROUND, this.width / 2 - MARGIN) - 8;
      return [this.width / 2 + radius * Math.cos(angle), this.height / 2 + radius * Math.sin(angle)];
    }
    const [left, top] = this.#corner(panel);
    const { cell } = this.#cells();
    return [left + (column + 0.5) * cell, top + (row + 0.5) * cell];
  }

  /** @override @param {Pen} pen */
  paint(pen) {
    const { drawn } = this.grid;
    const { cell } = this.#cells();
    const last = this.axes.length - 1;
    for (let panel = 0; panel < drawn.panels; panel += 1) {
      if (drawn.panels > 1) this.#frame(pen, panel);
      for (let row = 0; row < drawn.down && last >= 0; row += 1) {
        const turn = /** @type {Turn} */ ((along, off) => this.#turned(this.#at(along, row, panel), 0, -off * cell));
        this.#links(pen, last, drawn.across, turn);
      }
      for (let column = 0; column < drawn.across && last >= 1; column += 1) {
        const turn = /** @type {Turn} */ ((along, off) => this.#turned(this.#at(column, along, panel), -off * cell, 0));
        this.#links(pen, last - 1, drawn.down, turn);
      }
    }
    for (let panel = 0; panel < drawn.panels; panel += 1)
      for (let row = 0; row < drawn.down; row += 1)
        for (let column = 0; column < drawn.across; column += 1) this.#device(pen, column, row, panel);
  }

  /** @param {[number, number]} at @param {number} dx @param {number} dy @returns {[number, number]} */
  #turned([x, y], dx, dy) {
    return [x + dx, y + dy];
  }

  /** The links of one axis among the devices of a row or a column. @param {Pen} pen @param {number} axis @param {number} drawn @param {Turn} place */
  #links(pen, axis, drawn, place) {
    const { size, topology } = this.axes[axis];
    if (size < 2) return;
    pen.strokeStyle = color(seriesColor(axis));
    pen.fillStyle = color(seriesColor(axis));
    pen.globalAlpha = this.pointed < 0 || this.pointed === axis ? 1 : 0.25;
    pen.lineWidth = this.pointed === axis ? 3 : 1.75;
    if (topology === "line" || topology in JOINED) this.#chain(pen, place, drawn, topology in JOINED && drawn === size);
    else if (topology === "fully_connected" && (this.isRound || drawn <= DRAWN_PAIRS)) this.#pairs(pen, place, drawn);
    else this.#rail(pen, place, drawn);
    pen.globalAlpha = 1;
  }

  /** From each to the next, and where it is closed from the last back to the first. @param {Pen} pen @param {Turn} place @param {number} count @param {boolean} isClosed */
  #chain(pen, place, count, isClosed) {
    pen.beginPath();
    pen.moveTo(...place(0, 0));
    pen.lineTo(...place(count - 1, 0));
    if (isClosed && count > 2) {
      pen.moveTo(...place(0, 0));
      pen.bezierCurveTo(...place(0, 0.62), ...place(count - 1, 0.62), ...place(count - 1, 0));
    }
    pen.stroke();
  }

  /** @param {Pen} pen @param {Turn} place @param {number} count */
  #pairs(pen, place, count) {
    pen.beginPath();
    for (let from = 0; from < count; from += 1)
      for (let to = from + 1; to < count; to += 1) {
        const off = this.isRound || to === from + 1 ? 0 : 0.2 + (0.42 * (to - from)) / count;
        pen.moveTo(...place(from, 0));
        pen.bezierCurveTo(...place(from, off), ...place(to, off), ...place(to, 0));
      }
    pen.stroke();
  }

  /** A switch, or the top of a tree, to which each device has a link. @param {Pen} pen @param {Turn} place @param {number} count */
  #rail(pen, place, count) {
    pen.beginPath();
    for (let k = 0; k < count; k += 1) {
      pen.moveTo(...place(k, 0));
      pen.lineTo(...place(k, 0.42));
    }
    pen.moveTo(...place(0, 0.42));
    pen.lineTo(...place(count - 1, 0.42));
    pen.stroke();
    const [x, y] = place((count - 1) / 2, 0.42);
    pen.beginPath();
    pen.roundRect(x - 7, y - 5, 14, 10, 3);
    pen.fill();
  }

  /** The frame of what a slower axis joins. @param {Pen} pen @param {number} panel */
  #frame(pen, panel) {
    const { drawn } = this.grid;
    const { cell, wide } = this.#cells();
    const [left, top] = this.#corner(panel);
    const axis = this.axes.length - 3;
    pen.globalAlpha = this.pointed < 0 || this.pointed === axis ? 1 : 0.25;
    pen.strokeStyle = color(seriesColor(axis));
    pen.lineWidth = this.pointed === axis ? 3 : 1.5;
    pen.beginPath();
    pen.roundRect(left - 0.2 * cell, top - 0.2 * cell, (drawn.across + 0.4) * cell, (drawn.down + 0.4) * cell, 6);
    pen.stroke();
    if (panel + 1 < drawn.panels && (panel + 1) % wide) {
      pen.beginPath();
      pen.moveTo(left + (drawn.across + 0.2) * cell, top + (drawn.down / 2) * cell);
      pen.lineTo(left + (drawn.across + 0.5) * cell, top + (drawn.down / 2) * cell);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  /** @param {Pen} pen @param {number} column @param {number} row @param {number} panel */
  #device(pen, column, row, panel) {
    const { all } = this.grid;
    const { cell } = this.#cells();
    const [x, y] = this.#at(column, row, panel);
    const half = SHARE * cell;
    pen.beginPath();
    pen.roundRect(x - half, y - half, 2 * half, 2 * half, Math.min(5, half / 2));
    pen.fillStyle = color("raised");
    pen.fill();
    pen.lineWidth = 1.25;
    pen.strokeStyle = color("line-strong");
    pen.stroke();
    if (cell < 26) return;
    pen.font = font(Math.min(13, cell * 0.26), 600);
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillStyle = color("text");
    pen.fillText(String((panel * all.down + row) * all.across + column), x, y);
  }

  /** @override @param {number} x @param {number} y */
  hover(x, y) {
    const { drawn, all } = this.grid;
    const reach = SHARE * this.#cells().cell + 3;
    for (let panel = 0; panel < drawn.panels; panel += 1)
      for (let row = 0; row < drawn.down; row += 1)
        for (let column = 0; column < drawn.across; column += 1) {
          const [left, top] = this.#at(column, row, panel);
          if (Math.abs(left - x) > reach || Math.abs(top - y) > reach) continue;
          return this.#describe(x, y, (panel * all.down + row) * all.across + column);
        }
    return this.leave();
  }

  /** Say where a device is, and which links it has. @param {number} x @param {number} y px @param {number} number */
  #describe(x, y, number) {
    const lines = this.axes.map((axis, k) => {
      const place = this.#place(number, k);
      return element("div", {}, `${axis.name} ${place}: ${neighbors(axis, place)}`);
    });
    this.explain(x, y, element("strong", {}, `Device ${number}`), ...lines);
  }

  /** Where a device is along an axis. @param {number} number @param {number} axis */
  #place(number, axis) {
    const faster = this.axes.slice(axis + 1).reduce((product, { size }) => product * size, 1);
    return Math.floor(number / faster) % this.axes[axis].size;
  }

  /** Point out the links of an axis; -1: those of all. @param {number} axis */
  point(axis) {
    if (axis === this.pointed) return;
    this.pointed = axis;
    this.redraw();
    this.onAxis(axis);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const count = this.axes.length + 1;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") this.point(-1);
    else if (step) this.point(((this.pointed + 1 + step + count) % count) - 1);
    else return;
    event.preventDefault();
  }
}

/** To which devices of an axis one has links, in words. @param {Axis} axis @param {number} place */
function neighbors({ size, topology, bandwidth_bytes_per_s: rate }, place) {
  const each = rounded(rate, "B/s");
  if (size < 2) return "alone";
  if (topology === "fully_connected") return `a link of ${each} to each of ${size - 1} others`;
  if (topology !== "line" && !(topology in JOINED)) return `one link of ${each} to the ${topology}`;
  const next = [place - 1, place + 1].map((at) => (topology in JOINED ? (at + size) % size : at));
  const beside = [...new Set(next.filter((at) => at >= 0 && at < size))].join(" and ");
  return topology === "ring" ? `receives ${each}, beside ${beside}` : `links of ${each} to ${beside}`;
}
