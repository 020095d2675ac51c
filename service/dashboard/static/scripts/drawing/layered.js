/**
 * Places of nodes in rows, in time linear in the drawing: rows by longest path, order by neighbors, no overlap.
 *
 * Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures", 1981. Edges bend
 * around the rows that they cross; those that cross very many have no route, and are drawn where they are asked for.
 * @module drawing/layered
 */

const PASSES = 6;
const GAP = 22; // px between neighbors
const RISE = 40; // px between rows
const POINT = 12; // px that a passing edge needs
const LONGEST = 48; // rows that an edge with a route crosses

/** @typedef {{x: Float64Array, y: Float64Array, row: Int32Array, rows: Int32Array[], tops: Float64Array,
 *   routes: Int32Array[], width: number, height: number}} Layered
 *   centers of nodes and of the points of edges behind them; members of each row from left to right; the items that
 *   each edge goes through, none where it has no route */

/**
 * @param {ArrayLike<number>} widths @param {ArrayLike<number>} heights
 * @param {Int32Array} from @param {Int32Array} to
 * @returns {Layered}
 */
export function layered(widths, heights, from, to) {
  const count = widths.length;
  const row = rowsOf(count, from, to);
  const { routes, wide, itemRow } = routed(widths, from, to, row);
  const rows = membersOf(itemRow);
  const [above, below] = neighbors(itemRow.length, routes);
  order(rows, above, below);
  const x = places(rows, wide, above, below);
  const tops = new Float64Array(rows.length + 1);
  rows.forEach((members, k) => {
    let height = POINT;
    for (const item of members) if (item < count) height = Math.max(height, heights[item]);
    tops[k + 1] = tops[k] + height + RISE;
  });
  const y = Float64Array.from(itemRow, (k) => (tops[k] + tops[k + 1] - RISE) / 2);
  let left = Infinity;
  let right = -Infinity;
  for (let item = 0; item < x.length; item += 1) {
    left = Math.min(left, x[item] - wide[item] / 2);
    right = Math.max(right, x[item] + wide[item] / 2);
  }
  for (let item = 0; item < x.length; item += 1) x[item] -= left;
  return {
    x,
    y,
    row: itemRow,
    rows,
    tops,
    routes,
    width: count ? right - left : 0,
    height: count ? tops[rows.length] - RISE : 0,
  };
}

/**
 * The row of each node: below all that it reads; what reads nothing is just above its first reader. In a cycle, which
 * closed groups may form, the edges into the first node of it do not count.
 * @param {number} count @param {Int32Array} from @param {Int32Array} to
 */
function rowsOf(count, from, to) {
  const [starts, readers] = compressed(count, from, to);
  const waiting = new Int32Array(count);
  for (const b of to) waiting[b] += 1;
  const reads = waiting.slice();
  const row = new Int32Array(count);
  const isDone = new Uint8Array(count);
  const queue = [];
  for (let node = 0; node < count; node += 1) if (!waiting[node]) queue.push(node);
  let first = 0;
  for (let next = 0; next < count; next += 1) {
    if (next === queue.length) {
      while (isDone[first]) first += 1;
      queue.push(first);
    }
    const node = queue[next];
    isDone[node] = 1;
    for (let k = starts[node]; k < starts[node + 1]; k += 1) {
      const reader = readers[k];
      if (isDone[reader]) continue;
      row[reader] = Math.max(row[reader], row[node] + 1);
      waiting[reader] -= 1;
      if (!waiting[reader]) queue.push(reader);
    }
    // One that was taken out of a cycle waits no more.
    waiting[node] = -1;
  }
  for (let node = 0; node < count; node += 1) {
    if (reads[node] || starts[node] === starts[node + 1]) continue;
    let least = Infinity;
    for (let k = starts[node]; k < starts[node + 1]; k += 1) least = Math.min(least, row[readers[k]]);
    row[node] = Math.max(0, least - 1);
  }
  return row;
}

/**
 * The other ends of edges by their first end, as one array and where each begins.
 * @param {number} count @param {ArrayLike<number>} from @param {ArrayLike<number>} to
 * @returns {[Int32Array, Int32Array]}
 */
function compressed(count, from, to) {
  const starts = new Int32Array(count + 1);
  for (let k = 0; k < from.length; k += 1) starts[from[k] + 1] += 1;
  for (let node = 0; node < count; node += 1) starts[node + 1] += starts[node];
  const next = starts.slice(0, count);
  const ends = new Int32Array(from.length);
  for (let k = 0; k < from.length; k += 1) {
    ends[next[from[k]]] = to[k];
    next[from[k]] += 1;
  }
  return [starts, ends];
}

/** @param {ArrayLike<number>} widths @param {Int32Array} from @param {Int32Array} to @param {Int32Array} row */
function routed(widths, from, to, row) {
  const wide = Array.from(widths);
  const itemRow = Array.from(row);
  /** @type {Int32Array[]} */
  const routes = [];
  for (let k = 0; k < from.length; k += 1) {
    const [a, b] = row[from[k]] <= row[to[k]] ? [from[k], to[k]] : [to[k], from[k]];
    if (row[b] - row[a] > LONGEST || row[a] === row[b]) {
      routes.push(new Int32Array(0));
      continue;
    }
    const route = [a];
    for (let at = row[a] + 1; at < row[b]; at += 1) {
      route.push(wide.length);
      wide.push(POINT);
      itemRow.push(at);
    }
    route.push(b);
    routes.push(Int32Array.from(route));
  }
  return { routes, wide, itemRow: Int32Array.from(itemRow) };
}

/** @param {Int32Array} itemRow */
function membersOf(itemRow) {
  let last = -1;
  for (const k of itemRow) last = Math.max(last, k);
  /** @type {number[][]} */
  const rows = Array.from({ length: last + 1 }, () => []);
  itemRow.forEach((k, item) => rows[k].push(item));
  return rows.map((members) => Int32Array.from(members));
}

/**
 * The neighbors of each item in the rows above and below.
 * @param {number} count @param {Int32Array[]} routes
 * @returns {[Int32Array, Int32Array][]}
 */
function neighbors(count, routes) {
  const upper = [];
  const lower = [];
  for (const route of routes) {
    for (let k = 1; k < route.length; k += 1) {
      upper.push(route[k - 1]);
      lower.push(route[k]);
    }
  }
  return [compressed(count, lower, upper), compressed(count, upper, lower)];
}

/** @param {Float64Array} at @param {[Int32Array, Int32Array]} near @param {number} item @param {number} otherwise */
function mean(at, [starts, ends], item, otherwise) {
  const [begin, end] = [starts[item], starts[item + 1]];
  if (begin === end) return otherwise;
  let sum = 0;
  for (let k = begin; k < end; k += 1) sum += at[ends[k]];
  return sum / (end - begin);
}

/** Sort each row by the mean place of its neighbors, downward and upward in turn.
 * @param {Int32Array[]} rows @param {[Int32Array, Int32Array]} above @param {[Int32Array, Int32Array]} below */
function order(rows, above, below) {
  const place = new Float64Array(above[0].length - 1);
  const note = (/** @type {Int32Array} */ members) =>
    members.forEach((item, k) => {
      place[item] = k;
    });
  rows.forEach(note);
  const wanted = new Float64Array(place.length);
  for (let pass = 0; pass < PASSES; pass += 1) {
    const isDown = pass % 2 === 0;
    const near = isDown ? above : below;
    for (let k = 0; k < rows.length; k += 1) {
      const members = rows[isDown ? k : rows.length - 1 - k];
      if (members.length < 2) continue;
      for (const item of members) wanted[item] = mean(place, near, item, place[item]);
      members.sort((a, b) => wanted[a] - wanted[b] || place[a] - place[b]);
      note(members);
    }
  }
}

/** Centers, each as near to its neighbors as its row allows.
 * @param {Int32Array[]} rows @param {number[]} wide
 * @param {[Int32Array, Int32Array]} above @param {[Int32Array, Int32Array]} below */
function places(rows, wide, above, below) {
  const x = new Float64Array(wide.length);
  for (const members of rows) {
    let at = 0;
    for (const item of members) {
      x[item] = at + wide[item] / 2;
      at += wide[item] + GAP;
    }
    for (const item of members) x[item] -= at / 2;
  }
  for (let pass = 0; pass < PASSES; pass += 1) {
    const isDown = pass % 2 === 0;
    const near = isDown ? above : below;
    for (let k = 0; k < rows.length; k += 1) apart(rows[isDown ? k : rows.length - 1 - k], x, wide, near);
  }
  return x;
}

/**
 * Move a row to the centers nearest to its neighbors (least squares) that keep its order and do not overlap: members
 * that would overlap become one (pool adjacent violators).
 * @param {Int32Array} members @param {Float64Array} x @param {number[]} wide @param {[Int32Array, Int32Array]} near
 */
function apart(members, x, wide, near) {
  const offsets = [];
  const means = [];
  const counts = [];
  let total = 0;
  members.forEach((item, k) => {
    total += wide[item] / 2 + (k ? wide[members[k - 1]] / 2 + GAP : 0);
    offsets.push(total);
    let goal = mean(x, near, item, x[item]) - total;
    let count = 1;
    while (means.length && means[means.length - 1] > goal) {
      const before = counts.pop() ?? 0;
      goal = (goal * count + (means.pop() ?? 0) * before) / (count + before);
      count += before;
    }
    means.push(goal);
    counts.push(count);
  });
  let at = 0;
  means.forEach((goal, k) => {
    for (let n = 0; n < counts[k]; n += 1, at += 1) x[members[at]] = goal + offsets[at];
  });
}
