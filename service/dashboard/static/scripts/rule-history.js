/**
 * How often rules were applied and improved the frontier, over the time of one run.
 * @module rule-history
 */

import { legend, seriesColor } from "./charts/legend.js";
import { LineChart } from "./charts/lines.js";
import { element, fill } from "./dom.js";
import { follow } from "./events.js";
import { RunState } from "./run-state.js";
import { count } from "./units.js";

/** @typedef {{seconds: number, rules: Record<string, {applied: number, improved: number}>}} Moment */

const MOST_LINES = 6;

/** A line for each of the rules that improved the frontier most: improvements by 1,000 applications up to each moment. */
export class RuleHistory {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    this.names = element("div");
    this.chart = new LineChart(element("div", { class: "rules-chart" }), "The rates of rules over the time of this run");
    this.hasEvents = false;
  }

  /** @param {string} path of the run in the API @param {import("./run-state.js").LiveRun} live */
  show(path, live) {
    if (live.live.ruleHistory.length || !live.shown.isEnded) return this.#draw(live.live.ruleHistory);
    if (this.hasEvents) return undefined;
    this.hasEvents = true;
    const replayed = new RunState();
    return follow(`${path}/events`, {
      onEvents: (events) => {
        for (const event of events) replayed.apply(event);
        this.#draw(replayed.ruleHistory);
      },
      onConnection: () => undefined,
      isOver: () => replayed.isEnded,
    });
  }

  /** @param {Moment[]} moments */
  #draw(moments) {
    if (!moments.length) return fill(this.place, element("p", { class: "empty" }, "No event has said anything of rules yet."));
    const series = linesOf(moments);
    fill(this.names, legend(series));
    if (!this.place.contains(this.chart.place)) fill(this.place, this.names, this.chart.place.parentElement);
    return this.chart.show({
      series,
      x: { title: "searched", unit: "s" },
      y: { title: "improvements by 1,000", unit: "" },
    });
  }
}

/** @param {Moment[]} moments */
function linesOf(moments) {
  const last = moments[moments.length - 1].rules;
  const best = Object.keys(last).sort(
    (a, b) => last[b].improved - last[a].improved || last[b].applied - last[a].applied,
  );
  return best.slice(0, MOST_LINES).map((name, k) => {
    const own = moments.filter(({ rules }) => rules[name]?.applied);
    const rates = own.map(({ rules }) => (1000 * rules[name].improved) / rules[name].applied);
    return {
      name,
      color: seriesColor(k),
      x: own.map(({ seconds }) => seconds),
      y: rates,
      note: (/** @type {number} */ n) =>
        `${count(own[n].rules[name].improved)} of ${count(own[n].rules[name].applied)} applications`,
    };
  }).filter(({ x }) => x.length);
}
