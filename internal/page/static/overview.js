// Health, figures and tables.

import { $, fill, say, show } from './dom.js';
import { sums } from './chart.js';
import { ageS, isOld, leftOf, state, unitOf } from './state.js';
import { clock, counted, expiring, inZone, lasting, none, number, percent } from './text.js';

// Each state with its icon, its tone and its word. A tone has a colour, and never stands alone.
const states = {
  unknown: ['unknown', 'unknown', 'Unknown'],
  not_ready: ['warn', 'warn', 'Not ready'],
  paused: ['pause', 'warn', 'Paused'],
  blocked: ['warn', 'warn', 'Blocked by the provider'],
  cooldown: ['pause', 'warn', 'Cooling down'],
  changing: ['pause', 'warn', 'New settings begin soon'],
  provider: ['warn', 'warn', 'Provider does not answer'],
  idle: ['ok', 'ok', 'Idle'],
  slowed: ['warn', 'warn', 'Slowed down by the provider'],
  limited: ['ok', 'ok', 'Working at the limit'],
  gated: ['ok', 'ok', 'Working at a limit'],
  held: ['pause', 'ok', 'Working; rules hold jobs'],
  working: ['ok', 'ok', 'Working'],
};

let announced = '';

export function health() {
  const h = healthNow();
  let [icon, tone, word] = states[h.state] ?? ['unknown', 'unknown', h.state];
  if (h.warn && tone === 'ok') [icon, tone, word] = ['warn', 'warn', `${word}, but look at this`];
  $('health').dataset.tone = tone;
  const href = `#i-${icon}`;
  if ($('health-icon').getAttribute('href') !== href) $('health-icon').setAttribute('href', href);
  say('health-state', word);
  say('health-text', h.text);
  say('health-lacks', h.lacks ?? '');
  show('health-lacks', Boolean(h.lacks));
  document.title = `${word} – dispatcher`;
  if (announced !== word) { // the sentence has figures in it that change each second: it is announced with the state alone
    announced = word;
    say('announce', `${word}: ${h.text}`);
  }
}

function healthNow() {
  if (!isOld() && state.fleet) {
    const h = state.fleet.health;
    return { ...h, text: inZone(h.text).replace(/\b\d{4,}(?= jobs?\b)/g, (count) => number(Number(count))), lacks: h.lacks && inZone(h.lacks) };
  }
  const why = state.problem?.message ?? 'this node has sent nothing';
  if (!state.fleet) return { state: 'unknown', text: state.problem ? `Nothing is known of the fleet: ${why}` : 'Waiting for the first figures.' };
  return { state: 'unknown', text: `Nothing was heard for ${lasting(Math.floor(ageS()))}: ${why}`, lacks: 'The figures below are from before.' };
}

export function figures() {
  const old = isOld();
  $('page').classList.toggle('old', old);
  show('figures-age', old && state.fleet !== null);
  if (old && state.fleet) say('figures-age', `These figures are ${lasting(Math.floor(ageS()))} old.`);
}

// overview shows what an event brought.
export function overview() {
  const { fleet, limit } = state;
  const s = sums();
  say('f-calls', number(s.now === null ? null : Math.round(s.now)));
  say('f-share', s.share === null ? none : percent(s.share));
  say('f-waiting', number(fleet.forecast.jobs));
  const asleep = fleet.lanes.reduce((all, l) => all + l.asleep, 0);
  say('f-waiting-more', asleep > 0 ? `${number(asleep)} of them asleep, for a time or another limit` : '');
  gone(fleet.forecast, limit);
  say('f-refused', number(s.refused));
  const fresh = fleet.nodes.filter((n) => !n.stale && n.figures);
  say('f-late', number(fresh.reduce((all, n) => all + n.figures.late_slots, 0)));
  const dead = Object.entries(fleet.dead_letters).filter(([, n]) => n > 0).sort(([a], [b]) => a.localeCompare(b));
  say('f-dead', dead.length ? dead.map(([name, n]) => `${name} ${number(n)}`).join(', ') : 'none');
  tables(fleet);
}

function gone(forecast, limit) {
  if (forecast.jobs === 0) {
    say('f-gone', none);
    say('f-gone-more', 'no job waits');
  } else if (limit.paused || forecast.left_s === null) {
    say('f-gone', 'never');
    say('f-gone-more', limit.paused ? 'while the fleet is paused' : forecast.per_s > 0 ? 'hardly any job is settled now' : 'nothing is settled now');
  } else {
    say('f-gone', clock(forecast.gone_at, forecast.left_s < 120));
    say('f-gone-more', `in ${lasting(Math.ceil(forecast.left_s))}, at ${number(forecast.per_s)} jobs a second${expiring(forecast, '. ')}`);
  }
}

const n = (text) => ({ text, kind: 'n' });

function tables(fleet) {
  fill('lane-rows', fleet.lanes.map((l) => [
    l.name, n(number(l.waiting)), n(number(l.in_flight)), n(number(l.asleep + l.delayed)),
    n(l.oldest_s > 0 ? lasting(l.oldest_s) : none), n(number(l.per_s)), n(l.drain_s === null || (state.limit.paused && l.waiting > 0) ? 'never' : l.waiting + l.in_flight + l.asleep === 0 ? 'empty' : lasting(Math.ceil(l.drain_s))),
  ]), 'No node has said anything of its lanes.', 7);
  fill('limit-rows', fleet.limits.map((l) => [
    l.name, n(number(l.waiting)), n(percent(l.binds)),
    l.paused ? `This limit is paused, last change by ${l.paused.by}.` : l.binds >= 0.5 ? 'This limit holds jobs up: more nodes would not help.' : '',
  ]), 'No node has said anything of its limits.', 4);
  show('keys', fleet.keys.length > 0);
  fill('key-rows', fleet.keys.map((k) => [k.limit ? `a value of ${k.limit}` : 'an ordering key', k.hash, n(`${number(k.jobs)}${k.at_least ? ' or more' : ''}`)]), 'None.', 3);
  fill('node-rows', fleet.nodes.map((one) => {
    const [text, fine] = stateOf(one);
    return [
      one.name, { text, kind: fine ? '' : 'warn' }, { text: one.in_force ? 'in force' : '▲ not yet', kind: one.in_force ? '' : 'warn' },
      n(one.stale ? none : percent(one.share)), n(one.figures ? number(one.figures.late_slots) : none),
      n(one.figures ? `${lasting(Math.max(1, Math.round(one.age_s)))} old` : none), one.figures?.version ?? none,
    ];
  }), 'No node works.', 7);
  fill('topic-rows', fleet.topics.map((t) => [t.name, t.lane || none, n(number(t.partitions)), n(number(t.lag))]), 'No node works a topic.', 4);
}

// stateOf says whether a node is ready, or why not.
function stateOf(one) {
  if (one.missing) return [`▲ not seen for ${lasting(one.seen_s)}`, false];
  if (one.stale) return ['▲ says nothing of itself', false];
  const failing = one.figures.checks?.find((c) => c.error);
  if (!one.figures.ready) return [`▲ not ready: ${failing ? `${failing.name}: ${failing.error}` : one.figures.phase}`, false];
  if (one.figures.provider_down) return ['▲ ready; the provider does not answer it', false];
  return [one.figures.note ? `ready: ${inZone(one.figures.note)}` : 'ready', true];
}

// slowdown shows what the provider's answers leave of the limit.
export function slowdown() {
  const slow = state.limit?.slowdown;
  show('slow', Boolean(slow));
  if (!slow) return;
  const { limit } = state;
  const per = `${unitOf(limit)} in any ${lasting(limit.window_s)}`;
  const blocked = slow.blocked_until && leftOf(slow.blocked_until) > 0;
  say('slow-h', blocked ? 'The provider has blocked the fleet' : 'The provider slows the fleet down');
  say('slow-effective', blocked ? 'No calls now,' : `${number(slow.effective_cap)} ${per} now,`);
  say('slow-configured', `of ${number(limit.cap)} that are configured.`);
  say('slow-why', `Why: ${inZone(slow.why)}`);
  say('slow-until', blocked
    ? `Calls go on in ${lasting(Math.ceil(leftOf(slow.blocked_until)))}, at ${clock(slow.blocked_until, true)}.`
    : `${slow.since ? `Since ${clock(slow.since, true)}. ` : ''}The rate rises by itself while the provider accepts calls.`);
  say('slow-release', blocked ? 'End the block…' : 'End the slowdown…');
}

// head names the fleet.
export function head() {
  const parts = [];
  if (state.limit) parts.push(`${state.limit.namespace === 'default' ? '' : `${state.limit.namespace} / `}${state.limit.name}`);
  if (state.fleet) parts.push(counted(state.fleet.nodes.length, 'node', 'nodes'));
  say('where', parts.join(' · '));
}

