// The item in the status bar: the server's version and state; a click opens a menu.

import * as vscode from "vscode";

export type State =
  | { is: "starting" }
  | { is: "running"; version: string; from: string }
  | { is: "stopped"; reason: string }
  | { is: "missing" };

export class Status implements vscode.Disposable {
  private readonly item: vscode.StatusBarItem;
  private state: State = { is: "starting" };

  constructor(menuCommand: string) {
    this.item = vscode.window.createStatusBarItem("lintrain", vscode.StatusBarAlignment.Right, 90);
    this.item.name = "lintrain";
    this.item.command = menuCommand;
    this.show(this.state);
    this.item.show();
  }

  get current(): State {
    return this.state;
  }

  show(state: State): void {
    this.state = state;
    const isFine = state.is === "starting" || state.is === "running";
    this.item.backgroundColor = isFine ? undefined : new vscode.ThemeColor("statusBarItem.warningBackground");
    [this.item.text, this.item.tooltip] = words(state);
  }

  dispose(): void {
    this.item.dispose();
  }
}

function words(state: State): [text: string, tooltip: string] {
  switch (state.is) {
    case "starting":
      return ["$(loading~spin) lintrain", "lintrain: starting the server"];
    case "running":
      return [`$(pulse) lintrain ${state.version}`, `lintrain ${state.version} from ${state.from}`];
    case "stopped":
      return ["$(warning) lintrain", `lintrain: the server has stopped (${state.reason})`];
    case "missing":
      return ["$(warning) lintrain", "lintrain: no Python 3.11 or newer found for the server"];
  }
}
