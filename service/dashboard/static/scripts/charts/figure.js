/**
 * A drawing on a canvas of the width of its place: redrawn with its size and the theme, saved as PNG and SVG.
 * @module charts/figure
 */

import { color, onTheme } from "../colors.js";
import { element, fill } from "../dom.js";
import { SvgPen } from "./pen.js";
import { paintedPng } from "./png.js";

/** @typedef {import("./pen.js").Pen} Pen */

/**
 * The base of all charts: they have a `paint` and, where the pointer matters, `hover` and `leave`. What takes long to draw
 * and stays while the pointer moves is painted by `paintGround`, below the rest, and kept as a picture until `redraw`.
 */
export class Figure {
  /** @param {HTMLElement} place @param {string} label what it shows, for those who do not see it */
  constructor(place, label) {
    this.label = label;
    this.canvas = element("canvas", { tabindex: 0, role: "img", "aria-label": label });
    this.tooltip = element("div", { class: "tooltip", hidden: true });
    this.place = element("div", { class: "figure" }, this.canvas, this.tooltip);
    fill(place, this.place);
    this.isWaiting = false;
    /** What `paintGround` has painted, while that is what it would paint. @type {HTMLCanvasElement | null} */
    this.ground = null;
    new ResizeObserver(() => this.redraw()).observe(this.place);
    onTheme(this, this.redraw);
    this.canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) =>
      this.hover(event.offsetX, event.offsetY),
    );
    this.canvas.addEventListener("pointerleave", () => this.leave());
  }

  get width() {
    return this.place.clientWidth;
  }

  /** px; by default that of the place. */
  get height() {
    return this.place.clientHeight;
  }

  /** @param {string} label */
  describe(label) {
    this.label = label;
    this.canvas.setAttribute("aria-label", label);
  }

  /** Whether `paintGround` paints anything. */
  get hasGround() {
    return false;
  }

  /** Draw what is below the rest. @param {Pen} _pen @param {number} _width @param {number} _height px */
  paintGround(_pen, _width, _height) {
    // most figures are painted at once
  }

  /** Draw everything else. @param {Pen} _pen @param {number} _width @param {number} _height px */
  paint(_pen, _width, _height) {
    throw new Error("a figure has its own way to paint");
  }

  /** @param {number} _x @param {number} _y px */
  hover(_x, _y) {
    // most figures have nothing to say
  }

  leave() {
    this.tooltip.hidden = true;
  }

  redraw() {
    this.ground = null;
    this.redrawTop();
  }

  /** Redraw all but what `paintGround` has painted. */
  redrawTop() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.#draw();
    });
  }

  #draw() {
    const { width, height } = this;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio;
    const { canvas } = this;
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    const isSame = canvas.width === across && canvas.height === down;
    if (!isSame) Object.assign(canvas, { width: across, height: down }); // takes new memory, even for the same size
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.reset();
    if (this.hasGround) {
      this.ground ??= pictureOf(canvas, ratio, (own) => this.paintGround(own, width, height));
      pen.drawImage(this.ground, 0, 0);
    }
    pen.scale(ratio, ratio);
    this.paint(pen, width, height);
  }

  /** @param {Pen} pen */
  #paintAll(pen) {
    this.paintGround(pen, this.width, this.height);
    this.paint(pen, this.width, this.height);
  }

  /** Show texts near a place, inside of the figure. @param {number} x @param {number} y @param {...any} children */
  explain(x, y, ...children) {
    fill(this.tooltip, ...children);
    this.tooltip.hidden = false;
    const { offsetWidth, offsetHeight } = this.tooltip;
    const left = x + 14 + offsetWidth > this.width ? x - 14 - offsetWidth : x + 14;
    const top = y + 14 + offsetHeight > this.height ? y - 10 - offsetHeight : y + 14;
    this.tooltip.style.left = `${Math.max(0, left)}px`;
    this.tooltip.style.top = `${Math.max(0, top)}px`;
  }

  /** The drawing as an SVG document, in the colors of the theme. */
  svg() {
    return this.svgOf(this.width, this.height, (pen) => this.#paintAll(pen));
  }

  /** The drawing as a PNG, twice its size. @returns {Promise<Blob>} */
  png() {
    return this.pngOf(this.width, this.height, (pen) => this.#paintAll(pen));
  }

  /** What is painted, as an SVG document. @param {number} width @param {number} height px @param {(pen: Pen) => void} paint */
  svgOf(width, height, paint) {
    const pen = new SvgPen();
    paint(pen);
    return pen.text(width, height, color("surface"), this.label);
  }

  /** What is painted, as a PNG. @param {number} width @param {number} height px @param {(pen: any) => void} paint @returns {Promise<Blob>} */
  pngOf(width, height, paint) {
    return paintedPng(width, height, paint);
  }
}

/** What is painted, as large as a canvas. @param {HTMLCanvasElement} like @param {number} ratio @param {(pen: Pen) => void} paint */
function pictureOf(like, ratio, paint) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [like.width, like.height];
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.scale(ratio, ratio);
  paint(pen);
  return canvas;
}

/** The page's family of fonts; no theme has another one. */
let family = "";

/** The font of figures. @param {number} size px @param {number} [weight] */
export function font(size, weight = 400) {
  family ||= getComputedStyle(document.body).fontFamily;
  return `${weight} ${size}px ${family}`;
}
