// The HTTP API: requests, problems, and the stream of events.

const tokenKey = 'dispatcher.token';
let signIn = () => {};

export const token = () => sessionStorage.getItem(tokenKey);
export const setToken = (text) => (text ? sessionStorage.setItem(tokenKey, text) : sessionStorage.removeItem(tokenKey));

// onSignIn sets what is called when the API asks for a token.
export function onSignIn(f) { signIn = f; }

// Problem is an error as the API states it (RFC 9457), or the lack of an answer (status 0).
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `the node answered with ${status}`);
    this.status = status;
    this.faults = body.faults ?? [];
    this.revision = body.revision;
    this.refused = body.refused ?? ''; // by a guardrail, and why
  }
}

function headers(more) {
  const all = new Headers(more);
  if (token()) all.set('Authorization', `Bearer ${token()}`);
  return all;
}

// problemOf reads an answer that is an error. used is the token that was sent: another one may be set by now.
async function problemOf(response, used) {
  let body = {};
  try { body = await response.json(); } catch { /* no problem document */ }
  if (response.status === 401 && used === token()) signIn(used !== null);
  return new Problem(response.status, body);
}

// maybe follows a request whose answer did not come.
const maybe = (method) => (method === 'GET' ? '' : ' The change may have been made: look before you try again.');

export async function ask(method, path, { body, revision, signal } = {}) {
  const all = headers();
  if (body !== undefined) all.set('Content-Type', 'application/json');
  if (revision !== undefined) all.set('If-Match', `"${revision}"`);
  const used = token();
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, { method, headers: all, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store', signal });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, { detail: `This node does not answer.${maybe(method)}` });
  }
  if (!response.ok) throw await problemOf(response, used);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, { detail: `This node's answer broke off.${maybe(method)}` });
  }
}

export const get = (path, options) => ask('GET', path, options);
export const limitPath = (name, rest = '') => `limits/${encodeURIComponent(name)}${rest}`;

const silence = 10_000; // ms without an event, after which the stream is opened again
const firstWait = 500;
const longestWait = 10_000;

// follow reads the stream for good. on.event gets each event, on.lost each end of the stream. The function that it returns opens
// the stream again, with the token that is set then.
export function follow(on) {
  let wait = firstWait;
  let wake = () => {};
  let stop = () => {};
  const once = async () => {
    const abort = new AbortController();
    stop = () => abort.abort();
    let watch;
    const heard = () => { clearTimeout(watch); watch = setTimeout(() => abort.abort(), silence); };
    try {
      heard();
      const used = token();
      const response = await fetch('/api/v1/events', { headers: headers({ Accept: 'text/event-stream' }), cache: 'no-store', signal: abort.signal });
      if (!response.ok) throw await problemOf(response, used);
      await read(response.body, (name, data) => { heard(); wait = firstWait; on.event(name, JSON.parse(data)); });
    } finally {
      clearTimeout(watch);
      abort.abort();
    }
  };
  (async () => {
    for (;;) {
      let problem = null;
      try { await once(); } catch (error) { problem = error; }
      on.lost(problem);
      const forSignIn = problem instanceof Problem && problem.status === 401;
      await new Promise((resolve) => {
        wake = resolve;
        if (!forSignIn) setTimeout(resolve, wait * (0.75 + Math.random() / 2));
      });
      wait = Math.min(wait * 2, longestWait);
    }
  })();
  return () => { wait = firstWait; stop(); wake(); };
}

// read takes a body of server-sent events apart.
async function read(body, event) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      let name = 'message';
      const data = [];
      for (const line of rest.slice(0, end).split('\n')) {
        if (line.startsWith('event:')) name = line.slice(6).trim();
        else if (line.startsWith('data:')) data.push(line.slice(5).trimStart());
      }
      rest = rest.slice(end + 2);
      if (data.length > 0) event(name, data.join('\n'));
    }
  }
}
