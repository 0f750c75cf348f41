// Package embed is a whole Daybook in one value: the embedded NATS server, the
// ledger, the projections, a runner with its V8 workers, the HTTP interface
// and MCP. The daybook command is a thin layer over it, and other Go programs
// import it to keep their own book:
//
//	book, err := embed.Start(ctx, embed.Options{DataDir: "book"})
//	if err != nil {
//		return err
//	}
//	defer book.Close()
//	run, err := book.Run(ctx, embed.Script{Code: "1 + 1"})
//	fmt.Println(*run.Result) // 2
//
// JavaScript runs in child processes: the same executable, started again by
// package internal/exec/worker before main is reached. A program that imports this
// package therefore needs no worker binary beside it, but code in its own
// package-level variables and init functions also runs in the children.
package embed
