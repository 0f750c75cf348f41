// Package embed is a complete Daybook in one value: the embedded NATS server, the ledger,
// the projections, a runner with its V8 workers, the HTTP interface and MCP. The daybook
// command is a thin layer over it. Other Go programs import it to run scripts with a
// ledger of their own:
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
//
// The files, in reading order:
//
//   - options.go, options_*.go, optionrange.go, optionerror.go: Options and its groups, their
//     defaults, their rules, and errors about them
//   - embed.go: Daybook, its start and its end
//   - place.go, takeover.go: the ledger of a data directory, and its owner
//   - nats.go, connections.go: the NATS server, the bounds of connections
//   - damage.go, blobdamage.go: finds damage of the ledger and of blobs at the start
//   - recovery.go, acceptoutside.go: accepts damage of the ledger, on the embedded and on an
//     outside NATS server
//   - components.go: starts workers, ledger, projections and runner
//   - toolservers.go, catalog.go: tool servers, and the catalog of APIs that code may use
//   - script.go: Submit, Run, Wait, Follow and Rebuild, for the embedding program
//   - access.go: authentication, the limits of tenants, and what package admission needs
//   - interfaces.go, listen.go, tls.go: HTTP, MCP and their listeners
//   - agent.go: the Agent Client Protocol
//   - contexts.go: conversation contexts
//   - socket.go: the socket for processes of the same user; the owner's answer to a takeover
//   - clients.go, attach.go: the owner's and the client's end of links over it
//   - use.go: ends an idle background owner
//   - subscribers.go, webhooks.go: receivers of events
//   - audit.go, scrub.go, verify.go, export.go, decrypt.go: proofs, verification, exports
//   - keys.go: content keys and shredding, collection of heaps
//   - volumes.go, volumeremoval.go: rotation of volumes; why a volume cannot be removed, and
//     its removal
//   - disk.go: disk space, and the restart of the NATS server after it ran out
//   - memory.go, trim.go: the memory budget, and measurements for package gomemory
//   - metrics.go: metrics
package embed
