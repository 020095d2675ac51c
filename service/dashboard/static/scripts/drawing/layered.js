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
const POINT = 6; // px that a passing edge needs
const NEAR = 2; // px between passing edges
const LEAST_WIDE = 1600; // px that a row may be wide, whatever the height
const WIDE = 1.5; // heights of the drawing that a row may be wide
const LONGEST = 48; // rows that an edge with a route crosses

/** @typedef {{x: Float64Array, y: Float64Array, row: Int32Array, rows: Int32Array[], tops: Float64Array,
 *   since: Int32Array, routes: Int32Array[], width: number, height: number}} Layered
 *   centers of nodes and of the points of edges behind them; members of each row from left to right; the row from
 *   which on edges may reach into each; the items that each edge goes through, none where it has no route */

/**
 * @param {ArrayLike<number>} widths @param {ArrayLike<number>} heights
 * @param {Int32Array} from @param {Int32Array} to
 * @returns {Layered}
 */
export function layered(widths, heights, from, to) {
  const count = widths.length;
  const row = rowsOf(count, from, to);
  const { routes, wide, itemRow } = routed(widths, from, to, row);
  const unwrapped = membersOf(itemRow);
  const [above, below] = neighbors(itemRow.length, routes);
  order(unwrapped, above, below);
  const { rows, since } = wrapped(unwrapped, wide, heights);
  rows.forEach((members, k) => {
    for (const item of members) itemRow[item] = k;
  });
  const x = places(rows, wide, count, above, below);
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
    since,
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

/**
 * Rows that are far wider than the drawing is high as several, one below the other, that take their members in turn: so
 * each member stays near its place.
 * @param {Int32Array[]} rows @param {number[]} wide @param {ArrayLike<number>} heights of the nodes
 */
function wrapped(rows, wide, heights) {
  const tallest = Array.from(heights).reduce((most, height) => Math.max(most, height), 0);
  const limit = Math.max(LEAST_WIDE, WIDE * rows.length * (tallest + RISE));
  /** @type {Int32Array[]} */
  const found = [];
  const since = [];
  let before = 0;
  for (const members of rows) {
    const first = found.length;
    const count = Math.ceil(members.reduce((sum, item, k) => sum + wide[item] + gap(members, k, heights.length), 0) / limit);
    for (let lane = 0; lane < Math.max(count, 1); lane += 1) {
      found.push(members.filter((_, k) => k % Math.max(count, 1) === lane));
      since.push(before);
    }
    before = first;
  }
  return { rows: found, since: Int32Array.from(since) };
}

/** px before a member of a row: passing edges, whose numbers are those from `count` on, are near each other.
 * @param {Int32Array} members @param {number} k @param {number} count of nodes */
function gap(members, k, count) {
  if (!k) return 0;
  return members[k] >= count && members[k - 1] >= count ? NEAR : GAP;
}

/** Centers, each as near to its neighbors as its row allows.
 * @param {Int32Array[]} rows @param {number[]} wide @param {number} count of nodes
 * @param {[Int32Array, Int32Array]} above @param {[Int32Array, Int32Array]} below */
function places(rows, wide, count, above, below) {
  const x = new Float64Array(wide.length);
  for (const members of rows) {
    let at = 0;
    members.forEach((item, k) => {
      x[item] = at + gap(members, k, count) + wide[item] / 2;
      at = x[item] + wide[item] / 2;
    });
    for (const item of members) x[item] -= at / 2;
  }
  for (let pass = 0; pass < PASSES; pass += 1) {
    const isDown = pass % 2 === 0;
    const near = isDown ? above : below;
    for (let k = 0; k < rows.length; k += 1) apart(rows[isDown ? k : rows.length - 1 - k], x, wide, count, near);
  }
  return x;
}

/**
 * Move a row to the centers nearest to its neighbors (least squares) that keep its order and do not overlap: members
 * that would overlap become one (pool adjacent violators).
 * @param {Int32Array} members @param {Float64Array} x @param {number[]} wide @param {number} count of nodes
 * @param {[Int32Array, Int32Array]} near
 */
function apart(members, x, wide, count, near) {
  const offsets = [];
  const means = [];
  const counts = [];
  let total = 0;
  members.forEach((item, k) => {
    total += wide[item] / 2 + (k ? wide[members[k - 1]] / 2 + gap(members, k, count) : 0);
    offsets.push(total);
    let goal = mean(x, near, item, x[item]) - total;
    let pooled = 1;
    while (means.length && means[means.length - 1] > goal) {
      const before = counts.pop() ?? 0;
      goal = (goal * pooled + (means.pop() ?? 0) * before) / (pooled + before);
      pooled += before;
    }
    means.push(goal);
    counts.push(pooled);
  });
  let at = 0;
  means.forEach((goal, k) => {
    for (let n = 0; n < counts[k]; n += 1, at += 1) x[members[at]] = goal + offsets[at];
  });
}
