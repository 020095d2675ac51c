/**
 * The axes of a chart: lines of the grid, ticks and titles.
 * @module charts/axes
 */

import { color } from "../colors.js";
import { font } from "./figure.js";

/** @typedef {{left: number, top: number, right: number, bottom: number}} Frame px */
/** @typedef {{title: string, scale: import("./scale.js").Scale}} Axis */

const TICK_EVERY = { x: 84, y: 44 }; // px
const LETTER = 6.3; // px

/** What is left free at the right of all axes of time, px. */
export const RIGHT = 12;

/**
 * The part of a chart inside of its axes.
 * @param {number} width @param {number} height px @param {Axis} y @param {number} [least] px that it leaves free at the left
 * @returns {Frame}
 */
export function frameOf(width, height, y, least = 0) {
  const widest = Math.max(2, ...ticksOf(y.scale, height - 52, "y").map(({ text }) => text.length));
  return { left: Math.max(least, Math.round(24 + widest * LETTER + 6)), top: 10, right: width - RIGHT, bottom: height - 42 };
}

/** The ticks of an axis, as many as have their place. @param {import("./scale.js").Scale} scale @param {number} length px @param {"x" | "y"} which */
export function ticksOf(scale, length, which) {
  return scale.ticks(Math.max(2, Math.floor(length / TICK_EVERY[which])));
}

/** @param {Axis} axis */
export function titleOf({ title, scale }) {
  return scale.unit ? `${title} (${scale.unit})` : title;
}

/**
 * Draw both axes and place their scales.
 * @param {import("./pen.js").Pen} pen @param {Frame} frame @param {Axis} x @param {Axis} y
 */
export function paintAxes(pen, frame, x, y) {
  const { left, top, right, bottom } = frame;
  x.scale.over(left, right);
  y.scale.over(bottom, top);
  const [grid, line, ink] = ["grid", "line-strong", "muted"].map(color);
  pen.font = font(12);
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (const { value, text } of ticksOf(y.scale, bottom - top, "y")) {
    const at = Math.round(y.scale.at(value)) + 0.5;
    pen.fillStyle = grid;
    pen.fillRect(left, at - 0.5, right - left, 1);
    pen.fillStyle = ink;
    pen.fillText(text, left - 7, at);
  }
  pen.textAlign = "center";
  for (const { value, text } of ticksOf(x.scale, right - left, "x")) {
    const at = Math.round(x.scale.at(value)) + 0.5;
    pen.fillStyle = grid;
    pen.fillRect(at - 0.5, top, 1, bottom - top);
    pen.fillStyle = ink;
    const half = (text.length * LETTER) / 2;
    pen.fillText(text, Math.min(at, right + 10 - half), bottom + 13);
  }
  pen.fillStyle = line;
  pen.fillRect(left, top, 1, bottom - top);
  pen.fillRect(left, bottom, right - left, 1);
  pen.fillStyle = color("text");
  pen.fillText(titleOf(x), (left + right) / 2, bottom + 32);
  pen.save();
  pen.translate(9, (top + bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(titleOf(y), 0, 0);
  pen.restore();
}
