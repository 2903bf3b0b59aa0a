// Against a stand-in of ms-python's extension, with the part of its interface that is used.

import assert from "node:assert/strict";
import { registerHooks } from "node:module";
import { beforeEach, test } from "node:test";

type Listener = () => void;

const uri = (fsPath: string) => ({ fsPath });
const folder = (path: string) => ({ uri: uri(path) }) as never;

/** What the editor and the Python extension are at the moment. */
const now = {
  isTrusted: true,
  isInstalled: true,
  isActive: false,
  starts: true,
  selected: new Map<string, string>(),
  listeners: [] as Listener[],
};

const environments = {
  getActiveEnvironmentPath: (resource: { fsPath: string }) => ({ path: now.selected.get(resource.fsPath) ?? "" }),
  resolveEnvironment: async ({ path }: { path: string }) =>
    path ? { executable: { uri: uri(path) }, environment: path.startsWith("/usr") ? undefined : {} } : undefined,
  onDidChangeActiveEnvironmentPath: (listener: Listener) => {
    now.listeners.push(listener);
    return { dispose: () => now.listeners.splice(now.listeners.indexOf(listener), 1) };
  },
};

const python = {
  get isActive() {
    return now.isActive;
  },
  exports: { environments },
  async activate() {
    if (!now.starts) throw new Error("no Python");
    now.isActive = true;
    return this.exports;
  },
};

Object.assign(globalThis, {
  standIn: {
    extensions: { getExtension: (id: string) => (now.isInstalled && id === "ms-python.python" ? python : undefined) },
    workspace: {
      get isTrusted() {
        return now.isTrusted;
      },
    },
  },
});
const source = "export const { extensions, workspace } = globalThis.standIn;";
registerHooks({
  resolve: (name, context, next) =>
    name === "vscode" ? { url: `data:text/javascript,${source}`, shortCircuit: true } : next(name, context),
});
const { Interpreters } = await import("../src/interpreters.ts");

beforeEach(() => {
  Object.assign(now, { isTrusted: true, isInstalled: true, isActive: false, starts: true, listeners: [] });
  now.selected = new Map([
    ["/first", "/first/.venv/bin/python"],
    ["/second", "/usr/bin/python3"],
  ]);
});

test("each folder has the interpreter that is selected for it", async () => {
  const interpreters = new Interpreters(assert.fail);
  await interpreters.refresh([folder("/first"), folder("/second"), folder("/third")]);
  assert.deepEqual(interpreters.all(), ["/first/.venv/bin/python", "/usr/bin/python3"]);
  assert.equal(interpreters.of("/first"), "/first/.venv/bin/python");
});

test("no probe takes the whole machine's interpreter, or one where none is selected", async () => {
  const interpreters = new Interpreters(assert.fail);
  await interpreters.refresh([folder("/second"), folder("/third")]);
  assert.deepEqual([interpreters.of("/second"), interpreters.of("/third"), interpreters.of(undefined)], [undefined, undefined, undefined]);
});

test("another choice is told, and is the one from then on", async () => {
  const interpreters = new Interpreters(assert.fail);
  let changes = 0;
  const following = await interpreters.follow(() => changes++);
  await interpreters.refresh([folder("/first")]);
  now.selected.set("/first", "/envs/other/bin/python");
  for (const listener of now.listeners) listener();
  await interpreters.refresh([folder("/first")]);
  assert.deepEqual([changes, interpreters.all()], [1, ["/envs/other/bin/python"]]);
  following?.dispose();
  assert.deepEqual(now.listeners, []);
});

test("without the Python extension, or in a workspace that is not trusted, there is none", async () => {
  for (const without of [{ isInstalled: false }, { isTrusted: false }]) {
    Object.assign(now, { isInstalled: true, isTrusted: true, ...without });
    const interpreters = new Interpreters(assert.fail);
    await interpreters.refresh([folder("/first")]);
    assert.deepEqual([interpreters.all(), await interpreters.follow(assert.fail), now.isActive], [[], undefined, false]);
  }
});

test("a Python extension that does not start is told, and left out", async () => {
  now.starts = false;
  const said: string[] = [];
  const interpreters = new Interpreters((line) => said.push(line));
  await interpreters.refresh([folder("/first")]);
  assert.deepEqual([interpreters.all(), said.length], [[], 1]);
  assert.match(said[0] ?? "", /failed to start \(Error: no Python\)/);
});
