// /rewind, /undo, /redo and /checkpoint: what they do is the recorder's command line, what is here is the way there.

import type { Ran } from "./command.ts";
import { runRecorder, say } from "./command.ts";
import type { Mover } from "./moving.ts";
import { wordsOf } from "./moving.ts";
import { pick } from "./picker.ts";
import type { Session } from "./recording.ts";
import { openSummaries } from "./summarizing.ts";

const USAGE = "/rewind [N [files|conversation|both]] · /undo [n] · /redo [n] · /checkpoint [status|undo]";
const BOTH = "Restore code and conversation";
const CONVERSATION = "Restore conversation";
const CODE = "Restore code";
const SUMMARIZE_FROM = "Summarize from here";
const SUMMARIZE_UP_TO = "Summarize up to here";
const NEVER_MIND = "Never mind";
const UNDO_LAST = "↩ Undo last rewind";
const WHAT: Record<string, string> = { [BOTH]: "both", [CONVERSATION]: "conversation", [CODE]: "files" };
/** Lines of the screen that a question needs beside the paths that it lists. */
const BESIDE = 10;

/** Registers the commands; `changed` is called when one of them has changed something. */
export function goBack(pi: any, session: Session, mover: Mover, changed: (ctx: any) => void): void {
	const run = (words: string[], ctx: any) => runRecorder(words, session.about(ctx));

	async function carryOut(words: string[], ctx: any): Promise<void> {
		if (!(await mover.ready(ctx))) say(ctx, "The recorder does not answer; trying all the same.", "warning");
		const ran = await run([...words, "--yes", "--json"], ctx);
		say(ctx, outcome(ran), ran.failure || ran.code ? "error" : "info");
		changed(ctx);
	}

	async function rewind(words: string[], ctx: any): Promise<void> {
		const [number, what = "both"] = words;
		if (words.length > 2 || !["files", "conversation", "both"].includes(what)) return say(ctx, USAGE, "error");
		if (number) return carryOut(["rewind", number, `--${what}`], ctx);
		if (!ctx.hasUI) return say(ctx, "recorder: there is no screen for a menu; say /rewind N, see /checkpoint", "error");
		await openMenu(ctx);
	}

	async function openMenu(ctx: any): Promise<void> {
		const [listed, status] = await Promise.all([
			run(["checkpoints", "--all-branches", "--json"], ctx),
			run(["checkpoint", "status", "--json"], ctx),
		]);
		if (listed.failure) return say(ctx, listed.failure, "error");
		const path = new Set(ctx.sessionManager.getBranch().map((entry: any) => entry.id));
		const here = listed.document.filter((one: any) => path.has(one.entry_id));
		const canUndo = Boolean(status.document?.can_undo);
		if (here.length === 0 && !canUndo) return say(ctx, "There is no checkpoint in this conversation yet.");
		const picked = here.length ? await pick(ctx, "Rewind to before which prompt?", here.map(row)) : undefined;
		if (here.length && picked === undefined) return;
		await chooseAction(ctx, picked === undefined ? undefined : here[picked], canUndo);
	}

	async function chooseAction(ctx: any, one: any, canUndo: boolean): Promise<void> {
		const plan = one && (await run(["rewind", String(one.number), "--files", "--dry-run", "--json"], ctx));
		const changes = plan?.document?.status === "planned" && touches(plan.document.files);
		const why = plan && !changes ? (plan.failure ?? refusal(plan.document)) : "";
		const actions = [
			...(changes ? [BOTH] : []),
			...(one ? [CONVERSATION] : []),
			...(changes ? [CODE] : []),
			...(one ? [SUMMARIZE_FROM, SUMMARIZE_UP_TO] : []),
			NEVER_MIND,
			...(canUndo ? [UNDO_LAST] : []),
		];
		const title = one ? `Before ${row(one)}${why ? `\n${why}` : ""}` : "There is no prompt to go back before";
		const action = await ctx.ui.select(title, actions);
		if (action === UNDO_LAST) return undoLast(ctx);
		if (action === SUMMARIZE_FROM) return summarizeFrom(ctx, one);
		if (action === SUMMARIZE_UP_TO) return say(ctx, ...(await summaries.upTo(ctx, one.entry_id)));
		if (!WHAT[action]) return;
		const lines = action === CONVERSATION ? [] : planLines(plan.document);
		if (action !== CODE) lines.push("the conversation goes on from before it; the prompt comes back into the editor");
		if (await ctx.ui.confirm(`${action}?`, shortened(lines).join("\n")))
			await carryOut(["rewind", String(one.number), `--${WHAT[action]}`], ctx);
	}

	const summaries = openSummaries(pi);

	async function summarizeFrom(ctx: any, one: any): Promise<void> {
		try {
			const result = await mover.unasked<any>(() => ctx.navigateTree(one.entry_id, { summarize: true }));
			if (result?.cancelled) say(ctx, "The summary was cancelled; nothing was changed.", "warning");
		} catch (error) {
			say(ctx, `pi made no summary: ${wordsOf(error)}`, "error");
		}
	}

	/** Asks where the paths have changed since; refuses where there is nobody to ask. */
	async function undoLast(ctx: any): Promise<void> {
		const planned = await run(["rewind", "--undo", "--dry-run", "--json"], ctx);
		if (planned.failure) return say(ctx, planned.failure, "error");
		const { conflict, merge, keep } = planned.document.files;
		if (conflict.length + merge.length + keep.length === 0) return carryOut(["rewind", "--undo"], ctx);
		const lines = shortened(planLines(planned.document));
		if (!ctx.hasUI) return say(ctx, ["Files have changed since, and there is nobody to ask:", ...lines].join("\n"), "error");
		const question = conflict.length ? "Files have changed since. Overwrite them?" : "Files have changed since. Go on?";
		if (!(await ctx.ui.confirm(question, lines.join("\n")))) return say(ctx, "Nothing was changed.");
		await carryOut(["rewind", "--undo", ...(conflict.length ? ["--on-conflict", "overwrite"] : [])], ctx);
	}

	async function checkpoint(words: string[], ctx: any): Promise<void> {
		const [word] = words;
		if (word === "undo") return undoLast(ctx);
		if (word !== undefined && word !== "status") return say(ctx, USAGE, "error");
		const shown = await run(word === "status" ? ["checkpoint", "status"] : ["checkpoints", "--json"], ctx);
		if (shown.failure) return say(ctx, shown.failure, "error");
		if (word === "status") return say(ctx, shown.text);
		say(ctx, [...shortened(shown.document.map(row)), USAGE].join("\n"));
	}

	const steps = (verb: string) => (words: string[], ctx: any) => carryOut([verb, ...words.slice(0, 1)], ctx);
	const commands: Record<string, [string, (words: string[], ctx: any) => Promise<void>]> = {
		rewind: ["Go back to before a prompt: files, conversation, or both", rewind],
		undo: ["Go back before the last prompt, or the last n", steps("undo")],
		redo: ["Go forward again after /undo", steps("redo")],
		checkpoint: ["The checkpoints of this session; status, undo", checkpoint],
	};
	const give = async (name: string, words: string[], ctx: any) => {
		try {
			if (name === "goto") return await ctx.waitForIdle().then(() => mover.goto(Number(words[0]), ctx));
			await mover.during(ctx, () => commands[name][1](words, ctx));
		} catch (error) {
			say(ctx, `recorder: ${wordsOf(error)}`, "error");
		}
	};
	for (const [name, [description]] of Object.entries(commands))
		pi.registerCommand(name, { description, handler: (given: string, ctx: any) => give(name, split(given), ctx) });
	pi.registerCommand("recorder", {
		description: "The recorder's commands, whoever else has their names: rewind, undo, redo, checkpoint",
		handler: async (given: string, ctx: any) => {
			const [name, ...words] = split(given);
			if (name === "goto" || commands[name]) await give(name, words, ctx);
			else say(ctx, USAGE, name ? "error" : "info");
		},
	});
}

function split(given: string): string[] {
	return (given ?? "").split(/\s+/).filter((word) => word);
}

/** `#N HH:MM prompt`, and why where its files cannot be gone back to. */
export function row(one: any): string {
	const at = new Date(one.created_at);
	const time = [at.getHours(), at.getMinutes()].map((part) => String(part).padStart(2, "0")).join(":");
	return `#${one.number} ${time} ${one.prompt}${one.restorable ? "" : ` (${one.why_not ?? one.state})`}`;
}

export function touches(files: any): boolean {
	return files.write.length + files.delete.length + files.merge.length > 0;
}

export function planLines(document: any): string[] {
	const { write, delete: gone, merge, keep, conflict, unrecovered } = document.files;
	return [
		...write.map((path: string) => `put back  ${path}`),
		...gone.map((path: string) => `remove    ${path}`),
		...merge.map((path: string) => `merge     ${path} (what others changed in it stays)`),
		...keep.map((one: any) => `keep      ${one.path} (${one.why})`),
		...conflict.map((one: any) => `conflict  ${one.path} (${one.why})`),
		...unrecovered.map((path: string) => `not recovered  ${path}`),
		...document.warnings.map((one: any) => `warning: ${one.message}`),
	];
}

/** As many lines as there is room for; how many more there are is said. */
export function shortened(lines: string[]): string[] {
	const room = Math.max(4, (process.stdout.rows ?? 60) - BESIDE);
	return lines.length <= room ? lines : [...lines.slice(0, room - 1), `… and ${lines.length - room + 1} more`];
}

function refusal(document: any): string {
	if (document?.status !== "refused") return "";
	return ["The code cannot be restored:", ...shortened(planLines(document))].join("\n");
}

/** What came of a command, in a sentence. */
function outcome(ran: Ran): string {
	const { document } = ran;
	if (ran.failure || !document?.files) return ran.failure ?? "The recorder said nothing that can be understood.";
	const { write, delete: gone, merge, conflict } = document.files;
	const talk = document.conversation;
	if (document.status === "noop") return "Nothing to do: it is so already.";
	if (document.status === "refused") return ["Nothing was changed:", ...shortened(planLines(document))].join("\n");
	if (document.status === "failed") return "It failed; everything is as before.";
	const count = write.length + gone.length + merge.length;
	const code = count ? `Code restored: ${count} file${count === 1 ? "" : "s"}` : "No file had to change";
	if (talk.status === "failed") return `${code}. The conversation was left where it is: ${talk.why}`;
	const left = conflict.length ? `; ${conflict.length} left as they are` : "";
	const moved = talk.status === "done" ? "; the conversation moved" : "";
	return `${code}${left}${moved}. Take it back: /checkpoint undo`;
}
