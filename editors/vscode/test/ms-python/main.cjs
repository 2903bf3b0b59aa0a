// The part of the Python extension's interface that is used, over a list of interpreters: a command selects the next.

const vscode = require("vscode");
const interpreters = require("./interpreters.json");

exports.activate = (context) => {
  const changed = new vscode.EventEmitter();
  let number = 0;
  context.subscriptions.push(
    changed,
    vscode.commands.registerCommand("standIn.select", () => {
      number = (number + 1) % interpreters.length;
      changed.fire({ path: interpreters[number] });
    }),
  );
  return {
    environments: {
      getActiveEnvironmentPath: () => ({ path: interpreters[number] }),
      resolveEnvironment: async ({ path }) => ({ executable: { uri: vscode.Uri.file(path) }, environment: {} }),
      onDidChangeActiveEnvironmentPath: changed.event,
    },
  };
};
