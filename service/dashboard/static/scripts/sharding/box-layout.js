/**
 * Where the cuts of a tensor's index box are drawn: as a line, a rectangle, or a box seen from above its front.
 * @module sharding/box-layout
 */

/** @typedef {[number, number]} Point */

const MOST_SIDES = 3;
const LEAN = [0.5, 0.36]; // how far depth goes to the right and up, of its length

/**
 * The dimensions that are drawn, in their order: those that are cut, then the largest; at most three.
 * @param {number[]} shape @param {number[][]} axes of each dimension @returns {number[]}
 */
export function shownDims(shape, axes) {
  const order = shape.map((_, k) => k).sort((a, b) => Number(!axes[a].length) - Number(!axes[b].length) || shape[b] - shape[a] || a - b);
  return order.slice(0, MOST_SIDES).sort((a, b) => a - b);
}

/**
 * The sides of the drawing in px: long dimensions are longer, but not by as much.
 * @param {number[]} sizes of the dimensions that are drawn @param {number} width @param {number} height px that there are
 * @returns {{sides: number[], left: number, top: number, slope: Point}}
 */
export function layOut(sizes, width, height) {
  const [largest] = [Math.max(1, ...sizes)];
  const shares = sizes.map((size) => 0.34 + 0.66 * (Math.max(size, 1) / largest) ** 0.35);
  const [depth, rows, columns] = [shares.at(-3) ?? 0, shares.at(-2) ?? 0.16, shares.at(-1) ?? 1];
  const scale = Math.min(width / (columns + LEAN[0] * depth), height / (rows + LEAN[1] * depth));
  const sides = [depth * scale, (sizes.length > 1 ? rows : 0.16) * scale, columns * scale];
  const slope = /** @type {Point} */ ([LEAN[0] * sides[0], LEAN[1] * sides[0]]);
  return {
    sides,
    slope,
    left: (width - sides[2] - slope[0]) / 2,
    top: (height - sides[1] - slope[1]) / 2 + slope[1],
  };
}

/** Where a place of the box is in px: depth, row and column from 0 to 1.
 * @param {ReturnType<typeof layOut>} layout @returns {(z: number, y: number, x: number) => Point} */
function pointIn({ sides, slope, left, top }) {
  return (z, y, x) => [left + x * sides[2] + z * slope[0], top + y * sides[1] - z * slope[1]];
}

/**
 * The lines on the faces that are seen at which a dimension is cut.
 * @param {number} place of the dimension from the last: 1 for columns, 2 for rows, 3 for depth
 * @param {number} share where it is cut, from 0 to 1 @param {boolean} isDeep whether the box has depth
 * @param {ReturnType<typeof layOut>} layout @returns {[Point, Point][]}
 */
export function cutLines(place, share, isDeep, layout) {
  const at = pointIn(layout);
  if (place === 1) return [[at(0, 0, share), at(0, 1, share)], ...(isDeep ? [/** @type {[Point, Point]} */ ([at(0, 0, share), at(1, 0, share)])] : [])];
  if (place === 2) return [[at(0, share, 0), at(0, share, 1)], ...(isDeep ? [/** @type {[Point, Point]} */ ([at(0, share, 1), at(1, share, 1)])] : [])];
  return [
    [at(share, 0, 0), at(share, 0, 1)],
    [at(share, 0, 1), at(share, 1, 1)],
  ];
}

/**
 * The faces that are seen of the pieces, as outlines in px, those in front last. A face knows its piece.
 * @param {import("./columns.js").Piece[]} pieces @param {number[]} dims that are drawn @param {number[]} shape
 * @param {ReturnType<typeof layOut>} layout @returns {{piece: number, points: Point[], side: "front" | "top" | "right"}[]}
 */
export function facesOf(pieces, dims, shape, { sides, slope, left, top }) {
  const share = (/** @type {number | undefined} */ dim, /** @type {[number, number] | undefined} */ range) =>
    dim === undefined || !range || !shape[dim] ? [0, 1] : [range[0] / shape[dim], range[1] / shape[dim]];
  const [depth, row, column] = [dims.at(-3), dims.at(-2), dims.at(-1)];
  const faces = [];
  const at = pointIn({ sides, slope, left, top });
  const seen = new Set();
  for (let piece = 0; piece < pieces.length; piece += 1) {
    const { box } = pieces[piece];
    if (box.some(([start, end]) => end <= start)) continue;
    const key = dims.map((dim) => box[dim].join()).join(";");
    if (seen.has(key)) continue; // another piece along a dimension that is not drawn
    seen.add(key);
    const [z0, z1] = share(depth, depth === undefined ? undefined : box[depth]);
    const [y0, y1] = share(row, row === undefined ? undefined : box[row]);
    const [x0, x1] = share(column, column === undefined ? undefined : box[column]);
    if (depth !== undefined && y0 === 0)
      faces.push({ piece, side: /** @type {const} */ ("top"), points: [at(z0, 0, x0), at(z0, 0, x1), at(z1, 0, x1), at(z1, 0, x0)] });
    if (depth !== undefined && x1 === 1)
      faces.push({ piece, side: /** @type {const} */ ("right"), points: [at(z0, y0, 1), at(z1, y0, 1), at(z1, y1, 1), at(z0, y1, 1)] });
    if (z0 === 0)
      faces.push({ piece, side: /** @type {const} */ ("front"), points: [at(0, y0, x0), at(0, y0, x1), at(0, y1, x1), at(0, y1, x0)] });
  }
  return faces;
}

/** Whether a point lies in a convex outline. @param {Point[]} points @param {number} x @param {number} y */
export function contains(points, x, y) {
  let side = 0;
  for (let k = 0; k < points.length; k += 1) {
    const [ax, ay] = points[k];
    const [bx, by] = points[(k + 1) % points.length];
    const turn = Math.sign((bx - ax) * (y - ay) - (by - ay) * (x - ax));
    if (turn && side && turn !== side) return false;
    side = turn || side;
  }
  return true;
}
