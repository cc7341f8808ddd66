// Moving the conversation: for the recorder's commands, in this pi or in another terminal. They change the files
// and then ask for this; a position that stands in pi's memory alone is written down, so that it outlives pi.

import { INSTALLED } from "./installed.ts";
import type { Session } from "./recording.ts";
import { atLeast, on, piVersion, textOf } from "./recording.ts";
import type { Wire } from "./wire.ts";

/** The release from which a command can be given in the user's place. */
const GIVES_COMMANDS = [0, 84, 2];
const ENTRY_TYPE = "recorder";
const READY_MS = 10_000;
const RETRY_MS = 200;
/** How often a daemon that is started anew while pi does nothing is looked for. */
const AGAIN_MS = 5_000;

export type Mover = {
	/** Where commands of a person are at work. */
	during(ctx: any, act: () => Promise<unknown>): Promise<void>;
	/** Do what was asked in another terminal. */
	goto(id: number, ctx: any): Promise<void>;
	/** Whether a command can be given in the user's place. */
	givesCommands: boolean;
	/** Whether it is the recorder that moves the conversation now. */
	isMoving(): boolean;
	/** Act while pi waits for it: it is at work on nothing else. */
	calmly<T>(act: () => Promise<T>): Promise<T>;
	/** Move the conversation by pi's own means, without its being taken for a person's /tree. */
	unasked<T>(act: () => Promise<T>): Promise<T>;
	/** That the recorder can reach this pi; whether it can. */
	ready(ctx: any): Promise<boolean>;
};

export function openMover(pi: any, wire: Wire, session: Session, isOurs: () => boolean): Mover {
	const givesCommands = atLeast(piVersion(), GIVES_COMMANDS);
	const asked = new Map<number, any>();
	let commanding: any;
	let latest: any;
	let moving = false;
	let calm = 0;
	let put = "";

	for (const event of ["session_start", "agent_start", "turn_start", "session_tree"])
		on(pi, event, (_, ctx) => {
			if (isOurs()) latest = ctx;
		});

	const introduce = (ctx: any) =>
		wire.tell({ event: "start", ...session.about(ctx) }, { patienceMs: INSTALLED.budgetMs });
	const looking = setInterval(async () => {
		if (latest && !wire.isConnected() && (await wire.reach())) void introduce(latest);
	}, AGAIN_MS);
	looking.unref();
	on(pi, "session_shutdown", () => clearInterval(looking));

	const answer = (errand: any, what: object) =>
		void wire.tell({ did: errand.id, live: true, ...what }, { agent: "recorder" });

	wire.onPush(async (errand) => {
		try {
			if (errand.do === "state") answer(errand, state(errand));
			if (errand.do !== "navigate") return;
			if (commanding) return answer(errand, await move(commanding, errand));
			asked.set(errand.id, errand);
			await pi.sendUserMessage(`/recorder goto ${errand.id}`, { expandPromptTemplates: true });
		} catch (error) {
			asked.delete(errand.id);
			answer(errand, { moved: false, why: wordsOf(error) });
		}
	});

	function state(errand: any): object {
		const ctx = commanding ?? latest;
		const busy = calm === 0 && !ctx.isIdle();
		if (errand.pin && !busy) pin(ctx);
		const can = commanding || givesCommands;
		return { busy, why_not: can ? null : "this release of pi is moved from inside it alone: type /rewind there" };
	}

	/** Write down a position that the session's file does not tell: pi goes on from the file's last line. */
	function pin(ctx: any): void {
		const manager = ctx.sessionManager;
		const last = manager.getEntries().at(-1);
		if (last && manager.getLeafId() !== last.id) pi.appendEntry(ENTRY_TYPE, { op: "here" });
	}

	async function move(ctx: any, errand: any): Promise<object> {
		const manager = ctx.sessionManager;
		const from = manager.getLeafId();
		const prompt = errand.prompt ? manager.getEntry(errand.prompt) : undefined;
		const target = prompt?.id === from ? prompt.parentId : (prompt?.id ?? errand.entry);
		if (!target) return { moved: false, why: "the place is not in this session" };
		try {
			const result = await unasked<any>(() => ctx.navigateTree(target, { summarize: false }));
			if (result?.cancelled) return { moved: false, why: "the navigation was cancelled" };
		} catch (error) {
			return { moved: false, why: wordsOf(error) };
		}
		pi.appendEntry(ENTRY_TYPE, { op: "rewind", prompt: errand.prompt ?? null, from });
		if (ctx.hasUI) fillEditor(ctx, prompt ? textOf(prompt.message) : "");
		return { moved: true };
	}

	async function unasked<T>(act: () => Promise<T>): Promise<T> {
		moving = true;
		try {
			return await act();
		} finally {
			moving = false;
		}
	}

	/** The prompt goes into an empty editor; it goes out again where the conversation goes on after it. */
	function fillEditor(ctx: any, text: string): void {
		const there = ctx.ui.getEditorText();
		if (text && !there) ctx.ui.setEditorText(text);
		if (!text && there && there === put) ctx.ui.setEditorText("");
		put = text;
	}

	return {
		givesCommands,
		async during(ctx, act) {
			await ctx.waitForIdle();
			commanding = ctx;
			try {
				await act();
			} finally {
				commanding = undefined;
			}
		},
		async goto(id, ctx) {
			const errand = asked.get(id);
			asked.delete(id);
			if (errand) answer(errand, await move(ctx, errand));
		},
		isMoving: () => moving,
		async calmly(act) {
			calm += 1;
			try {
				return await act();
			} finally {
				calm -= 1;
			}
		},
		unasked,
		async ready(ctx) {
			const until = Date.now() + READY_MS;
			do {
				await introduce(ctx);
				if (wire.isConnected()) return true;
				await new Promise((next) => setTimeout(next, RETRY_MS));
			} while (Date.now() < until);
			return false;
		},
	};
}

export function wordsOf(error: any): string {
	return String(error?.message ?? error);
}
