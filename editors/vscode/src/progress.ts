// The progress of probes, in the window's corner with a button that cancels: the client's own hides in the status bar.

import * as vscode from "vscode";
import {
  type ProgressToken,
  type WorkDoneProgressBegin,
  WorkDoneProgressCancelNotification,
  type WorkDoneProgressEnd,
  type WorkDoneProgressReport,
} from "vscode-languageclient/node";

type Step = WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd;
type Send = (type: typeof WorkDoneProgressCancelNotification.type, given: { token: ProgressToken }) => Promise<void>;

interface Shown {
  report(message: string): void;
  end(): void;
}

export class ProbeProgress {
  private readonly shown = new Map<ProgressToken, Shown>();
  private readonly send: Send;

  constructor(send: Send) {
    this.send = send;
  }

  take(token: ProgressToken, step: Step): void {
    switch (step.kind) {
      case "begin":
        this.shown.set(token, this.begin(token, step.title));
        break;
      case "report":
        this.shown.get(token)?.report(step.message ?? "");
        break;
      case "end":
        this.shown.get(token)?.end();
        this.shown.delete(token);
        break;
    }
  }

  /** Take all away: the server has ended. */
  clear(): void {
    for (const each of this.shown.values()) each.end();
    this.shown.clear();
  }

  private begin(token: ProgressToken, title: string): Shown {
    let report: (message: string) => void = () => undefined;
    let end: () => void = () => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    const options = { location: vscode.ProgressLocation.Notification, cancellable: true, title };
    void vscode.window.withProgress(options, (progress, cancelled) => {
      report = (message) => progress.report({ message });
      cancelled.onCancellationRequested(() => void this.send(WorkDoneProgressCancelNotification.type, { token }));
      return ended;
    });
    return { report: (message) => report(message), end };
  }
}
