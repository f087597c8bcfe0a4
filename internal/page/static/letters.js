// Dead letters: a list, and redrives, which replay or drop them.

import { $, confirmed, focusOn, node, refill, say, show } from './dom.js';
import { ask, get } from './api.js';
import { renamed, setFault, setFaults, showProblem, signed } from './change.js';
import { cancelling } from './rules.js';
import { state } from './state.js';
import { clock, counted, number, stamp, today } from './text.js';

const every = 2000; // ms between two readings of the runs, while one goes on
const idleEvery = 30_000; // while none does: a command or another page may start one
const mostRuns = 5; // that are shown, beside those that go on
const fields = ['letters-topic', 'settle-rate', 'settle-why', 'by'];
const names = { topic: 'letters-topic', rate: 'settle-rate', why: 'settle-why' };
const words = { running: 'running', done: 'done', stopped: 'stopped', failed: 'failed', lost: 'lost: its node says nothing of it' };

let page = null; // the first answer about the topic, with its counts; null: nothing was asked for
let topic = ''; // of the list
let next = ''; // where the list goes on
let listed = []; // the letters of the list
const chosen = new Set(); // ids
let listing = false; // letters are being read
let settling = false; // the dialog is open, or a run is being started

let runs = []; // redrives
let read = -Infinity; // when they were asked for, by performance.now()
let known = false; // the runs were read
let none = false; // this node can't replay or drop
let reading = false;
let shown = ''; // what their table has
let day = today(); // that the times of the tables are written for
const own = new Set(); // ids of the runs that this page started, and that were going on when it looked last

const plural = (n) => counted(n, 'dead letter', 'dead letters');
const chosenClass = () => document.querySelector('input[name=letters-class]:checked')?.value ?? '';

// letters shows the section where this node has dead letters, and reads the runs while one goes on.
export function letters() {
  topics();
  if (day !== today()) newDay();
  const goes = runs.some((r) => r.state === 'running');
  if (document.hidden || reading || none || performance.now() - read < (known && !goes ? idleEvery : every)) return;
  load();
}

// newDay writes the times again.
function newDay() {
  day = today();
  rows(runs);
  add({ letters: [], next });
}

// topics offers the job topics; a retry topic has no dead letters of its own.
function topics() {
  const all = state.fleet.topics.map((t) => t.name).filter((name) => !/\.retry\.[^.]+$/.test(name));
  const select = $('letters-topic');
  const now = all.join();
  if (select.dataset.of === now) return;
  select.dataset.of = now;
  const value = select.value;
  const any = node('option', 'the first that has dead letters');
  any.value = '';
  select.replaceChildren(any, ...all.map((name) => { const o = node('option', name); o.value = name; return o; }));
  select.value = all.includes(value) ? value : '';
  show('letters-topic-field', all.length > 1);
}

async function load() {
  reading = true;
  try {
    const found = await get('redrives');
    known = true;
    show('letters', true);
    say('runs-fault', '');
    rows(found);
  } catch (error) {
    known = false; // so it is asked again soon
    none = error.status === 404;
    if (none) return;
    showProblem(error, [], 'runs-fault');
  } finally {
    read = performance.now();
    reading = false;
  }
}

function whatOf(r) {
  const verb = r.kind === 'drop' ? 'Drop' : 'Replay';
  let which = 'all';
  if (r.ids) which = counted(r.ids, 'letter', 'letters');
  else if (r.class?.length) which = `class ${r.class.join(', ')}`;
  return `${verb} ${which} of ${r.topic}${r.since ? `, since ${clock(r.since)}` : ''}${r.rate ? `, at most ${number(r.rate)} a second` : ''}`;
}

function farOf(r) {
  let text = `${number(r.done)} ${r.kind === 'drop' ? 'dropped' : 'replayed'}`;
  if (r.left > 0) text += `, ${number(r.left)} left`;
  if (r.settled_before > 0) text += `, ${number(r.settled_before)} settled before`;
  if (r.missing > 0) text += `, ${number(r.missing)} missing`;
  return text;
}

function stateOf(r) {
  if (r.state === 'running' && r.stopped_by) return 'stopping';
  return `${words[r.state] ?? r.state}${r.state === 'stopped' && r.stopped_by ? ` by ${r.stopped_by}` : ''}${r.error ? `: ${r.error}` : ''}`;
}

function rows(found) {
  runs = found;
  const few = runs.filter((r, i) => i < mostRuns || r.state === 'running');
  show('runs', few.length > 0);
  const now = today() + JSON.stringify(few);
  if (now !== shown) {
    shown = now;
    refill('run-rows', 'runs-h', few.map(row));
  }
  for (const r of runs.filter((one) => own.has(one.id) && one.state !== 'running')) {
    own.delete(r.id);
    say('settle-result', `${r.kind === 'drop' ? 'The drop' : 'The replay'} is over: ${farOf(r)}${r.state === 'done' ? '' : `; ${stateOf(r)}`}.`);
    $('settle-result').classList.toggle('lacking', r.state !== 'done' || r.left > 0);
    if (page && topic === r.topic && !listing) list(topic, chosenClass());
  }
}

function row(r) {
  const going = r.state === 'running';
  const far = node('td', '');
  if (going) {
    const bar = node('progress', '');
    bar.setAttribute('aria-label', whatOf(r));
    if (r.to_read > 0) { bar.max = r.to_read; bar.value = r.read; }
    far.append(bar);
  }
  far.append(node('span', `${stateOf(r)}: ${farOf(r)}`));
  if (!going && r.state !== 'done') far.className = 'warn';
  for (const note of r.notes ?? []) far.append(node('p', note));
  const last = node('td', '');
  if (going && !r.stopped_by) {
    const button = node('button', 'Stop');
    button.type = 'button';
    button.id = `run-stop-${r.id}`;
    button.setAttribute('aria-label', `Stop: ${whatOf(r)}`);
    button.addEventListener('click', () => stop(r, button));
    last.append(button);
  }
  const head = node('th', stamp(r.started));
  head.scope = 'row';
  return node('tr', '', head, node('td', whatOf(r)), far, node('td', r.why ?? ''), node('td', `${r.by}, on ${r.node}`), last);
}

async function stop(r, button) {
  button.disabled = true;
  say('runs-fault', '');
  try {
    await ask('POST', `redrives/${encodeURIComponent(r.id)}/stop`, { body: signed({ why: 'stopped on the page' }) });
    focusOn($('runs-h'));
    await load();
  } catch (error) {
    button.disabled = false;
    showProblem(error, [], 'runs-fault');
  }
}

// list reads the letters of a topic from the beginning; of class '', all. Without a topic it looks for the first that has letters.
async function list(of, kind) {
  if (listing) return;
  listing = true;
  show('letters-progress', true);
  say('letters-fault', '');
  setFault('letters-topic', '');
  const all = [...$('letters-topic').options].map((o) => o.value).filter(Boolean);
  try {
    let found;
    let name;
    for (name of of ? [of] : all) {
      found = await get(pathOf(name, kind));
      if (found.read > 0) break;
    }
    if (!found) { say('letters-status', 'No node works a topic now, so no topic is known.'); return; }
    if (found.read > 0 || of) $('letters-topic').value = name;
    topic = name;
    page = found;
    listed = [];
    chosen.clear();
    add(found);
    counts(kind);
    const where = of || found.read > 0 || all.length === 1 ? `topic ${topic}` : 'any topic';
    say('letters-status', found.read > 0 ? `${found.truncated ? 'At least ' : ''}${plural(found.read)} of ${where}, read at ${clock(new Date(), true)}.${found.truncated ? ' Four seconds were not enough to read all.' : ''}` : `No dead letters of ${where}${found.truncated ? ' were found in four seconds' : ''}.`);
    show('letters-hint', false);
    if (found.read === 0 && $('settle-form').contains(document.activeElement)) $('letters-h').focus();
    show('settle-form', found.read > 0);
    say('letters-show', 'Read again');
  } catch (error) {
    showProblem(renamed(error, names), fields, 'letters-fault');
  } finally {
    listing = false;
    show('letters-progress', false);
  }
}

const pathOf = (of, kind, after = '') => `dead-letters?topic=${encodeURIComponent(of)}&class=${encodeURIComponent(kind)}&limit=50${after && `&after=${encodeURIComponent(after)}`}`.replace('&class=&', '&');

// counts shows the classes with their counts, of which one can be chosen.
function counts(kind) {
  const classes = Object.entries(page.classes).filter(([, n]) => n > 0).sort(([a], [b]) => a.localeCompare(b));
  if (kind && !page.classes[kind]) classes.push([kind, 0]);
  const had = document.activeElement?.name === 'letters-class';
  const options = [['', page.read], ...classes].map(([name, n]) => {
    const input = node('input', '');
    Object.assign(input, { type: 'radio', name: 'letters-class', id: `letters-class-${name || 'all'}`, value: name, checked: name === kind });
    const label = node('label', '', input, node('span', `${name || 'all classes'} `, node('strong', number(n))));
    label.className = 'chip';
    label.htmlFor = input.id;
    return label;
  });
  $('letters-classes').replaceChildren($('letters-classes').firstElementChild, ...options);
  if (had) document.querySelector('input[name=letters-class]:checked')?.focus();
  about();
}

function add(found) {
  listed.push(...found.letters);
  next = found.next ?? '';
  show('letters-more', next !== '');
  $('letter-rows').replaceChildren(...listed.map((l) => {
    const box = node('input', '');
    Object.assign(box, { type: 'checkbox', checked: chosen.has(l.id) });
    box.setAttribute('aria-label', `Choose ${l.id}`);
    box.addEventListener('change', () => { if (box.checked) chosen.add(l.id); else chosen.delete(l.id); say('settle-result', ''); about(); });
    const attempts = node('td', number(l.attempts));
    attempts.className = 'n';
    const cells = [stamp(l.failed_at), l.class, l.code ?? '', l.message ?? ''].map((text) => node('td', text));
    return node('tr', '', node('td', '', box), ...cells, attempts, node('td', l.id), node('td', l.origin ?? ''));
  }));
  if (listed.length === 0) {
    const cell = node('td', next ? 'None so far: show more.' : 'No dead letters of this class.');
    cell.colSpan = 8;
    cell.className = 'empty';
    $('letter-rows').append(node('tr', '', cell));
  }
}

// pick says which letters the buttons are about.
function pick() {
  if (chosen.size > 0) return { body: { ids: [...chosen] }, text: chosen.size === 1 ? 'the chosen dead letter' : `the ${number(chosen.size)} chosen dead letters` };
  const kind = chosenClass();
  const least = page.truncated ? 'at least ' : '';
  return kind
    ? { body: { class: [kind] }, text: `all dead letters of class ${kind} (${least}${number(page.classes[kind] ?? 0)})` }
    : { body: { all: true }, text: `all dead letters (${least}${number(page.read)})` };
}

function about() {
  say('settle-about', `Replay or drop ${pick().text}${chosen.size > 0 ? '' : ', or choose rows'}:`);
}

$('letters-form').addEventListener('submit', (event) => {
  event.preventDefault();
  say('settle-result', '');
  list($('letters-topic').value, '');
});
$('letters-topic').addEventListener('change', () => setFault('letters-topic', ''));

let timer;
const soon = 300; // ms: the arrow keys pass over classes

function listSoon() {
  clearTimeout(timer);
  timer = setTimeout(() => { if (listing) listSoon(); else list(topic, chosenClass()); }, soon);
}

$('letters-classes').addEventListener('change', () => { say('settle-result', ''); listSoon(); });

$('letters-more').addEventListener('click', async () => {
  if (listing) return;
  listing = true;
  show('letters-progress', true);
  say('letters-fault', '');
  try {
    add(await get(pathOf(topic, chosenClass(), next)));
  } catch (error) {
    showProblem(error, [], 'letters-fault');
  } finally {
    listing = false;
    show('letters-progress', false);
  }
});

// faulty shows what is missing in the form, and is true where something is.
function faulty(replay) {
  const rate = $('settle-rate');
  const faults = {
    'settle-rate': replay && (rate.validity.badInput || (rate.value !== '' && !(Number(rate.value) >= 0.01))) ? 'Enter a number from 0.01, or nothing.' : '',
    'settle-why': $('settle-why').value.trim() ? '' : 'Say why, for those who read the history.',
  };
  return setFaults(faults);
}

$('settle-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const replay = event.submitter?.value !== 'drop';
  say('settle-fault', '');
  say('settle-result', '');
  if (settling || faulty(replay)) return;
  settling = true;
  const { body, text } = pick();
  const rate = replay && $('settle-rate').value !== '' ? Number($('settle-rate').value) : '';
  const why = $('settle-why').value.trim();
  const rules = replay ? cancelling() : [];
  try {
    if (!await confirmed(`${replay ? 'Replay' : 'Drop'} ${text}?`, [
      replay
        ? `Their jobs are written to topic ${topic} again, and called once more${rate ? `; at most ${number(rate)} jobs a second are written` : ''}.`
        : 'They are settled without a call. The page can\'t bring them back.',
      rules.length > 0 && `A rule that cancels jobs is in force, and cancels those again for which it is true: ${rules.map((r) => r.when).join('; ')}`,
      `Why: ${why}`,
    ], replay ? 'Replay them' : 'Drop them')) return;
    const run = await ask('POST', `dead-letters/${replay ? 'replay' : 'drop'}`, { body: signed({ topic, ...body, rate, why }) });
    own.add(run.id);
    say('settle-result', `${replay ? 'The replay' : 'The drop'} has started on ${run.node}.`);
    $('settle-result').classList.remove('lacking');
    $('settle-why').value = '';
    rows([run, ...runs]);
  } catch (error) {
    showProblem(renamed(error, names), fields, 'settle-fault');
  } finally {
    settling = false;
  }
});

for (const field of ['settle-rate', 'settle-why']) $(field).addEventListener('input', () => setFault(field, ''));
