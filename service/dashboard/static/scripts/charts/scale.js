/**
 * Scales: from values to places and back, linear or logarithmic, with ticks at round values.
 * @module charts/scale
 */

import { column, plain, rounded } from "../units.js";

/** @typedef {{value: number, text: string}} Tick */

const WIDE = 1e5; // of the largest to the least value

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
    const step = niceStep(Math.max(least, (high - low) / Math.max(1, most)));
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const ticks = [];
    const first = Math.ceil(low / step - 1e-6);
    const last = Math.floor(high / step + 1e-6);
    for (let k = first; k <= last && ticks.length < 100; k += 1) ticks.push(this.#tick(k === 0 ? 0 : k * step, digits));
    return ticks;
  }

  /** @param {number} value in the unit shown @param {number | null} digits */
  #tick(value, digits) {
    const isLong = digits === null || digits > 6 || Math.abs(value) >= 1e7;
    return { value: value * this.factor, text: isLong ? shortText(value) : plain(value, digits) };
  }
}

/** @param {number} value */
function shortText(value) {
  const size = Math.abs(value);
  return size >= 1e-4 && size < 1e7
    ? value.toLocaleString("en-US", { maximumSignificantDigits: 4 })
    : value.toExponential(1).replace("e+", "e").replace(".0e", "e");
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
  return power * ([1, 2, 5, 10].find((step) => step * power >= least * 0.9999) ?? 10);
}

/**
 * Powers of a thousand, of 1024 for bytes and whole values, or fractions of these, each in its own unit.
 * @param {number} low @param {number} high @param {number} most @param {string} unit @returns {Tick[]}
 */
function wideTicks(low, high, most, unit) {
  const [base, parts] = unit === "B" || unit === "" ? [2, 10] : [10, 3];
  const decades = Math.log(high / low) / Math.log(base);
  const steps = unit ? [1, 2, parts / 2, parts] : [1, 2, 3, 4, 5];
  const step = steps.find((one) => Number.isInteger(one) && decades / one <= most) ?? parts;
  const ticks = [];
  const first = Math.ceil(Math.log(low) / Math.log(base) / step - 1e-9);
  for (let k = first; base ** (k * step) <= high * (1 + 1e-9); k += 1) {
    const value = base ** (k * step);
    ticks.push({ value, text: unit ? rounded(value, unit) : plain(value) });
  }
  return ticks;
}

/**
 * The least and the largest of finite values, with a margin at both ends; null where there are none.
 * @param {ArrayLike<number>} values @param {{margin?: number, isLog?: boolean, isFromZero?: boolean}} [options] the margin is a share
 * @returns {[number, number] | null}
 */
export function extent(values, { margin = 0.04, isLog = false, isFromZero = false } = {}) {
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
  const by = margin * (high - low) || Math.abs(high) * 0.01 || 1;
  return isFromZero && low >= 0 ? [0, high + by] : [low - by, high + by];
}
