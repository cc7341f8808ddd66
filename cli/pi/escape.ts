// Esc twice on an empty editor opens the menu of /rewind. The second press is the recorder's, the first passes.

const WITHIN_MS = 500;
const ESCAPE = /^(\x1b|\x1b\[27(;1(:1)?)?u)$/;
const RELEASE = /^\x1b\[\d+;\d+:3[u~A-Z]$/;

/** Listens while the session is open; `open` is called for a pair, and gives what the terminal is to do. */
export function listenForEscapes(ctx: any, open: () => { data?: string; consume?: boolean }, now = Date.now): void {
	const screen = screenOf(ctx);
	let pressedAt: number | undefined;
	ctx.ui.onTerminalInput((data: string) => {
		try {
			if (RELEASE.test(data)) return undefined;
			const eligible = ESCAPE.test(data) && isAtRest(ctx, screen);
			const second = eligible && pressedAt !== undefined && now() - pressedAt <= WITHIN_MS;
			pressedAt = eligible && !second ? now() : undefined;
			return second ? open() : undefined;
		} catch {
			pressedAt = undefined; // pi has begun another session: this listener is a thing of the past
			return undefined;
		}
	});
}

/** pi's screen, which knows where the focus is; it is given to whoever makes a widget. */
function screenOf(ctx: any): any {
	let screen: any;
	ctx.ui.setWidget("recorder", (tui: any) => {
		screen = tui;
		return { render: () => [], invalidate() {} };
	});
	ctx.ui.setWidget("recorder", undefined);
	return screen;
}

/** Whether the chat's own editor has the focus and is empty, and nothing goes on. */
function isAtRest(ctx: any, screen: any): boolean {
	const focused = screen?.getFocusedComponent?.() ?? screen?.focusedComponent;
	const isEditor = typeof focused?.getText === "function" && typeof focused?.setText === "function";
	if (!isEditor || focused.getText() !== "" || ctx.ui.getEditorText() !== "") return false;
	return ctx.isIdle() && !focused.isShowingAutocomplete?.() && !screen.hasOverlay?.();
}
