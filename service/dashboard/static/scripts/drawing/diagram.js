/**
 * A program as a diagram: its blocks from inputs to outputs, with repeated layers folded into one node until they are
 * opened.
 * @module drawing/diagram
 */

import { color, onTheme } from "../colors.js";
import { element, fill } from "../dom.js";
import { quantity, several } from "../units.js";
import { coloring } from "./coloring.js";
import { layered } from "./layered.js";
import { Minimap } from "./minimap.js";
import { paint, segmentsOf } from "./painter.js";
import { Viewport } from "./viewport.js";
import { around, visible } from "./visible.js";

/** @typedef {import("./visible.js").Drawing} Drawing */
/** @typedef {import("./visible.js").Visible} Visible */
/** @typedef {import("./painter.js").Picture} Picture */
/** A canvas that shows the drawing, or one side of it. @typedef {{canvas: HTMLCanvasElement, viewport: Viewport,
 *   picture: Picture | null, segments: number[][]}} Pane */
/** Two sides of a drawing: its faces, and pictures of both with the places of the whole.
 * @typedef {{faces: (node: import("./visible.js").VisibleNode, number: number, view: Visible) => import("./painter.js").Face[],
 *   pictures: (picture: Picture, view: Visible, faces: import("./painter.js").Face[][]) => Picture[],
 *   arranged: (view: Visible) => void}} Sides */

const LETTER = 6.3; // px
const LEAST_WIDTH = 70;
const LONGEST = 34; // letters
const LOW = 22;
const HIGH = 38;
const ROOM = 600; // px, at least, of a place that has a minimap
const MARKS = { kept: ["surface", "line-strong"], removed: ["bad-soft", "bad"], made: ["good-soft", "good"], changed: ["warn-soft", "warn"] };
const INKS = { block: "raised", view: "surface", group: "accent-soft", parameter: "sunken", constant: "sunken", activation: "good-soft", state: "warn-soft" };

export class Diagram {
  /**
   * @param {HTMLElement[]} places one, or one for each side
   * @param {(block: number, group: number) => void} onSelect -1 for what is not selected
   * @param {() => void} onChange after groups were opened or closed
   * @param {string} keys the id of what explains the keys
   */
  constructor(places, onSelect, onChange, keys) {
    /** @type {Pane[]} */
    this.panes = places.map(() => this.#pane(keys));
    this.minimap = new Minimap((x, y) => this.viewport.center(x, y, this.viewport.scale));
    places.forEach((place, k) => fill(place, this.panes[k].canvas, k === places.length - 1 && this.minimap.canvas));
    for (const { canvas } of this.panes) new ResizeObserver(() => this.#resize()).observe(canvas);
    /** @type {Sides | null} */
    this.sides = null;
    /** @type {string[]} */
    this.names = [];
    this.onSelect = onSelect;
    this.onChange = onChange;
    /** @type {Drawing | null} */
    this.drawing = null;
    /** @type {Set<number>} */
    this.open = new Set();
    this.hasParameters = false;
    /** @type {keyof typeof import("./coloring.js").COLORINGS} */
    this.by = "kind";
    this.selected = -1;
    /** @type {Set<number>} */
    this.near = new Set();
    this.isWaiting = false;
    onTheme(this, this.recolor);
  }

  /** The part of the drawing that is seen, in all panes. */
  get viewport() {
    return this.panes[0].viewport;
  }

  /** @param {string} keys @returns {Pane} */
  #pane(keys) {
    const canvas = element("canvas", { tabindex: 0, role: "img", "aria-describedby": keys });
    /** @type {Pane} */
    const pane = { canvas, picture: null, segments: [], viewport: new Viewport(canvas, () => this.#follow(pane), (x, y) => this.#click(x, y, pane)) };
    return pane;
  }

  /** Show in all panes what one of them shows now. @param {Pane} leader */
  #follow({ viewport: { x, y, scale } }) {
    for (const { viewport } of this.panes) Object.assign(viewport, { x, y, scale });
    this.redraw();
  }

  /** @param {Drawing} drawing @param {Sides | null} [sides] with a pane for each @param {string[]} [names] of the panes */
  show(drawing, sides = null, names = ["Diagram"]) {
    this.drawing = drawing;
    this.sides = sides;
    this.names = names;
    const about = `${several(drawing.blocks.site.length, "block")}; search below to reach one by its name`;
    this.panes.forEach(({ canvas }, k) => canvas.setAttribute("aria-label", `${names[k]} of ${about}`));
    this.#arrange();
    this.#start();
  }

  /** Show what is new in the drawing's columns. What is in the middle stays there; nodes get as wide as their texts need. */
  refresh() {
    if (!this.drawing || !this.picture) return;
    const { selected } = this;
    this.#arrangeAround(this.#anchor());
    this.#mark(selected);
  }

  /** Show other groups open; what is at `anchor`, a block, stays where it is on the screen.
   * @param {Iterable<number>} open @param {number} [anchor] */
  setOpen(open, anchor = -1) {
    const before = anchor < 0 ? null : this.#centerOf(anchor);
    this.open = new Set(open);
    this.#arrangeAround(anchor, before);
    if (anchor < 0) this.#start();
    this.onChange();
  }

  /** Arrange nodes anew; a block stays where it is on the screen. @param {number} anchor -1: none @param {[number, number] | null} [before] where it was */
  #arrangeAround(anchor, before = anchor < 0 ? null : this.#centerOf(anchor)) {
    this.#arrange();
    if (!before) return;
    const after = this.#centerOf(anchor);
    this.viewport.x += after[0] - before[0];
    this.viewport.y += after[1] - before[1];
    this.#follow(this.panes[0]);
  }

  /** @param {boolean} shown */
  showParameters(shown) {
    this.hasParameters = shown;
    this.setOpen(this.open, this.#anchor());
  }

  /** Open what a block is in, and bring it to the middle. @param {number} block */
  reveal(block) {
    if (!this.drawing) return;
    const groups = around(this.drawing, this.drawing.blocks.group[block]);
    if (groups.some((group) => !this.open.has(group))) this.setOpen([...this.open, ...groups]);
    this.select(block);
    const [x, y] = this.#centerOf(block);
    this.viewport.center(x, y);
  }

  /** @param {number} block -1: none */
  select(block) {
    this.#mark(block < 0 || !this.view ? -1 : this.view.nodeOf[block]);
    this.onSelect(block, -1);
  }

  /** @param {keyof typeof import("./coloring.js").COLORINGS} by */
  colorBy(by) {
    this.by = by;
    this.recolor();
  }

  recolor() {
    if (!this.drawing || !this.view || !this.picture) return;
    this.colors = Object.fromEntries(
      [...Object.entries(INKS), ["line", "line-strong"], ["edge", "line-strong"], ["moved", "communication"], ["selected", "mark-fastest"], ["surface", "surface"]].map(
        ([name, ink]) => [name, color(ink)],
      ),
    );
    for (const [mark, inks] of Object.entries(MARKS)) [this.colors[mark], this.colors[`${mark} line`]] = inks.map(color);
    const font = getComputedStyle(this.panes[0].canvas).fontFamily;
    Object.assign(this.colors, { text: color("text"), muted: color("muted"), font });
    const { fills, legend, most } = coloring(this.by, this.drawing, this.view.nodes);
    this.legend = { entries: legend, most };
    this.picture.faces.forEach((face, k) => (face.fill = fills[k]));
    this.minimap.draw(this.picture, this.colors);
    this.#placeMinimap();
    this.redraw();
  }

  redraw() {
    if (this.isWaiting || !this.picture) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.#draw();
    });
  }

  /** Compute what is visible and where it is. */
  #arrange() {
    if (!this.drawing) return;
    const view = visible(this.drawing, this.open, this.hasParameters);
    this.view = view;
    this.sides?.arranged(view);
    const all = view.nodes.map((node, k) => this.sides?.faces(node, k, view) ?? [face(/** @type {Drawing} */ (this.drawing), node)]);
    const faces = all.map((own) => own[own.length - 1]);
    const letters = all.map((own) => Math.max(...own.flatMap(({ title, text }) => [title.length, text.length])));
    const widths = Float64Array.from(letters, (count) => Math.max(LEAST_WIDTH, LETTER * count + 18));
    const heights = Float64Array.from(faces, ({ text }) => (text ? HIGH : LOW + 4));
    const layout = layered(widths, heights, view.from, view.to);
    /** @type {Picture} */
    this.picture = { layout, widths, heights, faces, ...edgesOf(view) };
    const pictures = this.sides?.pictures(this.picture, view, all) ?? [this.picture];
    this.panes.forEach((pane, k) => {
      pane.picture = pictures[k];
      pane.segments = segmentsOf(pictures[k].layout);
      pane.viewport.size = { width: layout.width, height: layout.height };
    });
    this.#mark(-1);
    this.recolor();
  }

  #draw() {
    for (const { canvas, picture, segments, viewport } of this.panes) {
      const pen = canvas.getContext("2d");
      if (!pen || !picture || !this.colors) return;
      const ratio = window.devicePixelRatio;
      const { x, y, scale, width, height } = viewport;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, width, height);
      paint(pen, picture, segments, { x, y, scale, width, height }, this.colors, this);
      this.minimap.frame({ x, y, width: width / scale, height: height / scale });
    }
  }

  /** The minimap stands beside a drawing that is too large to be read as a whole, where there is room for both. */
  #placeMinimap() {
    const width = /** @type {HTMLElement} */ (this.minimap.canvas.parentElement).clientWidth;
    this.minimap.canvas.hidden = width < ROOM || this.viewport.isReadableIn(width);
  }

  #resize() {
    if (this.picture) this.#placeMinimap();
    const ratio = window.devicePixelRatio;
    for (const { canvas } of this.panes) {
      canvas.width = Math.round(canvas.clientWidth * ratio);
      canvas.height = Math.round(canvas.clientHeight * ratio);
    }
    this.redraw();
  }

  /** @param {number} node -1: none */
  #mark(node) {
    this.selected = node;
    this.near = new Set();
    const { from, to } = this.view ?? { from: [], to: [] };
    for (let k = 0; k < from.length && node >= 0; k += 1) {
      if (from[k] === node) this.near.add(to[k]);
      if (to[k] === node) this.near.add(from[k]);
    }
    this.redraw();
  }

  /** @param {number} block @returns {[number, number]} */
  #centerOf(block) {
    const node = this.view?.nodeOf[block] ?? -1;
    return node < 0 || !this.picture ? [0, 0] : [this.picture.layout.x[node], this.picture.layout.y[node]];
  }

  /** Show what there is, or of its start the part with the most nodes. */
  #start() {
    this.viewport.start((width, height) => {
      const { x, y } = /** @type {Picture} */ (this.picture).layout;
      const first = x.slice(0, this.view?.nodes.length).filter((_, node) => y[node] < height).sort();
      let [most, middle, end] = [0, 0, 0];
      first.forEach((left, k) => {
        while (end < first.length && first[end] <= left + width) end += 1;
        if (end - k > most) [most, middle] = [end - k, (left + first[end - 1]) / 2];
      });
      return middle;
    });
  }

  /** A block near the middle of what is seen. */
  #anchor() {
    const { x, y, scale, width, height } = this.viewport;
    const [mx, my] = [x + width / 2 / scale, y + height / 2 / scale];
    let [best, least] = [-1, Infinity];
    this.view?.nodes.forEach(({ block }, node) => {
      const { layout } = /** @type {Picture} */ (this.picture);
      const distance = Math.hypot(layout.x[node] - mx, layout.y[node] - my);
      if (block >= 0 && distance < least) [best, least] = [block, distance];
    });
    return best;
  }

  /** @param {number} x @param {number} y @param {Pane} pane */
  #click(x, y, { picture }) {
    if (!this.view || !picture || !this.drawing) return;
    const { layout, widths, heights, shown } = picture;
    const node = this.view.nodes.findIndex(
      (_, k) =>
        shown?.[k] !== 0 && Math.abs(layout.x[k] - x) <= widths[k] / 2 && Math.abs(layout.y[k] - y) <= heights[k] / 2,
    );
    if (node < 0) {
      this.select(-1);
      return;
    }
    const { block, group } = this.view.nodes[node];
    if (block >= 0) this.select(block);
    else this.openGroup(group);
  }

  /** Show what is in a group. @param {number} group */
  openGroup(group) {
    if (!this.drawing) return;
    const first = this.drawing.blocks.group.findIndex((found) => around(this.drawing, found).includes(group));
    this.setOpen([...this.open, ...around(this.drawing, group)], first);
    this.onSelect(-1, group);
  }
}

/** @param {Visible} view */
function edgesOf({ from, to, bytes, traffic, moved, most }) {
  return { from, to, bytes, traffic, moved, most };
}

/** @param {Drawing} drawing @param {import("./visible.js").VisibleNode} node @returns {import("./painter.js").Face} */
export function face({ blocks, operators, groups }, { block, group, blocks: count, held, within }) {
  const moved = within ? `, ${quantity(within, "B")} redistributed` : "";
  if (block < 0) {
    const members = groups.parent.filter((parent) => parent === group).length;
    const title = members ? `${members} × ${groups.name[group]}` : groups.name[group];
    return { title: shortened(title), text: `${several(count, "block")}${moved && `${moved} within`}`, kind: "group", fill: null };
  }
  const kind = blocks.kind[block];
  const isSource = operators[blocks.operator[block]] === "source";
  const more = held ? ` + ${several(held, "parameter")}` : "";
  return {
    title: shortened(isSource || kind === "sink" ? blocks.site[block] : operators[blocks.operator[block]]),
    text: `${shortened(isSource || kind === "sink" ? kind : `${blocks.site[block]}${more}`)}${moved}`,
    kind,
    fill: null,
  };
}

/** The end of a long name says more than its start. @param {string} text */
function shortened(text) {
  return text.length <= LONGEST ? text : `…${text.slice(text.length - LONGEST + 1)}`;
}
