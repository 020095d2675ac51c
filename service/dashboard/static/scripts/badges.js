/**
 * Status, checks and marks as small signs with words.
 * @module badges
 */

import { element } from "./dom.js";
import { meaningOf, originMeaning, originText } from "./marks.js";

/** Which status a class of the styles belongs to. */
const KNOWN = ["queued", "running", "succeeded", "failed", "cancelled"];

/** @param {string} status @param {string} [more] what it does right now */
export function statusBadge(status, more = "") {
  const kind = KNOWN.includes(status) ? status : "queued";
  return element("span", { class: `badge ${kind}` }, more ? `${status}: ${more}` : status);
}

/** @typedef {{word: string, ok: boolean | null, why: string}} Check */

/**
 * What was checked of a plan, in words. `ok` is null where it was not checked.
 * @param {any} verified
 * @returns {Check[]}
 */
export function checksOf(verified) {
  if (!verified) return [];
  const { sharding, memory, traffic, values } = verified;
  const isEqual = memory.predicted === memory.counted && traffic.predicted === traffic.counted;
  const checks = [
    {
      word: "proven",
      ok: sharding.ok,
      why: sharding.ok ? "the sharding is proven to compute the same program" : sharding.issues.join("; "),
    },
    {
      word: "counted",
      ok: isEqual || (verified.cost_model ? null : false),
      why: isEqual
        ? "the simulator counted the memory and traffic that were predicted, to the byte"
        : `the simulator counted other bytes than were predicted${verified.cost_model ? ", by another cost model" : ""}`,
    },
  ];
  if (values?.executed) {
    checks.push({
      word: values.ok ? "executed" : "other values",
      ok: values.ok,
      why: values.ok
        ? "run with numbers, its outputs equal those of the unsharded program"
        : refutation(verified),
    });
  }
  const suspects = verified.suspects ?? [];
  if (suspects.length && !isRefuted(verified))
    checks.push({
      word: "not trusted",
      ok: false,
      why: `a plan with the same rewriting computes other values; suspected: ${suspects.join(", ")}`,
    });
  return checks;
}

/**
 * Whether a plan was executed and computed other values than its program.
 * @param {any} verified
 */
const isRefuted = (verified) => Boolean(verified.values?.executed && !verified.values.ok);

/**
 * Whether a check of the plan failed, or it is not trusted for the rules that it shares with one that failed.
 * @param {any} verified
 */
export const isDoubtful = (verified) => checksOf(verified).some(({ ok }) => ok === false);

/**
 * The note on a refuted plan, with the suspected rules, if any.
 * @param {any} verified
 */
function refutation({ values, suspects = [] }) {
  const issues = values.issues ?? ["run with numbers, its outputs differ from those of the unsharded program"];
  return [...issues, ...(suspects.length ? [`suspected: ${suspects.join(", ")}`] : [])].join("; ");
}

/** @param {any} verified */
export function checkChips(verified) {
  const checks = checksOf(verified);
  if (!checks.length)
    return [element("span", { class: "chip", title: "a run verifies its plans at its end, as far as its deadline allows" }, "not verified")];
  return checks.map((check) => checkChip(check, check.why));
}

/** What was checked of a plan, where there is little room: a sign for each check that it passed, a word for every other. @param {any} verified */
export function checkSigns(verified) {
  const checks = checksOf(verified);
  if (!checks.length) return checkChips(verified);
  return checks.flatMap((check) => [
    check.ok
      ? element("span", { class: "chip good", role: "img", "aria-label": check.word, title: `${check.word}: ${check.why}` }, "✓")
      : checkChip(check, check.why),
    " ",
  ]);
}

/** @param {Check} check @param {string} [title] */
export function checkChip({ word, ok }, title = "") {
  const kind = ok === null ? "" : ok ? "good" : "bad";
  const sign = ok === null ? "?" : ok ? "✓" : "✕";
  return element("span", { class: `chip ${kind}`, ...(title ? { title } : {}) }, `${sign} ${word}`);
}

/**
 * Where a plan comes from, with what that means; none where nothing is known.
 * @param {import("./marks.js").Plan} plan
 */
export function originChips(plan) {
  return plan.origin ? [originChip(plan.origin.kind, originText(plan))] : [];
}

/** A kind of origins. @param {string} kind @param {string} text */
export function originChip(kind, text) {
  return element("span", { class: "chip origin", title: originMeaning(kind) }, text);
}

/** @param {string} mark */
export function markChip(mark) {
  const kind = mark.startsWith("least ") ? "least" : mark;
  return element("span", { class: `chip mark ${kind}`, title: meaningOf(mark) }, mark);
}
