/**
 * The list of redistributions, those that are alike together, the most bytes first.
 * @module sharding/moved-list
 */

import { element, fill, say } from "../dom.js";
import { kindText } from "../exchange-names.js";
import { meter } from "../meters.js";
import { nameOfAlike, nameWithoutNumbers } from "../site-names.js";
import { figure, figureIn, numberHead, rowOf, tableOf } from "../tables.js";
import { column, plain, several } from "../units.js";

/** @typedef {import("./columns.js").Columns} Columns */
/** @typedef {{name: string, members: number[], bytes: number, seconds: number, times: number}} Group */

const AT_ONCE = 12;
const MOST_ROUNDS = 4;

export class MovedList {
  /**
   * @param {HTMLElement} place @param {HTMLElement} status @param {Columns} columns
   * @param {(moved: number) => void} onChoose
   */
  constructor(place, status, columns, onChoose) {
    this.place = place;
    this.status = status;
    this.columns = columns;
    this.onChoose = onChoose;
    /** @type {import("./matrix.js").Choice | null} */
    this.choice = null;
    this.limit = AT_ONCE;
    this.chosen = -1;
  }

  /** Show those of a choice only. @param {import("./matrix.js").Choice | null} choice */
  filter(choice) {
    this.choice = choice;
    this.limit = AT_ONCE;
    this.draw();
  }

  /** Mark the row of a redistribution. @param {number} moved -1 for none */
  mark(moved) {
    this.chosen = moved;
    this.draw();
  }

  draw() {
    const { moved } = this.columns;
    const all = [...moved.tensor.keys()].filter((k) => !this.choice || this.choice.holds(k));
    const groups = groupsOf(this.columns, all);
    const bytes = all.reduce((sum, k) => sum + moved.bytes[k], 0);
    const sizes = column(groups.map((group) => group.bytes), "B");
    const times = column(groups.map((group) => group.seconds), "s");
    const kind = this.choice ? `: ${this.choice.name}` : "";
    say(this.status, `${several(all.length, "redistribution")}${kind}`);
    const rows = groups.slice(0, this.limit).map((group) => this.#row(group, sizes, times, bytes));
    const figures = [numberHead("made"), numberHead("bytes", sizes.name), numberHead("time", times.name, "exchange: time")];
    const heads = ["tensor → first reader, from → to", "", "exchange", ...figures];
    fill(
      this.place,
      rows.length ? tableOf(heads, rows, "Redistributions", { file: () => movedRows(this.columns) }) : null,
      groups.length > this.limit
        ? element(
            "p",
            { class: "empty" },
            element("button", { type: "button", class: "button small", onclick: () => ((this.limit = Infinity), this.draw()) }, `Show all ${plain(groups.length)}`),
          )
        : null,
    );
  }

  /** @param {Group} group @param {ReturnType<typeof column>} sizes @param {ReturnType<typeof column>} times @param {number} total bytes */
  #row(group, sizes, times, total) {
    const { moved } = this.columns;
    const [first] = group.members;
    const isChosen = group.members.includes(this.chosen);
    const share = meter(total ? group.bytes / total : 0);
    return rowOf(
      [
        element("button", { type: "button", class: "site", "aria-pressed": String(isChosen), onclick: () => this.onChoose(isChosen ? this.#next(group) : first) }, group.name),
        element("div", { class: "muted", title: ["from", "to"].map((end) => `${this.columns.shardings[moved[end][first]].text}${moved[`${end}_layout`][first]}`).join(" → ") }, `${this.columns.formText(first, "from")} → ${this.columns.formText(first, "to")}`),
      ],
      [
        figure(group.members.length > 1 ? `${plain(group.members.length)} alike` : "", group.members.length, "", "muted"),
        element("td", { class: "small" }, kindText(moved.kind[first]), overText(this.columns, first)),
        figure(`${plain(group.times)} ×`, group.times),
        figure([sizes.write(group.bytes), share], group.bytes, sizes.unit),
        figureIn(times, group.seconds),
      ],
      { class: isChosen ? "is-marked" : null },
    );
  }

  /** Another click on a group goes to its next member. @param {Group} group */
  #next({ members }) {
    return members[(members.indexOf(this.chosen) + 1) % members.length];
  }
}

/** @param {Columns} columns @param {number} moved */
export function overText(columns, moved) {
  const axes = [...columns.axesOfMoved[moved]];
  return axes.length ? ` over ${axes.join(" and ")}` : "";
}

/** The rounds for which it is made, in words; empty if the plan has none. @param {Columns} columns @param {number} moved */
export function roundsText(columns, moved) {
  if (columns.rounds === 1) return "";
  const rounds = columns.moved.rounds[moved];
  if (columns.moved.times[moved] === 1 && rounds.length > 1) return `once for ${several(rounds.length, "round")}`;
  if (rounds.length === columns.rounds) return "in all rounds";
  const some = rounds.slice(0, MOST_ROUNDS).map((/** @type {number} */ round) => plain(round + 1));
  return `in round ${some.join(", ")}${rounds.length > MOST_ROUNDS ? ", …" : ""}`;
}

/** @param {Columns} columns @param {number[]} all @returns {Group[]} */
function groupsOf(columns, all) {
  const { moved, tensors, blocks } = columns;
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const k of all) {
    const name = `${nameWithoutNumbers(tensors.name[moved.tensor[k]])} → ${nameWithoutNumbers(blocks.site[moved.reader[k]])}`;
    const key = [name, columns.formText(k, "from"), columns.formText(k, "to"), moved.kind[k]].join("\n");
    const group = groups.get(key) ?? { name, members: [], bytes: 0, seconds: 0, times: 0 };
    group.members.push(k);
    group.bytes += moved.bytes[k];
    group.seconds += moved.seconds[k];
    group.times += moved.times[k];
    groups.set(key, group);
  }
  const uses = new Map();
  for (const { name } of groups.values()) uses.set(name, (uses.get(name) ?? 0) + 1);
  for (const group of groups.values()) {
    const isAmbiguous = uses.get(group.name) > 1;
    const both = [group.members.map((k) => tensors.name[moved.tensor[k]]), group.members.map((k) => blocks.site[moved.reader[k]])];
    const saysMore = !isAmbiguous && both.every((names) => nameOfAlike(names) === nameWithoutNumbers(names[0]));
    group.name = both.map((names) => nameOfAlike(names, !saysMore)).join(" → ");
  }
  return [...groups.values()].sort((a, b) => b.bytes - a.bytes || b.seconds - a.seconds);
}

/** The rows of a file. @param {Columns} columns @returns {unknown[][]} */
function movedRows(columns) {
  const { moved, tensors, blocks } = columns;
  const head = ["tensor", "first reader", "readers", "from", "to", "exchange", "axes", "made", "bytes (B)", "time (s)"];
  const rows = moved.tensor.map((/** @type {number} */ tensor, /** @type {number} */ k) => [
    ...[tensors.name[tensor], blocks.site[moved.reader[k]], moved.readers[k]],
    ...[columns.formText(k, "from"), columns.formText(k, "to"), moved.kind[k], [...columns.axesOfMoved[k]].join(" ")],
    ...[moved.times[k], moved.bytes[k], moved.seconds[k]],
  ]);
  return [head, ...rows];
}
