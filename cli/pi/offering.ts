// When the conversation is moved by pi's own /tree and /fork: whether the code goes with it. Nothing is asked
// where nothing would change, and files follow only after the conversation has moved.

import { runRecorder, say } from "./command.ts";
import { planLines, shortened, touches } from "./going_back.ts";
import type { Mover } from "./moving.ts";
import type { Session } from "./recording.ts";
import { on } from "./recording.ts";

const CODE_TOO = "Restore code and navigate";
const KEEP_CODE = "Keep code and navigate";
const CANCEL = "Cancel navigation";

/** What is to be restored in the session that a fork leads to; its extension is another one. */
type Pending = { place: string; session: string; cwd: string };
const forking: { pending?: Pending } = ((globalThis as any)[Symbol.for("recorder.pi.forking")] ??= {});

export function offer(pi: any, session: Session, mover: Mover, isOurs: () => boolean, changed: (ctx: any) => void): void {
	let chosen: Pending | undefined;

	/** What the person wants: a place to restore, nothing, or that nothing happens at all. */
	async function ask(ctx: any, entry: string, before: boolean): Promise<Pending | "cancel" | undefined> {
		if (!isOurs() || mover.isMoving() || !ctx.hasUI) return undefined;
		const about = session.about(ctx);
		const listed = await runRecorder(["checkpoints", "--all-branches", "--json"], about);
		const numbers = new Map<string, number>(listed.document?.map?.((one: any) => [one.entry_id, one.number]));
		const place = placeOf(ctx.sessionManager, entry, before, numbers);
		if (place === undefined) return undefined;
		const plan = await mover.calmly(() => runRecorder(["rewind", place, "--files", "--dry-run", "--json"], about));
		if (plan.failure) say(ctx, `The code stays as it is: ${plan.failure}`, "warning");
		if (!plan.document?.files || !(touches(plan.document.files) || plan.document.status === "refused")) return undefined;
		const can = plan.document.status === "planned";
		const lines = shortened(planLines(plan.document)).join("\n");
		const title = can ? `The code is another one there:\n${lines}` : `The code cannot go there:\n${lines}`;
		const answer = await ctx.ui.select(title, [...(can ? [CODE_TOO] : []), KEEP_CODE, CANCEL]);
		if (answer === CODE_TOO) return { place, session: about.session, cwd: about.cwd };
		return answer === KEEP_CODE ? undefined : "cancel";
	}

	async function restore(ctx: any, what: Pending): Promise<void> {
		const ran = await mover.calmly(() => runRecorder(["rewind", what.place, "--files", "--yes", "--json"], what));
		const count = ran.document?.files ? ran.document.files.write.length + ran.document.files.delete.length : 0;
		if (ran.code === 0) say(ctx, `Code restored: ${count} files. Take it back: /checkpoint undo`);
		else say(ctx, `The conversation has moved; the code was not restored: ${ran.failure ?? ran.document?.status}`, "error");
		changed(ctx);
	}

	on(pi, "session_before_tree", async (event, ctx) => {
		chosen = undefined;
		const answer = await ask(ctx, event.preparation.targetId, true);
		if (answer === "cancel") return { cancel: true };
		chosen = answer;
		return undefined;
	});
	on(pi, "session_tree", async (_, ctx) => {
		const what = chosen;
		chosen = undefined;
		if (what) await restore(ctx, what);
	});
	on(pi, "session_before_fork", async (event, ctx) => {
		forking.pending = undefined;
		const answer = await ask(ctx, event.entryId, event.position !== "at");
		if (answer === "cancel") return { cancel: true };
		forking.pending = answer;
		return undefined;
	});
	on(pi, "session_start", async (event, ctx) => {
		const what = forking.pending;
		forking.pending = undefined;
		if (what && event.reason === "fork" && isOurs()) await restore(ctx, what);
	});
}

/** The recorder's name of the files' state at an entry: before a prompt, within its run or after it; nothing
 * where no prompt is above. `before` tells whether the conversation goes to before a prompt that is chosen. */
export function placeOf(manager: any, entry: string, before: boolean, numbers: Map<string, number>): string | undefined {
	const target = manager.getEntry(entry);
	let prompt = target;
	let steps = 0;
	while (prompt && !hasRole(prompt, "user")) {
		if (hasRole(prompt, "assistant")) steps += 1;
		prompt = prompt.parentId ? manager.getEntry(prompt.parentId) : undefined;
	}
	const number = prompt && numbers.get(prompt.id);
	if (number === undefined) return undefined;
	if (prompt === target) return before ? `${number}` : undefined;
	const goesOn = manager
		.getEntries()
		.some((one: any) => one.parentId === entry && (hasRole(one, "assistant") || hasRole(one, "toolResult")));
	if (!goesOn || steps === 0) return steps === 0 ? `${number}` : `${number}+`;
	return hasRole(target, "toolResult") ? `${number}.${steps}+` : `${number}.${steps}`;
}

function hasRole(entry: any, role: string): boolean {
	return entry.type === "message" && entry.message.role === role;
}
