// What the page knows of the fleet.

export const state = {
  fleet: null, // the last overview
  limit: null, // the first limit, from the overview or a newer answer to a change
  heard: 0, // when the last overview came, by performance.now()
  problem: null, // why there is no newer one
  offset: 0, // of the fleet's clock to this one, in ms
};

const settles = 3000; // ms in which an event may still be older than the answer to a change
let adopted = -Infinity;

// adopt takes the limit from the answer to a change.
export function adopt(limit) {
  state.limit = limit;
  adopted = performance.now();
}

// take takes an overview.
export function take(fleet) {
  state.fleet = fleet;
  state.heard = performance.now();
  state.problem = null;
  state.offset = Date.parse(fleet.at) - Date.now();
  if (!state.limit || fleet.limit.revision >= state.limit.revision || performance.now() - adopted > settles) state.limit = fleet.limit;
}

export const fleetNow = () => new Date(Date.now() + state.offset);
export const leftOf = (at) => (Date.parse(at) - fleetNow().getTime()) / 1000;
export const ageS = () => (performance.now() - state.heard) / 1000;
export const isOld = () => state.fleet === null || ageS() > 5;

// following lists the terms that follow overrides, each with the time from which they hold.
export const following = (limit) => (limit.revert_to ? [{ at: limit.revert_at, then: limit.revert_to }, ...following(limit.revert_to)] : []);

export const unitOf = (limit) => (limit.max_cost > 1 ? 'units' : 'calls');
