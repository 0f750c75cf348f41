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
// The package connects the parts, and these decide: internal/admission what a client may
// record, internal/store/streamfiles which files are damaged, internal/translog when a
// checkpoint is signed, internal/owner when a background owner ends,
// internal/resources/disk when disk space is too low, and internal/resources/gomemory when
// memory is returned.
//
// The files, in reading order:
//
//   - options.go, options_*.go: Options and its groups: their defaults, and which values are
//     refused
//   - optionrange.go, optionerror.go: the ranges of options, and the texts of errors about
//     them
//   - embed.go: Daybook; the order of the steps of a start and of an end; background tasks
//   - place.go: decides where the ledger of a directory is, and refuses a server with another
//     ledger
//   - nats.go: starts the embedded NATS server or connects to an outside one; opens the
//     ledger
//   - connections.go: decides how many connections each listener accepts
//   - damage.go: looks for damage of the ledger at the start; decides when the Daybook
//     becomes read-only
//   - checkedfiles.go: records which stream files were checked, so that a start need not read them
//     again
//   - archivefiles.go: finds out which positions the files of archives hold
//   - blobdamage.go: finds damaged blobs, removes their records, and stores the findings
//   - recovery.go: accepts damage: computes the loss, records it in a copy of the intact
//     records, moves the damaged files to quarantine, and uses the copy
//   - acceptoutside.go: accepts damage of a ledger on an outside NATS server
//   - components.go: starts workers, ledger, the reading of new events, projections and
//     runner; decides whether this process runs scripts
//   - toolservers.go: starts the tool servers; decides which of them a run may call
//   - fetch.go: reads the policy of requests of scripts; describes the requests for the ledger
//   - catalog.go: lists the APIs that code may use
//   - wasm.go: reads the WebAssembly modules for scripts
//   - script.go: Submit, Run, Wait, Follow and Rebuild, for the embedding program
//   - access.go: opens the authentication and the limits of tenants; connects package
//     admission
//   - interfaces.go: starts HTTP, MCP and the socket; decides whether the Daybook is ready
//   - listen.go, tls.go: opens the addresses, or a free port if one is busy, and serves HTTP;
//     reads the certificate again when its files change
//   - requests.go: ends the requests of a server that was closed
//   - agent.go: starts the Agent Client Protocol; connects the tool servers that its clients
//     name
//   - contexts.go: starts the conversation contexts, and refuses new ones at the limit of a
//     tenant
//   - owner.go: serves processes of the same user, as package owner decides; reports whether
//     runs keep a background owner
//   - attach.go: Attach, for a process that is a client of the owner
//   - subscribers.go: follows the credentials of NATS subscribers
//   - webhooks.go: starts the deliveries of webhooks; refuses their changes while disk space
//     is low
//   - audit.go, scrub.go: starts the tree, the signing and the scrub; signs the final
//     checkpoint; passes findings of the scrub on
//   - verify.go, export.go, decrypt.go: verifies a ledger or an export; writes an export;
//     decrypts it
//   - keys.go: opens the content keys
//   - whatif.go: executes other code with the inputs of a recorded run
//   - modules.go: admits the packages that scripts import
//   - admissionturns.go: lets few admissions of packages run at a time
//   - replay.go, replayexport.go: executes recorded runs again for clients, and records the
//     verdicts; those of an export without a server; lists the globals of heaps
//   - migration.go: migrates heaps of other engines, for clients and for runs that need them
//   - retention.go: starts shredding and the collection of heaps
//   - signers.go: changes the keys that sign; decides when a root key may while the ledger is
//     read-only
//   - volumes.go: decides when the active volume is sealed, and rotates it
//   - archiving.go: decides when a sealed volume becomes an archive; compares the archive with
//     the tree
//   - projectioncopies.go: decides when the projections are copied; records the copies
//   - volumeremoval.go: decides whether a volume can be removed, and removes it
//   - disk.go: frees disk space at the start, acts when it runs out or is free again;
//     restarts the NATS server after its writes failed
//   - memory.go: decides the memory budget, and what follows from it: the rate of output, the
//     minimum speed of clients
//   - memoryshort.go: decides when memory is too short for heaps that are restored ahead
//   - trim.go: adjusts the memory limit of the Go runtime, and returns memory, as package
//     gomemory decides
//   - metrics.go: writes all metrics; those of one part are in its file, such as disk.go
package embed
