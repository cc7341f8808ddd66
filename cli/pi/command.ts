// The recorder's own command line, run beside pi; its JSON documents are what the menus show and do.

import * as childProcess from "node:child_process";
import { INSTALLED } from "./installed.ts";
import { isThere } from "./wire.ts";

const LARGEST_ANSWER = 64 << 20;

/** What a command printed; its document, and the sentence of its failure where there is one. */
export type Ran = { code: number; document: any; text: string; failure?: string };

/** Run a command for a session; never throws. The words take `--json` where its document is wanted. */
export function runRecorder(words: string[], about: { session: string; cwd: string }): Promise<Ran> {
	if (!isThere()) {
		const failure = "the recorder is gone from where it was installed; run `recorder install pi` again";
		return Promise.resolve({ code: 1, document: undefined, text: "", failure });
	}
	const all = ["-I", INSTALLED.entry, "--home", INSTALLED.home, ...words, "--session", about.session, "--cwd", about.cwd];
	return new Promise((resolve) => {
		childProcess.execFile(
			INSTALLED.python,
			all,
			{ cwd: INSTALLED.home, maxBuffer: LARGEST_ANSWER },
			(error, out, complaint) => resolve(understood(error, out, complaint)),
		);
	});
}

function understood(error: any, out: string, complaint: string): Ran {
	const code = error ? (typeof error.code === "number" ? error.code : 1) : 0;
	let document: any;
	try {
		document = JSON.parse(out);
	} catch {
		document = undefined;
	}
	const said = document?.error?.message ?? complaint.trim().split("\n").pop()?.replace(/^recorder: /, "");
	const failure = code !== 0 && !document?.status ? said || String(error?.message ?? "it failed") : undefined;
	return { code, document, text: out.trimEnd(), failure };
}

/** Tell the person in front of pi, or who started it where there is no screen. */
export function say(ctx: any, text: string, kind: "info" | "warning" | "error" = "info"): void {
	if (ctx.hasUI) ctx.ui.notify(text, kind);
	else process.stderr.write(`${text}\n`);
}
