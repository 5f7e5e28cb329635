// What is known of the cluster: nodes in order, their cards, and sums that follow changes.

import { MEASURES, kind, percent } from './scale.js';

const ZERO = { cards: 0, usable: 0, memoryMiB: 0, usedMemoryMiB: 0, cores: 0, usedCores: 0, slots: 0, usedSlots: 0 };
const SUMMED = ['memoryMiB', 'usedMemoryMiB', 'cores', 'usedCores', 'slots', 'usedSlots'];
const order = new Intl.Collator('en', { numeric: true });

export class Model {
  nodes = new Map();
  sums = { ...ZERO };
  names = []; // sorted
  shown = []; // those that the search leaves
  #fields = [];
  #wanted = () => true;

  // Takes in the whole map.
  replace(answer) {
    this.#fields = answer.fields;
    this.nodes.clear();
    this.sums = { ...ZERO };
    for (const row of answer.nodes) this.#put(row);
    this.#sort();
  }

  // Takes in what has changed; returns the names.
  change({ nodes, gone }) {
    let same = true;
    for (const row of nodes) {
      same = this.nodes.has(row[0]) && same;
      this.#put(row);
    }
    for (const name of gone) same = !this.#drop(name) && same;
    if (same) this.shown = this.names.filter((name) => this.#wanted(this.nodes.get(name)));
    else this.#sort();
    return [...nodes.map((row) => row[0]), ...gone];
  }

  // Shows only nodes for which this is true.
  filter(wanted) {
    this.#wanted = wanted;
    this.shown = this.names.filter((name) => wanted(this.nodes.get(name)));
  }

  #put([name, rows]) {
    this.#drop(name);
    const cards = rows.map((row) => Object.fromEntries(row.map((value, place) => [this.#fields[place], value])));
    const node = { ...ZERO, name, cards };
    for (const card of cards) {
      card.use = {}; // in percent, worked out once: the map is drawn 60 times a second
      for (const measure in MEASURES) card.use[measure] = percent(...MEASURES[measure](card));
      node.usable += card.state ? 0 : 1;
      for (const field of SUMMED) node[field] += card[field];
    }
    node.words = [name, ...cards.map((card) => card.id), ...new Set(cards.map(kind))].join('\n').toLowerCase();
    this.nodes.set(name, node);
    this.#count(node, 1);
  }

  #drop(name) {
    const node = this.nodes.get(name);
    if (!node) return false;
    this.nodes.delete(name);
    this.#count(node, -1);
    return true;
  }

  #count(node, sign) {
    this.sums.cards += sign * node.cards.length;
    this.sums.usable += sign * node.usable;
    for (const field of SUMMED) this.sums[field] += sign * node[field];
  }

  #sort() {
    this.names = [...this.nodes.keys()].sort(order.compare);
    this.filter(this.#wanted);
  }
}
