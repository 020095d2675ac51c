/**
 * The fields of a run beyond its program and mesh: read as a request, and filled from one.
 * @module run-form
 */

import { byId, element, fill } from "./dom.js";

/** @typedef {{name: string, unit: string, title: string, description: string, expression: string}} Objective */

/** @param {Objective[]} catalog @param {string[]} usual those that are checked */
export function showObjectives(catalog, usual) {
  const labels = catalog.map(({ name, unit, title, description, expression }) =>
    element(
      "label",
      {},
      element("input", { type: "checkbox", name: "objective", value: name, checked: usual.includes(name) }),
      element(
        "span",
        {},
        element("strong", {}, title),
        unit ? element("span", { class: "muted" }, `, ${unit}`) : null,
      ),
      element("span", { class: "hint", title: expression }, description),
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

/** The fields that the page made from the descriptions of options. @returns {any[]} */
const optionFields = () => [...document.querySelectorAll("[data-option]")];

/** What a field says; undefined where it is empty. @param {any} field @returns {string | number | undefined} */
function valueOf(field) {
  const text = field.value.trim();
  if (text === "") return undefined;
  return ["integer", "number"].includes(field.dataset.kind) ? Number(text) : text;
}

/** What the fields say, without what is as usual. */
export function readFields() {
  const isUnrestricted = boxes("rule").every((box) => box.checked);
  /** @type {any} */
  const body = { objectives: readObjectives(), budget: {} };
  for (const field of optionFields()) {
    const path = field.dataset.path.split(".");
    const name = path.pop();
    let place = body;
    for (const part of path) place = place[part] ??= {};
    if (field.value.trim() !== field.dataset.default) place[name] = valueOf(field);
  }
  return {
    ...body,
    rules: isUnrestricted ? undefined : checked("rule"),
    ...readPairs(),
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

/** The fields of texts by name. @returns {any[]} */
const pairFields = () => [...document.querySelectorAll("[data-pairs]")];

/** What these fields say, by option: `name = text` per line; nothing of those that are empty. */
function readPairs() {
  const read = pairFields().map((field) => [field.dataset.pairs, pairsIn(field.value)]);
  return Object.fromEntries(read.filter(([, pairs]) => Object.keys(pairs).length));
}

/** @param {string} text @returns {Record<string, string>} */
function pairsIn(text) {
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf("=");
      return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}

/** Put a stored run's request into the fields. @param {any} run */
export function fillFields(run) {
  fillObjectives(run.objectives);
  for (const box of boxes("rule")) box.checked = run.rules === null || run.rules.includes(box.value);
  for (const field of optionFields()) {
    const path = field.dataset.path.split(".");
    field.value = path.reduce((/** @type {any} */ value, /** @type {string} */ part) => value[part], run) ?? "";
  }
  for (const field of pairFields()) {
    const lines = Object.entries(run[field.dataset.pairs]).map(([name, text]) => `${name} = ${text}`);
    field.value = lines.join("\n");
  }
}
