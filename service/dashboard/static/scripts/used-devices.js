/**
 * The devices that a plan uses, in words.
 * @module used-devices
 */

/**
 * The devices of all stages together, and how they are shared among these; without stages the part of the mesh.
 * @param {{devices: string, stages?: {count: number} | null}} plan
 */
export function usedDevices({ devices, stages }) {
  if (!stages || stages.count < 2 || devices === "all") return devices;
  const sizes = devices.split(",").map((axis) => Number(axis.split(":")[1]));
  const all = sizes.reduce((product, size) => product * size, stages.count);
  return `${all}: ${stages.count} stages of ${sizes.join(" × ")}`;
}
