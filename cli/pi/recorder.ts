// The extension as a whole: once in a session, however often it is installed, and never in pi's way.

import { listenForEscapes } from "./escape.ts";
import { openFooter } from "./footer.ts";
import { goBack } from "./going_back.ts";
import { openMover } from "./moving.ts";
import { offer } from "./offering.ts";
import { on, record, recordEnd } from "./recording.ts";
import { openWire } from "./wire.ts";

/** Set for the agents that this one starts: one that keeps no session of its own is a part of its parent's. */
const PARENT = "AGENT_RECORDER_PI";

/** Of the extensions of this process, of which there may be several: which records a session, by its id, and
 * which has the commands. */
const shared: { sessions: Map<string, object>; commands?: { begun: boolean } } = ((globalThis as any)[
	Symbol.for("recorder.pi")
] ??= { sessions: new Map() });

export default function recorder(pi: any): void {
	try {
		if (!isPart()) begin(pi);
	} catch {
		// an extension that throws would end pi
	}
}

function begin(pi: any): void {
	const self = { begun: false };
	let claimed: string | undefined;
	const isOurs = () => claimed !== undefined;

	on(pi, "session_start", (_, ctx) => {
		const id = ctx.sessionManager.getSessionId();
		if (!shared.sessions.has(id)) shared.sessions.set(id, self);
		claimed = shared.sessions.get(id) === self ? id : undefined;
		if (claimed && shared.commands !== self && !shared.commands?.begun) takeCommands();
		self.begun = true;
	});
	const wire = openWire();
	const session = record(pi, wire, isOurs);
	const mover = openMover(pi, wire, session, isOurs);
	const footer = openFooter(session);
	const takeCommands = () => {
		shared.commands = self;
		goBack(pi, session, mover, footer.countAnew);
	};
	if (!shared.commands) takeCommands();
	offer(pi, session, mover, isOurs, footer.countAnew);
	on(pi, "session_start", (_, ctx) => {
		if (!isOurs() || !ctx.hasUI) return;
		footer.countAnew(ctx);
		listenForEscapes(ctx, () => openMenu(pi, ctx, mover.givesCommands));
	});
	on(pi, "context", (_, ctx) => void (isOurs() && footer.prompted(ctx)));
	on(pi, "session_shutdown", async (event, ctx) => {
		if (shared.commands === self) shared.commands = undefined;
		if (!claimed) return;
		shared.sessions.delete(claimed);
		await recordEnd(wire, session, event.reason ?? "quit", ctx);
	});
}

/** Give /rewind in the user's place; where pi cannot be told to, it is typed into the empty editor. */
function openMenu(pi: any, ctx: any, givesCommands: boolean): { data?: string; consume?: boolean } {
	if (givesCommands) {
		void Promise.resolve(pi.sendUserMessage("/recorder rewind", { expandPromptTemplates: true })).catch(() => {});
		return { consume: true };
	}
	ctx.ui.setEditorText("/recorder rewind");
	return { data: "\r" };
}

/** Whether this pi was started by another one that is recorded, and keeps no session of its own. */
function isPart(): boolean {
	const parent = Number(process.env[PARENT] ?? process.pid);
	process.env[PARENT] = String(process.pid);
	return parent !== process.pid && process.argv.includes("--no-session") && isAlive(parent);
}

function isAlive(pid: number): boolean {
	try {
		return process.kill(pid, 0);
	} catch {
		return false;
	}
}
