// The page: it follows the events, and shows what they bring.

import { $, say, show } from './dom.js';
import { Problem, follow, get, onSignIn, setToken, token } from './api.js';
import { draw, merge } from './chart.js';
import { figures, head, health, overview, slowdown } from './overview.js';
import * as historyOf from './history.js';
import { letters } from './letters.js';
import * as pauseOf from './pause.js';
import * as rateOf from './rate.js';
import { rules } from './rules.js';
import './why.js';
import { isOld, state, take, unitOf } from './state.js';
import { zoneName } from './text.js';

let signedOut = false; // the API asked for a token, and none was entered since

// tick shows what changes with time alone.
function tick() {
  say('zone', `Times: ${zoneName()}`);
  health();
  figures();
  if (state.fleet) { rateOf.rate(); pauseOf.pause(); slowdown(); }
  if (state.fleet && !signedOut) { rules(); letters(); }
  link();
}

function link() {
  const live = !isOld() && !signedOut;
  $('dot').classList.toggle('live', live);
  if (signedOut) say('connection', 'Not signed in');
  else say('connection', live ? 'Live' : state.fleet || state.problem ? 'No connection, trying again' : 'Connecting…');
}

function changed() {
  tick();
  historyOf.history();
}
for (const part of [rateOf, pauseOf, historyOf]) part.onChanged(changed);

let whole = false; // the chart has all seconds
let reading = false;

async function readSeconds() {
  if (reading) return;
  reading = true;
  try {
    merge(await get('calls?seconds=900'));
    whole = true;
    if (state.limit) draw(unitOf(state.limit));
  } catch (error) {
    if (!(error instanceof Problem)) throw error; // the next event asks again
  } finally {
    reading = false;
  }
}

function event(name, body) {
  show('sign-in', signedOut);
  show('page', !signedOut);
  show('sign-out', token() !== null);
  show('by-field', token() === null);
  if (name !== 'overview') {
    state.problem = { message: body.detail ?? 'the node can\'t read the fleet\'s state' };
    tick();
    return;
  }
  take(body);
  whole = merge(body.calls) && whole;
  if (!whole) readSeconds();
  head();
  overview();
  draw(unitOf(state.limit));
  changed();
}

function lost(problem) {
  state.problem = problem instanceof Problem ? problem : { message: 'the connection to this node broke off' };
  whole = false;
  if (!signedOut) show('page', true);
  tick();
}

const again = follow({ event, lost });

onSignIn((had) => {
  if (signedOut) return; // another request was answered first, and somebody may type by now
  signedOut = true;
  show('page', false);
  show('sign-in', true);
  show('sign-out', false);
  if (had) say('token-fault', 'This token is not known, or has ended.');
  setToken('');
  $('token').focus();
});

// tokenFault is why a text can't be a token; '' where it can. A header holds no other characters, also not those that nobody sees.
function tokenFault(text) {
  if (!text) return 'Enter a token.';
  return /^[\x21-\x7e]+$/.test(text) ? '' : 'A token is one word of visible ASCII characters. This text has others, maybe hidden ones: copy the token again.';
}

$('sign-in-form').addEventListener('submit', (e) => {
  e.preventDefault();
  const text = $('token').value.trim();
  const fault = tokenFault(text);
  say('token-fault', fault);
  if (fault) return;
  setToken(text);
  signedOut = false;
  $('token').value = '';
  again();
});

$('sign-out').addEventListener('click', () => { setToken(''); location.reload(); });

setInterval(tick, 1000);
tick();
