/**
 * Figures for people: the same units and digits as the command line's.
 * @module units
 */

/** Factors and names per unit, largest first. @type {Record<string, [number, string][]>} */
const SCALES = {
  s: [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
    [1e-9, "ns"],
  ],
  B: [
    [2 ** 40, "TiB"],
    [2 ** 30, "GiB"],
    [2 ** 20, "MiB"],
    [2 ** 10, "KiB"],
    [1, "B"],
  ],
  GB: [
    [1e12, "TB"],
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
    [1, "B"],
  ], // as makers of devices count
  "B/s": [
    [1e12, "TB/s"],
    [1e9, "GB/s"],
    [1e6, "MB/s"],
    [1e3, "kB/s"],
    [1, "B/s"],
  ],
  flop: [
    [1e15, "Pflop"],
    [1e12, "Tflop"],
    [1e9, "Gflop"],
    [1e6, "Mflop"],
    [1e3, "kflop"],
    [1, "flop"],
  ],
  "flop/s": [
    [1e15, "Pflop/s"],
    [1e12, "Tflop/s"],
    [1e9, "Gflop/s"],
    [1e6, "Mflop/s"],
    [1, "flop/s"],
  ],
  J: [
    [1e3, "kJ"],
    [1, "J"],
    [1e-3, "mJ"],
    [1e-6, "µJ"],
  ],
  USD: [
    [1, "USD"],
    [1e-3, "mUSD"],
    [1e-6, "µUSD"],
  ],
  "": [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
    [1, ""],
  ],
};

/** How the values of a column are written: the name and the factor of their unit, and the unit that values are in.
 * @typedef {{name: string, factor: number, unit: string, write: (value: number) => string}} Scale */

/** Units whose whole values are counts, written without decimals. */
const COUNTED = ["B", "flop", ""];

const DIGITS = 4;

/** Values outside these bounds are written in scientific notation. */
const LEAST = 1e-3;
const LARGEST = 1e7;

/** What percents in tenths would show as none. */
const LEAST_SHARE = 5e-4;

/** Units that constraints may be written in, per unit of an objective; the first is offered. */
export const CONSTRAINT_UNITS = {
  s: ["ms", "s", "us", "ns"],
  B: ["GiB", "MiB", "KiB", "B", "GB", "MB"],
  flop: ["Gflop", "Tflop", "Mflop", "flop"],
  J: ["J", "mJ", "kJ", "Wh"],
  USD: ["USD"],
};

/**
 * The factor and name of the unit in which the largest value is between 1 and 1000 or so.
 * @param {number[]} values
 * @param {string} unit
 * @returns {{factor: number, name: string}}
 */
export function scaleOf(values, unit) {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const scales = SCALES[unit] ?? [[1, unit]];
  // Without a single value there is nothing to go by; zeros are shown in the unit itself.
  const own = scales.find(([factor]) => factor === 1) ?? scales[0];
  const [factor, name] =
    largest === 0 ? own : (scales.find(([least]) => largest >= least) ?? scales[scales.length - 1]);
  return { factor, name };
}

/**
 * How many decimals show four digits of the largest value; none where it is below `LEAST`.
 * @param {number[]} values
 */
function decimalsOf(values) {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  if (largest < LEAST) return 0;
  const exponent = Number(largest.toExponential(DIGITS - 1).split("e")[1]);
  return Math.max(0, DIGITS - 1 - exponent);
}

/**
 * A number with separated thousands and exactly so many decimals.
 * @param {number} value
 * @param {number} [decimals]
 */
export function plain(value, decimals = 0) {
  return formatOf(decimals).format(value);
}

/** @type {Map<number, Intl.NumberFormat>} */
const FORMATS = new Map();

/** Numbers with so many decimals; made once, for making one takes longer than a hundred uses. @param {number} decimals */
function formatOf(decimals) {
  const known = FORMATS.get(decimals);
  if (known) return known;
  const made = new Intl.NumberFormat("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  FORMATS.set(decimals, made);
  return made;
}

/**
 * One value in a readable unit: `2.684 ms`. Whole bytes, flops and unitless values are counts: `512 B`.
 * @param {number} value
 * @param {string} unit
 */
export function quantity(value, unit) {
  const { name, write } = column([value], unit);
  return `${write(value)} ${name}`.trim();
}

/** A number in four significant digits at most. @param {number} value */
export function significant(value) {
  return value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
}

/**
 * One value in a readable unit, without digits that say nothing: `80 GB`.
 * @param {number} value
 * @param {string} unit
 */
export function rounded(value, unit) {
  const { factor, name } = scaleOf([value], unit);
  return `${significant(value / factor)} ${name}`.trim();
}

/**
 * A unit for a column of values, and how each value is written in it, all with equally many decimals. A value that
 * these decimals would show as zero has its own, and scientific notation where it is below `LEAST`.
 * @param {number[]} values
 * @param {string} unit
 * @returns {Scale}
 */
export function column(values, unit) {
  const { factor, name } = scaleOf(values, unit);
  const isCount = factor === 1 && COUNTED.includes(unit) && values.every(Number.isInteger);
  const decimals = isCount ? 0 : decimalsOf(values.map((value) => value / factor));
  return { name, factor, unit, write: (value) => number(value / factor, decimals) };
}

/** @param {number} value @param {number} decimals */
function number(value, decimals) {
  const size = Math.abs(value);
  const isLost = size > 0 && size < 0.5 * 10 ** -decimals;
  const isPlain = size === 0 || (LEAST <= size && size < LARGEST);
  if (isPlain) return plain(value, isLost ? decimalsOf([value]) : decimals);
  return value.toExponential(DIGITS - 1).replace("e+", "e");
}

/**
 * A whole number, shortened where long: `2,535`, `2.54 M`.
 * @param {number} value
 */
export function count(value) {
  if (value < 100000) return plain(value);
  const { factor, name } = scaleOf([value], "");
  return `${plain(value / factor, value / factor < 100 ? 2 : 1)} ${name}`;
}

/**
 * How long something took or takes: `3.2 s`, `4 min 10 s`, `2 h 5 min`.
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 60) return `${plain(seconds, seconds < 10 ? 1 : 0)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
}

/**
 * How long ago something was: `just now`, `5 min ago`, `3 days ago`.
 * @param {string} moment ISO 8601
 * @param {number} [now] milliseconds
 */
export function age(moment, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(moment)) / 1000);
  if (seconds < 10) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  const days = Math.floor(seconds / 86400);
  return days === 1 ? "yesterday" : `${days} days ago`;
}

/**
 * A moment in this place's time.
 * @param {string} moment ISO 8601
 */
export function clock(moment) {
  return new Date(moment).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

/**
 * A share as percent.
 * @param {number} share
 */
export function percent(share) {
  if (share === 0) return "0 %";
  if (share > 0 && share < LEAST_SHARE) return "< 0.1 %";
  return `${plain(100 * share, share < 0.1 ? 1 : 0)} %`;
}

/** @param {number} number @param {string} one @param {string} [many] */
export function several(number, one, many = `${one}s`) {
  return `${plain(number)} ${number === 1 ? one : many}`;
}
