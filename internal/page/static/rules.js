// Rules: cancelling and holding jobs that are on their way.

import { $, confirmed, focusOn, node, refill, say, show } from './dom.js';
import { Problem, ask, get } from './api.js';
import { inForce, renamed, setFault, setFaults, showProblem, signed } from './change.js';
import { fleetNow, leftOf, state } from './state.js';
import { clock, countdown, counted, number, today } from './text.js';

const soon = 400; // ms after the last key, when the nodes are asked
const fields = ['rule-kind', 'rule-when', 'rule-for', 'rule-custom', 'rule-why', 'by'];
const spoken = { cancel: 'Cancel', hold: 'Hold' };
const units = { m: ['minute', 'minutes', 60], h: ['hour', 'hours', 3600], d: ['day', 'days', 86400] };

let list = []; // the rules in force
let asked = null; // the nodes' revisions of the rules, when they were asked for
let shown = ''; // what the table has
let busy = false;

// cancelling are the rules in force that cancel jobs.
export const cancelling = () => list.filter((r) => r.kind === 'cancel');

// rules reads the rules when a node has others than before, and counts down what is left of them.
export function rules() {
  for (const e of document.querySelectorAll('#rule-rows .left')) say(e, leftText(e.dataset.until));
  rows(list.filter((r) => leftOf(r.until) > 0));
  const now = state.fleet.nodes.map((n) => `${n.id} ${n.figures?.rules}`).join();
  if (document.hidden || now === asked) return;
  asked = now;
  load();
}

const leftText = (until) => (leftOf(until) > 86400 ? counted(Math.ceil(leftOf(until) / 3600), 'hour left', 'hours left') : `${countdown(leftOf(until))} left`);

async function load() {
  try {
    const found = await get('rules');
    rows(found.rules);
    const { lacking } = found.in_force;
    show('rule-lacking', lacking.length > 0);
    say('rule-lacking', lacking.length > 0 ? `▲ Not yet known on ${lacking.join(', ')}.` : '');
  } catch (error) {
    asked = null; // again
    if (!(error instanceof Problem)) throw error; // the health line says that the node does not answer
  }
}

function rows(found) {
  list = found;
  show('rule-list', list.length > 0);
  const now = today() + JSON.stringify(list);
  if (now === shown) return;
  shown = now;
  refill('rule-rows', 'rules-h', list.map((r) => {
    const button = node('button', 'End…');
    button.type = 'button';
    button.id = `rule-end-${r.id}`;
    button.setAttribute('aria-label', `End rule ${r.id}`);
    button.addEventListener('click', () => end(r));
    const left = node('span', leftText(r.until));
    left.className = 'left';
    left.dataset.until = r.until;
    const until = node('td', '', `${clock(r.until)} `, left);
    return node('tr', '', node('th', spoken[r.kind] ?? r.kind), node('td', '', node('code', r.when)), until, node('td', r.why ?? ''), node('td', r.by), node('td', '', button));
  }));
  for (const th of $('rule-rows').querySelectorAll('th')) th.scope = 'row';
}

const kind = () => document.querySelector('input[name=rule-kind]:checked').value;
const when = () => $('rule-when').value.trim();

function lasts() {
  if ($('rule-for').value !== 'custom') return [$('rule-for').value, $('rule-for').selectedOptions[0].textContent, $('rule-for').value === '1h' ? 3600 : 86400];
  const n = Number($('rule-custom').value.trim());
  const [one, more, seconds] = units[$('rule-custom-unit').value];
  return [`${n * seconds}s`, counted(n, one, more), n * seconds];
}

let timer;
let question; // of the preview: ends the one that is under way

function previewSoon() {
  setFault('rule-when', '');
  say('rule-result', '');
  clearTimeout(timer);
  question?.abort();
  if (!when()) { show('rule-preview', false); return; }
  timer = setTimeout(() => preview(false), soon);
}

// preview asks the nodes how many jobs match, and returns what they said; null: nothing. strict shows a fault of the expression as
// one: while it is being typed it has some.
async function preview(strict) {
  clearTimeout(timer);
  question?.abort();
  question = new AbortController();
  try {
    const text = matching(await get(`rules/preview?when=${encodeURIComponent(when())}`, { signal: question.signal }));
    say('rule-preview', text);
    show('rule-preview', true);
    return text;
  } catch (error) {
    if (error.name === 'AbortError') return null;
    show('rule-preview', false);
    if (strict || error.status !== 422) showProblem(renamed(error, { when: 'rule-when' }), fields, 'rule-fault');
    else { say('rule-preview', `Not an expression yet: ${error.faults[0]?.remedy ?? error.message}`); show('rule-preview', true); }
    return null;
  }
}

function matching(p) {
  if (p.nodes === 0) return 'No node works now. Nodes that start look at each job that they fetch.';
  const parts = [];
  if (p.nodes > p.silent.length) {
    parts.push(p.held === 0
      ? 'No job is fetched now; jobs in Kafka are looked at as they are fetched.'
      : `${number(p.jobs)} of the ${number(p.held)} fetched jobs ${p.jobs === 1 ? 'matches' : 'match'}; those still in Kafka are looked at as they are fetched.`);
  }
  if (p.failed > 0) parts.push(`The expression fails on ${counted(p.failed, 'job, which does', 'jobs, which do')} not match.`);
  if (p.silent.length > 0) parts.push(`Not counted, since they did not answer: ${p.silent.join(', ')}.`);
  if (state.limit?.paused) parts.push('While the fleet is paused, no rule acts.');
  return parts.join(' ');
}

// faulty shows what is missing in the form, and is true where something is.
function faulty() {
  const faults = {
    'rule-when': when() ? '' : 'Enter an expression, such as job.headers["campaign"] == "spring".',
    'rule-custom': $('rule-for').value === 'custom' && !/^[1-9]\d{0,6}$/.test($('rule-custom').value.trim()) ? 'Enter a whole number from 1.' : '',
    'rule-why': $('rule-why').value.trim() ? '' : 'Say why, for those who wonder where the jobs are.',
  };
  return setFaults(faults);
}

$('rule-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  for (const id of ['rule-fault', 'rule-result']) say(id, '');
  for (const field of fields) setFault(field, '');
  if (busy || faulty()) return;
  busy = true;
  try {
    const matches = await preview(true);
    if (matches === null) return;
    const [span, spanText, seconds] = lasts();
    const what = kind();
    const why = $('rule-why').value.trim();
    const ends = clock(new Date(fleetNow().getTime() + seconds * 1000));
    if (!await confirmed(`${spoken[what]} these jobs?`, [
      `For ${spanText}, until ${ends}, this rule ${what === 'cancel' ? 'cancels' : 'holds'} jobs for which ${when()} is true.`,
      matches,
      what === 'cancel' ? 'They are not called. They become dead letters of class cancelled, which you can replay once the rule has ended.' : 'They wait. Others go past them. When the rule ends, they are called.',
      `Why: ${why}`,
    ], `${spoken[what]} the jobs`)) return;
    show('rule-progress', true);
    const made = await ask('POST', 'rules?wait=true', { body: signed({ kind: what, when: when(), for: span, why }) });
    inForce('rule-result', what === 'cancel' ? 'The jobs are cancelled.' : 'The jobs are held.', made);
    for (const id of ['rule-when', 'rule-why']) $(id).value = '';
    $('rule-for').value = '24h';
    show('rule-custom-field', false);
    show('rule-preview', false);
    await load();
  } catch (error) {
    const lasting = $('rule-for').value === 'custom' ? 'rule-custom' : 'rule-for';
    showProblem(renamed(error, { kind: 'rule-kind', when: 'rule-when', why: 'rule-why', until: lasting, for: lasting }), fields, 'rule-fault');
  } finally {
    busy = false;
    show('rule-progress', false);
  }
});

async function end(r) {
  if (busy || !await confirmed('End this rule?', [
    `${spoken[r.kind] ?? r.kind}: ${r.when}`,
    r.kind === 'cancel' ? 'From then on these jobs are called. Those that it cancelled stay dead letters until you replay them.' : 'The jobs that it holds are called, within five seconds.',
  ], 'End it')) return;
  busy = true;
  say('rule-fault', '');
  say('rule-result', '');
  show('rule-progress', true);
  try {
    const ended = await ask('DELETE', `rules/${encodeURIComponent(r.id)}?wait=true`, { body: signed({ why: 'ended on the page' }) });
    inForce('rule-result', 'The rule has ended.', ended);
    focusOn($('rules-h'));
  } catch (error) {
    showProblem(error, [], 'rule-fault');
  } finally {
    busy = false;
    show('rule-progress', false);
  }
  await load();
}

$('rule-when').addEventListener('input', previewSoon);
$('rule-why').addEventListener('input', () => setFault('rule-why', ''));
$('rule-custom').addEventListener('input', () => setFault('rule-custom', ''));
$('rule-for').addEventListener('change', () => { setFault('rule-for', ''); show('rule-custom-field', $('rule-for').value === 'custom'); });
