/**
 * The part of a large drawing that a canvas shows: moved by dragging, touch, wheel and keys, zoomed around a point.
 * @module drawing/viewport
 */

import { READABLE } from "./painter.js";

const CLOSEST = 2;
const STEP = 1.25;
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const STRIDE = 80; // px that a key moves
const STILL = 4; // px within which a press is a click
const MARGIN = 24; // px around a whole drawing
const OPENING = 0.7; // of a drawing that is not readable as a whole

export class Viewport {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {() => void} onMove
   * @param {(x: number, y: number) => void} onClick at a point of the drawing
   */
  constructor(canvas, onMove, onClick) {
    this.canvas = canvas;
    this.onMove = onMove;
    this.onClick = onClick;
    this.scale = 1;
    this.x = 0; // of the drawing, at the canvas's left
    this.y = 0;
    this.size = { width: 0, height: 0 };
    /** @type {Map<number, {x: number, y: number}>} */
    this.pointers = new Map();
    this.#listen();
  }

  get width() {
    return this.canvas.clientWidth;
  }

  get height() {
    return this.canvas.clientHeight;
  }

  /** Show all of a drawing of this size. */
  whole() {
    this.#show(this.least, this.size.width / 2);
  }

  /** Show all of a drawing, or, if that would be too small to read, its start. @param {(width: number, height: number) => number} columnOf
   * what is in the middle of the part so wide and high */
  start(columnOf) {
    if (this.least >= READABLE) this.whole();
    else this.#show(OPENING, columnOf(this.width / OPENING, this.height / OPENING));
  }

  /** @param {number} scale @param {number} x in the middle, where the drawing goes on at both sides */
  #show(scale, x) {
    const { width, height } = this.size;
    const [wide, high, margin] = [this.width / scale, this.height / scale, MARGIN / scale];
    const most = width + margin - wide;
    this.scale = scale;
    this.x = most <= -margin ? (width - wide) / 2 : Math.min(Math.max(x - wide / 2, -margin), most);
    this.y = Math.min(-margin, (height - high) / 2);
    this.onMove();
  }

  /** The smallest scale: all of the drawing is seen. */
  get least() {
    return scaleOf(this.size, this.width, this.height);
  }

  /** Whether all of the drawing can be read in a place of this width. @param {number} width px */
  isReadableIn(width) {
    return scaleOf(this.size, width, this.height) >= READABLE;
  }

  /** @param {number} factor @param {number} [px] @param {number} [py] the point that stays, by default the middle */
  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const scale = Math.min(CLOSEST, Math.max(this.least, this.scale * factor));
    this.x += px / this.scale - px / scale;
    this.y += py / this.scale - py / scale;
    this.scale = scale;
    this.onMove();
  }

  /** @param {number} dx @param {number} dy px of the screen */
  pan(dx, dy) {
    this.x += dx / this.scale;
    this.y += dy / this.scale;
    this.onMove();
  }

  /** Bring a point to the middle, large enough to read. @param {number} x @param {number} y */
  center(x, y, scale = Math.max(this.scale, 0.8)) {
    this.scale = Math.max(this.least, scale);
    this.x = x - this.width / 2 / this.scale;
    this.y = y - this.height / 2 / this.scale;
    this.onMove();
  }

  /** @param {PointerEvent | MouseEvent} event @returns {[number, number]} px of the canvas */
  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  #listen() {
    const { canvas } = this;
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (this.pointers.size === 1) moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = this.pointers.get(event.pointerId);
      if (!before) return;
      const [dx, dy] = [event.clientX - before.x, event.clientY - before.y];
      moved += Math.abs(dx) + Math.abs(dy);
      if (this.pointers.size === 2) this.#pinch(event);
      else this.pan(-dx, -dy);
      this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    });
    canvas.addEventListener("pointerup", (event) => {
      if (this.pointers.size === 1 && moved <= STILL) {
        const [px, py] = this.#at(event);
        this.onClick(this.x + px / this.scale, this.y + py / this.scale);
      }
      this.pointers.delete(event.pointerId);
    });
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener(
      "wheel",
      (event) => {
        // A page is scrolled over its drawing; with Ctrl, as a pinch on a touchpad has it, the drawing is zoomed.
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 300), ...this.#at(event));
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => {
      const way = KEYS[/** @type {keyof typeof KEYS} */ (event.key)];
      if (way) this.pan(way[0] * STRIDE, way[1] * STRIDE);
      else if (event.key === "+" || event.key === "=") this.zoom(STEP);
      else if (event.key === "-") this.zoom(1 / STEP);
      else if (event.key === "0" || event.key === "Home") this.whole();
      else return;
      event.preventDefault();
    });
  }

  /** @param {PointerEvent} event of one of two fingers */
  #pinch(event) {
    const [first, second] = [...this.pointers.values()];
    const before = Math.hypot(first.x - second.x, first.y - second.y);
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1] ?? first;
    const after = Math.hypot(event.clientX - other.x, event.clientY - other.y);
    const box = this.canvas.getBoundingClientRect();
    const [px, py] = [(event.clientX + other.x) / 2 - box.left, (event.clientY + other.y) / 2 - box.top];
    this.zoom(after / Math.max(before, 1), px, py);
  }
}

/** The scale at which all of a drawing is seen. @param {{width: number, height: number}} drawing @param {number} width @param {number} height px */
function scaleOf(drawing, width, height) {
  return Math.min(1, (width - 2 * MARGIN) / Math.max(drawing.width, 1), (height - 2 * MARGIN) / Math.max(drawing.height, 1));
}
