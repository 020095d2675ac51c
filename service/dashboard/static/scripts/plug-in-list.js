/**
 * What others have added to this installation, and what of it was left out and why.
 * @module plug-in-list
 */

import { byId, element, fill } from "./dom.js";

/** @typedef {{member: string, message: string, hint: string}} Fault */
/** @typedef {{name: string, distribution: string, version: string, members: string[], faults: Fault[]}} PlugIn */

/**
 * A line per plug-in, its faults below it; nothing, and no card, where there are none.
 * @param {PlugIn[]} plugIns
 */
export function showPlugIns(plugIns) {
  byId("plug-ins-card").hidden = plugIns.length === 0;
  fill(byId("plug-ins"), ...plugIns.map(lineOf));
}

/** @param {PlugIn} plugIn */
const lineOf = ({ name, distribution, version, members, faults }) =>
  element(
    "div",
    { class: "small" },
    element("span", { class: "mono" }, `${distribution || name} ${version}`),
    members.length ? ` adds ${members.join(", ")}` : " adds nothing",
    ...faults.map(({ member, message, hint }) =>
      element("p", { class: "fault" }, `${member ? `${member}: ` : ""}${message}; ${hint}`),
    ),
  );
