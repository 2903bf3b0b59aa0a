// The report of a probe, beside the script.

import * as vscode from "vscode";

let shown: vscode.WebviewPanel | undefined;

/** Show a report that the server has written: one page that brings its own styles and scripts, and loads nothing. */
export async function openReport(file: vscode.Uri): Promise<void> {
  const page = new TextDecoder().decode(await vscode.workspace.fs.readFile(file));
  if (!shown) {
    shown = vscode.window.createWebviewPanel("lintrain.report", "Report", vscode.ViewColumn.Beside, {
      enableScripts: true, // its Content-Security-Policy names the only one
      enableFindWidget: true,
      localResourceRoots: [],
      retainContextWhenHidden: true, // which findings are folded
    });
    shown.onDidDispose(() => (shown = undefined));
  }
  shown.title = titleOf(page);
  shown.webview.html = page;
  shown.reveal();
}

function titleOf(page: string): string {
  const script = /<title>([^:<]*)/.exec(page)?.[1];
  return script ? `Probe of ${script}` : "Probe";
}
