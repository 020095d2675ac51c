/**
 * What every device does when: a lane for blocks and one per communication queue of each device on a canvas, to be
 * zoomed and moved.
 * @module timeline
 */

import { niceStep } from "./charts/scale.js";
import { color, onTheme } from "./colors.js";
import { element, fill } from "./dom.js";
import { firstAfter } from "./trace.js";
import { quantity, scaleOf, plain } from "./units.js";

/** @typedef {import("./trace.js").Trace} Trace */

const LABELS = 74; // px for `device 12`
const LETTER = 7; // px for each more
const AXIS = 26;
const GAP = 8;
const CLOSEST = 400; // times the whole
const KEYS = { ArrowLeft: [-0.2, 1], ArrowRight: [0.2, 1], "+": [0, 0.6], "=": [0, 0.6], "-": [0, 1 / 0.6] };

/** A canvas of the width of its place. Wheel with Ctrl, buttons, keys and double click zoom; dragging moves. */
export class Timeline {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.canvas = element("canvas", { tabindex: 0, role: "img", "aria-describedby": "timeline-keys" });
    this.tooltip = element("div", { class: "tooltip", hidden: true });
    this.place = element("div", { class: "timeline" }, this.canvas, this.tooltip);
    fill(place, this.place);
    /** @type {Trace | null} */
    this.trace = null;
    this.labels = LABELS; // the width of the devices' names
    this.from = 0;
    this.to = 1;
    this.isWaiting = false;
    this.#listen();
    new ResizeObserver(() => this.redraw()).observe(this.place);
    onTheme(() => this.redraw());
  }

  /** @param {Trace} trace */
  show(trace) {
    this.trace = trace;
    const { devices, end } = trace;
    const longest = devices.reduce((most, { name }) => Math.max(most, name.length), 10);
    this.labels = LABELS + LETTER * (longest - 10);
    this.canvas.setAttribute(
      "aria-label",
      `Timeline of ${devices.length} devices over ${quantity(end, "s")}; the table below has each device's figures`,
    );
    this.whole();
  }

  whole() {
    this.from = 0;
    this.to = this.trace?.end ?? 1;
    this.redraw();
  }

  /** Show more (above 1) or less time around a moment, by default the middle. @param {number} factor @param {number} [around] */
  zoom(factor, around = (this.from + this.to) / 2) {
    const end = this.trace?.end ?? 1;
    const span = Math.min(end, Math.max(end / CLOSEST, (this.to - this.from) * factor));
    this.#look(around - ((around - this.from) / (this.to - this.from)) * span, span);
  }

  /** @param {number} from @param {number} span */
  #look(from, span) {
    const end = this.trace?.end ?? 1;
    this.from = Math.max(0, Math.min(from, end - span));
    this.to = this.from + span;
    this.redraw();
  }

  redraw() {
    if (this.isWaiting || !this.trace) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.#draw();
    });
  }

  /** Height of one lane, px. */
  get lane() {
    const devices = this.trace?.devices.length ?? 1;
    return devices <= 8 ? 15 : devices <= 32 ? 10 : 6;
  }

  get width() {
    return this.place.clientWidth;
  }

  /** @param {number} time */
  #x(time) {
    return this.labels + ((time - this.from) / (this.to - this.from)) * (this.width - this.labels);
  }

  /** @param {number} x */
  #time(x) {
    return this.from + ((x - this.labels) / (this.width - this.labels)) * (this.to - this.from);
  }

  #draw() {
    if (!this.trace || !this.width) return;
    const { devices, streams } = this.trace;
    const height = AXIS + devices.length * (streams.length * this.lane + GAP);
    const ratio = window.devicePixelRatio;
    this.canvas.width = this.width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    this.#drawAxis(pen, height);
    const fills = streams.map((_, j) => color(j ? "communication" : "compute"));
    const [ink, sunken, paper] = ["muted", "sunken", "surface"].map(color);
    devices.forEach((device, k) => {
      const top = AXIS + k * (streams.length * this.lane + GAP);
      pen.fillStyle = ink;
      pen.fillText(device.name, 0, top + this.lane);
      device.lanes.forEach((lane, j) => {
        pen.fillStyle = sunken;
        pen.fillRect(this.labels, top + j * this.lane, this.width - this.labels, this.lane - 1);
        this.#drawLane(pen, lane, top + j * this.lane, fills[j], paper);
      });
    });
  }

  /** @param {CanvasRenderingContext2D} pen @param {number} height */
  #drawAxis(pen, height) {
    const { factor, name } = scaleOf([this.to], "s");
    const step = niceStep(((this.to - this.from) / factor / (this.width - this.labels)) * 110);
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    const [ink, grid] = ["muted", "grid"].map(color);
    for (
      let tick = Math.ceil(this.from / factor / step) * step;
      tick * factor <= this.to * 1.0001;
      tick += step
    ) {
      const x = Math.round(this.#x(tick * factor)) + 0.5;
      pen.fillStyle = grid;
      pen.fillRect(x, AXIS - 6, 1, height);
      pen.fillStyle = ink;
      pen.textAlign = x > this.width - 30 ? "right" : x < this.labels + 8 ? "left" : "center";
      pen.fillText(`${plain(tick, digits)} ${name}`, x, 9);
    }
    pen.textAlign = "left";
  }

  /** @param {CanvasRenderingContext2D} pen @param {import("./trace.js").Lane} lane @param {number} top @param {string} fillStyle @param {string} paper */
  #drawLane(pen, lane, top, fillStyle, paper) {
    const height = this.lane - 1;
    let right = -1;
    for (let k = firstAfter(lane, this.from); k < lane.starts.length && lane.starts[k] < this.to; k++) {
      const left = Math.max(this.labels, this.#x(lane.starts[k]));
      const end = Math.min(this.width, this.#x(lane.ends[k]));
      if (end - right < 0.4) continue; // it would be painted where another is
      const width = Math.max(0.6, end - left - (end - left > 3 ? 0.8 : 0));
      pen.fillStyle = fillStyle;
      pen.fillRect(left, top, width, height);
      right = end;
      if (width > 44 && height > 9) {
        pen.save();
        pen.beginPath();
        pen.rect(left, top, width - 2, height);
        pen.clip();
        pen.fillStyle = paper;
        pen.fillText(lane.names[k], left + 4, top + height / 2 + 0.5);
        pen.restore();
      }
    }
  }

  #listen() {
    const { canvas } = this;
    let dragged = /** @type {{x: number, from: number} | null} */ (null);
    canvas.addEventListener(
      "wheel",
      (/** @type {WheelEvent} */ event) => {
        if (!event.ctrlKey && !event.metaKey) return; // the page's own
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY * 0.002), this.#time(event.offsetX));
      },
      { passive: false },
    );
    canvas.addEventListener("dblclick", (/** @type {MouseEvent} */ event) =>
      this.zoom(0.4, this.#time(event.offsetX)),
    );
    canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      dragged = { x: event.offsetX, from: this.from };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", () => (dragged = null));
    canvas.addEventListener("pointercancel", () => (dragged = null));
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      if (dragged) {
        const span = this.to - this.from;
        this.#look(dragged.from - ((event.offsetX - dragged.x) / (this.width - this.labels)) * span, span);
      }
      this.#explain(event.offsetX, event.offsetY);
    });
    canvas.addEventListener("pointerleave", () => (this.tooltip.hidden = true));
    canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const move = KEYS[/** @type {keyof typeof KEYS} */ (event.key)];
      if (event.key === "0" || event.key === "Home") this.whole();
      else if (move) {
        const span = this.to - this.from;
        if (move[0]) this.#look(this.from + move[0] * span, span);
        else this.zoom(move[1]);
      } else return;
      event.preventDefault();
    });
  }

  /** @param {number} x @param {number} y */
  #explain(x, y) {
    const found = this.#at(x, y);
    this.tooltip.hidden = !found;
    if (!found) return;
    const { lane, k, device, stream } = found;
    const bytes = lane.bytes[k] ? `, ${quantity(lane.bytes[k], "B")}` : "";
    fill(
      this.tooltip,
      element("strong", {}, lane.names[k]),
      element("div", { class: "muted" }, `${device}, ${stream}`),
      element(
        "div",
        {},
        `at ${quantity(lane.starts[k], "s")} for ${quantity(lane.ends[k] - lane.starts[k], "s")}${bytes}`,
      ),
    );
    this.tooltip.style.left = `${Math.max(0, Math.min(x + 14, this.width - this.tooltip.offsetWidth))}px`;
    this.tooltip.style.top = `${y + 16}px`;
  }

  /** @param {number} x @param {number} y */
  #at(x, y) {
    const streams = this.trace?.streams ?? [];
    const each = streams.length * this.lane + GAP;
    const device = this.trace?.devices[Math.floor((y - AXIS) / each)];
    const stream = Math.floor(((y - AXIS) % each) / this.lane);
    const lane = x >= this.labels ? device?.lanes[stream] : undefined;
    if (!device || !lane) return null;
    const k = firstAfter(lane, this.#time(x));
    const isThere = k < lane.starts.length && lane.starts[k] <= this.#time(x + 1);
    return isThere ? { lane, k, device: device.name, stream: streams[stream] } : null;
  }
}
