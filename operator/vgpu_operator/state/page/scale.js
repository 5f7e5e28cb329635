// Numbers and colours: how much of a card is used, and how that is written.

export const BINS = [
  { name: 'use-0', text: 'free' },
  { name: 'use-1', text: '1–25 %' },
  { name: 'use-2', text: '26–50 %' },
  { name: 'use-3', text: '51–75 %' },
  { name: 'use-4', text: '76–99 %' },
  { name: 'use-5', text: 'full' },
];

export const STATES = ['unhealthy', 'cordoned', 'closed'];

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

export const number = (value) => whole.format(value);

export function mib(value) {
  if (value < 1024) return `${whole.format(value)} MiB`;
  if (value < 1024 * 1024) return `${tenth.format(value / 1024)} GiB`;
  return `${tenth.format(value / 1024 / 1024)} TiB`;
}

// Used and total of a card or a node, by what the map is coloured by.
export const MEASURES = {
  memory: (it) => [it.usedMemoryMiB, it.memoryMiB],
  cores: (it) => [it.usedCores, it.cores],
  slots: (it) => [it.usedSlots, it.slots],
};

export function percent(used, total) {
  if (total <= 0) return used > 0 ? 100 : 0;
  const exact = (used / total) * 100;
  // Neither "free" nor "full" unless it is.
  return used > 0 ? Math.max(1, exact < 100 ? Math.min(99, Math.round(exact)) : Math.round(exact)) : 0;
}

export function bin(share) {
  if (share <= 0) return 0;
  if (share >= 100) return 5;
  return Math.min(4, Math.ceil(share / 25));
}

// A type without the vendor that many plugins write before it.
export function kind(card) {
  const prefix = `${card.vendor}-`;
  return card.type.startsWith(prefix) ? card.type.slice(prefix.length) : card.type;
}

export function age(text, now) {
  if (!text) return '';
  const seconds = Math.max(0, (now - Date.parse(text)) / 1000);
  if (!Number.isFinite(seconds)) return '';
  for (const [length, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}

export function sentence(node, card) {
  const [memory, cores, slots] = [MEASURES.memory, MEASURES.cores, MEASURES.slots].map((of) => of(card));
  const state = card.state ? `, ${card.state}` : '';
  return `${node}, card ${card.index}, ${kind(card)}: memory ${number(memory[0])} of ${number(memory[1])} MiB`
    + ` (${percent(...memory)} %), cores ${number(cores[0])} of ${number(cores[1])},`
    + ` ${slots[0]} of ${slots[1]} shares${state}`;
}
