// A list to pick from, in a window that fits the terminal at any height.

/** `top` is the first row in sight, `size` how many are. */
export type Window = { count: number; cursor: number; top: number; size: number };

/** Lines of pi's own around the list, and of the list's own around its rows. */
const AROUND = 4;
const OWN = 2;

const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), Math.max(low, high));

/** The window with its cursor at a row, moved as little as keeps it in sight. */
export function at(window: Window, cursor: number): Window {
	const to = clamp(cursor, 0, window.count - 1);
	const top = clamp(window.top, to - window.size + 1, to);
	return { ...window, cursor: to, top: clamp(top, 0, window.count - window.size) };
}

/** The window in a terminal of so many rows. */
export function sized(window: Window, terminalRows: number): Window {
	const size = clamp(terminalRows - AROUND - OWN, 1, window.count);
	return at({ ...window, size }, window.cursor);
}

/** Where a key leads; undefined where it is none of the list's. `matches` knows the user's own keys. */
export function steered(window: Window, data: string, matches: (key: string) => boolean): Window | undefined {
	const { cursor, size, count } = window;
	if (matches("tui.select.up") || isKey(data, "k")) return at(window, cursor - 1);
	if (matches("tui.select.down") || isKey(data, "j")) return at(window, cursor + 1);
	if (matches("tui.select.pageUp")) return at({ ...window, top: window.top - size }, cursor - size);
	if (matches("tui.select.pageDown")) return at({ ...window, top: window.top + size }, cursor + size);
	if (/^\x1b(\[H|OH|\[1~|\[7~|\[1;1(:1)?H)$/.test(data)) return at(window, 0);
	if (/^\x1b(\[F|OF|\[4~|\[8~|\[1;1(:1)?F)$/.test(data)) return at(window, count - 1);
	return undefined;
}

/** A letter, as terminals send it plainly or by its code. */
function isKey(data: string, letter: string): boolean {
	return data === letter || new RegExp(`^\\x1b\\[${letter.charCodeAt(0)}(;1(:1)?)?u$`).test(data);
}

/** What is in sight, in so many columns. */
export function rendered(window: Window, title: string, rows: string[], width: number): string[] {
	const place = `(${window.cursor + 1}/${window.count})`;
	const keys = ["↑↓ move", ...(window.count > window.size ? ["PgUp/PgDn page"] : []), "Enter choose", "Esc leave"];
	const seen = rows.slice(window.top, window.top + window.size);
	return [
		fitted(`${title} ${place}`, width),
		...seen.map((one, index) => fitted(`${window.top + index === window.cursor ? "→" : " "} ${one}`, width)),
		fitted(keys.join(" · "), width),
	];
}

const WIDE =
	/\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}]/u;
const NO_WIDTH = /\p{M}|\u200d|\ufe0f/u;

/** A text on one harmless line of so many columns; `…` shows that it was cut. */
export function fitted(text: string, width: number): string {
	const marks = [...text.replace(/[\p{Cc}\p{Cf}]/gu, " ")].map(
		(mark) => [mark, NO_WIDTH.test(mark) ? 0 : WIDE.test(mark) ? 2 : 1] as const,
	);
	if (marks.reduce((sum, [, columns]) => sum + columns, 0) <= width) return marks.map(([mark]) => mark).join("");
	let kept = "";
	let used = 0;
	for (const [mark, columns] of marks) {
		if (used + columns > width - 1) break;
		kept += mark;
		used += columns;
	}
	return width > 0 ? `${kept}…` : "";
}

/** The index of the row that a person picks, or undefined. Where the host has no components it is its plain list. */
export async function pick(ctx: any, title: string, rows: string[]): Promise<number | undefined> {
	let shown = false;
	const picked = await ctx.ui.custom((tui: any, theme: any, keys: any, done: (row?: number) => void) => {
		shown = true;
		let window: Window = { count: rows.length, cursor: 0, top: 0, size: 1 };
		return {
			capturesViewportInput: true, // the page keys are the list's, not the transcript's
			render(width: number) {
				window = sized(window, tui.terminal?.rows ?? process.stdout.rows ?? 24);
				const [head, ...rest] = rendered(window, title, rows, width);
				const hint = rest.pop() ?? "";
				const marked = rest.map((line) => (line.startsWith("→") ? theme.fg("accent", line) : line));
				return [theme.bold(head), ...marked, theme.fg("dim", hint)];
			},
			handleInput(data: string) {
				const moved = steered(window, data, (key) => keys.matches(data, key));
				if (moved) window = moved;
				else if (keys.matches(data, "tui.select.confirm")) return done(window.cursor);
				else if (keys.matches(data, "tui.select.cancel")) return done(undefined);
				tui.requestRender();
			},
			invalidate() {},
		};
	});
	if (shown) return picked;
	const chosen = await ctx.ui.select(title, rows);
	return chosen === undefined ? undefined : rows.indexOf(chosen);
}
