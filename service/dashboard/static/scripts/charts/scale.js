/**
 * Scales: from values to places and back, linear or logarithmic, with ticks at round values.
 * @module charts/scale
 */

import { column, plain, rounded } from "../units.js";

/** @typedef {{value: number, text: string}} Tick */

const WIDE = 1e5; // of the largest to the least value
const STEPS = [1, 2, 5, 10];

/** Changes of a share, such as the hypervolume, that are smaller than this part of it fill no chart. */
export const SHARE_SPAN = 0.01;

/** A scale of values in their base unit; shown in a readable one. */
export class Scale {
  /**
   * @param {number} low @param {number} high @param {{unit?: string, isLog?: boolean, isWhole?: boolean}} [options] logarithmic
   *   only if all is above zero; `isWhole`: there is nothing between whole values
   */
  constructor(low, high, { unit = "", isLog = false, isWhole = false } = {}) {
    this.isWhole = isWhole;
    this.isLog = isLog && low > 0;
    this.low = low;
    this.high = high > low ? high : low + (Math.abs(low) || 1) * 1e-9;
    /** A scale over so many powers has units of their own at its ticks, one of whole values whole powers of two. */
    this.isWide = this.isLog && (isWhole || (unit !== "" && high / low > WIDE));
    this.base = unit;
    const { factor, name } = this.isWide ? { factor: 1, name: "" } : column([low, high], unit);
    this.factor = factor;
    /** The unit that is shown. */
    this.unit = name;
    this.from = 0;
    this.to = 1;
  }

  /** Give the scale its place. @param {number} from @param {number} to px of `low` and `high` @returns {this} */
  over(from, to) {
    this.from = from;
    this.to = to;
    return this;
  }

  /** The place of a value, px. @param {number} value */
  at(value) {
    const share = this.isLog
      ? Math.log(value / this.low) / Math.log(this.high / this.low)
      : (value - this.low) / (this.high - this.low);
    return this.from + share * (this.to - this.from);
  }

  /** The value at a place. @param {number} place px */
  value(place) {
    const share = (place - this.from) / (this.to - this.from);
    return this.isLog ? this.low * (this.high / this.low) ** share : this.low + share * (this.high - this.low);
  }

  /** Round values of the scale, in order. @param {number} most how many, about @returns {Tick[]} */
  ticks(most) {
    const [low, high] = [this.low / this.factor, this.high / this.factor];
    if (this.isWide) return wideTicks(low, high, most, this.base);
    if (this.isLog && high / low > 4) return logTicks(low, high, most).map((value) => this.#tick(value, null));
    const least = this.isWhole ? 1 / this.factor : 0;
    let step = niceStep(Math.max(least, (high - low) / Math.max(1, most)));
    // Of values between two ticks nobody can read where they are: at least two are within the scale.
    if (multiples(low, high, step).length < 2) step = niceStep(Math.max(least, (high - low) / 5));
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    return multiples(low, high, step).map((value) => this.#tick(value, digits));
  }

  /** @param {number} value in the unit shown @param {number | null} digits */
  #tick(value, digits) {
    const isLong = digits === null || digits > 6 || Math.abs(value) >= 1e7;
    return { value: value * this.factor, text: isLong ? shortText(value, digits ?? 0) : plain(value, digits) };
  }
}

/** The multiples of a step that are within bounds. @param {number} low @param {number} high @param {number} step @returns {number[]} */
function multiples(low, high, step) {
  const found = [];
  const last = Math.floor(high / step + 1e-6);
  for (let k = Math.ceil(low / step - 1e-6); k <= last && found.length < 100; k += 1) found.push(k === 0 ? 0 : k * step);
  return found;
}

/** As few digits as tell the value from those that differ in the last of so many decimals. @param {number} value @param {number} decimals */
function shortText(value, decimals) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  const digits = Math.min(16, Math.floor(Math.log10(size) + 1e-9) + 1 + decimals);
  return size >= 1e-4 && size < 1e7
    ? value.toLocaleString("en-US", { maximumSignificantDigits: Math.max(4, digits) })
    : value.toExponential(Math.max(1, digits - 1)).replace(/\.?0*e\+?/, "e");
}

/** @param {number} low @param {number} high @param {number} most @returns {number[]} */
function logTicks(low, high, most) {
  for (const steps of [[1, 2, 3, 5], [1, 2, 5], [1, 3], [1]]) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1)
      for (const step of steps) {
        const value = step * 10 ** power;
        if (value >= low * 0.9999 && value <= high * 1.0001) found.push(value);
      }
    if (found.length <= most + 1 || steps.length === 1) return found.filter((_, k) => k % Math.ceil(found.length / (most + 1)) === 0);
  }
  return [];
}

/** The step of 1, 2 or 5 times a power of ten next above. @param {number} least */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * (STEPS.find((step) => step * power >= least * 0.9999) ?? 10);
}

/**
 * Powers of a thousand, of 1024 for bytes and whole values, or fractions of these, each in its own unit.
 * @param {number} low @param {number} high @param {number} most @param {string} unit @returns {Tick[]}
 */
function wideTicks(low, high, most, unit) {
  const [base, parts] = unit === "B" || unit === "" ? [2, 10] : [10, 3];
  const decades = Math.log(high / low) / Math.log(base);
  const steps = unit ? [1, 2, parts / 2, parts] : [1, 2, 3, 4, 5];
  const first = (/** @type {number} */ step) => Math.ceil(Math.log(low) / Math.log(base) / step - 1e-9);
  const isEnough = (/** @type {number} */ step) => base ** ((first(step) + 1) * step) <= high * (1 + 1e-9);
  const whole = steps.filter((one) => Number.isInteger(one));
  const step = whole.find((one) => decades / one <= most) ?? parts;
  const chosen = isEnough(step) ? step : (whole.findLast(isEnough) ?? step);
  const ticks = [];
  for (let k = first(chosen); base ** (k * chosen) <= high * (1 + 1e-9); k += 1) {
    const value = base ** (k * chosen);
    ticks.push({ value, text: unit ? rounded(value, unit) : plain(value) });
  }
  return ticks;
}

/**
 * The least and the largest of finite values, with a margin at both ends; null where there are none.
 * @param {ArrayLike<number>} values @param {{margin?: number, isLog?: boolean, isFromZero?: boolean, leastSpan?: number}} [options]
 *   the margin is a share of the distance between both, which is at least `leastSpan` of the largest value
 * @returns {[number, number] | null}
 */
export function extent(values, { margin = 0.04, isLog = false, isFromZero = false, leastSpan = 0 } = {}) {
  let [low, high] = [Infinity, -Infinity];
  for (let k = 0; k < values.length; k += 1) {
    const value = values[k];
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return null;
  if (isLog && low > 0) {
    const by = Math.max((high / low) ** margin, 1.005);
    return [low / by, high * by];
  }
  const missing = leastSpan * Math.abs(high) - (high - low);
  const by = Math.max(missing / 2, margin * (high - low)) || Math.abs(high) * 0.01 || 1;
  return isFromZero && low >= 0 ? [0, high + by] : [low - by, high + by];
}
