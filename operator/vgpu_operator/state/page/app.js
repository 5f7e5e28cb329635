// Puts the page together: asks for the map once, then follows the stream of changes.

import * as api from './api.js';
import { CardMap } from './map.js';
import { Model } from './model.js';
import * as panels from './panels.js';
import { kind } from './scale.js';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
const LONGEST_ASKED_PAUSE_MS = 60000;
const byId = (id) => document.getElementById(id);
const kept = {
  get: (name) => { try { return localStorage.getItem(`vgpu-${name}`); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem(`vgpu-${name}`, value); } catch { /* private window */ } },
};

const model = new Model();
const map = new CardMap(model, { open: openCard });
const seen = { id: '' };
let status = null;
let connection = 'connecting';
let pending = { total: 0, pods: [] };
let opened = null; // { node, id, details }

// What is shown.

function standing(word = connection) {
  connection = word;
  document.documentElement.dataset.connection = word;
  panels.showStanding(byId('standing'), { connection, status });
}

function sums() {
  panels.showSums(byId('sums'), model, pending.total);
  const none = model.shown.length === 0;
  byId('empty').hidden = !none;
  byId('empty').textContent = !none ? '' : model.names.length
    ? 'No node has that in its name, its cards or its pods.'
    : 'No node has registered a card yet. Is a device plugin running? vgpu nodes shows what the nodes say.';
}

function waiting() {
  panels.showPending(byId('pending-body'), byId('pending-count'), { pending, leader: status?.leader ?? true, now: Date.now() });
}

function card() {
  if (!opened) return;
  const known = model.nodes.get(opened.node)?.cards.find((one) => one.id === opened.id);
  if (known) panels.showCard(byId('card-body'), { card: known, node: opened.node, details: opened.details, now: Date.now() });
  else byId('card-body').replaceChildren(panels.make('p', { class: 'note' }, `${opened.id} is no longer registered on ${opened.node}.`));
}

async function details() {
  const asked = opened;
  if (!asked) return;
  if (!model.nodes.has(asked.node)) {
    card();
    return;
  }
  try {
    const found = await api.get(`nodes/${encodeURIComponent(asked.node)}`);
    if (opened === asked) asked.details = found;
  } catch (fault) {
    if (fault instanceof api.Refused && fault.status !== 404) console.warn(fault.message);
    if (opened === asked) asked.details = null;
  }
  card();
}

async function openCard(node, id, { focus }) {
  opened = { node, id, details: null };
  map.choose(id);
  card();
  if (focus) byId('card-title').focus();
  await details();
}

// What comes in.

const taking = {
  status(value) {
    status = value;
    byId('version').textContent = `vgpu-operator ${value.version}.`;
    standing();
    waiting();
  },
  nodes(value) {
    const names = model.change(value);
    map.changed(names);
    sums();
    if (opened && names.includes(opened.node)) details();
  },
  pending(value) {
    pending = value;
    waiting();
    sums();
  },
};

async function whole() {
  const answer = await api.get('cards');
  model.replace(answer);
  seen.id = answer.revision;
  if (!byId('sizes').querySelector(':checked')) setSize(model.names.length > 1500 ? 'small' : model.names.length > 40 ? 'medium' : 'large');
  map.changed();
  sums();
  await details();
}

async function follow() {
  let pause = FIRST_PAUSE_MS;
  let fresh = false;
  for (;;) {
    let asked = 0;
    try {
      if (!fresh) await whole();
      fresh = true;
      await api.listen(seen, (event, value) => {
        if (event === 'reset') {
          fresh = false;
          throw new Error('the map is another');
        }
        taking[event]?.(value);
        if (connection !== 'live') standing('live');
        pause = FIRST_PAUSE_MS;
      });
    } catch (fault) {
      if (fault instanceof api.Refused && [401, 403].includes(fault.status)) {
        standing('not allowed');
        await login(fault.message);
        continue;
      }
      if (fault instanceof api.Refused) asked = Math.min(LONGEST_ASKED_PAUSE_MS, fault.retryAfterS * 1000);
    }
    standing('reconnecting');
    // Not all pages at once, when a server comes back.
    const wait = Math.max(asked, pause / 2) + Math.random() * pause;
    await new Promise((resolve) => { setTimeout(resolve, wait); });
    pause = Math.min(LONGEST_PAUSE_MS, pause * 2);
  }
}

function login(why) {
  byId('login-why').textContent = why;
  byId('login').showModal();
  return new Promise((resolve) => {
    byId('login-form').onsubmit = (event) => {
      event.preventDefault();
      api.token.set(byId('token').value.trim());
      byId('token').value = '';
      byId('login').close();
      resolve();
    };
  });
}

// Search.

let searching = 0;

async function search() {
  const text = byId('query').value.trim().toLowerCase();
  searching += 1;
  const mine = searching;
  byId('found').hidden = !text;
  if (!text) {
    model.filter(() => true);
    map.changed();
    sums();
    return;
  }
  let pods = [];
  try {
    pods = (await api.get(`pods?limit=100&q=${encodeURIComponent(text)}`)).pods;
  } catch (fault) {
    if (fault instanceof api.Refused) console.warn(fault.message);
  }
  if (mine !== searching) return;
  const holding = new Set(pods.map((pod) => pod.node));
  model.filter((node) => holding.has(node.name) || node.words.includes(text));
  map.changed();
  sums();
  panels.showFound(byId('found-lists'), byId('found-count'), foundLists(text, pods), chooseFound);
}

function foundLists(text, pods) {
  const nodes = [];
  const cards = [];
  for (const name of model.shown) {
    const node = model.nodes.get(name);
    if (name.toLowerCase().includes(text)) nodes.push({ text: name, more: `${node.cards.length} cards`, node: name });
    for (const one of node.cards) {
      if (one.id.toLowerCase().includes(text)) cards.push({ text: one.id, more: `${name}, ${kind(one)}`, node: name, id: one.id });
    }
  }
  const waits = pending.pods.filter((pod) => `${pod.namespace}/${pod.name}`.toLowerCase().includes(text));
  return [
    ['Pods', pods.map((pod) => ({ text: `${pod.namespace}/${pod.name}`, more: pod.node, node: pod.node, id: pod.shares[0]?.card }))],
    ['Waiting pods', waits.map((pod) => ({ text: `${pod.namespace}/${pod.name}`, more: pod.state }))],
    ['Nodes', nodes],
    ['Cards', cards],
  ];
}

function chooseFound({ node, id }) {
  if (!node) {
    byId('pending').scrollIntoView();
    return;
  }
  const cards = model.nodes.get(node)?.cards ?? [];
  const place = Math.max(0, cards.findIndex((one) => one.id === id));
  map.go(node, place, { focus: true });
  if (cards[place]) openCard(node, cards[place].id, { focus: false });
}

// Switches.

function setSize(size) {
  for (const input of byId('sizes').querySelectorAll('input')) input.checked = input.value === size;
  map.size = size;
  map.arrange();
}

const THEMES = ['auto', 'light', 'dark'];

function setTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = byId('theme');
  button.textContent = { auto: '◐', light: '☀', dark: '☾' }[theme];
  button.setAttribute('aria-label', `Colours: ${theme}. Change`);
  button.title = `Colours: ${theme}`;
  button.dataset.theme = theme;
  kept.set('theme', theme);
  map.colours();
}

byId('sizes').addEventListener('change', (event) => {
  kept.set('size', event.target.value);
  setSize(event.target.value);
});
byId('measure').addEventListener('change', (event) => {
  map.measure = event.target.value;
  map.later();
});
byId('theme').addEventListener('click', () => {
  setTheme(THEMES[(THEMES.indexOf(byId('theme').dataset.theme) + 1) % THEMES.length]);
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => map.colours());
let typing = 0;
byId('query').addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(search, 150);
});
byId('search').addEventListener('submit', (event) => {
  event.preventDefault();
  search();
});
document.addEventListener('keydown', (event) => {
  const inField = event.target instanceof HTMLInputElement && event.target.type !== 'radio';
  if (event.key === '/' && !inField) {
    event.preventDefault();
    byId('query').focus();
  } else if (event.key === 'Escape' && !byId('login').open) {
    if (inField && byId('query').value) {
      byId('query').value = '';
      search();
    } else {
      byId('cursor').focus();
    }
  }
});
setInterval(() => { card(); waiting(); }, 10000); // ages grow

panels.showLegend(byId('legend'));
setTheme(THEMES.includes(kept.get('theme')) ? kept.get('theme') : 'auto');
if (kept.get('size')) setSize(kept.get('size'));
standing();
follow();
