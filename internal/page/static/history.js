// The changes of the limit, and taking the last one back.

import { $, confirmed, node, refill, say } from './dom.js';
import { Problem, get, limitPath } from './api.js';
import { change, inForce, showProblem } from './change.js';
import { adopt, following, leftOf, state } from './state.js';
import { changes, clock, number, stamp, today } from './text.js';

let changed = () => {};
export function onChanged(f) { changed = f; }

let loaded = ''; // day, revision and slowdown that the table is of
let loading = false;
let failed = false; // the page says that the table could not be read

const newest = 20; // lines that the table has

// read reads the newest lines. Where they are mostly the fleet's own, it also reads the changes before them, back to the one that undo
// would take back, and to the one before that.
async function read() {
  const lines = await get(limitPath(state.limit.name, `/history?n=${newest}`));
  const target = toUndo(lines);
  if (lines.length < newest || (target && lines.some((l) => l.revision < target.revision))) return lines;
  const changed = await get(limitPath(state.limit.name, '/history?n=1000&only=changes'));
  const known = new Set(lines.map((l) => l.revision));
  return [...lines, ...changed.filter((l) => !known.has(l.revision))];
}

// history reads the changes where there may be new ones.
export async function history() {
  const { limit } = state;
  const wants = limit ? `${today()} ${limit.revision} ${Boolean(limit.slowdown)} ${limit.slowdown?.blocked_until ?? ''}` : '';
  if (!limit || loading || wants === loaded) return;
  loading = true;
  try {
    rows(await read());
    loaded = wants;
    if (failed) say('undo-fault', '');
    failed = false;
  } catch (error) {
    failed = true;
    showProblem(error, [], 'undo-fault');
    await new Promise((resolve) => setTimeout(resolve, 5000));
  } finally {
    loading = false;
  }
}

// chosen tells whether the fleet chose another guard by itself. Undo passes over that.
const chosen = (l) => l.by === 'dispatcher' && l.from.guard_auto && l.to.guard_auto && l.from.lateness_s !== l.to.lateness_s;

// toUndo is the change that undo would take back.
function toUndo(lines) {
  let before = Infinity;
  for (const l of lines.filter((one) => one.revision)) {
    if (l.revision >= before || chosen(l)) continue;
    if (!l.undid) return l;
    before = l.undid;
  }
  return null;
}

function whatOf(l) {
  if (!l.revision) return l.event;
  let text = changes(l.from, l.to).join(', ');
  if (!text) text = `guardrails: max_cap ${number(l.max_cap)}, max_step ${number(l.max_step)}`;
  if (l.undid) text = `undo of revision ${l.undid}: ${text}`;
  return l.revert_at ? `${text}; until ${clock(l.revert_at)}` : text;
}

const byOf = (l) => (l.by === 'dispatcher' ? 'the fleet itself' : l.by);

// rows shows the newest lines, and below them the change that undo would take back.
function rows(lines) {
  const target = toUndo(lines);
  const taken = new Set(lines.map((l) => l.undid).filter(Boolean));
  const all = lines.filter((l, i) => i < newest || l === target).map((l) => {
    const last = node('td');
    if (l === target) {
      const button = node('button', 'Undo…');
      button.type = 'button';
      button.id = 'undo';
      button.addEventListener('click', () => undo(l, lines));
      last.append(button);
    } else if (taken.has(l.revision)) last.textContent = 'undone';
    const row = node('tr', '', node('td', stamp(l.changed ?? l.at)), node('td', whatOf(l)), node('td', l.why ?? ''), node('td', byOf(l)), last);
    if (taken.has(l.revision)) row.className = 'undone';
    return row;
  });
  if (lines.length === 0) {
    const cell = node('td', 'Nobody has changed the limit yet.');
    cell.colSpan = 5;
    cell.className = 'empty';
    all.push(node('tr', '', cell));
  }
  refill('history-rows', 'history-h', all);
}

// until is when the terms before a change would have ended by themselves; '': they would not, or that is over. The API wants a
// time for terms that were an override.
function until(l, lines) {
  const before = lines.filter((one) => one.revision).find((one) => one.revision < l.revision);
  return before?.revert_at && !following(state.limit).some(({ at }) => at === before.revert_at) && leftOf(before.revert_at) > 1 ? before.revert_at : '';
}

const tries = 3;

// takeBack undoes the change that the operator saw as the last one, and no other. If it still is, takeBack tries again: the fleet may
// have chosen another guard meanwhile.
async function takeBack(l, lines, body) {
  for (let n = 1, now = lines; ; n++) {
    try {
      return await change('POST', '/undo', body, now.find((one) => one.revision).revision);
    } catch (error) {
      if (error.status !== 412 || n === tries) throw error;
    }
    now = await read();
    if (toUndo(now)?.revision !== l.revision) throw new Problem(412, { detail: meanwhile(now) });
  }
}

const newestOf = (lines) => lines.find((one) => one.revision && !chosen(one));

// lastDecision says who changed the limit last, and why, where that was not the fleet, which chose another guard.
export async function lastDecision() {
  const newest = newestOf(await read());
  return newest && { by: byOf(newest), why: newest.why };
}

// meanwhile says which change came before the undo.
function meanwhile(lines) {
  const newest = newestOf(lines);
  const what = newest ? `${byOf(newest)} changed the limit meanwhile: ${whatOf(newest)}` : 'The history does not hold the change any more';
  return `${what}. Nothing was undone: look at it and decide again.`;
}

async function undo(l, lines) {
  const back = changes(l.to, l.from);
  const ends = until(l, lines);
  if (!await confirmed('Undo this change?', [
    `The change of ${clock(l.changed, true)} by ${l.by}: ${whatOf(l)}.`,
    back.length > 0 && `Undo makes: ${back.join(', ')}${ends ? `, until ${clock(ends, true)} as before` : ''}.`,
  ], 'Undo it')) return;
  say('undo-fault', '');
  say('undo-result', '');
  const button = $('undo');
  if (button) button.disabled = true;
  try {
    const now = await takeBack(l, lines, { why: 'undone on the page', for: ends ? `${Math.ceil(leftOf(ends))}s` : '' });
    adopt(now);
    inForce('undo-result', 'Undone.', now);
    changed();
  } catch (error) {
    showProblem(error, [], 'undo-fault');
    if (button) button.disabled = false;
  }
}
