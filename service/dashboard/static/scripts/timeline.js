/**
 * What every device does when: a lane for blocks and one per communication queue of each device, to be zoomed, moved and
 * searched, and saved as a picture.
 * @module timeline
 */

import { RIGHT, ticksOf } from "./charts/axes.js";
import { Drag } from "./charts/dragging.js";
import { Figure, font } from "./charts/figure.js";
import { Scale } from "./charts/scale.js";
import { color } from "./colors.js";
import { element } from "./dom.js";
import { kindText } from "./exchange-names.js";
import { firstAfter } from "./trace.js";
import { quantity } from "./units.js";

/** @typedef {import("./trace.js").Trace} Trace */
/** @typedef {import("./trace.js").Lane} Lane */
/** @typedef {import("./charts/pen.js").Pen} Pen */

const AXIS = 26;
const GAP = 10;
const LETTER = 6.4; // px, of labels
const CLOSEST = 4000; // times the whole
const PALE = 0.32; // what is not on the critical path
const LABELS = 76; // px, at least: so that charts beside it have place for theirs
const LEAST_TEXT = 26; // px
const LEAST_LETTERS = 5; // of a name of which some are left out
const KEYS = { ArrowLeft: [-0.2, 1], ArrowRight: [0.2, 1], "+": [0, 0.6], "=": [0, 0.6], "-": [0, 1 / 0.6] };

/** Wheel with Ctrl, buttons, keys and double click zoom; dragging moves. */
export class Timeline extends Figure {
  /**
   * @param {HTMLElement} place @param {(from: number, to: number) => void} [onView] hears what is shown, in seconds
   * @param {(time: number | null) => void} [onCursor] hears which moment the pointer is at
   */
  constructor(place, onView = () => undefined, onCursor = () => undefined) {
    super(place, "Timeline");
    this.canvas.setAttribute("aria-describedby", "timeline-keys");
    this.place.classList.add("timeline");
    this.onView = onView;
    this.onCursor = onCursor;
    /** A moment to be marked, s. @type {number | null} */
    this.cursor = null;
    this.least = 0; // so many seconds are shown at least, also where the trace has fewer
    /** @type {Trace | null} */
    this.trace = null;
    this.labels = 0; // the width of the names of devices and lanes, px
    this.leastLabels = LABELS;
    this.start = ""; // of the names of most spans
    this.from = 0;
    this.to = 1;
    this.showsPath = true;
    /** @type {Set<string>} */
    this.found = new Set();
    this.started = 0; // the moment at the left when dragging began, s
    this.#listen();
  }

  /** @param {Trace} trace */
  show(trace) {
    this.trace = trace;
    this.start = commonStart(trace.devices.flatMap(({ lanes }) => lanes.flatMap(({ names: spans }) => spans)));
    const names = [...trace.devices.map(({ name }) => name), ...(this.#hasLaneNames ? trace.streams : [])];
    const longest = names.reduce((most, name) => Math.max(most, name.length), 8);
    this.labels = Math.max(this.leastLabels, Math.min(longest * LETTER + 12, 190));
    const paths = trace.hasPath ? "; what is not on the critical path is pale" : "";
    this.describe(
      `Timeline of ${trace.devices.length === 1 ? trace.devices[0].name : `${trace.devices.length} ${trace.of}`} over ` +
        `${quantity(trace.end, "s")}${paths}; the tables below have the same figures`,
    );
    this.whole();
  }

  get #end() {
    return Math.max(this.trace?.end ?? 1, this.least);
  }

  whole() {
    this.#look(0, this.#end);
  }

  /** Show a part, without reporting it. @param {number} from @param {number} to s */
  look(from, to) {
    this.from = from;
    this.to = to;
    this.redraw();
  }

  /** The spans as rows, with names and units first. @returns {unknown[][]} */
  rows() {
    const names = ["of", "lane", "name", "kind", "start (s)", "end (s)", "bytes (B)", "critical"];
    const { devices = [], streams = [] } = this.trace ?? {};
    const spans = devices.flatMap(({ name, lanes }) =>
      lanes.flatMap((lane, j) =>
        lane.names.map((span, k) => [
          ...[name, streams[j], span, lane.kinds[k], lane.starts[k], lane.ends[k], lane.bytes[k]],
          lane.critical ? lane.critical[k] === 1 : "",
        ]),
      ),
    );
    return [names, ...spans];
  }

  /** Mark a moment, or none. @param {number | null} time s */
  point(time) {
    this.cursor = time;
    this.redraw();
  }

  /** Show the critical path, or everything alike. @param {boolean} isShown */
  path(isShown) {
    this.showsPath = isShown;
    this.redraw();
  }

  /** Mark the spans whose names have a text in them; their number. @param {string} text @returns {number} */
  find(text) {
    const wanted = text.trim().toLowerCase();
    return this.mark(wanted ? (name) => name.toLowerCase().includes(wanted) : () => false);
  }

  /** Mark the spans of some names; their number. @param {(name: string) => boolean} isWanted @returns {number} */
  mark(isWanted) {
    this.found = new Set();
    let count = 0;
    for (const { lanes } of this.trace?.devices ?? [])
      for (const { names } of lanes)
        for (const name of names)
          if (isWanted(name)) {
            count += 1;
            this.found.add(name);
          }
    this.redraw();
    return count;
  }

  /** Bring the next marked span into view that begins after the one in the middle; around to the first. */
  next() {
    const middle = (this.from + this.to) / 2;
    let [first, after] = /** @type {([number, number] | null)[]} */ ([null, null]);
    for (const { lanes } of this.trace?.devices ?? [])
      for (const lane of lanes)
        for (let k = 0; k < lane.starts.length; k += 1) {
          if (!this.found.has(lane.names[k])) continue;
          const span = /** @type {[number, number]} */ ([lane.starts[k], lane.ends[k]]);
          const at = (span[0] + span[1]) / 2;
          if (!first || span[0] < first[0]) first = span;
          if (at > middle * 1.0000001 && (!after || span[0] < after[0])) after = span;
        }
    const target = after ?? first;
    if (!target || !this.trace) return;
    const width = Math.max((target[1] - target[0]) * 6, this.trace.end / CLOSEST);
    const span = Math.min(this.to - this.from, width);
    this.#look((target[0] + target[1]) / 2 - span / 2, span);
  }

  /** Show more (above 1) or less time around a moment, by default the middle. @param {number} factor @param {number} [around] */
  zoom(factor, around = (this.from + this.to) / 2) {
    const end = this.#end;
    const span = Math.min(end, Math.max(end / CLOSEST, (this.to - this.from) * factor));
    this.#look(around - ((around - this.from) / (this.to - this.from)) * span, span);
  }

  /** @param {number} from @param {number} span */
  #look(from, span) {
    const end = this.#end;
    this.from = Math.max(0, Math.min(from, end - span));
    this.to = this.from + span;
    this.onView(this.from, this.to);
    this.redraw();
  }

  get #laneCount() {
    return (this.trace?.devices.length ?? 1) * (this.trace?.streams.length ?? 2);
  }

  get #hasLaneNames() {
    return this.#laneCount <= 24;
  }

  /** Height of one lane, px. */
  get lane() {
    const lanes = this.#laneCount;
    return lanes <= 4 ? 32 : lanes <= 12 ? 24 : lanes <= 24 ? 18 : lanes <= 64 ? 12 : 6;
  }

  get height() {
    const { devices, streams } = this.trace ?? { devices: [], streams: [] };
    return this.trace ? AXIS + devices.length * (streams.length * this.lane + GAP) : 0;
  }

  /** Where the axis of the time ends, px. */
  get #right() {
    return this.width - RIGHT;
  }

  /** @param {number} time */
  #x(time) {
    return this.labels + ((time - this.from) / (this.to - this.from)) * (this.#right - this.labels);
  }

  /** @param {number} x */
  #time(x) {
    return this.from + ((x - this.labels) / (this.#right - this.labels)) * (this.to - this.from);
  }

  /** @param {Pen} pen @param {number} _width @param {number} height */
  paint(pen, _width, height) {
    if (!this.trace) return;
    const { devices, streams } = this.trace;
    pen.font = font(11);
    pen.textBaseline = "middle";
    this.#paintAxis(pen, height);
    const ink = ["muted", "sunken", "surface", "text"].map(color);
    const fills = streams.map((_, j) => color(j ? "communication" : "compute"));
    devices.forEach((device, k) => {
      const top = AXIS + k * (streams.length * this.lane + GAP);
      this.#paintNames(pen, device.name, streams, top, ink);
      device.lanes.forEach((lane, j) => {
        const at = top + j * this.lane;
        pen.fillStyle = ink[1];
        pen.fillRect(this.labels, at, this.#right - this.labels, this.lane - 1);
        this.#paintLane(pen, lane, at, fills[j], ink, j === 0);
      });
    });
    if (this.cursor === null || this.cursor < this.from || this.cursor > this.to) return;
    pen.fillStyle = ink[3];
    pen.fillRect(Math.round(this.#x(this.cursor)), AXIS - 6, 1, height);
  }

  /** @param {Pen} pen @param {string} name @param {string[]} streams @param {number} top @param {string[]} ink */
  #paintNames(pen, name, streams, top, ink) {
    pen.textAlign = "left";
    const isOne = this.trace?.devices.length === 1;
    streams.forEach((stream, j) => {
      const isFirst = j === 0;
      if (!isFirst && !this.#hasLaneNames) return;
      pen.fillStyle = ink[isFirst ? 3 : 0];
      const text = isFirst && !isOne ? name : stream;
      pen.fillText(fitted(pen, text, this.labels - 8), 0, top + j * this.lane + this.lane / 2);
    });
  }

  /** @param {Pen} pen @param {number} height */
  #paintAxis(pen, height) {
    const scale = new Scale(this.from, this.to, { unit: "s" });
    const [ink, grid] = ["muted", "grid"].map(color);
    for (const { value, text } of ticksOf(scale, this.#right - this.labels, "x")) {
      const x = Math.round(this.#x(value)) + 0.5;
      pen.fillStyle = grid;
      pen.fillRect(x, AXIS - 6, 1, height);
      pen.fillStyle = ink;
      pen.textAlign = x > this.#right - 24 ? "right" : x < this.labels + 8 ? "left" : "center";
      pen.fillText(`${text} ${scale.unit}`, Math.min(x, this.#right), 9);
    }
    pen.textAlign = "left";
  }

  /** @param {Pen} pen @param {Lane} lane @param {number} top @param {string} fillStyle @param {string[]} ink @param {boolean} hasWaits */
  #paintLane(pen, lane, top, fillStyle, ink, hasWaits) {
    const height = this.lane - 1;
    const isPale = this.showsPath && lane.critical !== null;
    const accent = color("mark-fastest");
    let right = -1;
    let before = firstAfter(lane, this.from) > 0 ? this.from : 0;
    for (let k = firstAfter(lane, this.from); k < lane.starts.length && lane.starts[k] < this.to; k++) {
      const left = Math.max(this.labels, this.#x(lane.starts[k]));
      const end = Math.min(this.#right, this.#x(lane.ends[k]));
      if (hasWaits) this.#paintWait(pen, before, lane.starts[k], top, ink[0]);
      before = lane.ends[k];
      if (end - right < 0.4) continue; // it would be painted where another is
      const width = Math.max(0.6, end - left - (end - left > 3 ? 1 : 0));
      const isFaded = isPale && !lane.critical?.[k];
      pen.globalAlpha = isFaded ? PALE : 1;
      pen.fillStyle = fillStyle;
      pen.fillRect(left, top, width, height);
      pen.globalAlpha = 1;
      if (this.found.has(lane.names[k])) {
        pen.fillStyle = accent;
        pen.fillRect(left, top, Math.max(2, width), 3);
        pen.fillRect(left, top + height - 3, Math.max(2, width), 3);
      }
      right = end;
      if (width < LEAST_TEXT || height < 11) continue;
      pen.fillStyle = isFaded ? ink[3] : ink[2];
      const text = fitted(pen, lane.names[k], width - 8, this.start);
      if (text) pen.fillText(text, left + 4, top + height / 2 + 0.5);
    }
    if (hasWaits) this.#paintWait(pen, before, Math.min(this.to, this.trace?.end ?? 0), top, ink[0]);
  }

  /** @param {Pen} pen @param {number} from @param {number} to @param {number} top @param {string} ink */
  #paintWait(pen, from, to, top, ink) {
    const [left, right] = [Math.max(this.labels, this.#x(from)), Math.min(this.#right, this.#x(to))];
    if (right - left < 64 || this.lane < 12) return;
    pen.fillStyle = ink;
    const text = `waits ${quantity(to - from, "s")}`;
    if (pen.measureText(text).width <= right - left - 8) pen.fillText(text, left + 4, top + this.lane / 2);
  }

  #listen() {
    const { canvas } = this;
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
    new Drag(canvas, {
      begin: () => (this.started = this.from),
      move: ([from], [to]) => this.#drag(to - from),
      hasTouch: true,
    });
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

  /** Move the drawing. @param {number} by px from where dragging began */
  #drag(by) {
    const span = this.to - this.from;
    this.#look(this.started - (by / (this.#right - this.labels)) * span, span);
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    this.onCursor(x >= this.labels && x <= this.#right ? this.#time(x) : null);
    const found = x <= this.#right ? this.#at(x, y) : null;
    if (!found) return super.leave();
    const { lane, k, device, stream } = found;
    const bytes = lane.bytes[k] ? `, ${quantity(lane.bytes[k], "B")}` : "";
    const path = lane.critical ? (lane.critical[k] ? "on the critical path" : "not on the critical path") : "";
    const kind = [kindText(lane.kinds[k]), path].filter(Boolean).join(", ");
    return this.explain(
      x,
      y,
      element("strong", {}, lane.names[k]),
      element("div", { class: "muted" }, `${device}, ${stream}`),
      kind ? element("div", { class: "muted" }, kind) : null,
      element(
        "div",
        {},
        `at ${quantity(lane.starts[k], "s")} for ${quantity(lane.ends[k] - lane.starts[k], "s")}${bytes}`,
      ),
    );
  }

  leave() {
    super.leave();
    this.onCursor(null);
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

/**
 * The first word of names with what follows it, such as `node_`, where most have it: it says nothing of any of them.
 * @param {string[]} names
 */
function commonStart(names) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const name of names) {
    const [word] = /^[^\W_]+[._]/.exec(name) ?? [""];
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const [start, count] = [...counts].reduce((most, one) => (one[1] > most[1] ? one : most), ["", 0]);
  return count > names.length / 2 ? start : "";
}

/**
 * A text that is no wider than its place; nothing where too little would be left of it. Without a start that most have, and
 * then with an ellipsis in the middle: names say at their starts what a block is, and at their ends which one.
 * @param {Pen} pen @param {string} text @param {number} width px @param {string} [start]
 */
function fitted(pen, text, width, start = "") {
  const needed = pen.measureText(text).width;
  if (needed <= width) return text;
  const letters = Math.floor((text.length * width) / needed);
  const rest = start && text.startsWith(start) ? text.slice(start.length) : text;
  if (rest.length <= letters) return rest;
  if (letters < LEAST_LETTERS) return "";
  const head = Math.floor((letters - 1) / 2);
  return `${rest.slice(0, head)}…${rest.slice(1 + head - letters)}`;
}
