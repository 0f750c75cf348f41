// Package cli is the command line of Daybook. Each command turns its flags into a call of
// package embed or into requests to a server, and prints the result. The package holds no
// logic of the ledger.
//
// Results go to stdout, status messages and errors to stderr. Package terminal writes both: on
// a terminal it escapes control and hidden characters in text that scripts or other clients
// wrote.
//
// Package settings finds the values of flags. embed/options_*.go decides which values of
// options are permitted, and httpapi which requests.
//
// The files, in reading order:
//
//   - cli.go: Main, the tree of commands; decides the exit status for an error
//   - client.go: the flags of the commands that send requests; finds the token and the
//     trusted certificates
//   - reach.go: decides which server or owner receives a request, and when a token is not
//     sent
//   - server.go: serve, mcp, acp; prints the addresses at a start; sets the memory
//     limit of the Go runtime
//   - rebuild.go: rebuild; prints how files differ from what the events give
//   - flags.go, flags_*.go: the flags of a server, in the groups of embed.Options; what 0 and
//     an absent flag mean
//   - owner.go: owner: attaches to the background owner of a data directory; decides which
//     flags it gets. Package background starts it
//   - run.go: run: follows a run and prints its outcome; decides the exit status for it
//   - source.go: reads the script, and refuses text that is not UTF-8
//   - repl.go: repl: runs each input from the heap of the run before; its own commands.
//     Package prompt reads the input
//   - exec.go: exec get, output, watch, cancel, events
//   - execlist.go, exectext.go, calls.go, artifacts.go: exec list, text, calls, artifacts
//   - execshow.go, execshowoutput.go: exec show: the summary, and the timeline of events and
//     output
//   - heap.go, collect.go: heap list, find, show, tags, tag, untag; heap collect
//   - heapmigrate.go: heap migrate
//   - inorder.go: calls the server several times at a time, and takes the answers in order
//   - heapglobals.go: heap diff, and the globals of heap show
//   - session.go: session list, log, open, reset, shred
//   - sessionshow.go, replay.go: session show, replay
//   - context.go: context
//   - events.go, eventtext.go: events tail; words each event in one line
//   - export.go: events export, also for volume export
//   - runfiles.go: reads the files of daybook run --file
//   - volume.go, token.go, nats.go, module.go, webhook.go: the commands of these names
//   - key.go, keyroot.go: key list, introduce, revoke, rotate, new; key root, and statements that
//     a root key signs
//   - replayexec.go: executes recorded runs again, several at a time, and prints the verdicts
//   - replaywhatif.go: executes other code with the inputs of a run, and prints what differs
//   - replaysteps.go: prints the steps of a replay
//   - policy.go: decides about a request as a server with a policy would
//   - status.go, verify.go, monitor.go, version.go, witness.go: the commands of these names
//   - ids.go: finds the id that a prefix or @last means
//   - sessionname.go: finds the session that a name means; adds hints to errors about unknown
//     ones
//   - pages.go: reads the pages of a list up to --limit
//   - moment.go: parses the times of flags
//   - network.go: parses the networks of flags
//   - optionflags.go: words errors of options as errors of their flags
//   - input.go: decides which errors of files and options are mistakes in the command line
//   - flagnames.go: replaces fields of requests in errors of the server by flags
//   - suggest.go: words errors of the parser, and suggests commands
//   - completion.go, reference.go: writes the shell completion and docs/reference/cli.md,
//     from the commands
package cli
