// The map: one canvas as large as what is seen, drawn again as one scrolls. 40,000 cards
// cost what fits on the screen. One focusable cell stands where the keyboard is, so that
// it can be reached and read without seeing the canvas.

import { BINS, MEASURES, bin, kind, mib, number, percent, sentence } from './scale.js';

const SIZES = {
  small: { cell: [9, 9], gap: 1, label: 0, pad: 4, perLine: 4, least: 0, widest: 9 },
  medium: { cell: [16, 16], gap: 2, label: 17, pad: 7, perLine: 8, least: 118, widest: 22 },
  large: { cell: [34, 26], gap: 3, label: 20, pad: 9, perLine: 8, least: 190, widest: 60 },
};

export class CardMap {
  constructor(model, { open }) {
    this.model = model;
    this.open = open;
    this.measure = 'memory';
    this.size = 'medium';
    this.at = { node: '', place: 0 };
    this.chosen = '';
    for (const id of ['viewport', 'space', 'canvas', 'grid', 'row', 'row-name', 'cursor', 'empty', 'tip']) {
      this[id.replace('-n', 'N')] = document.getElementById(id);
    }
    this.pen = this.canvas.getContext('2d', { alpha: false });
    this.drawing = 0;
    this.viewport.addEventListener('scroll', () => this.later(), { passive: true });
    new ResizeObserver(() => this.arrange()).observe(this.viewport);
    this.canvas.addEventListener('pointermove', (event) => this.#hover(event));
    this.canvas.addEventListener('pointerleave', () => { this.tip.hidden = true; });
    this.canvas.addEventListener('click', (event) => this.#click(event));
    this.cursor.addEventListener('keydown', (event) => this.#key(event));
    this.cursor.addEventListener('focus', () => this.#reveal());
    this.colours();
  }

  // Reads the colours of the page's theme.
  colours() {
    const probe = document.createElement('i');
    probe.hidden = true;
    document.body.append(probe);
    const of = (name) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    this.paint = {
      panel: of('panel'), ink: of('ink'), quiet: of('quiet'), bad: of('bad'), accent: of('accent'), line: of('line'),
      use: BINS.map((_, place) => of(`use-${place}`)),
      on: BINS.map((_, place) => of(`on-${place}`)),
    };
    probe.remove();
    this.later();
  }

  // Puts every node in its place: tiles in columns, a line of tiles as high as its highest.
  arrange() {
    const form = SIZES[this.size];
    const { model } = this;
    let most = 1;
    for (const name of model.shown) most = Math.max(most, model.nodes.get(name).cards.length);
    const perLine = Math.min(form.perLine, most);
    const stepY = form.cell[1] + form.gap;
    const width = this.viewport.clientWidth;
    const narrowest = Math.max(form.least, perLine * (form.cell[0] + form.gap) - form.gap) + 2 * form.pad;
    const columns = Math.max(1, Math.floor(width / narrowest));
    const tile = Math.floor(width / columns);
    // What is left over makes the cells wider.
    const room = Math.floor((tile - 2 * form.pad + form.gap) / perLine) - form.gap;
    const cell = [Math.max(form.cell[0], Math.min(form.widest, room)), form.cell[1]];
    const stepX = cell[0] + form.gap;
    const tops = [0];
    for (let start = 0; start < model.shown.length; start += columns) {
      let lines = 1;
      for (const name of model.shown.slice(start, start + columns)) {
        lines = Math.max(lines, Math.ceil(model.nodes.get(name).cards.length / perLine));
      }
      tops.push(tops.at(-1) + form.label + lines * stepY - form.gap + 2 * form.pad);
    }
    this.layout = { form, cell, perLine, stepX, stepY, tile, columns, tops };
    this.space.style.height = `${tops.at(-1)}px`;
    const height = Math.min(this.viewport.clientHeight, Math.max(tops.at(-1), 1));
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(width * scale));
    this.canvas.height = Math.max(1, Math.round(height * scale));
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.view = { width, height };
    this.grid.setAttribute('aria-rowcount', model.shown.length);
    this.grid.setAttribute('aria-colcount', most);
    this.grid.hidden = model.shown.length === 0;
    this.#settle();
    this.draw();
  }

  // Draws at the next frame.
  later() {
    this.drawing ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.drawing);
    this.drawing = 0;
    if (!this.layout) return;
    const { pen, layout, view, model } = this;
    const { tops, columns } = layout;
    const top = this.viewport.scrollTop;
    pen.fillStyle = this.paint.panel;
    pen.fillRect(0, 0, view.width, view.height);
    this.cells = BINS.map(() => []); // by colour: changing it costs more than a rectangle
    this.extras = [];
    let line = above(tops, top);
    for (; line < tops.length - 1 && tops[line] < top + view.height; line += 1) {
      for (let column = 0; column < columns; column += 1) {
        const name = model.shown[line * columns + column];
        if (name === undefined) break;
        this.#tile(model.nodes.get(name), column * layout.tile, tops[line] - top);
      }
    }
    this.#cells();
    for (const [card, x, y] of this.extras) this.#extra(card, x, y);
  }

  // Takes in changed nodes; where none came or went, only what is seen is drawn again.
  changed(names) {
    if (names === undefined || this.count !== this.model.shown.length || !this.layout) {
      this.count = this.model.shown.length;
      this.arrange();
    } else {
      this.#settle();
      this.later();
    }
  }

  // Moves the keyboard's place to a card, and there.
  go(node, place, { focus = false } = {}) {
    this.at = { node, place };
    this.#settle();
    this.#reveal();
    if (focus) this.cursor.focus({ preventScroll: true });
  }

  choose(id) {
    this.chosen = id;
    this.later();
  }

  #tile(node, x, y) {
    const { pen, layout, paint } = this;
    const { form, perLine, stepX, stepY } = layout;
    const left = x + form.pad;
    const top = y + form.pad + form.label;
    if (form.label) this.#label(node, left, y + form.pad, layout.tile - 2 * form.pad);
    for (let place = 0; place < node.cards.length; place += 1) {
      const card = node.cards[place];
      const cx = left + (place % perLine) * stepX;
      const cy = top + Math.floor(place / perLine) * stepY;
      this.cells[bin(card.use[this.measure])].push(cx, cy);
      if (card.state || card.id === this.chosen || this.size === 'large') this.extras.push([card, cx, cy]);
    }
    if (node.cards.length === 0) {
      pen.strokeStyle = paint.line;
      pen.setLineDash([3, 3]);
      pen.strokeRect(left + 0.5, top + 0.5, Math.min(perLine, 4) * stepX - form.gap - 1, layout.cell[1] - 1);
      pen.setLineDash([]);
    }
  }

  #label(node, x, y, width) {
    const { pen, paint } = this;
    const large = this.size === 'large';
    const used = node.cards.length ? `${percent(...MEASURES[this.measure](node))} %` : 'no cards';
    pen.textBaseline = 'top';
    pen.font = `${large ? 12 : 11}px system-ui, "DejaVu Sans", sans-serif`;
    pen.textAlign = 'right';
    pen.fillStyle = paint.quiet;
    const right = x + Math.min(width, Math.max(SIZES[this.size].least, this.layout.perLine * this.layout.stepX - this.layout.form.gap));
    pen.fillText(used, right, y);
    pen.textAlign = 'left';
    pen.fillStyle = paint.ink;
    pen.fillText(cut(pen, node.name, right - x - pen.measureText(used).width - 8), x, y);
  }

  #cells() {
    const { pen, paint, layout } = this;
    const [width, height] = layout.cell;
    const round = width > 10 ? 4 : 0;
    this.cells.forEach((places, which) => {
      pen.fillStyle = paint.use[which];
      if (round) pen.beginPath();
      for (let at = 0; at < places.length; at += 2) {
        if (round) pen.roundRect(places[at], places[at + 1], width, height, round);
        else pen.fillRect(places[at], places[at + 1], width, height);
      }
      if (round) pen.fill();
    });
  }

  #extra(card, x, y) {
    const { pen, paint, layout } = this;
    const [width, height] = layout.cell;
    const share = card.use[this.measure];
    const which = bin(share);
    if (card.state) this.#state(card.state, x, y, width, height, which);
    if (this.size === 'large' && card.state !== 'unhealthy') {
      pen.fillStyle = paint.on[which];
      pen.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
      pen.textAlign = 'center';
      pen.textBaseline = 'middle';
      pen.fillText(share, x + width / 2, y + height / 2 + 1);
    }
    if (card.id === this.chosen) {
      pen.strokeStyle = paint.ink;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.roundRect(x - 1, y - 1, width + 2, height + 2, width > 10 ? 5 : 2);
      pen.stroke();
      pen.lineWidth = 1;
    }
  }

  #state(state, x, y, width, height, which) {
    const { pen, paint } = this;
    pen.save();
    pen.beginPath();
    pen.roundRect(x, y, width, height, Math.min(4, width / 4));
    pen.clip();
    pen.beginPath();
    if (state === 'unhealthy') {
      pen.fillStyle = paint.panel;
      pen.fill();
      pen.strokeStyle = paint.bad;
      pen.lineWidth = 2;
      pen.rect(x + 1, y + 1, width - 2, height - 2);
      pen.fill();
      pen.moveTo(x, y);
      pen.lineTo(x + width, y + height);
      pen.moveTo(x + width, y);
      pen.lineTo(x, y + height);
    } else if (state === 'cordoned') {
      pen.strokeStyle = paint.on[which];
      pen.globalAlpha = 0.55;
      for (let at = -height; at < width; at += 5) {
        pen.moveTo(x + at, y + height);
        pen.lineTo(x + at + height, y);
      }
    } else {
      pen.strokeStyle = paint.quiet;
      pen.setLineDash([2, 2]);
      pen.lineWidth = 2;
      pen.rect(x + 0.5, y + 0.5, width - 1, height - 1);
    }
    pen.stroke();
    pen.restore();
  }

  // Where a card is, from the top of all.
  #place({ node, place }) {
    const number_ = this.model.shown.indexOf(node);
    if (number_ < 0 || !this.layout) return null;
    const { form, perLine, stepX, stepY, tile, columns, tops } = this.layout;
    const line = Math.floor(number_ / columns);
    return {
      number: number_,
      x: (number_ % columns) * tile + form.pad + (place % perLine) * stepX,
      y: tops[line] + form.pad + form.label + Math.floor(place / perLine) * stepY,
    };
  }

  // What is at a point of the canvas.
  #under(event) {
    if (!this.layout) return null;
    const { form, perLine, stepX, stepY, tile, columns, tops } = this.layout;
    const y = event.offsetY + this.viewport.scrollTop;
    const line = above(tops, y);
    const column = Math.floor(event.offsetX / tile);
    const node = this.model.nodes.get(this.model.shown[line * columns + column]);
    if (!node || column >= columns) return null;
    const dx = event.offsetX - column * tile - form.pad;
    const dy = y - tops[line] - form.pad - form.label;
    const place = Math.floor(dy / stepY) * perLine + Math.floor(dx / stepX);
    const hit = dx >= 0 && dy >= 0 && dx < perLine * stepX;
    return { node, card: hit ? node.cards[place] : undefined, place };
  }

  #hover(event) {
    const found = this.#under(event);
    this.tip.hidden = !found?.card;
    if (!found?.card) return;
    const { node, card } = found;
    const state = card.state ? `\n${card.state}` : '';
    this.tip.textContent = `${node.name} · card ${card.index}\n${kind(card)}\n`
      + `${mib(card.usedMemoryMiB)} of ${mib(card.memoryMiB)} · cores ${number(card.usedCores)} of ${number(card.cores)}`
      + ` · ${card.usedSlots} of ${card.slots} shares${state}`;
    const { width, height } = this.tip.getBoundingClientRect();
    this.tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4))}px`;
    this.tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 4))}px`;
  }

  #click(event) {
    const found = this.#under(event);
    if (!found?.card) return;
    this.go(found.node.name, found.place);
    this.open(found.node.name, found.card.id, { focus: false });
  }

  #key(event) {
    const { model, layout } = this;
    const number_ = model.shown.indexOf(this.at.node);
    if (number_ < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.view.height / (layout.tops[1] || 1)) - 1) * layout.columns;
    const moves = {
      ArrowRight: () => this.#beside(number_, 1),
      ArrowLeft: () => this.#beside(number_, -1),
      ArrowDown: () => this.#jump(number_ + layout.columns),
      ArrowUp: () => this.#jump(number_ - layout.columns),
      PageDown: () => this.#jump(number_ + page),
      PageUp: () => this.#jump(number_ - page),
      Home: () => this.#jump(0, 0),
      End: () => this.#jump(model.shown.length - 1, Infinity),
      Enter: () => this.#enter(),
      ' ': () => this.#enter(),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  }

  #beside(number_, step) {
    const place = this.at.place + step;
    const cards = this.model.nodes.get(this.at.node).cards.length;
    if (place >= 0 && place < cards) this.go(this.at.node, place);
    else if (step > 0 && number_ + 1 < this.model.shown.length) this.#jump(number_ + 1, 0);
    else if (step < 0 && number_ > 0) this.#jump(number_ - 1, Infinity);
  }

  #jump(number_, place = this.at.place) {
    const { shown, nodes } = this.model;
    const node = shown[Math.min(shown.length - 1, Math.max(0, number_))];
    this.go(node, Math.max(0, Math.min(place, nodes.get(node).cards.length - 1)));
  }

  #enter() {
    const card = this.model.nodes.get(this.at.node)?.cards[this.at.place];
    if (card) this.open(this.at.node, card.id, { focus: true });
  }

  // Puts the focusable cell where it belongs and says what it is.
  #settle() {
    const { model } = this;
    if (!model.shown.includes(this.at.node)) this.at = { node: model.shown[0] ?? '', place: 0 };
    const where = this.#place(this.at);
    if (!where) return;
    const node = model.nodes.get(this.at.node);
    this.at.place = Math.max(0, Math.min(this.at.place, node.cards.length - 1));
    const card = node.cards[this.at.place];
    const [width, height] = this.layout.cell;
    Object.assign(this.cursor.style, { left: `${where.x}px`, top: `${where.y}px`, width: `${width}px`, height: `${height}px` });
    this.row.setAttribute('aria-rowindex', where.number + 1);
    this.cursor.setAttribute('aria-colindex', this.at.place + 1);
    this.rowName.textContent = node.name;
    this.cursor.setAttribute('aria-label', card ? sentence(node.name, card) : `${node.name}: no cards`);
  }

  #reveal() {
    const where = this.#place(this.at);
    if (!where) return;
    const { scrollTop } = this.viewport;
    const margin = 24;
    if (where.y - margin < scrollTop) this.viewport.scrollTop = Math.max(0, where.y - margin);
    const bottom = where.y + this.layout.cell[1] + margin;
    if (bottom > scrollTop + this.view.height) this.viewport.scrollTop = bottom - this.view.height;
  }
}

// The line that a height is in.
function above(tops, y) {
  let low = 0;
  let high = tops.length - 1;
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (tops[middle] <= y) low = middle;
    else high = middle;
  }
  return low;
}

const widths = new Map();

function cut(pen, text, width) {
  const key = `${text}\n${Math.floor(width)}\n${pen.font}`;
  let found = widths.get(key);
  if (found === undefined) {
    found = text;
    // The end of a node's name tells it from its neighbours.
    for (let keep = text.length - 1; keep > 2 && pen.measureText(found).width > width; keep -= 1) {
      found = `…${text.slice(-keep)}`;
    }
    if (widths.size > 20000) widths.clear();
    widths.set(key, found);
  }
  return found;
}
