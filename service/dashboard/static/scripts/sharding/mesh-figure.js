/**
 * The mesh: its devices in rows, and the links of each along every axis, as wide as the bytes that it receives there.
 * @module sharding/mesh-figure
 */

import { Figure, font } from "../charts/figure.js";
import { seriesColor } from "../charts/legend.js";
import { color } from "../colors.js";
import { element } from "../dom.js";
import { quantity } from "../units.js";

/** @typedef {import("./columns.js").Columns} Columns */

const MARGIN = 16;
const MOST_CELL = 92;
const LEAST_CELL = 7;
const WIDEST = 11; // px, of the link with the most bytes of all axes
const MOST_SENDERS = 64;

export class MeshFigure extends Figure {
  /**
   * @param {HTMLElement} place @param {Columns} columns
   * @param {(devices: number[]) => void} onPoint with the device under the pointer
   */
  constructor(place, columns, onPoint) {
    super(place, "The mesh: its devices, and the bytes that each receives over its links along every axis");
    this.columns = columns;
    this.onPoint = onPoint;
    const { axes, devices } = columns.mesh;
    this.working = new Map(devices.map((/** @type {number} */ number, /** @type {number} */ k) => [number, k]));
    this.most = Math.max(1, ...axes.flatMap((/** @type {import("./columns.js").Axis} */ axis) => axis.received_bytes));
    /** @type {Set<number>} */
    this.marked = new Set();
    this.pointed = -1;
  }

  /** @param {Iterable<number>} devices */
  mark(devices) {
    this.marked = new Set(devices);
    this.redraw();
  }

  /** Columns and rows of devices, and how they are laid side by side: by the last axis, the one before, all others. */
  get grid() {
    const sizes = this.columns.mesh.axes.map((/** @type {import("./columns.js").Axis} */ axis) => axis.size);
    const across = sizes.at(-1) ?? 1;
    const down = sizes.at(-2) ?? 1;
    const panels = sizes.slice(0, -2).reduce((/** @type {number} */ product, /** @type {number} */ size) => product * size, 1);
    return { across, down, panels };
  }

  /** @override */
  get height() {
    const { across, down, panels } = this.grid;
    const { cell, wide } = this.#cells(across, panels);
    const lines = Math.ceil(panels / wide);
    return Math.ceil(lines * (down * cell + cell / 2) + 2 * MARGIN - (lines > 0 ? cell / 2 : 0));
  }

  /** The size of a cell, and how many panels stand side by side. @param {number} across @param {number} panels */
  #cells(across, panels) {
    const room = Math.max(60, this.width - 2 * MARGIN);
    for (let wide = panels; wide >= 1; wide -= 1) {
      const cell = Math.min(MOST_CELL, room / (wide * (across + 0.5) - 0.5));
      if (cell >= 26 || wide === 1) return { cell: Math.max(LEAST_CELL, cell), wide };
    }
    return { cell: LEAST_CELL, wide: 1 };
  }

  /** The middle of a device of the whole mesh, px. @param {number} number */
  #at(number) {
    const { across, down, panels } = this.grid;
    const { cell, wide } = this.#cells(across, panels);
    const [column, row, panel] = [number % across, Math.floor(number / across) % down, Math.floor(number / (across * down))];
    const left = MARGIN + (panel % wide) * (across + 0.5) * cell;
    const top = MARGIN + Math.floor(panel / wide) * (down + 0.5) * cell;
    return [left + (column + 0.5) * cell, top + (row + 0.5) * cell, cell];
  }

  /** @override @param {import("../charts/pen.js").Pen} pen */
  paint(pen) {
    const { axes, devices } = this.columns.mesh;
    const count = axes.reduce((/** @type {number} */ product, /** @type {{size: number}} */ { size }) => product * size, 1);
    for (let axis = 0; axis < axes.length; axis += 1)
      devices.forEach((/** @type {number} */ number, /** @type {number} */ device) => this.#link(pen, axis, number, device));
    if (this.pointed >= 0) this.#senders(pen, this.pointed);
    for (let number = 0; number < count; number += 1) this.#device(pen, number);
  }

  /**
   * The rail along an axis that a device hangs on, and its link to it.
   * @param {import("../charts/pen.js").Pen} pen @param {number} axis @param {number} number @param {number} device
   */
  #link(pen, axis, number, device) {
    const { axes } = this.columns.mesh;
    const [x, y, cell] = this.#at(number);
    const bytes = axes[axis].received_bytes[device];
    const place = axes.length - 1 - axis;
    const half = cell / 2;
    pen.strokeStyle = color(seriesColor(axis));
    pen.lineWidth = 1;
    pen.globalAlpha = 0.5;
    pen.beginPath();
    if (axes[axis].size > 1 && place === 0) {
      pen.moveTo(x - half, y - half * 0.86);
      pen.lineTo(x + half, y - half * 0.86);
    } else if (axes[axis].size > 1 && place === 1) {
      pen.moveTo(x - half * 0.86, y - half);
      pen.lineTo(x - half * 0.86, y + half);
    }
    pen.stroke();
    pen.globalAlpha = 1;
    if (!bytes) return;
    pen.lineWidth = Math.max(1.5, Math.min(WIDEST, cell / 4) * Math.sqrt(bytes / this.most));
    pen.beginPath();
    if (place === 0) {
      pen.moveTo(x, y - half * 0.86);
      pen.lineTo(x, y - half * 0.5);
    } else if (place === 1) {
      pen.moveTo(x - half * 0.86, y);
      pen.lineTo(x - half * 0.5, y);
    } else {
      const turn = place - 2;
      pen.moveTo(x + half * 0.84, y + half * (0.84 - 0.5 * turn));
      pen.lineTo(x + half * 0.4, y + half * (0.4 - 0.5 * turn));
    }
    pen.stroke();
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {number} number */
  #device(pen, number) {
    const [x, y, cell] = this.#at(number);
    const device = this.working.get(number);
    const half = cell * 0.26;
    pen.beginPath();
    pen.roundRect(x - half, y - half, 2 * half, 2 * half, Math.min(4, half / 2));
    pen.fillStyle = color(device === undefined ? "surface" : this.marked.has(device) ? "mark-fastest" : "raised");
    pen.fill();
    pen.lineWidth = device !== undefined && this.marked.has(device) ? 2.5 : 1;
    pen.strokeStyle = color(device === undefined ? "line" : this.marked.has(device) ? "mark-fastest" : "line-strong");
    pen.setLineDash(device === undefined ? [3, 3] : []);
    pen.stroke();
    pen.setLineDash([]);
    if (cell < 24) return;
    pen.font = font(Math.min(12, cell * 0.26), 600);
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillStyle = color(device === undefined ? "muted" : this.marked.has(device) ? "surface" : "text");
    const { stages } = this.columns.mesh;
    const tall = stages > 1 && device !== undefined && cell > 52;
    pen.fillText(String(number), x, tall ? y - half * 0.3 : y);
    if (!tall) return;
    pen.font = font(9);
    pen.fillText(`stage ${Math.floor(device / this.columns.stageDevices)}`, x, y + half * 0.5);
  }

  /** What a device receives from each other one, as curves. @param {import("../charts/pen.js").Pen} pen @param {number} device */
  #senders(pen, device) {
    const { links, devices, axes } = this.columns.mesh;
    if (!links || devices.length > MOST_SENDERS) return;
    const mine = links.to.flatMap((/** @type {number} */ to, /** @type {number} */ k) => (to === device ? [k] : []));
    const most = Math.max(1, ...mine.map((/** @type {number} */ k) => links.bytes[k]));
    const [x, y] = this.#at(devices[device]);
    for (const k of mine) {
      const [fx, fy, cell] = this.#at(devices[links.from[k]]);
      const [a, b] = [this.columns.placeOf(device), this.columns.placeOf(links.from[k])];
      const axis = axes.findIndex((/** @type {any} */ _, /** @type {number} */ each) => a[each] !== b[each]);
      pen.strokeStyle = color(seriesColor(Math.max(0, axis)));
      pen.globalAlpha = 0.75;
      pen.lineWidth = Math.max(1, (WIDEST / 2) * Math.sqrt(links.bytes[k] / most));
      pen.beginPath();
      pen.moveTo(fx, fy);
      pen.bezierCurveTo(fx, fy + cell * 0.7, x, y + cell * 0.7, x, y);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  /** @override @param {number} x @param {number} y */
  hover(x, y) {
    const { axes, devices } = this.columns.mesh;
    const found = devices.findIndex((/** @type {number} */ number) => {
      const [cx, cy, cell] = this.#at(number);
      return Math.abs(cx - x) <= cell / 2 && Math.abs(cy - y) <= cell / 2;
    });
    if (found < 0) return this.leave();
    if (found !== this.pointed) {
      this.pointed = found;
      this.onPoint([found]);
    }
    this.explain(
      x,
      y,
      element("strong", {}, `Device ${devices[found]}`),
      element("div", {}, this.columns.deviceName(found)),
      axes.map((/** @type {import("./columns.js").Axis} */ axis) =>
        element("div", {}, `${quantity(axis.received_bytes[found], "B")} received over ${axis.name}`),
      ),
    );
  }

  /** @override */
  leave() {
    super.leave();
    if (this.pointed < 0) return;
    this.pointed = -1;
    this.onPoint([]);
  }
}
