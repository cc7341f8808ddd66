// Messages to the recorder's daemon: frames over the home's socket, or into its spool where there is none.
// Nothing here throws, prints, or keeps pi alive.

import * as childProcess from "node:child_process";
import * as fs from "node:fs";
import * as net from "node:net";
import * as path from "node:path";
import { INSTALLED } from "./installed.ts";

const LONGEST_ADDRESS = 100;
/** Seconds in which a daemon that was started is waited for, and after which another one is started. */
const STARTING_S = 5;
const AGAIN_S = 60;
/** Frames that are kept for a daemon that does not come up. */
const SPOOLED = 1000;
const PAUSE_MS = 20;
const CONNECT_MS = 1000;
const KEPT = /^(HOME|PATH|LANG|TZ|USER|LOGNAME|SHELL|TMPDIR|(LC_|XDG_|RECORDER_|PI_CODING_AGENT_).*)$/;

type Answered = () => void;

export type Wire = {
	/** Hand a message over; it is in order with all others. Resolves once it is answered, `patienceMs` (of 0,
	 * if none is said) are over or `signal` says that the run is aborted. */
	tell(message: object, options?: { patienceMs?: number; signal?: AbortSignal; agent?: string }): Promise<void>;
	/** What the daemon asks, unasked. */
	onPush(handle: (pushed: any) => void): void;
	isConnected(): boolean;
	/** Connect where there is a daemon; whether there is. Starts none. */
	reach(): Promise<boolean>;
	close(): void;
};

export function openWire(): Wire {
	let socket: net.Socket | undefined;
	let connecting: Promise<net.Socket | undefined> | undefined;
	let received = Buffer.alloc(0);
	let waiting: { answered: Answered; overdueAt: number }[] = [];
	let last = 0n;
	let handlePush: (pushed: any) => void = () => {};
	let order: Promise<unknown> = Promise.resolve();

	/** Now, in ns; never the same twice, since the moment is a part of a message's name. */
	function moment(): bigint {
		const now = BigInt(Date.now()) * 1_000_000n;
		last = now > last ? now : last + 1n;
		return last;
	}

	function connected(): Promise<net.Socket | undefined> {
		if (socket) return Promise.resolve(socket);
		connecting ??= connect(INSTALLED.home).then((made) => {
			connecting = undefined;
			if (made) adopt(made);
			return made;
		});
		return connecting;
	}

	function adopt(made: net.Socket): void {
		socket = made;
		received = Buffer.alloc(0);
		made.unref();
		made.on("error", () => {});
		made.on("data", (piece) => {
			received = Buffer.concat([received, piece]);
			take();
		});
		made.on("close", () => {
			if (socket === made) socket = undefined;
			const left = waiting;
			waiting = [];
			for (const one of left) one.answered();
		});
	}

	function take(): void {
		for (;;) {
			const end = received.indexOf(10);
			if (end < 0) return;
			const [word, size] = received.subarray(0, end).toString("latin1").split(" ");
			const whole = end + 1 + Number(size);
			if (!(received.length >= whole)) return;
			const content = received.subarray(end + 1, whole);
			received = received.subarray(whole);
			if (word === "ok") waiting.shift()?.answered();
			else if (word === "push") quietly(() => handlePush(JSON.parse(content.toString("utf8"))));
		}
	}

	/** Nothing that stands behind an overdue answer is waited for as well. */
	function isOverdue(): boolean {
		return waiting.length > 0 && waiting[0].overdueAt < Date.now();
	}

	function send(frame: Buffer): Promise<void> {
		return new Promise((answered) => {
			waiting.push({ answered, overdueAt: Date.now() + INSTALLED.budgetMs });
			socket?.write(frame);
		});
	}

	return {
		async tell(message, { patienceMs = 0, signal, agent = "pi" } = {}) {
			const at = moment();
			const deadline = Date.now() + patienceMs;
			const patient = patienceMs > 0 && !isOverdue();
			const handedOver = order.then(async () => {
				const frame = frameOf(agent, at, message);
				if (frame === undefined) return;
				if (await connected()) return { answer: send(frame) };
				const spooled = spool(at, frame);
				return { answer: spooled ? taken(spooled, deadline) : undefined };
			});
			order = handedOver.catch(() => {});
			if (patient) await within(deadline, signal, handedOver.then((one) => one?.answer).catch(() => {}));
		},
		onPush(handle) {
			handlePush = handle;
		},
		isConnected: () => socket !== undefined,
		reach: async () => (await connected()) !== undefined,
		close() {
			void order.then(() => socket?.end());
		},
	};
}

/** Until something is done, a time (ms) is over or a signal says that the run is aborted. */
export function within(deadline: number, signal: AbortSignal | undefined, done: Promise<unknown>): Promise<void> {
	if (signal?.aborted) return Promise.resolve(); // an aborted signal fires no event any more
	return new Promise((resolve) => {
		const over = () => {
			clearTimeout(timer);
			signal?.removeEventListener("abort", over);
			resolve();
		};
		const timer = setTimeout(over, Math.max(0, deadline - Date.now()));
		signal?.addEventListener("abort", over, { once: true });
		void done.then(over, over);
	});
}

export function quietly<T>(act: () => T): T | undefined {
	try {
		return act();
	} catch {
		return undefined;
	}
}

function frameOf(agent: string, at: bigint, message: object): Buffer | undefined {
	return quietly(() => {
		const payload = Buffer.from(JSON.stringify(message), "utf8");
		const deadline = at + BigInt(INSTALLED.budgetMs) * 1_000_000n;
		return Buffer.concat([Buffer.from(`recorder 1 ${agent} ${at} ${deadline} ${payload.length}\n`), payload]);
	});
}

function connect(home: string): Promise<net.Socket | undefined> {
	return new Promise((resolve) => {
		let folder = -1;
		const finish = (made: net.Socket | undefined) => {
			if (folder >= 0) quietly(() => fs.closeSync(folder));
			folder = -1;
			resolve(made);
		};
		try {
			let address = path.join(home, "socket");
			if (Buffer.byteLength(address) > LONGEST_ADDRESS) {
				folder = fs.openSync(home, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
				address = `/proc/self/fd/${folder}/socket`;
			}
			const made = net.connect(address);
			const timer = setTimeout(() => made.destroy(new Error("no answer")), CONNECT_MS);
			made.once("connect", () => {
				clearTimeout(timer);
				finish(made);
			});
			made.once("error", () => {
				clearTimeout(timer);
				finish(undefined);
			});
		} catch {
			finish(undefined);
		}
	});
}

/** Leave a frame for the next daemon, whole or not at all, and start one; where it lies, or nothing where it
 * is not to be waited for. */
function spool(at: bigint, frame: Buffer): string | undefined {
	return quietly(() => {
		if (!isThere()) return undefined;
		const folder = path.join(INSTALLED.home, "spool");
		const name = `${at}-${process.pid}`;
		fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
		if (fs.readdirSync(folder).length >= SPOOLED) return undefined;
		fs.writeFileSync(path.join(folder, `.${name}`), frame, { mode: 0o600, flag: "wx" });
		fs.renameSync(path.join(folder, `.${name}`), path.join(folder, name));
		const age = secondsSinceStart();
		if (age >= AGAIN_S) startDaemon();
		return age < STARTING_S || age >= AGAIN_S ? path.join(folder, name) : undefined;
	});
}

/** Whether the recorder, its interpreter and its home are still where they were. */
export function isThere(): boolean {
	return [INSTALLED.python, INSTALLED.entry, path.join(INSTALLED.home, "version")].every((one) => fs.existsSync(one));
}

async function taken(place: string, deadline: number): Promise<void> {
	while (Date.now() < deadline && fs.existsSync(place)) await new Promise((next) => setTimeout(next, PAUSE_MS));
}

function secondsSinceStart(): number {
	const started = quietly(() => fs.statSync(path.join(INSTALLED.home, "starting")).mtimeMs);
	const age = started === undefined ? AGAIN_S : (Date.now() - started) / 1000;
	return age >= 0 ? age : AGAIN_S;
}

/** A daemon that goes on after this pi; pi's own variables may hold its user's secrets. */
function startDaemon(): void {
	fs.writeFileSync(path.join(INSTALLED.home, "starting"), "", { mode: 0o600 });
	const words = ["-I", INSTALLED.entry, "--home", INSTALLED.home, "daemon", "run"];
	const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => KEPT.test(name)));
	const started = childProcess.spawn(INSTALLED.python, words, { cwd: "/", detached: true, env, stdio: "ignore" });
	started.on("error", () => {});
	started.unref();
}
