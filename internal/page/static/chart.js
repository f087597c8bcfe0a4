// The chart of the last 15 minutes, and the seconds that it and the figures are made of.

import { $, fill, say, show } from './dom.js';
import { none, number, second } from './text.js';

const kept = 900; // seconds
const seconds = new Map(); // by the Unix time: [calls, refused, cap, effective, units]; null: not known
const least = 180; // seconds that the chart shows at least
const late = 30; // seconds that an answer may lie behind the newest one
let last = 0; // the newest second

// merge takes the columns of an answer or event. It is false where seconds before them are missing. Where they lie well before the
// newest second, the fleet's clock was set back: the seconds of the old clock are no longer the last ones.
export function merge(columns) {
  if (!columns?.calls) return true;
  const back = columns.from + columns.calls.length <= last - late;
  if (back) {
    seconds.clear();
    last = 0;
  }
  const whole = !back && (last === 0 || columns.from <= last + 1);
  columns.calls.forEach((calls, i) => {
    const at = columns.from + i;
    seconds.set(at, [calls, columns.refused[i], columns.cap[i], columns.effective[i], columns.units[i]]);
    last = Math.max(last, at);
  });
  for (const at of seconds.keys()) if (at <= last - kept) seconds.delete(at);
  return whole;
}

// lately are the known seconds of the last n, the oldest first.
function lately(n) {
  const all = [];
  for (let at = last - n + 1; at <= last; at++) if (seconds.get(at)?.[0] != null) all.push(seconds.get(at));
  return all;
}

const sum = (rows, column) => rows.reduce((total, row) => total + (row[column] ?? 0), 0);

// sums are the calls a second of late, and what the last minute had; null: not known.
export function sums() {
  const now = lately(3);
  const minute = lately(60);
  const cap = sum(minute, 2);
  return {
    now: now.length ? sum(now, 0) / now.length : null,
    share: cap > 0 ? sum(minute, 4) / cap : null,
    refused: minute.length ? sum(minute, 1) : null,
  };
}

let plot;
let inUnits = false; // the cap counts units, and so does the area
let colours = {};
const dark = matchMedia('(prefers-color-scheme: dark)');

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  colours = { accent: of('--accent'), text: of('--text'), muted: of('--muted'), warn: of('--warn'), fill: of('--calls-fill'), grid: of('--grid') };
}

function data() {
  const x = [];
  const columns = [[], [], [], []];
  for (let at = last - kept + 1; at <= last; at++) {
    const [calls, refused, cap, effective, units] = seconds.get(at) ?? [null, null, null, null, null];
    x.push(at);
    columns[0].push(inUnits ? units : calls);
    columns[1].push(cap);
    columns[2].push(effective === cap ? null : effective);
    columns[3].push(refused);
  }
  // no line along the bottom while nothing is refused
  columns[3] = columns[3].map((n, i, all) => (n || all[i - 1] || all[i + 1] ? n : null));
  return [x, ...columns];
}

const clockOf = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

function size() {
  const width = $('chart').clientWidth;
  return { width, height: width < 500 ? 220 : 300 };
}

function make() {
  readColours();
  const axis = {
    stroke: () => colours.muted, font: '12px system-ui, sans-serif', grid: { stroke: () => colours.grid, width: 1 }, ticks: { show: false },
  };
  const stepped = uPlot.paths.stepped({ align: 1 });
  const line = { points: { show: false }, spanGaps: false };
  plot = new uPlot({
    ...size(),
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { time: true, range: () => [from(), last] },
      y: { range: (_, low, high) => [0, Math.max(1, high || 0) * 1.12] },
    },
    axes: [
      { ...axis, size: 32, space: 70, values: (_, splits, __, ___, step) => splits.map((at) => (step < 60 ? second(at) : clockOf.format(new Date(at * 1000)))) },
      { ...axis, size: 46, values: (_, splits) => splits.map((n) => number(n)) },
    ],
    series: [
      {},
      { ...line, label: 'calls', stroke: () => colours.accent, fill: () => colours.fill, width: 1.5 },
      { ...line, label: 'cap', stroke: () => colours.text, width: 2, paths: stepped },
      { ...line, label: 'effective cap', stroke: () => colours.text, width: 2, dash: [5, 4], paths: stepped },
      { ...line, label: 'refused', stroke: () => colours.warn, width: 1.5 },
    ],
    hooks: { setCursor: [readOut] },
  }, data(), $('chart'));
  new ResizeObserver(() => plot.setSize(size())).observe($('chart'));
  dark.addEventListener('change', () => { readColours(); plot.redraw(); });
}

// from is the first second that is shown: the chart of a young fleet is not mostly empty.
function from() {
  let at = last - kept + 1;
  while (at < last - least + 1 && seconds.get(at)?.[2] == null) at++;
  return at;
}

// readOut says what the second under the pointer had.
function readOut(u) {
  const at = u.cursor.idx == null ? 0 : u.data[0][u.cursor.idx];
  const row = seconds.get(at);
  if (!row) return say('readout', '');
  const [calls, refused, cap, effective, units] = row;
  let text = `${second(at)}: ${calls == null ? 'not known' : `${number(calls)} calls${inUnits ? ` of ${number(units)} units` : ''}, ${number(refused)} refused`}`;
  if (cap != null) text += `, cap ${number(cap)}`;
  if (effective != null && effective !== cap) text += `, effective ${number(effective)}`;
  return say('readout', text);
}

// draw shows what was merged. unit is what the cap counts.
export function draw(unit) {
  if (last === 0) return;
  inUnits = unit !== 'calls';
  if (!plot) make();
  plot.setData(data());
  say('chart-h', inUnits ? 'Units of the calls a second' : 'Calls a second');
  say('legend-calls', inUnits ? 'units' : 'calls');
  show('legend-effective', plot.data[3].some((n) => n !== null));
  if ($('minute').open) table();
}

function table() {
  const rows = [];
  for (let at = last; at > last - 60; at--) {
    const row = seconds.get(at) ?? [null, null, null, null];
    rows.push([second(at), ...row.slice(0, 4).map((n) => ({ text: n == null ? none : number(n), kind: 'n' }))]);
  }
  fill('minute-rows', rows, 'No second is known.', 5);
}

$('minute').addEventListener('toggle', () => { if ($('minute').open && last > 0) table(); });
