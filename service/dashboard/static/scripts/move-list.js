/**
 * The history of a plan, move by move.
 * @module move-list
 */

import { element, fill } from "./dom.js";
import { choiceText } from "./notations.js";
import { plain } from "./units.js";

const NAMED = 3;

/**
 * @param {Element} place
 * @param {{rule: string, place: string | string[], choice: string}[]} moves
 * @param {string[]} [suspects] rules that are suspected of other values
 */
export function showMoves(place, moves, suspects = []) {
  if (!moves.length)
    return fill(place, element("p", { class: "empty" }, "There are no moves: this is the imported program."));
  fill(place, element("ol", { class: "moves", tabindex: 0, "aria-label": "Moves" }, moves.map(item(suspects))));
}

/**
 * @param {string[]} suspects
 * @returns {(move: {rule: string, place: string | string[], choice: string}, k: number) => Element}
 */
const item = (suspects) => ({ rule, place, choice }, k) => {
  const sites = [place].flat();
  const rest = sites.length - NAMED;
  const named = sites.slice(0, NAMED).join(", ");
  const where =
    rest > 0
      ? [
          element(
            "details",
            {},
            element("summary", {}, `${named} and ${plain(rest)} more`),
            sites.slice(NAMED).join(", "),
          ),
        ]
      : [named];
  return element(
    "li",
    {},
    element("span", { class: "muted number" }, String(k + 1)),
    element("strong", {}, rule),
    element(
      "div",
      {},
      suspects.includes(rule) ? element("span", { class: "chip bad" }, "suspected") : null,
      choice ? element("div", { class: "mono", title: choice }, choiceText(rule, choice)) : null,
      element("div", { class: "place" }, ...where),
    ),
  );
};
