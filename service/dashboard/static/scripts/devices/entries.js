/**
 * The devices and meshes of the catalog, as a list shows them.
 * @module devices/entries
 */

import { meshFacts } from "../mesh-facts.js";
import { rounded } from "../units.js";

/** `words` is what is searched in. @typedef {{name: string, kind: "mesh" | "device", text: string, words: string, aliases: string[]}} Entry */

const MATRIX = ["bf16", "fp16", "bfp8", "fp32"]; // the precisions by which devices are compared, the first that is there

/** Meshes first, each list by name. @param {any[]} meshes @param {any[]} devices @returns {Entry[]} */
export function choicesOf(meshes, devices) {
  return [
    ...meshes.map((mesh) => entryOf("mesh", mesh.name, meshLine(mesh), [mesh.device?.vendor, ...(mesh.systems ?? [])], [])),
    ...devices.map((device) =>
      entryOf("device", device.name, deviceLine(device), [device.vendor, device.architecture], device.aliases ?? [])),
  ];
}

/** @param {"mesh" | "device"} kind @param {string} name @param {string} text @param {string[]} more @param {string[]} aliases @returns {Entry} */
function entryOf(kind, name, text, more, aliases) {
  return { kind, name, text, aliases, words: [kind, name, text, ...more, ...aliases].join(" ").toLowerCase() };
}

/** @param {any} mesh */
function meshLine(mesh) {
  const { devices, axes } = meshFacts(mesh);
  const names = [...new Set(devices.map((/** @type {any} */ device) => device.name))].join(" and ");
  const links = axes.map((/** @type {any} */ axis) => `${axis.name} ${axis.size} (${axis.topology.replace("_", " ")})`);
  return `Mesh of ${names}: ${links.join(" × ")}`;
}

/** @param {any} device */
function deviceLine(device) {
  const precision = MATRIX.find((name) => name in device.peak_flops_per_s) ?? Object.keys(device.peak_flops_per_s)[0];
  const peak = precision ? `, ${precision} ${rounded(device.peak_flops_per_s[precision], "flop/s")}` : "";
  return `${device.vendor}: ${rounded(device.memory_bytes, "GB")} at ${rounded(device.memory_bytes_per_s, "B/s")}${peak}`;
}
