import assert from "node:assert/strict";
import * as os from "node:os";
import { test } from "node:test";

import { absolute, forServer } from "../src/settings.ts";

const TRUSTED = { isTrusted: true, folder: "/project" };

test("the server is not given what is the extension's own, or what is not set", () => {
  const given = { path: "/tools/lintrain", trace: { server: "off" }, select: null, preview: null, enable: false };
  assert.deepEqual(forServer(given, TRUSTED), { enable: false, probe: {} });
});

test("paths are those of the folder", () => {
  const given = { configuration: "lint/lintrain.toml", probe: { python: "${workspaceFolder}/env/bin/python" } };
  assert.deepEqual(forServer(given, TRUSTED), {
    configuration: "/project/lint/lintrain.toml",
    probe: { python: "/project/env/bin/python" },
  });
  assert.equal(absolute("~/env", "/project"), `${os.homedir()}/env`);
  assert.equal(absolute("~user/env", "/project"), "/project/~user/env");
});

test("probes take the selected interpreter, unless a setting names one", () => {
  const scope = { ...TRUSTED, interpreter: "/envs/chosen/bin/python" };
  const given = { probe: { python: null, arguments: ["--lr", "1"], timeout: null } };
  assert.deepEqual(forServer(given, scope)["probe"], { python: scope.interpreter, arguments: ["--lr", "1"] });
  assert.deepEqual(forServer({ probe: { python: "python3.12" } }, scope)["probe"], { python: "python3.12" });
});

test("in a workspace that is not trusted no probe is offered or set up", () => {
  const given = { codeLens: true, probe: { python: "/project/evil" } };
  const scope = { isTrusted: false, folder: "/project", interpreter: "/envs/chosen/bin/python" };
  assert.deepEqual(forServer(given, scope), { codeLens: false, probe: {} });
});
