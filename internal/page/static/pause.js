// Pausing and resuming all calls, and ending a slowdown.

import { $, confirmed, focusOn, say, show } from './dom.js';
import { change, inForce, showProblem } from './change.js';
import { adopt, following, leftOf, state, unitOf } from './state.js';
import { clock, countdown, lasting, number } from './text.js';

let changed = () => {};
export function onChanged(f) { changed = f; }

// pause shows whether the fleet is paused, and what is left of it.
export function pause() {
  const { limit } = state;
  if (!limit) return;
  show('pause-form', !limit.paused);
  show('resume-form', limit.paused);
  say('pause-h', limit.paused ? 'Paused' : 'Pause');
  if (!limit.paused) return;
  const ends = following(limit).find(({ then }) => !then.paused)?.at;
  const who = `Last change by ${limit.by || 'nobody known'}${limit.why ? `: ${limit.why}` : ''}.`;
  show('resume-countdown', Boolean(ends));
  if (ends) say('resume-countdown', countdown(leftOf(ends)));
  say('resume-text', ends ? `until it resumes by itself, at ${clock(ends, true)}. ${who}` : `No call is made until somebody resumes it. ${who}`);
}

async function make(event, rest, body, done) {
  event.preventDefault();
  const button = event.submitter ?? event.target.querySelector('button');
  if (button.disabled || !state.limit) return;
  button.disabled = true;
  say('pause-fault', '');
  say('pause-result', '');
  show('pause-progress', true);
  try {
    const now = await change('POST', rest, body);
    adopt(now);
    inForce('pause-result', done, now);
    pause();
    focusOn($(now.paused ? 'resume-button' : 'pause-button'));
    $('pause-why').value = '';
    changed();
  } catch (error) {
    showProblem(error, [], 'pause-fault');
  } finally {
    button.disabled = false;
    show('pause-progress', false);
  }
}

$('pause-form').addEventListener('submit', (e) => make(e, '/pause', { for: $('pause-for').value, why: $('pause-why').value.trim() }, 'Paused.'));
$('resume-form').addEventListener('submit', (e) => make(e, '/resume', {}, 'Resumed.'));

$('slow-release').addEventListener('click', async () => {
  const { limit } = state;
  if (!await confirmed('End what the provider asked for?', [
    `The cap of ${number(limit.cap)} ${unitOf(limit)} in any ${lasting(limit.window_s)} is in force at once. If the provider refuses again, the fleet slows down again.`,
  ], 'End it')) return;
  say('slow-fault', '');
  try {
    const now = await change('POST', '/release', { why: 'released on the page' });
    adopt(now);
    changed();
  } catch (error) {
    showProblem(error, [], 'slow-fault');
  }
});
