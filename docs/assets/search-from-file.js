// A page opened as a file may not start a worker. The search then runs in a hidden frame that takes the worker's place.
"use strict";
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inside = this.frame.contentWindow;
    inside.document.open();
    inside.document.write("<!doctype html><title>search</title><body></body>");
    inside.document.close();
    inside.importScripts = (...names) => Promise.all(names.map((name) => load(inside.document, name)));
    inside.postMessage = (data) => {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    };
    this.ready = load(inside.document, url);
  }
  postMessage(data) {
    const inside = this.frame.contentWindow;
    this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
  }
  terminate() {
    this.frame.remove();
  }
};
function load(page, url) {
  return new Promise((resolve, reject) => {
    const script = page.createElement("script");
    script.src = url;
    script.onload = resolve;
    script.onerror = reject;
    page.body.append(script);
  });
}
if (location.protocol === "file:") window.Worker = window.IFrameWorker;
