// The API: one place that sends requests. Addresses are relative, so that the page also
// works behind a proxy that adds a path.

const ROOT = 'api/v1/';
const SILENCE_MS = 25000; // the server says something every 10 s
const KEPT = 'vgpu-token';

export class Refused extends Error {
  constructor(status, sentence, retryAfterS = 0) {
    super(sentence);
    this.status = status;
    this.retryAfterS = retryAfterS;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEPT) ?? '',
  set: (text) => sessionStorage.setItem(KEPT, text),
};

function headers(more = {}) {
  const known = token.get();
  // Visible ASCII: the browser would not even send another one.
  if (/[^!-~]/.test(known)) throw new Refused(401, 'That is no token: it has a character that tokens never have. Copy it again, whole.');
  return known ? { ...more, Authorization: `Bearer ${known}` } : more;
}

async function checked(answer) {
  if (answer.ok) return answer;
  let sentence = `${answer.status} ${answer.statusText}`;
  try {
    sentence = (await answer.json()).error ?? sentence;
  } catch { /* no JSON: the status has to do */ }
  throw new Refused(answer.status, sentence, Number(answer.headers.get('Retry-After')) || 0);
}

export async function get(path, options = {}) {
  const answer = await checked(await fetch(ROOT + path, { ...options, headers: headers() }));
  return answer.json();
}

// Listens until the stream ends; `tell(event, value)` gets each message. Server-sent events
// by fetch, because EventSource can send no token.
export async function listen(seen, tell) {
  const giveUp = new AbortController();
  let silence = 0;
  const wait = () => {
    clearTimeout(silence);
    silence = setTimeout(() => giveUp.abort(), SILENCE_MS);
  };
  wait();
  try {
    const answer = await checked(await fetch(`${ROOT}events`, {
      headers: headers({ 'Last-Event-ID': seen.id, Accept: 'text/event-stream' }),
      signal: giveUp.signal,
      cache: 'no-store',
    }));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      wait();
      const messages = (rest + value).split('\n\n');
      rest = messages.pop();
      for (const message of messages) read(message, seen, tell);
    }
  } finally {
    clearTimeout(silence);
    giveUp.abort();
  }
}

function read(message, seen, tell) {
  let event = 'message';
  let data = '';
  let id = '';
  for (const line of message.split('\n')) {
    if (line.startsWith('event: ')) event = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
    else if (line.startsWith('id: ')) id = line.slice(4);
  }
  if (data) tell(event, JSON.parse(data));
  if (id) seen.id = id;
}
