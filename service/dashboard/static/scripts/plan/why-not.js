/**
 * Why not otherwise: the other placements of a block, with the costs of the plan that has each, and what speaks against it.
 * @module plan/why-not
 */

import { keepChoice } from "../address.js";
import { get } from "../api.js";
import { byId, element, fill, say } from "../dom.js";
import { errorNotice } from "../notice.js";
import { figure, numberHead, rowOf, scrolling, showTable, tableOf } from "../tables.js";
import { column, duration, percent, plain, quantity, several } from "../units.js";
import { whenNear } from "./near.js";
import { costliest, scheduleOf } from "./schedule.js";

/** @typedef {{name: string, unit: string, title: string}} Objective */

const MARK = "#block=";
const SAME = 1e-9;

/** Let the section work. @param {any} plan @param {Objective[]} objectives that are known @param {Record<string, any>} bounds that are proven */
export function enableWhyNot(plan, objectives, bounds) {
  new WhyNot(plan, objectives, bounds);
}

class WhyNot {
  /** @param {any} plan @param {Objective[]} objectives @param {Record<string, any>} bounds */
  constructor(plan, objectives, bounds) {
    this.plan = plan;
    this.bounds = bounds;
    this.known = new Map(objectives.map((one) => [one.name, one]));
    this.number = 0; // of the last question
    const sites = Object.keys(plan.placements.blocks ?? {});
    fill(byId("why-not-blocks"), ...sites.map((site) => element("option", { value: site })));
    byId("why-not-follow").append(
      ...plan.objectives.map((/** @type {string} */ name) =>
        element("option", { value: name }, `follow for least ${this.#title(name)}`),
      ),
    );
    byId("why-not-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      const mark = `${MARK}${encodeURIComponent(byId("why-not-block").value.trim())}`;
      if (location.hash === mark) void this.#ask();
      else location.hash = mark;
    });
    for (const option of ["tied", "follow"])
      byId(`why-not-${option}`).addEventListener("change", () => byId("why-not-block").value.trim() && this.#ask());
    keepChoice("tied", byId("why-not-tied"));
    keepChoice("follow", byId("why-not-follow"));
    addEventListener("hashchange", () => this.#fromAddress());
    this.#fromAddress();
    whenNear(byId("why-not"), () => this.#suggest());
  }

  /** Fill in the block that takes longest where nobody has named one: then one click shows why. */
  async #suggest() {
    const field = byId("why-not-block");
    const sites = new Set(Object.keys(this.plan.placements.blocks ?? {}));
    const found = await scheduleOf(this.plan).then((schedule) => costliest(schedule, sites), () => null);
    if (field.value || !found?.site) return;
    field.value = found.site;
    // Who clicks into the field to enter a block replaces what nobody has entered.
    field.addEventListener("click", () => field.value === found.site && field.select());
    say(byId("why-not-status"), `It takes longest, with the copies that it reads: ${quantity(found.seconds, "s")}.`);
  }

  #fromAddress() {
    if (!location.hash.startsWith(MARK)) return;
    byId("why-not-block").value = decoded(location.hash.slice(MARK.length));
    byId("why-not").scrollIntoView({ block: "start" });
    void this.#ask();
  }

  /** @param {string} name */
  #title(name) {
    return this.known.get(name)?.title ?? name;
  }

  async #ask() {
    const number = ++this.number;
    const query = new URLSearchParams({ block: byId("why-not-block").value.trim() });
    if (byId("why-not-tied").checked) query.set("tied", "true");
    if (byId("why-not-follow").value) query.set("follow", byId("why-not-follow").value);
    const began = performance.now();
    say(byId("why-not-status"), "Costing the alternatives…");
    fill(byId("why-not-problem"));
    try {
      const found = await get(`${this.plan.links.alternatives}?${query}`);
      if (number !== this.number) return;
      say(byId("why-not-status"), `${several(found.alternatives.length, "alternative")} in ${duration((performance.now() - began) / 1000)}`);
      this.#show(found);
    } catch (error) {
      if (number !== this.number) return;
      say(byId("why-not-status"), "");
      byId("why-not-answer").hidden = true;
      fill(byId("why-not-problem"), errorNotice(error));
    }
  }

  /** @param {any} found */
  #show(found) {
    byId("why-not-answer").hidden = false;
    fill(byId("why-not-detail"));
    say(byId("why-not-words"), this.#words(found));
    const names = Object.keys(found.current.cost);
    const scales = names.map((name) =>
      column([found.current.cost[name], ...found.alternatives.map((/** @type {any} */ one) => one.cost[name])], this.known.get(name)?.unit ?? ""),
    );
    const row = (/** @type {any} */ one) => {
      const isCurrent = one === found.current;
      const strategy = element("button", { type: "button", class: "site", onclick: () => this.#detail(found, one) }, element("span", { class: "mono" }, one.strategy));
      const costs = names.map((name, k) => {
        const before = found.current.cost[name];
        const change = isCurrent ? null : element("div", { class: `small ${signOf(one.difference[name], before)}` }, changeText(one.difference[name], before));
        return figure([scales[k].write(one.cost[name]), change], one.cost[name], scales[k].unit);
      });
      const chip = one.feasible ? null : element("span", { class: "chip bad" }, "✕ infeasible");
      return rowOf(strategy, [...costs, element("td", {}, chip, chip ? " " : "", one.verdict)], {
        class: isCurrent ? "is-marked" : "",
      });
    };
    showTable(
      byId("why-not-table"),
      [
        "strategy",
        ...names.map((name, k) => numberHead(this.#title(name), scales[k].name, `cost: ${name}`)),
        "what speaks against it",
      ],
      [row(found.current), ...found.alternatives.map(row)],
      `Alternatives of ${found.block}`,
      { file: () => this.#rows(found) },
    );
  }

  /** The strategies with exact costs. @param {any} found @returns {unknown[][]} */
  #rows(found) {
    const names = Object.keys(found.current.cost);
    const unit = (/** @type {string} */ name) => this.known.get(name)?.unit ?? "";
    const heads = ["strategy", ...names.map((name) => `${name} (${unit(name)})`), "feasible", "what speaks against it"];
    const all = [found.current, ...found.alternatives];
    return [heads, ...all.map((one) => [one.strategy, ...names.map((name) => one.cost[name]), one.feasible, one.verdict])];
  }

  /** @param {any} found */
  #words(found) {
    const dims = found.dims.map((/** @type {any} */ dim) => `${dim.name} of ${plain(dim.size)}`).join(", ");
    const space = dims ? ` has a strategy for the index space ${dims}.` : " has no index space that could be split.";
    const better = found.alternatives.filter(
      (/** @type {any} */ one) => one.feasible && this.#isBetter(one, found),
    ).length;
    const alike = found.changed.length > 1 ? ` ${several(found.changed.length, "block")} change alike.` : "";
    const verdict = better
      ? ` ${several(better, "alternative is", "alternatives are")} better in some objective and worse in none.`
      : " None is better in some objective without being worse in another, or breaking a bound.";
    const name = this.plan.objectives.find((/** @type {string} */ one) => this.bounds[one]);
    const bound = name
      ? ` No placement at all brings ${this.#title(name)} below ${quantity(this.bounds[name].bound, this.known.get(name)?.unit ?? "")}, as is proven; this plan has ${quantity(found.current.cost[name], this.known.get(name)?.unit ?? "")}.`
      : "";
    const cut = found.complete ? "" : " It has more strategies than were evaluated.";
    return `${found.block} (${found.operator})${space}${alike}${verdict}${cut}${bound}`;
  }

  /** @param {any} one @param {any} found */
  #isBetter(one, found) {
    const signs = found.objectives.map((/** @type {string} */ name) => signOf(one.difference[name], found.current.cost[name]));
    return signs.includes("better") && !signs.includes("worse");
  }

  /** What changes with an alternative. @param {any} found @param {any} one */
  #detail(found, one) {
    const rows = one.copies.map((/** @type {any} */ copy) => {
      const use = (/** @type {any} */ each) => (each.seconds || each.traffic_bytes ? `${quantity(each.traffic_bytes, "B")}, ${quantity(each.seconds, "s")}` : "none");
      const seconds = copy.after.seconds - copy.before.seconds;
      return rowOf(
        [element("span", { class: "mono" }, copy.tensor), element("div", { class: "muted small" }, `from ${copy.from} to ${copy.to}`)],
        [
          figure(use(copy.before), copy.before.seconds, "s"),
          figure(use(copy.after), copy.after.seconds, "s"),
          figure(element("span", { class: signOf(seconds, copy.before.seconds || copy.after.seconds) }, signed(seconds, "s")), seconds, "s"),
        ],
      );
    });
    const heads = ["copy", numberHead("in the plan"), numberHead("then"), numberHead("change")];
    const table = scrolling(tableOf(heads, rows, "Copies that change", { file: () => copyRows(one.copies) }));
    const followed = Object.entries(one.followed);
    const excesses = one.excesses.map(
      (/** @type {any} */ excess) => element("li", {}, `${excess.bound}: it needs ${quantity(excess.value, this.known.get(excess.objective)?.unit ?? "")}, allowed are ${quantity(excess.limit, this.known.get(excess.objective)?.unit ?? "")}`),
    );
    fill(
      byId("why-not-detail"),
      element("h3", {}, element("span", { class: "mono" }, one.strategy)),
      element("p", {}, `The block itself takes ${quantity(one.block_s, "s")}, in the plan ${quantity(found.current.block_s, "s")}.`),
      excesses.length ? element("ul", {}, excesses) : null,
      followed.length
        ? element("p", {}, "Neighbors follow: ", followed.map(([site, strategy]) => `${site} ${strategy}`).join("; "))
        : null,
      rows.length ? table : element("p", { class: "muted" }, "No copy changes."),
      one.copy_count > rows.length ? element("p", { class: "muted small" }, `and ${several(one.copy_count - rows.length, "smaller change")} of copies`) : null,
    );
    byId("why-not-detail").scrollIntoView({ block: "nearest" });
  }
}

/** The copies that change, with exact figures. @param {any[]} copies @returns {unknown[][]} */
function copyRows(copies) {
  const rows = copies.map(({ tensor, from, to, before, after }) => [
    ...[tensor, from, to, before.traffic_bytes, before.seconds],
    ...[after.traffic_bytes, after.seconds, after.seconds - before.seconds],
  ]);
  return [["tensor", "from", "to", "in the plan (B)", "in the plan (s)", "then (B)", "then (s)", "change (s)"], ...rows];
}

/** A name in an address, as it is where nobody encoded it. @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Whether a change is worse or better. @param {number} change @param {number} before */
function signOf(change, before) {
  if (Math.abs(change) <= SAME * Math.max(Math.abs(before), Math.abs(before + change))) return "muted";
  return change > 0 ? "worse" : "better";
}

/** @param {number} change @param {number} before */
function changeText(change, before) {
  if (signOf(change, before) === "muted") return "same";
  const share = before ? change / before : Infinity;
  const sign = change > 0 ? "+" : "−";
  if (!Number.isFinite(share)) return "from none";
  return Math.abs(share) > 9 ? `× ${plain(1 + share, 1)}` : `${sign}${percent(Math.abs(share))}`;
}

/** @param {number} value @param {string} unit */
function signed(value, unit) {
  return value ? `${value > 0 ? "+" : "−"}${quantity(Math.abs(value), unit)}` : "0";
}
