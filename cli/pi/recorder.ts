// The extension as a whole: once in a session, however often it is installed, and never in pi's way.

import { record, recordEnd } from "./recording.ts";
import { openWire } from "./wire.ts";

/** Set for the agents that this one starts: one that keeps no session of its own is a part of its parent's. */
const PARENT = "AGENT_RECORDER_PI";

/** By the bus that all extensions of a pi share: the one of them that works. */
const working: WeakMap<object, object> = ((globalThis as any)[Symbol.for("recorder.pi")] ??= new WeakMap());

export default function recorder(pi: any): void {
	const self = {};
	let begun = false;
	const begin = () => {
		begun = true;
		working.set(pi.events, self);
		const wire = openWire();
		const session = record(pi, wire);
		pi.on("session_shutdown", async (event: any, ctx: any) => {
			try {
				working.delete(pi.events);
				await recordEnd(wire, session, event.reason ?? "quit", ctx);
			} catch {
				// pi ends all the same
			}
		});
	};
	try {
		if (isPart()) return;
		if (!working.has(pi.events)) begin();
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
