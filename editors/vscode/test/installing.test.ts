import assert from "node:assert/strict";
import { test } from "node:test";

import { findPython, install, stepsWith } from "../src/installing.ts";

const versions = (given: Record<string, string>) => (program: string) =>
  Promise.resolve({ code: program in given ? 0 : -1, stdout: given[program] ?? "", stderr: "" });

test("a Python that is too old is passed over", async () => {
  const run = versions({ "/envs/old/bin/python": "3 9\n", python3: "3 11\n" });
  assert.equal(await findPython(["/envs/old/bin/python"], "linux", run), "python3");
  assert.equal(await findPython([], "linux", versions({ python3: "2 7" })), undefined);
});

test("the server comes into an environment of its own", async () => {
  const steps: string[] = [];
  await install("python3", "/storage/environment", "linux", async (program, given) => {
    steps.push([program, ...given].join(" "));
  });
  assert.deepEqual(steps, [
    "python3 -m venv --clear /storage/environment",
    "/storage/environment/bin/python -m pip install --disable-pip-version-check lintrain[lsp]",
  ]);
});

test("what a step says is shown, and its failure is the installation's", async () => {
  const lines: string[] = [];
  const step = stepsWith((line) => lines.push(line), new AbortController().signal);
  await step(process.execPath, ["-e", "console.log('one'); console.error('two')"]);
  assert.deepEqual(lines.slice(1).sort(), ["one", "two"]);
  await assert.rejects(step(process.execPath, ["-e", "process.exit(3)"]), /ended with 3/);
});

test("a step that is cancelled ends", async () => {
  const stop = new AbortController();
  const step = stepsWith(() => undefined, stop.signal)(process.execPath, ["-e", "setInterval(() => 0, 1000)"]);
  stop.abort();
  await assert.rejects(step, { name: "AbortError" });
});
