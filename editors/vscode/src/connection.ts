// The connection to the server: found, started, ended and started again.

import * as vscode from "vscode";
import { CloseAction, ErrorAction, LanguageClient, type LanguageClientOptions, State } from "vscode-languageclient/node";

import { candidates, commandOf, findServer, type Miss, type Server } from "./finding.ts";
import type { Interpreters } from "./interpreters.ts";
import { middleware } from "./middleware.ts";
import { ProbeProgress } from "./progress.ts";
import { absolute } from "./settings.ts";
import type { Status } from "./status.ts";

const SELECTOR = [
  ...["file", "untitled", "vscode-notebook-cell"].map((scheme) => ({ scheme, language: "python" })),
  ...["yaml", "json", "jsonc"].map((language) => ({ scheme: "file", language })),
];
const RESTARTS = 3;

export class Connection implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private found: Server | undefined;
  private misses: Miss[] = [];
  private turn: Promise<void> = Promise.resolve();
  private readonly log: vscode.LogOutputChannel;
  private readonly status: Status;
  private readonly interpreters: Interpreters;
  private readonly bundle: string;

  constructor(log: vscode.LogOutputChannel, status: Status, interpreters: Interpreters, bundle: string) {
    this.log = log;
    this.status = status;
    this.interpreters = interpreters;
    this.bundle = bundle;
  }

  get server(): Server | undefined {
    return this.client?.state === State.Running ? this.found : undefined;
  }

  /** Where was looked in vain by the last search. */
  get lookedAt(): Miss[] {
    return this.misses;
  }

  /** End the server, if there is one, look for one again and start that; gives whether one was found. */
  async restart(): Promise<boolean> {
    this.turn = this.turn.then(async () => {
      await this.stop();
      await this.start();
    });
    await this.turn;
    return this.found !== undefined;
  }

  async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    if (client?.needsStop()) await client.stop().catch((error: unknown) => this.log.warn(String(error)));
    await client?.dispose().catch(() => undefined);
  }

  dispose(): void {
    void this.stop();
  }

  private async start(): Promise<void> {
    this.status.show({ is: "starting" });
    await this.interpreters.refresh(vscode.workspace.workspaceFolders ?? []);
    const search = await findServer(candidates(this.surroundings()));
    [this.found, this.misses] = [search.server, search.misses];
    for (const miss of search.misses) this.log.info(`${miss.origin}, ${miss.program}: ${miss.reason}`);
    if (this.found) await this.serve(this.found);
    else this.status.show({ is: "missing" });
  }

  private async serve(server: Server): Promise<void> {
    const { command, args } = commandOf(server, "server");
    this.log.info(`lintrain ${server.version} from ${server.origin}: ${command} ${args.join(" ")}`);
    const progress = new ProbeProgress((type, given) => client.sendNotification(type, given));
    const client = new LanguageClient("lintrain", "lintrain", { command, args }, this.options(progress));
    this.client = client;
    client.onDidChangeState(({ newState }) => {
      if (newState !== State.Running) progress.clear();
      if (this.client !== client) return;
      if (newState === State.Running) {
        this.status.show({ is: "running", version: server.version, from: server.origin });
      } else if (newState === State.Stopped || newState === State.StartFailed) {
        this.status.show({ is: "stopped", reason: "see its log" });
      }
    });
    try {
      await client.start();
    } catch (error) {
      this.log.error(`the server failed to start: ${String(error)}`);
      this.status.show({ is: "stopped", reason: "it failed to start" });
    }
  }

  private options(progress: ProbeProgress): LanguageClientOptions {
    return {
      documentSelector: SELECTOR,
      outputChannel: this.log,
      initializationOptions: {
        trusted: vscode.workspace.isTrusted,
        settings: vscode.workspace.isTrusted ? {} : { codeLens: false },
      },
      diagnosticPullOptions: { onChange: true, onSave: true },
      errorHandler: untilItEndsTooOften(this.log),
      middleware: middleware(this.interpreters, progress),
    };
  }

  private surroundings() {
    const folders = (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath);
    const path = vscode.workspace.getConfiguration("lintrain").get("path", "").trim();
    return {
      path: path && absolute(path, folders[0]),
      interpreters: this.interpreters.all(),
      folders,
      bundle: this.bundle,
      isTrusted: vscode.workspace.isTrusted,
      searchPath: process.env["PATH"] ?? "",
      platform: process.platform,
    };
  }
}

/** Starts a server again that ended by itself, a few times in three minutes. */
function untilItEndsTooOften(log: vscode.LogOutputChannel) {
  let ends: number[] = [];
  return {
    error: () => ({ action: ErrorAction.Continue }),
    closed: () => {
      ends = [...ends.filter((time) => time > Date.now() - 180_000), Date.now()];
      if (ends.length <= RESTARTS) return { action: CloseAction.Restart, handled: true };
      const message = `lintrain: the server ended ${ends.length} times in three minutes and is not restarted`;
      log.error(message);
      return { action: CloseAction.DoNotRestart, message };
    },
  };
}
