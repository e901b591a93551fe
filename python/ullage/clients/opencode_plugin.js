// ullage.clients.hook: written by `ullage hooks install opencode`, removed by `ullage hooks uninstall opencode`.
import { spawn } from "node:child_process";

const PROGRAM = [PROGRAM];
const LIMIT_MS = 25000;

// One JSON object in, one out; nothing on any fault, so that OpenCode goes on as if this file were missing.
function ask(event, given) {
  return new Promise((resolve) => {
    let said = "";
    let child;
    try {
      child = spawn(PROGRAM[0], [...PROGRAM.slice(1), event], { stdio: ["pipe", "pipe", "ignore"] });
    } catch {
      return resolve(undefined);
    }
    const timer = setTimeout(() => child.kill(), LIMIT_MS);
    const done = () => {
      clearTimeout(timer);
      try {
        resolve(said ? JSON.parse(said).hookSpecificOutput : undefined);
      } catch {
        resolve(undefined);
      }
    };
    child.on("error", () => resolve(undefined));
    child.on("close", done);
    child.stdin.on("error", () => undefined);
    child.stdout.on("data", (part) => (said += part));
    child.stdin.end(JSON.stringify(given));
  });
}

export const Ullage = async ({ client }) => ({
  // What the summary would lose goes into its prompt, as records.
  "experimental.session.compacting": async (input, output) => {
    const session = await client.session.get({ path: { id: input.sessionID } }).catch(() => undefined);
    const messages = await client.session.messages({ path: { id: input.sessionID } }).catch(() => undefined);
    if (!session?.data || !messages?.data) return;
    const given = { session_id: input.sessionID, export: { info: session.data, messages: messages.data } };
    const found = await ask("opencode-compacting", given);
    if (found?.additionalContext) output.context.push(found.additionalContext);
  },
  "tool.execute.after": async (input, output) => {
    if (typeof output.output !== "string") return;
    const given = { session_id: input.sessionID, tool_use_id: input.callID, tool_name: input.tool, tool_response: output.output };
    const found = await ask("post-tool-use", given);
    if (typeof found?.updatedToolOutput === "string") output.output = found.updatedToolOutput;
  },
});
