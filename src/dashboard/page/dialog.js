// Confirmation dialogs: what will happen is said first, then done, then what came of it is shown in the same place.

import { Cancelled, HttpError, problemText } from "./api.js";
import { h, setText } from "./dom.js";

/** A modal dialog with a heading; it leaves the page when it closes, and focus goes back to where it was. */
export function showDialog({ id, title, body, closer = true, onclose }) {
  const opener = document.activeElement;
  const name = `${id}-title`;
  const heading = h("h2", { id: name, tabindex: -1 }, title);
  const close = closer && h("button", { type: "button", id: `${id}-close`, onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog", { id, class: "ask", "aria-labelledby": name },
    h("div", { class: "ask-in" }, h("header", { class: "ask-head" }, heading, close), body));
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (onclose) onclose();
    focusAgain(opener);
  });
  document.body.append(dialog);
  dialog.showModal();
  heading.focus();
  return dialog;
}

/** The button that was pressed may have been drawn again meanwhile; then the one in its place is meant. */
function focusAgain(opener) {
  const key = opener && opener.dataset.key;
  const place = opener && opener.isConnected ? opener : key && [...document.querySelectorAll("[data-key]")].find((el) => el.dataset.key === key);
  if (place) place.focus();
}

/** A request that the daemon refused changed nothing; of one without an answer that is not known. */
const refused = (error) => error instanceof Cancelled || (error instanceof HttpError && error.status < 500);

/**
 * Asks, then does. `about` are the sentences and fields, `ready` says whether the fields suffice; `run` does it and returns
 * what came of it as text; `after` reads the page again. Returns true if it was done, after the dialog is closed.
 */
export function ask({ title, about, verb, danger, ready, run, after }) {
  return new Promise((resolve) => {
    let done = false, busy = false;
    const result = h("p", { class: "ask-result", id: "ask-result", role: "status" });
    const go = h("button", { type: "submit", id: "ask-go", class: danger ? "danger" : "primary" }, verb);
    const cancel = h("button", { type: "button", id: "ask-cancel" }, "Cancel");
    const fields = h("div", { class: "ask-body", tabindex: 0, role: "region", "aria-label": title }, about.flat());
    const form = h("form", { class: "ask-form", autocomplete: "off" }, fields, result, h("footer", { class: "ask-foot" }, cancel, go));
    const dialog = showDialog({ id: "ask", title, body: form, closer: false, onclose: () => resolve(done) });
    const check = () => {
      go.disabled = busy || done || Boolean(ready && !ready());
      cancel.disabled = busy;
    };
    cancel.addEventListener("click", () => dialog.close());
    // A request that was sent cannot be taken back, so that the dialog stays until its answer is there.
    dialog.addEventListener("cancel", (ev) => { if (busy && ev.target === dialog) ev.preventDefault(); });
    form.addEventListener("input", check);
    form.addEventListener("ask-change", check);
    form.addEventListener("submit", async (ev) => {
      ev.preventDefault();
      if (busy || done || (ready && !ready())) return;
      busy = true;
      check();
      tell(result, "busy", "Working …");
      try {
        tell(result, "good", await run());
        done = true;
        for (const el of fields.querySelectorAll("input, select, button")) el.disabled = true;
        setText(cancel, "Close");
        go.hidden = true;
      } catch (error) {
        tell(result, "bad", `${refused(error) ? "Nothing was changed." : "Whether it was done is not known; the page shows what is there now."} ${problemText(error)}`);
      }
      busy = false;
      check();
      (done ? cancel : go).focus();
      after();
    });
    check();
  });
}

function tell(el, kind, text) {
  el.dataset.kind = kind;
  setText(el, text);
}
