/**
 * What pages show of a mesh, be its nodes equal or different.
 * @module mesh-facts
 */

/**
 * The devices, one of each kind of nodes, and the axes. Nodes that differ are along an axis of their own, and have axes alike.
 * @param {any} mesh a mesh's document @returns {{ devices: any[], axes: any[] }}
 */
export function meshFacts(mesh) {
  if (!mesh.nodes) return { devices: [mesh.device], axes: mesh.axes };
  const size = mesh.nodes.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + (each.count ?? 1), 0);
  const node = { name: "node", size, ...mesh.network };
  return { devices: mesh.nodes.map((/** @type {any} */ each) => each.device), axes: [node, ...mesh.nodes[0].axes] };
}

/** The memory of the smallest device, in bytes. @param {any} mesh */
export function leastMemory(mesh) {
  return Math.min(...meshFacts(mesh).devices.map((device) => device.memory_bytes));
}
