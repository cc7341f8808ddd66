// The extension as a whole: once in a session, however often it is installed, and never in pi's way.

import { record, recordEnd } from "./recording.ts";
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
		if (isPart()) return;
		const self = { begun: false };
		const wire = openWire();
		let claimed: string | undefined;
		pi.on("session_start", (_: unknown, ctx: any) => {
			try {
				const session = ctx.sessionManager.getSessionId();
				if (!shared.sessions.has(session)) shared.sessions.set(session, self);
				claimed = shared.sessions.get(session) === self ? session : undefined;
				self.begun = true;
			} catch {
				// not claimed: nothing is recorded
			}
		});
		const session = record(pi, wire, () => claimed !== undefined);
		pi.on("session_shutdown", async (event: any, ctx: any) => {
			try {
				if (claimed === undefined) return;
				shared.sessions.delete(claimed);
				await recordEnd(wire, session, event.reason ?? "quit", ctx);
			} catch {
				// pi ends all the same
			}
		});
	} catch {
		// an extension that throws would end pi
	}
}

/** Whether this pi was started by another one that is recorded, and keeps no session of its own. */
function isPart(): boolean {
	const parent = Number(process.env[PARENT] ?? process.pid);
	process.env[PARENT] = String(process.pid);
	return parent !== process.pid && process.argv.includes("--no-session");
}
