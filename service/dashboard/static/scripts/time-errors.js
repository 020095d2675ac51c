/**
 * How certain times are: the interval of a plan's time, and its lead over another plan.
 * @module time-errors
 */

import { about } from "./about.js";
import { pages } from "./api.js";
import { element, fill } from "./dom.js";
import { kindText } from "./exchange-names.js";
import { plain, quantity } from "./units.js";

const LEAST_CERTAIN = 3;

/** @typedef {{seconds: number, low: number, high: number, probability: number, error: number,
 *   classes: {name: string, seconds: number, error: number}[]}} Time */
/** @typedef {{other: string, seconds: number, error_s: number, probability: number, within_error: boolean,
 *   rests_on: string, lead_s: number}} Lead */

/** Whether a plan is behind the fastest one, but not by more than the error. @param {Lead | null | undefined} lead */
export const isWithinError = (lead) => Boolean(lead && lead.within_error && lead.seconds <= 0);

/** @param {Lead} lead */
export function withinChip(lead) {
  const sure = `${plain(100 * lead.probability)} %`;
  return element(
    "span",
    { class: "chip mark", title: `the model cannot tell which of this plan and the fastest is faster: ${sure} for the latter` },
    "within the error",
  );
}

/**
 * A lead in a few words: by how much, on what, and whether it is certain.
 * @param {Lead | null | undefined} lead
 */
export function leadCell(lead) {
  if (!lead) return "";
  const size = quantity(Math.abs(lead.seconds), "s");
  const text = lead.seconds > 0 ? `leads by ${size}` : lead.seconds < 0 ? `${size} behind` : "as fast";
  const on = lead.rests_on ? `, on ${kindText(lead.rests_on)}` : "";
  return lead.within_error ? [`${text}${on} `, withinChip(lead)] : `${text}${on}`;
}

/**
 * The time of a plan, its interval and its lead, in sentences; nothing for a plan without.
 * @param {Element} place @param {{time: Time | null, lead: Lead | null}} plan
 */
export function showTimeErrors(place, { time, lead }) {
  fill(place, timeNote(time), leadNote(lead));
}

/** @param {Time | null} time */
function timeNote(time) {
  if (!time) return null;
  const classes = time.classes
    .slice(0, LEAST_CERTAIN)
    .map((each) => `${kindText(each.name)} (${quantity(each.seconds, "s")}, ±${plain(100 * each.error)} %)`);
  const interval = `${quantity(time.low, "s")} to ${quantity(time.high, "s")}`;
  return element(
    "p",
    { class: "small", id: "time-interval" },
    `Median time: ${quantity(time.seconds, "s")}, ${interval} with a probability of ${plain(100 * time.probability)} %. Least certain: ${classes.join(", ")}.`,
    about("time interval"),
  );
}

/** @param {Lead | null} lead */
function leadNote(lead) {
  if (!lead) return null;
  const other = element("a", { href: pages.plan(lead.other), class: "mono" }, lead.other.split("-").at(-1));
  if (!lead.seconds) return element("p", { class: "small", id: "lead" }, "It takes the same time as ", other, ".");
  const [size, error] = [quantity(Math.abs(lead.seconds), "s"), quantity(lead.error_s, "s")];
  const way = lead.seconds > 0 ? "faster" : "slower";
  const certain = lead.within_error ? "within the error of the model" : "beyond the error of the model";
  return element(
    "p",
    { class: "small", id: "lead" },
    `It is ${way} than `,
    other,
    ` by ${size} (standard error ${error}), ${certain}: with a probability of ${plain(100 * lead.probability)} %. ` +
      `The lead rests on ${kindText(lead.rests_on)}.`,
    about("lead"),
  );
}
