/**
 * The fields of a run beyond its program and machine: read as a request, and filled from one.
 * @module run-form
 */

import { byId, element, fill } from "./dom.js";

/** @typedef {{name: string, unit: string, title: string, formula: string}} Objective */

/** Fields that a request leaves out where they are as usual. */
const CHOICES = [
  ["devices", "any"],
  ["inputs", "chosen"],
  ["outputs", "sharded"],
  ["layouts", "chosen"],
  ["verify", "auto"],
];

/** @param {Objective[]} catalog @param {string[]} usual those that are checked */
export function showObjectives(catalog, usual) {
  const labels = catalog.map(({ name, unit, title, formula }) =>
    element(
      "label",
      {},
      element("input", { type: "checkbox", name: "objective", value: name, checked: usual.includes(name) }),
      element("span", {}, element("strong", {}, title), element("span", { class: "muted" }, `, ${unit}`)),
      element("span", { class: "hint" }, formula),
    ),
  );
  fill(byId("objectives"), ...labels);
}

/** Structural rules in groups; all are used unless some are taken away. @param {any[]} rules */
export function showRuleChoices(rules) {
  const own = rules.filter((rule) => rule.kind !== "placement");
  const labels = own.map(({ name, summary }) =>
    element(
      "label",
      {},
      element("input", { type: "checkbox", name: "rule", value: name, checked: true }),
      element("span", { class: "mono" }, name),
      element("span", { class: "hint" }, summary),
    ),
  );
  fill(byId("rules"), ...labels);
}

/** @param {string} name */
const boxes = (name) =>
  /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll(`input[name=${name}]`)]);

/** @param {string} name */
const checked = (name) =>
  boxes(name)
    .filter((box) => box.checked)
    .map((box) => box.value);

/** @param {string} id @returns {number | undefined} */
function numberOf(id) {
  const text = byId(id).value.trim();
  return text === "" ? undefined : Number(text);
}

/** What the fields say, without what is as usual. */
export function readFields() {
  const isUnrestricted = boxes("rule").every((box) => box.checked);
  const budget = { seconds: numberOf("seconds"), evaluations: numberOf("evaluations") };
  const pins = readPins();
  const chosen = Object.fromEntries(
    CHOICES.filter(([name, usual]) => byId(name).value !== usual).map(([name]) => [name, byId(name).value]),
  );
  return {
    objectives: readObjectives(),
    budget,
    seed: numberOf("seed") ?? 0,
    islands: numberOf("islands"),
    rules: isUnrestricted ? undefined : checked("rule"),
    pins: Object.keys(pins).length ? pins : undefined,
    start_from: byId("start-from").value.trim() || undefined,
    compute_dtype: byId("compute-dtype").value || undefined,
    ...chosen,
  };
}

/** Those that are checked, then the expressions: one per line. */
export function readObjectives() {
  const lines = byId("expressions").value.split("\n");
  return [
    ...checked("objective"),
    ...lines.map((/** @type {string} */ line) => line.trim()).filter(Boolean),
  ];
}

/** Check the boxes of these objectives; what has none is an expression. @param {string[]} names */
export function fillObjectives(names) {
  for (const box of boxes("objective")) box.checked = names.includes(box.value);
  const known = boxes("objective").map((box) => box.value);
  byId("expressions").value = names.filter((name) => !known.includes(name)).join("\n");
}

/** `site = spec` per line. */
function readPins() {
  const lines = byId("pins")
    .value.split("\n")
    .map((/** @type {string} */ line) => line.trim())
    .filter(Boolean);
  return Object.fromEntries(
    lines.map((/** @type {string} */ line) => {
      const at = line.indexOf("=");
      return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}

/** Put a stored run's request into the fields. @param {any} run */
export function fillFields(run) {
  fillObjectives(run.objectives);
  for (const box of boxes("rule")) box.checked = run.rules === null || run.rules.includes(box.value);
  byId("seconds").value = run.budget.seconds ?? "";
  byId("evaluations").value = run.budget.evaluations ?? "";
  byId("seed").value = run.seed;
  byId("islands").value = run.islands ?? "";
  byId("start-from").value = run.start_from ?? "";
  byId("compute-dtype").value = run.compute_dtype ?? "";
  byId("pins").value = Object.entries(run.pins)
    .map(([site, spec]) => `${site} = ${spec}`)
    .join("\n");
  for (const [name] of CHOICES) byId(name).value = run[name];
}
