// What all changes have in common: their faults, and what became of them.

import { $, focusOn, say } from './dom.js';
import { Problem, ask, limitPath, token } from './api.js';
import { state } from './state.js';
import { lasting } from './text.js';

const nameKey = 'dispatcher.name';
$('by').value = sessionStorage.getItem(nameKey) ?? '';
$('by').addEventListener('change', () => sessionStorage.setItem(nameKey, $('by').value.trim()));

// signed adds who makes a change, where that is stated. A token names its operator, and the API refuses another name beside it.
export function signed(body) {
  const by = token() ? '' : $('by').value.trim();
  return Object.fromEntries(Object.entries({ ...body, by }).filter(([, v]) => v !== '' && v !== false));
}

// change makes a change and waits for the nodes.
export const change = (method, rest, body, revision) => ask(method, limitPath(state.limit.name, `${rest}?wait=true`), { body: signed(body), revision });

// setFault shows a fault next to its field; '' takes it away.
export function setFault(field, text) {
  say(`${field}-fault`, text);
  const input = $(field);
  if (input && 'value' in input && input.tagName !== 'BUTTON') {
    if (text) input.setAttribute('aria-invalid', 'true'); else input.removeAttribute('aria-invalid');
  }
}

// setFaults shows what is wrong with each field, and is true where something is: the first such field has the focus then. '' is none.
export function setFaults(faults) {
  for (const [field, text] of Object.entries(faults)) setFault(field, text);
  const first = Object.keys(faults).find((field) => faults[field]);
  if (first) $(first).focus();
  return Boolean(first);
}

// renamed gives the faults of a problem the ids of a form's fields. names are those ids, by the API's field.
export function renamed(error, names) {
  for (const f of error.faults ?? []) f.field = names[f.field] ?? f.field;
  return error;
}

// showProblem puts each fault next to its field, and everything else at other. fields are those that the form has.
export function showProblem(error, fields, other) {
  if (!(error instanceof Problem)) throw error;
  const rest = [];
  let first;
  for (const f of error.faults) {
    if (!fields.includes(f.field)) { rest.push(`${f.field}: ${f.remedy}`); continue; }
    setFault(f.field, f.remedy);
    first ??= $(f.field);
  }
  if (error.faults.length === 0) rest.push(error.message);
  say(other, rest.join('; '));
  if (first) focusOn(first);
}

// inForce says on which nodes a change is in force.
export function inForce(id, what, document) {
  const { nodes, of, after_s: after, lacking } = document.in_force;
  let text = `${what} In force on ${nodes}/${of} nodes`;
  if (after !== undefined) text += ` after ${lasting(after)}`;
  if (lacking.length) text += `; not yet on ${lacking.join(', ')}`;
  if (of === 0) text = `${what} No node works now; it holds for those that start.`;
  $(id).classList.toggle('lacking', lacking.length > 0 || of === 0);
  say(id, `${text}.`.replace('..', '.'));
}
