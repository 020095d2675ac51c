/**
 * The index box of a tensor, cut as a sharding cuts it: pieces in the colors of the mesh axes that cut them, replicas and
 * terms of a sum as sheets behind.
 * @module sharding/tensor-figure
 */

import { Figure, font } from "../charts/figure.js";
import { seriesColor } from "../charts/legend.js";
import { color } from "../colors.js";
import { element } from "../dom.js";
import { plain, quantity, several } from "../units.js";
import { contains, cutLines, facesOf, layOut, shownDims } from "./box-layout.js";

/** @typedef {import("./columns.js").Columns} Columns */

const MARGIN = { left: 34, right: 12, top: 14, bottom: 26 };
const SHEET = 5; // px between sheets
const MOST_SHEETS = 3; // behind the first
const LEAST_WRITTEN = 15; // px of a piece with the number of its device
const MOST_NAMED = 6; // devices
const MOST_CUTS = 80; // of a dimension that are drawn in full strength

export class TensorFigure extends Figure {
  /**
   * @param {HTMLElement} place @param {Columns} columns @param {number} sharding its number
   * @param {{label: string, names: string[], itemBytes: number, stage: number}} about the tensor: names of its dimensions
   * @param {(devices: number[]) => void} onPoint with the devices of the piece under the pointer
   */
  constructor(place, columns, sharding, about, onPoint) {
    super(place, about.label);
    this.columns = columns;
    this.sharding = columns.shardings[sharding];
    this.pieces = columns.pieces(sharding);
    this.about = about;
    this.onPoint = onPoint;
    this.dims = shownDims(this.sharding.shape, this.sharding.axes);
    /** Devices, numbered stage by stage, of which the piece is shown. @type {Set<number>} */
    this.marked = new Set();
    /** @type {ReturnType<typeof facesOf>} */
    this.faces = [];
    this.first = about.stage * columns.stageDevices;
  }

  /** Mark the pieces of these devices. @param {Iterable<number>} devices */
  mark(devices) {
    this.marked = new Set(devices);
    this.redraw();
  }

  /** @override @param {import("../charts/pen.js").Pen} pen @param {number} width @param {number} height */
  paint(pen, width, height) {
    const { shape } = this.sharding;
    const sheets = Math.min(MOST_SHEETS, this.#copies() - 1);
    const room = { width: width - MARGIN.left - MARGIN.right - sheets * SHEET, height: height - MARGIN.top - MARGIN.bottom - sheets * SHEET };
    const layout = layOut(this.dims.map((dim) => shape[dim]), room.width, room.height);
    layout.left += MARGIN.left;
    layout.top += MARGIN.top + sheets * SHEET;
    this.faces = facesOf(this.pieces, this.dims, shape, layout);
    for (let k = sheets; k > 0; k -= 1) this.#sheet(pen, layout, k * SHEET);
    for (const face of this.faces) this.#face(pen, face);
    this.#cuts(pen, layout);
    for (const face of this.faces) if (this.#isMarked(face.piece)) this.#outline(pen, face.points);
    this.#write(pen, layout);
  }

  /** How many devices hold the same piece, or terms of it. */
  #copies() {
    return this.columns.sizeOf(this.sharding.replicated) * this.columns.sizeOf(this.sharding.partial);
  }

  /**
   * A sheet behind the box: another replica, or with a dashed border another term.
   * @param {import("../charts/pen.js").Pen} pen @param {ReturnType<typeof layOut>} layout @param {number} by px
   */
  #sheet(pen, { left, top, sides, slope }, by) {
    const [x, y, w, h] = [left + by, top - by, sides[2], sides[1]];
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x + slope[0], y - slope[1]);
    pen.lineTo(x + w + slope[0], y - slope[1]);
    pen.lineTo(x + w + slope[0], y + h - slope[1]);
    pen.lineTo(x + w, y + h);
    pen.lineTo(x, y + h);
    pen.closePath();
    pen.fillStyle = color("surface");
    pen.fill();
    const axes = this.columns.axesOf(this.sharding.partial.length ? this.sharding.partial : this.sharding.replicated);
    pen.strokeStyle = axes.length ? color(seriesColor(axes[0])) : color("line-strong");
    pen.lineWidth = 1;
    pen.setLineDash(this.sharding.partial.length ? [3, 3] : []);
    pen.stroke();
    pen.setLineDash([]);
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {ReturnType<typeof facesOf>[number]} face */
  #face(pen, { piece, points, side }) {
    const cut = this.dims.filter((dim) => this.sharding.axes[dim].length);
    trace(pen, points);
    pen.fillStyle = color("surface");
    pen.fill();
    const shade = { front: 0, top: -0.08, right: 0.1 }[side];
    // one hue for each dimension that is cut, so that both are seen where two meet
    for (const dim of cut.length ? cut : [-1]) {
      const fastest = dim < 0 ? undefined : this.columns.axesOf(this.sharding.axes[dim]).at(-1);
      pen.globalAlpha = (0.24 + shade + 0.2 * this.#parity(piece, dim)) / Math.sqrt(Math.max(1, cut.length));
      pen.fillStyle = color(fastest === undefined ? "line-strong" : seriesColor(fastest));
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  /** 0 or 1, another one for the next piece along a dimension. @param {number} piece @param {number} dim -1 for none */
  #parity(piece, dim) {
    if (dim < 0) return 0;
    return this.columns.ranges[this.sharding.ranges[dim]].of_device[this.pieces[piece].devices[0]] % 2;
  }

  /**
   * Borders of the box, and lines where it is cut, each in the color of the mesh axis along which the devices change.
   * @param {import("../charts/pen.js").Pen} pen @param {ReturnType<typeof layOut>} layout
   */
  #cuts(pen, layout) {
    const isDeep = this.dims.length > 2;
    pen.strokeStyle = color("line-strong");
    pen.lineWidth = 1;
    for (const [place, dim] of [...this.dims].reverse().entries())
      for (const share of [0, 1]) this.#lines(pen, cutLines(place + 1, share, isDeep, layout));
    if (this.dims.length < 2) for (const share of [0, 1]) this.#lines(pen, cutLines(2, share, false, layout));
    const isDense = Math.max(0, ...this.dims.map((dim) => this.boundaries(dim).length)) > MOST_CUTS;
    for (const [place, dim] of [...this.dims].reverse().entries()) {
      for (const { at, axis } of this.boundaries(dim).sort((a, b) => b.axis - a.axis)) {
        pen.strokeStyle = color(seriesColor(axis));
        pen.lineWidth = axis === this.columns.axesOf(this.sharding.axes[dim])[0] ? 2.2 : 1.2;
        pen.globalAlpha = isDense ? 0.4 : 1;
        this.#lines(pen, cutLines(place + 1, at, isDeep, layout));
      }
    }
    pen.globalAlpha = 1;
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {[import("./box-layout.js").Point, import("./box-layout.js").Point][]} lines */
  #lines(pen, lines) {
    pen.beginPath();
    for (const [[ax, ay], [bx, by]] of lines) {
      pen.moveTo(ax, ay);
      pen.lineTo(bx, by);
    }
    pen.stroke();
  }

  /** Where a dimension is cut, from 0 to 1, and the slowest mesh axis along which the devices on both sides differ.
   * @param {number} dim @returns {{at: number, axis: number}[]} */
  boundaries(dim) {
    const axes = this.columns.axesOf(this.sharding.axes[dim]);
    if (!axes.length) return [];
    const { bounds, of_device: ofDevice } = this.columns.ranges[this.sharding.ranges[dim]];
    const places = bounds.map((_, k) => this.columns.placeOf(ofDevice.indexOf(k)));
    const size = Math.max(1, this.sharding.shape[dim]);
    return bounds.flatMap(([start], k) =>
      k === 0 || start >= size ? [] : [{ at: start / size, axis: axes.find((axis) => places[k][axis] !== places[k - 1][axis]) ?? axes[0] }],
    );
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {import("./box-layout.js").Point[]} points */
  #outline(pen, points) {
    trace(pen, points);
    pen.lineWidth = 2.5;
    pen.strokeStyle = color("mark-fastest");
    pen.stroke();
  }

  /** @param {number} piece */
  #isMarked(piece) {
    return this.pieces[piece].devices.some((device) => this.marked.has(this.first + device));
  }

  /**
   * Sizes of the dimensions, and the device of each piece where there is room.
   * @param {import("../charts/pen.js").Pen} pen @param {ReturnType<typeof layOut>} layout
   */
  #write(pen, { left, top, sides, slope }) {
    const { shape } = this.sharding;
    const name = (/** @type {number} */ dim) => `${this.about.names[dim] ? `${this.about.names[dim]} ` : ""}${plain(shape[dim])}`;
    const [depth, row, column] = [this.dims.at(-3), this.dims.at(-2), this.dims.at(-1)];
    pen.font = font(11);
    pen.textBaseline = "middle";
    this.#inDims(pen, column, (paint) => {
      pen.textAlign = "center";
      pen.fillText(paint(name), left + sides[2] / 2, top + sides[1] + 13);
    });
    this.#inDims(pen, row, (paint) => {
      pen.save();
      pen.translate(left - 11, top + sides[1] / 2);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "center";
      pen.fillText(paint(name), 0, 0);
      pen.restore();
    });
    this.#inDims(pen, depth, (paint) => {
      pen.textAlign = "right";
      pen.fillText(paint(name), left + slope[0] / 2 - 5, top - slope[1] / 2 - 6);
    });
    pen.fillStyle = color("text");
    pen.font = font(10, 600);
    pen.textAlign = "center";
    for (const { piece, points, side } of this.faces) {
      const [w, h] = [points[1][0] - points[0][0], points[2][1] - points[1][1]];
      const { devices } = this.pieces[piece];
      const text = devices.length === 1 ? String(this.columns.mesh.devices[this.first + devices[0]]) : `${devices.length} ×`;
      if (side === "front" && h >= LEAST_WRITTEN && w >= LEAST_WRITTEN + 4 * text.length && this.pieces.length > 1)
        pen.fillText(text, points[0][0] + w / 2, points[0][1] + h / 2);
    }
  }

  /** Write about a dimension in the color of the axis that cuts it.
   * @param {import("../charts/pen.js").Pen} pen @param {number | undefined} dim
   * @param {(text: (name: (dim: number) => string) => string) => void} write */
  #inDims(pen, dim, write) {
    if (dim === undefined) return;
    const axes = this.columns.axesOf(this.sharding.axes[dim]);
    pen.fillStyle = color(axes.length ? seriesColor(axes[0]) : "muted");
    write((name) => name(dim));
  }

  /** @override @param {number} x @param {number} y */
  hover(x, y) {
    const face = this.faces.findLast(({ points }) => contains(points, x, y));
    if (!face) return this.leave();
    const { box, devices } = this.pieces[face.piece];
    const size = box.reduce((product, [start, end]) => product * (end - start), 1);
    this.onPoint(devices.map((device) => this.first + device));
    this.explain(
      x,
      y,
      element("div", { class: "mono" }, box.length ? `[${box.map(([start, end]) => `${plain(start)} – ${plain(end - 1)}`).join(", ")}]` : "a scalar"),
      element("div", {}, `${quantity(size * this.about.itemBytes, "B")} on ${this.named(devices)}`),
    );
  }

  /** @override */
  leave() {
    super.leave();
    this.onPoint([]);
  }

  /** @param {number[]} devices of a stage */
  named(devices) {
    if (devices.length > MOST_NAMED) return several(devices.length, "device");
    return devices.map((device) => `device ${this.columns.mesh.devices[this.first + device]}`).join(", ");
  }
}

/** @param {import("../charts/pen.js").Pen} pen @param {import("./box-layout.js").Point[]} points */
function trace(pen, points) {
  pen.beginPath();
  points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.closePath();
}
