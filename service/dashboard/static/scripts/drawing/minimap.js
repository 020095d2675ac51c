/**
 * All of a drawing in a corner, with a frame around what is seen; a click or a drag moves there.
 * @module drawing/minimap
 */

import { element } from "../dom.js";

/** @typedef {import("./painter.js").Picture} Picture */

const WIDTH = 120; // px, at most
const HEIGHT = 180;
const MOST = 0.3; // of the drawing's size
const MARGIN = 5; // px around the drawing, where the frame is when all is seen

export class Minimap {
  /** @param {(x: number, y: number) => void} onPoint at a point of the drawing */
  constructor(onPoint) {
    this.canvas = element("canvas", { class: "minimap", "aria-hidden": "true" });
    this.picture = document.createElement("canvas");
    this.scaleX = 1; // of its own each way: drawings are often narrow and very long
    this.scaleY = 1;
    this.ink = "";
    const go = (/** @type {PointerEvent} */ event) => {
      const box = this.canvas.getBoundingClientRect();
      onPoint((event.clientX - box.left - MARGIN) / this.scaleX, (event.clientY - box.top - MARGIN) / this.scaleY);
    };
    this.canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      this.canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    this.canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      if (event.buttons) go(event);
    });
  }

  /** @param {Picture} picture @param {Record<string, string>} colors */
  draw({ layout, widths, heights, faces }, colors) {
    this.scaleX = Math.min((WIDTH - 2 * MARGIN) / Math.max(layout.width, 1), MOST);
    this.scaleY = Math.min((HEIGHT - 2 * MARGIN) / Math.max(layout.height, 1), MOST);
    const width = Math.ceil(layout.width * this.scaleX) + 2 * MARGIN;
    const height = Math.ceil(layout.height * this.scaleY) + 2 * MARGIN;
    for (const canvas of [this.canvas, this.picture]) {
      canvas.width = width;
      canvas.height = height;
    }
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.ink = colors.selected;
    const pen = this.picture.getContext("2d");
    if (!pen) return;
    faces.forEach((face, k) => {
      pen.fillStyle = face.fill ?? colors[`${face.mark} line`] ?? colors.muted;
      pen.fillRect(
        MARGIN + (layout.x[k] - widths[k] / 2) * this.scaleX,
        MARGIN + (layout.y[k] - heights[k] / 2) * this.scaleY,
        Math.max(1, widths[k] * this.scaleX),
        Math.max(1, heights[k] * this.scaleY),
      );
    });
  }

  /** @param {{x: number, y: number, width: number, height: number}} seen of the drawing */
  frame({ x, y, width, height }) {
    const pen = this.canvas.getContext("2d");
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.picture, 0, 0);
    pen.strokeStyle = this.ink;
    pen.lineWidth = 1.5;
    const [left, top] = [Math.max(0, MARGIN + x * this.scaleX), Math.max(0, MARGIN + y * this.scaleY)];
    const right = Math.min(this.canvas.width, MARGIN + (x + width) * this.scaleX);
    const bottom = Math.min(this.canvas.height, MARGIN + (y + height) * this.scaleY);
    pen.strokeRect(left + 0.75, top + 0.75, Math.max(2, right - left - 1.5), Math.max(2, bottom - top - 1.5));
  }
}
