/**
 * Points of scatter plots: their forms, the one that is nearest, and the line that joins the best of them.
 * @module charts/spots
 */

/** @typedef {import("./pen.js").Pen} Pen */

/** Corners of forms, of the size 1. @type {Record<string, number[][]>} */
const CORNERS = {
  left: [[-1.1, 0], [0.8, -1], [0.8, 1]],
  up: [[0, -1.1], [1, 0.8], [-1, 0.8]],
  down: [[0, 1.1], [-1, -0.8], [1, -0.8]],
  diamond: [[0, -1.15], [1.15, 0], [0, 1.15], [-1.15, 0]],
  square: [[-0.85, -0.85], [0.85, -0.85], [0.85, 0.85], [-0.85, 0.85]],
  cross: [
    ...[[-0.4, -1.2], [0.4, -1.2], [0.4, -0.4], [1.2, -0.4], [1.2, 0.4], [0.4, 0.4]],
    ...[[0.4, 1.2], [-0.4, 1.2], [-0.4, 0.4], [-1.2, 0.4], [-1.2, -0.4], [-0.4, -0.4]],
  ],
  hourglass: [[-1.1, -1.1], [1.1, -1.1], [0.25, 0], [1.1, 1.1], [-1.1, 1.1], [-0.25, 0]],
};

/** Begin the path of a form, by default a circle. @param {Pen} pen @param {string} form @param {number} x @param {number} y @param {number} r px */
export function trace(pen, form, x, y, r) {
  pen.beginPath();
  addForm(pen, form, x, y, r);
}

/** Add a form to a path, by default a circle. @param {Pen} pen @param {string} form @param {number} x @param {number} y @param {number} r px */
export function addForm(pen, form, x, y, r) {
  const corners = CORNERS[form];
  if (corners) {
    corners.forEach(([dx, dy], k) => (k ? pen.lineTo(x + r * dx, y + r * dy) : pen.moveTo(x + r * dx, y + r * dy)));
    pen.closePath();
  } else {
    pen.moveTo(x + r, y);
    pen.arc(x, y, r, 0, 2 * Math.PI);
  }
}

/**
 * The number of the point that is nearest to a place, or -1.
 * @param {number} x @param {number} y px @param {number} within px @param {number} count of points
 * @param {(k: number) => number} across @param {(k: number) => number} up where each is, px @param {(k: number) => unknown} [isShown]
 */
export function nearestSpot(x, y, within, count, across, up, isShown = () => true) {
  let [best, found] = [within ** 2, -1];
  for (let k = 0; k < count; k += 1) {
    if (!isShown(k)) continue;
    const distance = (across(k) - x) ** 2 + (up(k) - y) ** 2;
    if (distance < best) [best, found] = [distance, k];
  }
  return found;
}

/**
 * Those of some points than which none of them is less in both values, by their first value.
 * @param {number[]} members @param {ArrayLike<number>} first @param {ArrayLike<number>} second values of all points
 */
export function leastOf(members, first, second) {
  let least = Infinity;
  return [...members]
    .sort((a, b) => first[a] - first[b] || second[a] - second[b])
    .filter((k) => {
      const isLess = second[k] < least;
      if (isLess) least = second[k];
      return isLess;
    });
}

/** Draw a line of steps from point to point. @param {Pen} pen @param {number[]} order @param {ArrayLike<number>} x @param {ArrayLike<number>} y px of all points */
export function paintSteps(pen, order, x, y) {
  pen.beginPath();
  order.forEach((k, place) => {
    if (place) pen.lineTo(x[k], y[order[place - 1]]);
    if (place) pen.lineTo(x[k], y[k]);
    else pen.moveTo(x[k], y[k]);
  });
  pen.stroke();
}
