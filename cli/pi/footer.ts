// The count of the session's checkpoints, in pi's footer.

import { runRecorder } from "./command.ts";
import type { Session } from "./recording.ts";

export type Footer = { countAnew(ctx: any): void; prompted(ctx: any): void };

/** The recorder counts when it is asked to; prompts that were given since are added here. */
export function openFooter(session: Session): Footer {
	let counted: number | undefined;
	let knownThen = 0;

	const show = (ctx: any) => {
		const since = session.entryOf.size - knownThen;
		ctx.ui.setStatus("recorder", counted === undefined ? undefined : `◆ ${counted + since} checkpoints`);
	};
	async function count(ctx: any): Promise<void> {
		const known = session.entryOf.size;
		const { document } = await runRecorder(["checkpoint", "status", "--json"], session.about(ctx));
		const unknown = document?.error?.code === "no_session" || document?.error?.code === "no_home";
		counted = unknown ? 0 : document?.kind === "disabled" ? undefined : document?.checkpoints;
		knownThen = known;
		show(ctx);
	}
	return {
		countAnew(ctx) {
			if (ctx.hasUI) void count(ctx).catch(() => {});
		},
		prompted(ctx) {
			if (ctx.hasUI && counted !== undefined) show(ctx);
		},
	};
}
