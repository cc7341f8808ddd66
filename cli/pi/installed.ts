// Where the recorder is. `recorder install pi` writes the line below with what it knows.

export const INSTALLED = { python: "", entry: "", home: "", budgetMs: 2000 }; /* baked in by `recorder install pi` */
