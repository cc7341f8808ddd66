// pi's own compaction, cut at a prompt that a person picked: what came before it is summarised, the rest stays.

import { wordsOf } from "./moving.ts";
import { on } from "./recording.ts";

/** Kinds of message that a summary is made of. */
const TOLD = new Set(["user", "assistant", "toolResult", "bashExecution"]);

export type Summaries = { upTo(ctx: any, prompt: string): Promise<[string, "info" | "error"]> };

export function openSummaries(pi: any): Summaries {
	let cutAt: string | undefined;

	on(pi, "session_before_compact", (event) => {
		const prompt = cutAt;
		cutAt = undefined;
		if (prompt === undefined) return undefined;
		const messages = messagesBefore(event.branchEntries, prompt);
		if (messages.length === 0) return { cancel: true };
		const { preparation } = event;
		preparation.firstKeptEntryId = prompt;
		preparation.messagesToSummarize = messages;
		preparation.turnPrefixMessages = [];
		preparation.isSplitTurn = false;
		return undefined;
	});
	return {
		/** What came of it: pi's own words where it makes no summary. */
		upTo(ctx, prompt) {
			cutAt = prompt;
			return new Promise((resolve) => {
				const refused = (error: any) => {
					cutAt = undefined;
					resolve([`pi made no summary: ${wordsOf(error)}`, "error"]);
				};
				try {
					ctx.compact({ onComplete: () => resolve(["What came before is summarised.", "info"]), onError: refused });
				} catch (error) {
					refused(error);
				}
			});
		},
	};
}

/** What the model is sent of a branch before a prompt, but for what an earlier summary has. */
function messagesBefore(entries: any[], prompt: string): any[] {
	const end = entries.findIndex((one) => one.id === prompt);
	const earlier = entries.findLast((one) => one.type === "compaction");
	const kept = earlier ? entries.findIndex((one) => one.id === earlier.firstKeptEntryId) : 0;
	const start = kept >= 0 ? kept : entries.indexOf(earlier) + 1;
	return entries
		.slice(start, Math.max(start, end))
		.flatMap((one) => (one.type === "message" && TOLD.has(one.message.role) ? [one.message] : []));
}
