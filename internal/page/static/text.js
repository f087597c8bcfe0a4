// How figures and times are written for people.

const many = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

export const none = '–';

export function number(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return none;
  return Math.abs(n) < 100 && !Number.isInteger(n) ? few.format(n) : many.format(n);
}

export function percent(share) {
  return share === null || share === undefined || Number.isNaN(share) ? none : `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

export function counted(n, one, more) {
  return `${number(n)} ${n === 1 ? one : more}`;
}

// expiring says, after a text, how many of the fetched jobs expire before their turn; '' where none does.
export function expiring(forecast, after) {
  return forecast.expire > 0 ? `${after}About ${number(forecast.expire)} of the ${counted(forecast.fetched, 'fetched job', 'fetched jobs')} ${forecast.expire === 1 ? 'expires' : 'expire'} before ${forecast.expire === 1 ? 'its' : 'their'} turn.` : '';
}

// lasting writes a time span, such as "2 min 5 s".
export function lasting(seconds) {
  if (seconds === null || seconds === undefined) return none;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${few.format(seconds)} s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s % 60 ? ` ${s % 60} s` : ''}`;
  if (s < 86400) return `${Math.floor(s / 3600)} h${Math.floor(s / 60) % 60 ? ` ${Math.floor(s / 60) % 60} min` : ''}`;
  return `${Math.floor(s / 86400)} d${Math.floor(s / 3600) % 24 ? ` ${Math.floor(s / 3600) % 24} h` : ''}`;
}

// windowed writes a limit's window, such as "1 s" or "1 min".
export const windowed = (seconds) => lasting(seconds);

// countdown writes what is left, such as "14:05" or "1:02:03".
export function countdown(seconds) {
  const s = Math.max(0, Math.ceil(seconds));
  const two = (n) => String(n).padStart(2, '0');
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

const clockWith = (options) => new Intl.DateTimeFormat('en-GB', { hourCycle: 'h23', ...options });
const minuteClock = clockWith({ hour: '2-digit', minute: '2-digit' });
const secondClock = clockWith({ hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayClock = clockWith({ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });
const daySecondClock = clockWith({ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayOf = new Intl.DateTimeFormat('en-CA', { year: 'numeric', month: '2-digit', day: '2-digit' });

// zone is the short name of the browser's zone at a time, such as GMT+1.
export function zone(at = new Date()) {
  const part = clockWith({ timeZoneName: 'short' }).formatToParts(at).find((p) => p.type === 'timeZoneName');
  return part ? part.value : 'local time';
}

export function zoneName() {
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return name && name !== zone() ? `${name} (${zone()})` : zone();
}

// today is the day and the zone now. What is shown for long is written again when they change: then its times have their day.
export const today = () => `${dayOf.format(new Date())} ${zone()}`;

const ofToday = (at) => dayOf.format(at) === dayOf.format(new Date());

// clock writes a time of day with its zone, and the day where it is another one.
export function clock(at, seconds = false) {
  const t = at instanceof Date ? at : new Date(at);
  if (Number.isNaN(t.getTime())) return String(at);
  const format = ofToday(t) ? (seconds ? secondClock : minuteClock) : (seconds ? daySecondClock : dayClock);
  return `${format.format(t)} ${zone(t)}`;
}

// stamp is a time for a table, whose head or page names the zone.
export function stamp(at) {
  const t = new Date(at);
  if (Number.isNaN(t.getTime())) return none;
  return (ofToday(t) ? secondClock : daySecondClock).format(t);
}

export const second = (unix) => secondClock.format(new Date(unix * 1000));

// inZone puts times of a sentence that are UTC into the browser's zone.
export const inZone = (sentence) => sentence.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (text) => clock(text, true));

// settingNames are the settings of a limit in words.
const settingNames = {
  cap: 'cap', window_s: 'window', burst: 'burst', paused: 'paused', max_cost: 'most units of a job', max_in_flight: 'most calls in flight', guard_s: 'guard',
  spread_s: 'spread', lateness_s: 'lateness', horizon_s: 'horizon', guard_auto: 'guard chosen by the fleet', algorithm: 'algorithm', weights: 'weights',
  exceptions: 'caps of single values', ignore_throttled: 'ignore 429s', max_cap: 'guardrail max_cap', max_step: 'guardrail max_step',
};

export const settings = Object.keys(settingNames);

function setting(name, value) {
  if (name.endsWith('_s') && typeof value === 'number') return lasting(value);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return number(value);
  if (Array.isArray(value)) return counted(value.length, 'value', 'values');
  return value === '' ? 'none' : String(value);
}

// changes says what differs between two sets of terms, such as "cap 300 → 150". Of two documents, only their settings are compared.
export function changes(from, to, documents = false) {
  const found = [];
  for (const name of Object.keys(to)) {
    if (documents && !(name in settingNames)) continue;
    if (from[name] === undefined || JSON.stringify(from[name]) === JSON.stringify(to[name])) continue;
    if (name === 'paused') found.push(to.paused ? 'paused' : 'resumed');
    else found.push(`${settingNames[name] ?? name} ${setting(name, from[name])} → ${setting(name, to[name])}`);
  }
  return found;
}
