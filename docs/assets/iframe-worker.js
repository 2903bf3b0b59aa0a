// A page that was opened from disk may start no worker: there the search runs in a hidden frame.
if (location.protocol === "file:") {
  const send = window.postMessage;
  window.Worker = class {
    constructor(address) {
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc =
        `<script>self.postMessage = message => parent.postMessage(message, "*")</script>` +
        `<script src="${new URL(address, document.baseURI)}"></script>`;
      this.frame.onload = () => this.begin();
      this.hear = event => event.source === this.frame.contentWindow && this.onmessage?.(event);
      addEventListener("message", this.hear);
      document.documentElement.append(this.frame);
    }
    begin() {
      const early = this.waiting;
      this.waiting = null;
      early.forEach(message => this.postMessage(message));
    }
    postMessage(message) {
      if (this.waiting) this.waiting.push(message);
      else send.call(this.frame.contentWindow, message, "*");
    }
    terminate() {
      removeEventListener("message", this.hear);
      this.frame.remove();
    }
  };
}
