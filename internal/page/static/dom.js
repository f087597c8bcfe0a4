// What touches the document. All text is set as text.

export const $ = (id) => document.getElementById(id);

export function say(id, text) {
  const e = typeof id === 'string' ? $(id) : id;
  if (e.textContent !== text) e.textContent = text;
}

export function show(id, shown) {
  const e = typeof id === 'string' ? $(id) : id;
  if (e.hidden === shown) e.hidden = !shown;
}

// node makes an element with text and children.
export function node(name, text, ...children) {
  const e = document.createElement(name);
  if (text) e.textContent = text;
  e.append(...children);
  return e;
}

export function paragraphs(id, lines) {
  $(id).replaceChildren(...lines.filter(Boolean).map((line) => node('p', line)));
}

// fill puts rows into a table and touches only what differs. A cell is text, or {text, kind, make}: make returns an element. The
// first cell of a row is its head. Without rows, none is said in one cell.
export function fill(id, rows, none, columns) {
  const body = $(id);
  if (rows.length === 0) rows = [[{ text: none, kind: 'empty', span: columns }]];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, i) => {
    let row = body.rows[i];
    if (!row || row.cells.length !== cells.length || row.cells[0].colSpan !== (cells[0].span ?? 1)) {
      const fresh = document.createElement('tr');
      cells.forEach((cell, n) => {
        const e = document.createElement(n === 0 && !cell.span ? 'th' : 'td');
        if (n === 0 && !cell.span) e.scope = 'row';
        if (cell.span) e.colSpan = cell.span;
        fresh.append(e);
      });
      if (row) row.replaceWith(fresh); else body.append(fresh);
      row = fresh;
    }
    cells.forEach((cell, n) => {
      const e = row.cells[n];
      const { text, kind = '' } = typeof cell === 'object' ? cell : { text: String(cell) };
      say(e, text);
      if (e.className !== kind) e.className = kind;
    });
  });
}

// refill replaces the rows of a table. A control in them that had the focus has it again, or where it is gone the heading.
export function refill(id, heading, rows) {
  const had = document.activeElement?.closest(`#${id}`) ? document.activeElement.id : '';
  $(id).replaceChildren(...rows);
  if (had) ($(had) ?? $(heading)).focus();
}

// focusOn gives a control the focus once an answer has come, unless the operator works elsewhere by then: a key that is meant for
// another field must not press a button.
export function focusOn(e) {
  const at = document.activeElement;
  const stays = at.tagName === 'BUTTON' ? at.closest('section') === e.closest('section') : at.form && at.form === e.form;
  if (stays || at === document.body || !at.checkVisibility()) e.focus();
}

// confirmed shows the dialog, and is true where the operator agrees.
export function confirmed(title, lines, yes) {
  const dialog = $('confirm');
  say('confirm-h', title);
  paragraphs('confirm-text', lines);
  say('confirm-yes', yes);
  return new Promise((resolve) => {
    let agreed = false;
    $('confirm-yes').onclick = () => { agreed = true; dialog.close(); };
    $('confirm-no').onclick = () => dialog.close();
    dialog.onclose = () => resolve(agreed);
    dialog.showModal();
    $('confirm-yes').focus();
  });
}
