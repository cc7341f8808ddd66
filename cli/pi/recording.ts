// What a session of pi does, told to the recorder at the moment it happens. pi waits for every handler, so
// that a prompt's files are captured before its first tool runs; it waits never longer than the budget.

import * as crypto from "node:crypto";
import * as fs from "node:fs";
import * as path from "node:path";
import { INSTALLED } from "./installed.ts";
import type { Wire } from "./wire.ts";
import { quietly } from "./wire.ts";

/** Tools that change nothing; nobody waits for them. */
const READS = new Set(["read", "grep", "find", "ls"]);
/** How long the arrival of a prompt is waited for; it takes about one. */
const RECEIPT_MS = 200;
/** The release that tells when a run is really over; before it `agent_end` is the best there is. */
const SETTLES = [0, 80, 4];

export type Session = {
	/** The recorder's keys of the prompts whose entries are known. */
	entryOf: Map<string, string>;
	/** What is told of a session in every message. */
	about(ctx: any): { session: string; file: string | null; cwd: string };
};

/** Registers a handler after which pi goes on whatever is wrong with the recorder; an error would block a tool. */
export function on(pi: any, event: string, handle: (event: any, ctx: any) => unknown): void {
	pi.on(event, async (one: any, ctx: any) => {
		try {
			return await handle(one, ctx);
		} catch {
			return undefined;
		}
	});
}

/** Registers the handlers that tell what happens, while the session `isOurs`. */
export function record(pi: any, wire: Wire, isOurs: () => boolean): Session {
	const version = piVersion();
	const entryOf = new Map<string, string>();
	const told = new Set<string>();
	const before = new Set<string>();
	let unbound: Given[] = [];
	let prompt: string | undefined;
	let turn = 0;
	let calledTools = false;
	let outcome = "done";

	const about = (ctx: any) => ({
		session: ctx.sessionManager.getSessionId(),
		file: ctx.sessionManager.getSessionFile() ?? null,
		cwd: ctx.cwd,
	});
	const during = (event: string, handle: (event: any, ctx: any) => unknown) =>
		on(pi, event, (one, ctx) => (isOurs() ? handle(one, ctx) : undefined));
	const tell = (event: string, ctx: any, more: object = {}, patienceMs = 0, waits = patienceMs > 0) =>
		wire.tell({ event, ...about(ctx), prompt, ...more, waits }, { patienceMs, signal: ctx.signal });

	/** Prompts get their entries when pi has taken them up: by the first look at the conversation, or later. */
	function bind(ctx: any): void {
		for (const [given, entry] of newest(ctx.sessionManager, unbound, before)) {
			before.add(entry);
			entryOf.set(given.key, entry);
			unbound = unbound.filter((one) => one !== given);
			void tell("bound", ctx, { prompt: given.key, entry });
		}
	}

	during("session_start", (_, ctx) => {
		for (const entry of ctx.sessionManager.getEntries()) before.add(entry.id);
		return tell("start", ctx, { version });
	});
	during("agent_start", () => {
		turn = 0;
		outcome = "done";
	});
	during("turn_start", (event) => {
		turn = event.turnIndex ?? 0;
	});
	during("message_end", ({ message }, ctx) => {
		if (message.role === "assistant") {
			calledTools = blocks(message).some((block) => block.type === "toolCall");
			outcome = ["aborted", "error"].includes(message.stopReason) ? message.stopReason : "done";
		}
		if (message.role !== "user") return;
		prompt = crypto.randomUUID();
		unbound.push({ key: prompt, text: textOf(message) });
		const how = turn === 0 ? "typed" : calledTools ? "steered" : "queued";
		// That it has arrived is waited for, before pi writes it down; its capture by the first tool that
		// may write, which the recorder answers after it: the model's own time is the recorder's until then.
		return tell("prompt", ctx, { text: textOf(message), how }, RECEIPT_MS, false);
	});
	during("context", (_, ctx) => bind(ctx));
	during("tool_call", (event, ctx) => {
		const { toolCallId: call, toolName: tool, input } = event;
		told.add(call);
		return tell("call", ctx, { call, tool, input }, READS.has(tool) ? 0 : INSTALLED.budgetMs);
	});
	during("tool_execution_end", (event, ctx) => {
		if (told.delete(event.toolCallId)) void tell("return", ctx, { call: event.toolCallId, failed: !!event.isError });
	});
	during("turn_end", (_, ctx) => {
		bind(ctx);
		void tell("step", ctx);
	});
	during(atLeast(version, SETTLES) ? "agent_settled" : "agent_end", (event, ctx) => {
		void tell("settled", ctx, { outcome: event.aborted ? "aborted" : outcome });
	});
	during("session_tree", (event, ctx) => void tell("moved", ctx, { entry: event.newLeafId }));
	return { entryOf, about };
}

/** Tells that a session ends; what was told before has arrived by then. */
export async function recordEnd(wire: Wire, session: Session, reason: string, ctx: any): Promise<void> {
	if (reason !== "reload") await wire.tell({ event: "end", ...session.about(ctx), outcome: reason }, { patienceMs: INSTALLED.budgetMs });
	wire.close();
}

/** A prompt by the recorder's key, and its text. */
type Given = { key: string; text: string };

/** The entries of prompts that pi has taken up, but for those from `before`. Several may come at once; they are
 * told apart by their texts, and by their order where another extension has changed these. */
function newest(manager: any, given: Given[], before: Set<string>): [Given, string][] {
	const found: any[] = [];
	let entry = given.length ? manager.getLeafEntry() : undefined;
	while (entry && !before.has(entry.id)) {
		if (entry.type === "message" && entry.message.role === "user") found.unshift(entry);
		entry = entry.parentId ? manager.getEntry(entry.parentId) : undefined;
	}
	if (found.length === given.length) return given.map((one, index) => [one, found[index].id]);
	const left = [...given];
	return found.flatMap((one): [Given, string][] => {
		const index = left.findIndex((other) => other.text === textOf(one.message));
		return index < 0 ? [] : [[left.splice(index, 1)[0], one.id]];
	});
}

function blocks(message: any): any[] {
	return Array.isArray(message.content) ? message.content : [{ type: "text", text: String(message.content ?? "") }];
}

/** As the recorder reads it from the log. */
export function textOf(message: any): string {
	return blocks(message)
		.map((block) => (block.type === "image" ? "[image]" : (block.text ?? "")))
		.filter((text) => text)
		.join("\n");
}

/** The release of this pi, by the package that its program lies in. */
export function piVersion(): string | null {
	return (
		quietly(() => {
			let folder = path.dirname(fs.realpathSync(process.argv[1]));
			while (folder !== path.dirname(folder)) {
				const manifest = quietly(() => JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8")));
				if (String(manifest?.name).endsWith("pi-coding-agent")) return String(manifest.version);
				folder = path.dirname(folder);
			}
			return null;
		}) ?? null
	);
}

/** Whether a release is one or a later one; an unknown one is taken to be new. */
export function atLeast(version: string | null, other: number[]): boolean {
	const parts = (version ?? "").split(/[.-]/).map(Number);
	if (version === null || parts.slice(0, 3).some(Number.isNaN)) return true;
	const differs = other.findIndex((part, index) => parts[index] !== part);
	return differs < 0 || parts[differs] > other[differs];
}
