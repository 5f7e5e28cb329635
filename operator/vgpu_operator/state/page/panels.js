// What stands beside the map: sums, one card and its holders, waiting pods, what was found.
// Text of the cluster only ever becomes text of the page, never markup.

import { BINS, STATES, age, kind, mib, number, percent } from './scale.js';

export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'class') made.className = value;
    else if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function meter(parts, total, label) {
  const made = make('div', { class: 'meter', role: 'img', 'aria-label': label });
  for (const part of parts) {
    const bar = make('i');
    bar.style.width = `${total > 0 ? Math.min(100, (part / total) * 100) : 0}%`;
    made.append(bar);
  }
  return made;
}

export function showLegend(place) {
  const items = BINS.map(({ name, text }) => [`swatch ${name}`, text]);
  for (const state of STATES) items.push([`swatch ${state}`, state]);
  place.replaceChildren(...items.map(([name, text]) => make('li', {}, make('span', { class: name }), text)));
}

export function showSums(place, model, pending) {
  const { sums } = model;
  const sum = (title, value, of, bar) => make(
    'div', { class: 'sum' }, make('div', {}, title), make('div', {}, make('b', {}, value), ' ', make('span', { class: 'of' }, of)), bar,
  );
  const used = (title, part, total, write) => {
    const share = `${percent(part, total)} %`;
    return sum(title, share, `${write(part)} of ${write(total)}`, meter([part], total, `${title}: ${share}`));
  };
  place.replaceChildren(
    sum('Nodes with cards', number(model.names.length), ''),
    sum('Cards', number(sums.cards), sums.usable < sums.cards ? `${number(sums.cards - sums.usable)} take no new pod` : 'all take pods'),
    used('Memory promised', sums.usedMemoryMiB, sums.memoryMiB, mib),
    used('Shares', sums.usedSlots, sums.slots, number),
    sum('Pods waiting', number(pending), ''),
  );
}

export function showStanding(place, { connection, status }) {
  const pills = [make('span', { class: `pill ${connection === 'live' ? 'good' : 'bad'}`, id: 'connection' }, connection)];
  if (status) {
    if (!status.synced) pills.push(make('span', { class: 'pill bad' }, 'still reading the cluster'));
    if (!status.apiReachable) pills.push(make('span', { class: 'pill bad' }, 'the API server does not answer: what was known'));
    const holder = status.holder || 'nobody';
    pills.push(status.leader
      ? make('span', { class: 'pill good', title: holder }, 'leads')
      : make('span', { class: 'pill', title: `the Lease is held by ${holder}` }, 'follows'));
  }
  place.replaceChildren(...pills);
}

export function showCard(place, { card, node, details, now }) {
  const amount = (title, used, total, parts, write) => make(
    'div', { class: 'amount' },
    make('div', { class: 'head' }, title, make('span', {}, make('b', {}, write(used)), ` of ${write(total)} · ${percent(used, total)} %`)),
    meter(parts, total, `${title}: ${percent(used, total)} %`),
  );
  const holders = holdersOf(details, card.id);
  const problem = details?.registrations.find((found) => found.vendor === card.vendor)?.problem;
  place.replaceChildren(
    make('div', { class: 'head' }, make('b', {}, kind(card)), make('span', {}, card.state || 'takes pods')),
    make('div', {}, `${node} · card ${card.index}`),
    make('div', { class: 'id' }, card.id),
    problem ? make('p', { class: 'note' }, problem) : '',
    amount('Memory', card.usedMemoryMiB, card.memoryMiB, holders.map((one) => one.share.memoryMiB), (value) => `${number(value)} MiB`),
    amount('Cores', card.usedCores, card.cores, holders.map((one) => one.share.cores), number),
    amount('Shares', card.usedSlots, card.slots, [card.usedSlots], number),
    make('h3', {}, holders.length === 0 ? 'Nobody holds it' : `Held by ${holders.length === 1 ? 'one container' : `${holders.length} containers`}`),
    holders.length ? holdersTable(holders, now) : '',
  );
}

function holdersOf(details, id) {
  const found = [];
  for (const pod of details?.pods ?? []) {
    for (const share of pod.shares) if (share.card === id) found.push({ pod, share });
  }
  return found;
}

function holdersTable(holders, now) {
  const head = make('tr', {}, ...[['Pod', ''], ['Memory', 'number'], ['Cores', 'number'], ['Since', 'number']]
    .map(([text, name]) => make('th', { class: name, scope: 'col' }, text)));
  const rows = holders.map(({ pod, share }) => make(
    'tr', {},
    make('td', {}, make('b', {}, pod.name), make('small', {}, `${pod.namespace} · ${share.container}${pod.phase === 'allocated' ? '' : ` · ${pod.phase}`}`)),
    make('td', { class: 'number' }, `${number(share.memoryMiB)} MiB`),
    make('td', { class: 'number' }, share.cores ? number(share.cores) : 'any'),
    make('td', { class: 'number', title: pod.since ?? '' }, age(pod.since, now) || '–'),
  ));
  return make('table', {}, make('thead', {}, head), make('tbody', {}, ...rows));
}

export function showPending(place, count, { pending, leader, now }) {
  count.textContent = number(pending.total);
  if (pending.pods.length === 0) {
    place.replaceChildren(make('p', { class: 'quiet' }, 'No pod waits for a card.'));
    return;
  }
  const more = pending.total - pending.pods.length;
  place.replaceChildren(
    leader ? '' : make('p', { class: 'note' }, 'This replica follows: the one that leads knows why they wait.'),
    ...pending.pods.map((pod) => waitingPod(pod, now)),
    more > 0 ? make('p', { class: 'quiet' }, `and ${number(more)} more: api/v1/pending`) : '',
  );
}

function waitingPod(pod, now) {
  const words = { refused: 'fits nowhere', waiting: 'not asked about yet', binding: 'is being bound' };
  const chips = pod.reasons.map((reason) => make('li', {}, `${reason.word} · ${number(reason.nodes)} ${reason.nodes === 1 ? 'node' : 'nodes'}`));
  return make(
    'div', { class: 'pod' },
    make('div', { class: 'head' }, make('b', {}, pod.name), make('small', { title: pod.created ?? '' }, age(pod.created, now))),
    make('div', {}, make('small', {}, `${pod.namespace} · ${words[pod.state] ?? pod.state}`)),
    ...pod.asks.map((ask) => make('div', {}, make('small', {}, asked(ask)))),
    chips.length ? make('ul', { class: 'chips', 'aria-label': 'Reasons' }, ...chips) : null,
    pod.nearest ? make('p', { class: 'near' }, `Nearest: ${pod.nearest.node} (${pod.nearest.text})`) : null,
  );
}

function asked(ask) {
  const memory = ask.memoryMiB ? `${number(ask.memoryMiB)} MiB` : ask.memoryPercent ? `${ask.memoryPercent} % of the memory` : 'all memory';
  const cores = ask.cores ? `, ${ask.cores} % of the cores` : '';
  return `${ask.container} asks for ${ask.cards} ${ask.vendor} ${ask.cards === 1 ? 'card' : 'cards'}, ${memory}${cores}`;
}

export function showFound(place, count, lists, choose) {
  const total = lists.reduce((sum, [, entries]) => sum + entries.length, 0);
  count.textContent = total === 0 ? 'Nothing has that in its name.' : '';
  place.replaceChildren(...lists.filter(([, entries]) => entries.length).flatMap(([title, entries]) => [
    make('h3', {}, title),
    ...entries.slice(0, 8).map((entry) => make('button', { type: 'button', onclick: () => choose(entry) }, entry.text, ' ', make('small', {}, entry.more ?? ''))),
    entries.length > 8 ? make('p', { class: 'quiet' }, `and ${number(entries.length - 8)} more`) : '',
  ]));
}
