/**
 * Drawings as PNG.
 * @module charts/png
 */

import { color } from "../colors.js";

const SCALE = 2;
const LONGEST_SIDE = 16384; // px of a canvas

/**
 * What is painted, on the ground of the theme: twice its size, or as large as a picture may be.
 * @param {number} width @param {number} height px @param {(pen: CanvasRenderingContext2D) => void} paint
 * @returns {Promise<Blob>}
 */
export function paintedPng(width, height, paint) {
  const scale = Math.min(SCALE, LONGEST_SIDE / width, LONGEST_SIDE / height);
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.floor(width * scale));
  canvas.height = Math.max(1, Math.floor(height * scale));
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.scale(scale, scale);
  pen.fillStyle = color("surface");
  pen.fillRect(0, 0, width, height);
  paint(pen);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large"))), "image/png"),
  );
}
