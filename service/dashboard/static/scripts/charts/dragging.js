/**
 * Presses and drags of the pointer over a canvas, told apart by how far it moves.
 * @module charts/dragging
 */

/** @typedef {[number, number]} Place px of the canvas */
/** @typedef {(from: Place, to: Place) => void} Action */

const LEAST = 5; // px: what moves less is no drag

/** The drag that is under way over a canvas, or the last one. */
export class Drag {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {{begin?: () => void, move?: Action, end?: Action, cancel?: () => void, hasTouch?: boolean}} actions `hasTouch`: by
   *   fingers, too, which otherwise scroll the page
   */
  constructor(canvas, { begin, move, end, cancel, hasTouch = false }) {
    /** Where the pointer was pressed; null while it is not. @type {Place | null} */
    this.from = null;
    /** Whether the last press was more than a click. */
    this.isDrag = false;
    canvas.addEventListener("pointerdown", (event) => {
      this.isDrag = false;
      if (event.button || (event.pointerType === "touch" && !hasTouch)) return;
      this.from = [event.offsetX, event.offsetY];
      canvas.setPointerCapture(event.pointerId);
      begin?.();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.from) return;
      const [dx, dy] = [event.offsetX - this.from[0], event.offsetY - this.from[1]];
      this.isDrag ||= Math.abs(dx) + Math.abs(dy) >= LEAST;
      if (this.isDrag) move?.(this.from, [event.offsetX, event.offsetY]);
    });
    canvas.addEventListener("pointerup", (event) => {
      const { from } = this;
      this.from = null;
      if (from && this.isDrag) end?.(from, [event.offsetX, event.offsetY]);
    });
    canvas.addEventListener("pointercancel", () => {
      if (this.from) cancel?.();
      this.from = null;
    });
  }
}
