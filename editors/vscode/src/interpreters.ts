// The interpreters that are selected in the Python extension, where that is installed.

import * as vscode from "vscode";

interface PythonEnvironment {
  executable: { uri: vscode.Uri | undefined };
  /** None for an interpreter that is installed for the whole machine. */
  environment: unknown;
}

/** The part of ms-python's interface that is used here. */
interface PythonExtension {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(given: { path: string }): Promise<PythonEnvironment | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

interface Selected {
  program: string;
  isEnvironments: boolean;
}

/** The selected interpreters by folder. */
export class Interpreters {
  private readonly byFolder = new Map<string, Selected>();
  private readonly log: (line: string) => void;

  constructor(log: (line: string) => void) {
    this.log = log;
  }

  /** The folder's, for probes; none where it is the whole machine's, which is mostly what nobody has chosen. */
  of(folder: string | undefined): string | undefined {
    const selected = folder === undefined ? undefined : this.byFolder.get(folder);
    return selected?.isEnvironments ? selected.program : undefined;
  }

  all(): string[] {
    return [...new Set([...this.byFolder.values()].map((selected) => selected.program))];
  }

  /** Call back when another interpreter is selected. */
  async follow(changed: () => void): Promise<vscode.Disposable | undefined> {
    const python = await this.extension();
    return python?.environments.onDidChangeActiveEnvironmentPath(changed);
  }

  /** Ask what is selected now. */
  async refresh(folders: readonly vscode.WorkspaceFolder[]): Promise<void> {
    const python = await this.extension();
    this.byFolder.clear();
    for (const folder of python ? folders : []) {
      const selected = await python?.environments.resolveEnvironment(
        python.environments.getActiveEnvironmentPath(folder.uri),
      );
      const program = selected?.executable.uri?.fsPath;
      if (program) this.byFolder.set(folder.uri.fsPath, { program, isEnvironments: Boolean(selected.environment) });
    }
  }

  private async extension(): Promise<PythonExtension | undefined> {
    const extension = vscode.extensions.getExtension<PythonExtension>("ms-python.python");
    if (!extension || !vscode.workspace.isTrusted) return undefined;
    try {
      return extension.isActive ? extension.exports : await extension.activate();
    } catch (error) {
      this.log(`the Python extension failed to start (${String(error)}); its interpreters are not used`);
      return undefined;
    }
  }
}
