// The control that sets the rate.

import { $, confirmed, focusOn, node, say, show } from './dom.js';
import { Problem, get, limitPath } from './api.js';
import { change, inForce, setFault, setFaults, showProblem } from './change.js';
import { lastDecision } from './history.js';
import { adopt, following, leftOf, state, unitOf } from './state.js';
import { changes, clock, countdown, expiring, lasting, number, percent, settings } from './text.js';

const fields = ['cap', 'for', 'custom', 'why', 'by', 'force'];
let seen = null; // the limit that the operator decides about; null: the form is empty
let busy = false;
let changed = () => {};
let refusal = ''; // of a guardrail, for the cap in the form

export function onChanged(f) { changed = f; }

const terms = (limit, cap = limit.cap) => `${number(cap)} ${unitOf(limit)} in any ${lasting(limit.window_s)}`;

// rate shows what is in force.
export function rate() {
  const { limit } = state;
  if (!limit) return;
  $('rate').dataset.revision = limit.revision; // what the page knows, for tests
  say('rate-now', limit.paused ? `Paused; once it is resumed: ${terms(limit)}` : `Now: ${terms(limit)}`);
  say('cap-unit', `${unitOf(limit)} in any ${lasting(limit.window_s)}`);
  const back = following(limit).find(({ then }) => then.cap !== limit.cap || then.window_s !== limit.window_s);
  show('rate-override', Boolean(back));
  if (back) {
    say('rate-override', `This ends by itself in ${countdown(leftOf(back.at))}, at ${clock(back.at, true)}: then ${terms({ ...limit, ...back.then })} again.`);
  }
  if (!busy && seen && limit.revision !== seen.revision) {
    if (decided(limit) !== decided(seen)) meanwhile(seen, limit);
    seen = limit;
  }
  if (!busy && (again || !$('preview').hidden) && performance.now() - previewed > 2000) preview();
}

// meanwhile says who changed what while the operator decided. A guard that the fleet chose since then does not hide who it was.
async function meanwhile(before, now, refused = false) {
  const what = changes(before, now, true).join(', ') || 'no setting that is shown here';
  const last = now.by === 'dispatcher' ? await lastDecision().catch(() => null) : now;
  $('rate-meanwhile').replaceChildren(
    node('p', '', node('strong', `${last?.by || 'Somebody'} changed the limit meanwhile: ${what}.`)),
    node('p', `${last?.why ? `Why: ${last.why}. ` : ''}It is ${now.paused ? 'paused, at ' : ''}${terms(now)} now. ${refused ? 'Nothing of yours was changed: look' : 'Look'} at it and decide again.`),
  );
  show('rate-meanwhile', true);
}

function wanted() {
  const text = $('cap').value.trim();
  return /^\d+$/.test(text) ? Number(text) : NaN;
}

function lasts() {
  if ($('for').value !== 'custom') return $('for').value;
  return `${$('custom').value.trim()}${$('custom-unit').value}`;
}

function lastsText() {
  if ($('for').value !== 'custom') return $('for').selectedOptions[0].textContent;
  return `${$('custom').value.trim()} ${$('custom-unit').selectedOptions[0].textContent}`;
}

let previewed = 0; // when the preview was asked for, by performance.now()
let asked = null; // of the preview: ends the question that is under way; null: none is
let again = false; // no node could answer
let timer;

function stopAsking() {
  asked?.abort();
  asked = null;
  again = false;
}

function previewSoon() {
  seen ??= state.limit;
  setFault('cap', '');
  say('rate-result', '');
  clearTimeout(timer);
  stopAsking();
  if (!(wanted() >= 1)) { show('preview', false); return; }
  timer = setTimeout(preview, 200);
}

// preview asks what the cap in the form does, unless an answer is awaited.
async function preview() {
  if (asked) return;
  previewed = performance.now();
  asked = new AbortController();
  const { signal } = asked;
  let p;
  try {
    p = await get(`forecast?cap=${wanted()}`, { signal });
  } catch (error) {
    if (signal.aborted) return;
    stopAsking();
    again = error instanceof Problem && error.faults.length === 0;
    show('preview', false);
    showProblem(error, fields, 'rate-fault');
    return;
  }
  if (signal.aborted) return;
  stopAsking();
  say('rate-fault', '');
  say('preview-text', whatItDoes(p) + (state.limit.paused ? '' : expiring(p, ' ')));
  say('preview-share', `${percent(p.share)} of that cap can be used: ${number(p.share * p.cap / p.window_s)} ${unitOf(state.limit)} a second.`);
  refuse(p.refused ?? '');
  show('preview', true);
}

function whatItDoes(p) {
  if (p.jobs === 0) return 'No job waits now.';
  const jobs = `${number(p.jobs)} ${p.jobs === 1 ? 'job' : 'jobs'}`;
  if (state.limit.paused) return `${jobs} wait until the fleet is resumed.`;
  if (p.left_s === null && p.per_s > 0) return `${jobs} would not be gone within a year.`;
  if (p.left_s === null) return `${jobs} would never be gone: nothing is settled now.`;
  const now = state.fleet?.forecast;
  const fine = p.left_s < 600 || Math.abs(p.left_s - (now?.left_s ?? 0)) < 120;
  const then = clock(p.gone_at, fine);
  if (p.since === 'rate') return `${jobs} gone at ${then}, as now: another thing than this limit sets their pace.`;
  if (!now?.gone_at || Math.abs(p.left_s - now.left_s) < 1) return `${jobs} gone at ${then}.`;
  return `${jobs} gone at ${then} instead of ${clock(now.gone_at, fine)}.`;
}

// refuse shows what a guardrail refuses; '': nothing.
function refuse(text) {
  refusal = text;
  show('preview-refused', text !== '');
  show('force-field', text !== '');
  say('preview-refused', text === '' ? '' : `A guardrail refuses this. ${text}.`);
  if (text === '') $('force').checked = false;
}

// faulty shows what is missing in the form, and is true where something is.
function faulty() {
  const faults = {
    cap: wanted() >= 1 ? '' : 'Enter a whole number from 1.',
    custom: $('for').value === 'custom' && !/^[1-9]\d*$/.test($('custom').value.trim()) ? 'Enter a whole number from 1.' : '',
    why: $('why').value.trim() ? '' : 'Say why, for those who read the history.',
    force: refusal && !$('force').checked ? 'Check this to change the cap all the same, or enter another cap.' : '',
  };
  if (!faults.cap && state.limit && !state.limit.revert_at && wanted() === state.limit.cap) faults.cap = 'This is the cap already.';
  return setFaults(faults);
}

async function review(event) {
  event.preventDefault();
  for (const f of ['for', 'by']) setFault(f, '');
  say('rate-fault', '');
  say('rate-result', '');
  if (busy || !state.limit || faulty()) return;
  busy = true;
  const before = state.limit;
  seen = before;
  const cap = wanted();
  const verb = cap < before.cap ? 'Lower' : cap > before.cap ? 'Raise' : 'Keep';
  const usual = following(before).at(-1)?.then ?? before;
  const until = lasts() ? `, for ${lastsText()}. Then it is ${number(usual.cap)} again.` : ', until somebody changes it.';
  try {
    const agreed = await confirmed(`${verb} the cap of ${before.name}?`, [
      `From ${terms(before)} to ${terms(before, cap)}${until}`,
      `Why: ${$('why').value.trim()}`,
      refusal && `This passes the guardrail: ${refusal}.`,
    ], `${verb} to ${number(cap)}`);
    if (agreed) await send(before, { cap, for: lasts(), why: $('why').value.trim(), force: $('force').checked });
  } finally {
    busy = false;
    show('rate-progress', false);
    rate();
  }
}

const tries = 3;

// ownChoice are the settings that the fleet changes by itself. A change of theirs alone is not another operator's, and leaves what
// the operator decides about as it was.
const ownChoice = ['guard_s', 'lateness_s'];
const decided = (limit) => JSON.stringify([...Object.entries(limit)].filter(([name]) => settings.includes(name) && !ownChoice.includes(name)).sort());

async function send(before, body) {
  show('rate-progress', true);
  show('rate-meanwhile', false);
  let base = before;
  for (let n = 1; ; n++) {
    try {
      const now = await change('PATCH', '', body, base.revision);
      adopt(now);
      inForce('rate-result', `The cap is ${number(now.cap)}.`, now);
      clear();
      changed();
      return;
    } catch (error) {
      if (!(error instanceof Problem && error.status === 412)) { refused(error); return; }
    }
    try {
      base = await get(limitPath(before.name));
    } catch (error) {
      refused(error);
      return;
    }
    if (n === tries || decided(base) !== decided(before)) break;
  }
  lost(before, base);
}

function clear() {
  seen = null;
  stopAsking();
  for (const id of ['cap', 'why']) $(id).value = '';
  $('for').value = '';
  show('custom-field', false);
  refuse('');
  show('preview', false);
}

// lost shows what another operator was faster with.
function lost(before, now) {
  adopt(now);
  seen = now;
  meanwhile(before, now, true);
  preview();
  changed();
}

function refused(error) {
  if (error instanceof Problem && error.refused) {
    refuse(error.refused);
    show('preview', true);
    setFault('force', 'Check this to change the cap all the same, or enter another cap.');
    focusOn($('force'));
    return;
  }
  // the time is in a field of its own where it is another one than the list has
  if ($('for').value === 'custom') for (const f of error.faults ?? []) if (f.field === 'for') f.field = 'custom';
  showProblem(error, fields, 'rate-fault');
}

$('cap').addEventListener('input', previewSoon);
$('why').addEventListener('input', () => { seen ??= state.limit; setFault('why', ''); });
$('custom').addEventListener('input', () => setFault('custom', ''));
$('force').addEventListener('change', () => setFault('force', ''));
$('for').addEventListener('change', () => { setFault('for', ''); show('custom-field', $('for').value === 'custom'); });
$('rate-form').addEventListener('submit', review);
