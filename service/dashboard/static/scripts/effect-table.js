/**
 * Show how each move of a plan's history changed the run's objectives, with small bars.
 * @module effect-table
 */

import { breakable, element, fill } from "./dom.js";
import { meter } from "./meters.js";
import { choiceText } from "./notations.js";
import { figure, figureIn, numberHead, scrolling, tableOf } from "./tables.js";
import { column, plain } from "./units.js";

/** @typedef {{rule: string, place: string | string[], choice: string}} Move */
/** @typedef {{first: number, moves: Move[], cost: Record<string, number>, effect: Record<string, number>,
 *   without: Record<string, number> | null, gone_with: number[]}} Step */
/** @typedef {import("./cost-table.js").Objective} Objective */

const MOST_PERCENT = 1000;
const MOST_NAMED = 4;

/**
 * @param {Element} place
 * @param {any} explanation
 * @param {Objective[]} catalog
 */
export function showEffects(place, explanation, catalog) {
  /** @type {Step[]} */
  const steps = explanation.steps;
  const shown = explanation.objectives.flatMap((/** @type {string} */ name) => {
    const objective = catalog.find((one) => one.name === name);
    return objective && name in explanation.cost ? [scaled(explanation, steps, objective)] : [];
  });
  const lost = shown.length ? losses(steps, shown[0]) : null;
  const heads = [
    numberHead("move"),
    "rule",
    "place",
    ...shown.map((/** @type {ReturnType<typeof scaled>} */ one) => numberHead(one.objective.title, one.name, `cost: ${one.objective.name}`)),
    ...(lost ? [numberHead("without it", lost.name)] : []),
  ];
  const ends = (/** @type {string} */ title, /** @type {Record<string, number>} */ cost) =>
    element(
      "tr",
      { class: "total" },
      element("td"),
      element("th", { scope: "row", colspan: 2 }, title),
      shown.map((one) => figureIn(one, cost[one.objective.name])),
      lost ? element("td") : null,
    );
  const rows = steps.map((step, k) =>
    element(
      "tr",
      { data: { move: step.first } },
      figure(numbers(step), step.first, "", "muted"),
      element("th", { scope: "row", title: summaries(step, explanation.rules) }, rules(step)),
      element("td", { class: "small" }, where(step)),
      shown.map((one) => effect(step, one)),
      lost ? figure([lost.texts[k], nor(step)], lost.values[k], lost.unit, "small") : null,
    ),
  );
  const file = () => effectRows(
    explanation,
    shown.map((/** @type {ReturnType<typeof scaled>} */ { objective }) => objective),
  );
  const all = [ends("as imported", explanation.start), rows, ends("this plan", explanation.cost)].flat();
  fill(
    place,
    explanation.as_stored === false
      ? element(
          "p",
          { class: "notice" },
          explanation.cost_model_note
            ? `The history ends at other costs than were stored: these were ${explanation.cost_model_note}.`
            : "The history ends at other costs than were stored: the plan was found by another release.",
        )
      : null,
    scrolling(tableOf(heads, all, "What each move changed", { kind: "effects", file }), "tall"),
    element(
      "p",
      { class: "muted small" },
      "Before the first move every device computes everything. “Without it” is what the finished plan would lose without the move, " +
        "nor those that build on it, which are named below the figure.",
    ),
  );
}

/** The steps with exact figures. @param {any} explanation @param {Objective[]} objectives @returns {unknown[][]} */
function effectRows({ start, cost, steps }, objectives) {
  const of = (/** @type {Record<string, number> | null} */ values) => objectives.map(({ name }) => values?.[name]);
  const heads = ["change", "then", "change without it"].flatMap((what) => objectives.map(({ name, unit }) => `${name}: ${what}${unit && ` (${unit})`}`));
  const none = objectives.map(() => "");
  return [
    ["first move", "last move", "rules", "places", ...heads],
    ["", "", "as imported", "", ...none, ...of(start), ...none],
    ...steps.map((/** @type {Step} */ step) => [
      ...[step.first, step.first + step.moves.length - 1, rules(step), step.moves.flatMap((move) => move.place).join(" ")],
      ...[...of(step.effect), ...of(step.cost), ...of(step.without)],
    ]),
    ["", "", "this plan", "", ...none, ...of(cost), ...none],
  ];
}

/** How an objective's values are written, and its largest change. @param {any} explanation @param {Step[]} steps @param {Objective} objective */
function scaled(explanation, steps, objective) {
  const { name } = objective;
  const effects = steps.map((step) => step.effect[name]);
  const scale = column([explanation.start[name], explanation.cost[name], ...effects], objective.unit);
  return { ...scale, objective, largest: Math.max(0, ...effects.map(Math.abs)) };
}

/** @param {Step} step @param {ReturnType<typeof scaled>} one */
function effect(step, one) {
  const change = step.effect[one.objective.name];
  if (change === 0) return figure("·", 0, one.unit, "muted");
  const before = step.cost[one.objective.name] - change;
  const bar = meter(Math.abs(change) / one.largest, change < 0 ? "good" : "bad");
  const beside = before ? element("span", { class: "muted small" }, ` ${share(change / before)}`) : null;
  return figure([signed(one.write(change), change), beside, bar], change, one.unit, "effect");
}

/** What the plan would lose of its first cost. @param {Step[]} steps @param {ReturnType<typeof scaled>} one */
function losses(steps, one) {
  const values = steps.map((step) => step.without?.[one.objective.name]);
  const scale = column(
    values.map((value) => value ?? 0),
    one.objective.unit,
  );
  const texts = values.map((value) =>
    value === undefined ? "" : value === 0 ? "·" : signed(scale.write(value), value),
  );
  return { name: scale.name, unit: scale.unit, values, texts };
}

/** Which later moves build on a step, a few of them by number. @param {Step} step */
function nor({ gone_with }) {
  if (!gone_with.length) return null;
  const more = gone_with.length - MOST_NAMED;
  const named = gone_with.slice(0, MOST_NAMED).join(", ");
  return element(
    "div",
    { class: "muted nor", title: gone_with.join(", ") },
    `nor ${named}${more > 0 ? ` and ${plain(more)} more` : ""}`,
  );
}

/** @param {string} text @param {number} value */
function signed(text, value) {
  return value < 0 ? text.replace("-", "−") : `+${text}`;
}

/** @param {number} change */
function share(change) {
  if (100 * change >= MOST_PERCENT) return `× ${plain(1 + change)}`;
  return signed(`${plain(100 * change, 1)} %`, change);
}

/** @param {Step} step */
function numbers({ first, moves }) {
  return moves.length > 1 ? `${first}–${first + moves.length - 1}` : String(first);
}

/** @param {Step} step */
function rules({ moves }) {
  return [...new Set(moves.map((move) => move.rule))].join(", ");
}

/** @param {Step} step @param {Record<string, string>} rules */
function summaries({ moves }, rules) {
  return [...new Set(moves.map((move) => rules[move.rule]))].filter(Boolean).join(" ");
}

/** @param {Step} step */
function where({ moves }) {
  const places = moves.flatMap((move) => [move.place].flat());
  const more = places.length - 1;
  return [
    element("div", {}, breakable(places[0] ?? ""), more > 0 && ` and ${plain(more)} more`),
    moves.length === 1 && moves[0].choice ? element("div", { class: "mono muted", title: moves[0].choice }, choiceText(moves[0].rule, moves[0].choice)) : null,
  ];
}
