import assert from "node:assert/strict";
import { test } from "node:test";

import { type Answer, candidates, commandOf, findServer, runProgram, type Surroundings } from "../src/finding.ts";

const AROUND: Surroundings = {
  path: "",
  interpreters: ["/envs/chosen/bin/python"],
  folders: ["/project", "/other"],
  bundle: "/extension/server/run.py",
  isTrusted: true,
  searchPath: "/usr/bin:tools:/project/bin",
  platform: "linux",
};

const everywhere = (_file: string) => true;
const programs = (around: Partial<Surroundings>, exists = everywhere) =>
  candidates({ ...AROUND, ...around }, exists).map((each) => each.program);

const answers = (given: Record<string, Partial<Answer>>) => (program: string, asked: string[]) =>
  Promise.resolve({ code: 0, stdout: "", stderr: "", ...(given[`${program} ${asked[0]}`] ?? given[program]) });

const installed = (lintrain: string | null, pygls: string | null) => ({
  stdout: JSON.stringify({ python: [3, 12], lintrain, pygls, missing: [] }),
});

test("the places are tried in the order that the manual tells", () => {
  assert.deepEqual(programs({}), [
    "/envs/chosen/bin/python",
    "/project/.venv/bin/python",
    "/other/.venv/bin/python",
    "/usr/bin/lintrain",
    "/project/bin/lintrain",
    "/envs/chosen/bin/python",
    ...["python3.14", "python3.13", "python3.12", "python3.11", "python3", "python"].flatMap((name) => [
      `/usr/bin/${name}`,
      `/project/bin/${name}`,
    ]),
  ]);
});

test("what is not there is not tried, a selected interpreter is", () => {
  assert.deepEqual(programs({}, () => false), ["/envs/chosen/bin/python"]);
});

test("an interpreter that is selected and the workspace's own is tried once", () => {
  const found = programs({ interpreters: ["/project/.venv/bin/python"], searchPath: "" });
  assert.deepEqual(found, ["/project/.venv/bin/python", "/other/.venv/bin/python", "/project/.venv/bin/python"]);
});

test("in a workspace that is not trusted nothing of it is tried", () => {
  const only = (file: string) => ["lintrain", "python3", "run.py"].some((name) => file.endsWith(`/${name}`));
  assert.deepEqual(programs({ isTrusted: false }, only), ["/usr/bin/lintrain", "/usr/bin/python3"]);
});

test("the setting leaves no other place, and may name a Python", () => {
  const [program] = candidates({ ...AROUND, path: "/tools/lintrain" });
  assert.deepEqual(commandOf(program!, "server"), { command: "/tools/lintrain", args: ["server"] });
  const [python, ...others] = candidates({ ...AROUND, path: "/tools/python3.12" });
  assert.deepEqual(commandOf(python!, "server").args, ["-P", "-m", "lintrain", "server"]);
  assert.deepEqual(others, []);
});

test("the first that can serve is taken, and each miss says why", async () => {
  const run = answers({
    "/envs/chosen/bin/python": installed(null, null),
    "/project/.venv/bin/python": installed("0.1.0", null),
    "/other/.venv/bin/python": { code: 1, stderr: "Traceback\nno module named encodings" },
    "/usr/bin/lintrain --version": { stdout: "lintrain 0.1.0\n" },
    "/usr/bin/lintrain server": { code: 2, stderr: "lintrain: the server needs pygls" },
    "/project/bin/lintrain --version": { stdout: "lintrain 0.2.0\n" },
  });
  const { server, misses } = await findServer(candidates(AROUND, everywhere), run);
  assert.equal(server?.program, "/project/bin/lintrain");
  assert.equal(server?.version, "0.2.0");
  assert.deepEqual(
    misses.map((miss) => miss.reason),
    [
      "it has no lintrain",
      "it has lintrain but not pygls; `/project/.venv/bin/python -m pip install pygls` brings that",
      "it cannot be run (no module named encodings)",
      "its server does not start (lintrain: the server needs pygls)",
    ],
  );
});

test("the extension's own server runs on the first Python that is new enough", async () => {
  const bundle = "/extension/server/run.py";
  const python = (minor: number) => ({ stdout: JSON.stringify({ python: [3, minor], missing: ["libcst"] }) });
  const run = answers({
    "/usr/bin/python3 -c": python(9),
    "/usr/bin/python -c": python(12),
    "/usr/bin/python -P": { stdout: "lintrain 0.1.0\n" },
  });
  const around = { ...AROUND, interpreters: [], folders: [], searchPath: "/usr/bin" };
  const exists = (file: string) => [bundle, "/usr/bin/python3", "/usr/bin/python"].includes(file);
  const { server, misses } = await findServer(candidates(around, exists), run);
  assert.deepEqual(misses.map((miss) => miss.reason), ["it is Python 3.9; 3.11 is needed"]);
  assert.deepEqual([server?.version, server?.missing], ["0.1.0", ["libcst"]]);
  assert.deepEqual(commandOf(server!, "server"), { command: "/usr/bin/python", args: ["-P", bundle, "server"] });
});

test("another program of the name is no server", async () => {
  const run = answers({ "/tools/lintrain --version": { stdout: "a model railway" } });
  const { server, misses } = await findServer(candidates({ ...AROUND, path: "/tools/lintrain" }), run);
  assert.equal(server, undefined);
  assert.deepEqual(misses.map((miss) => miss.reason), ["it is no lintrain"]);
});

test("a program that is not there has a reason, too", async () => {
  const { misses } = await findServer(candidates({ ...AROUND, path: "/nowhere/lintrain" }));
  assert.match(misses[0]!.reason, /cannot be run .*ENOENT/);
});

test("a program that reads its input comes to its end", async () => {
  const { code, stdout } = await runProgram(process.execPath, ["-e", "process.stdin.pipe(process.stdout)"]);
  assert.deepEqual([code, stdout], [0, ""]);
});

const real = process.env["LINTRAIN_PYTHON"];

test("a real interpreter that has the server is found", { skip: !real && "LINTRAIN_PYTHON names none" }, async () => {
  const { server, misses } = await findServer(candidates({ ...AROUND, path: real! }));
  assert.deepEqual(misses, []);
  assert.match(server!.version, /^\d+\.\d+/);
});
