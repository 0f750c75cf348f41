// Package cli is the command line of Daybook. Each command turns its flags into a call of
// package embed or into requests to a server, and prints the result. The package holds no
// logic of the ledger.
//
// Results go to stdout, status messages and errors to stderr. On a terminal, control and
// hidden characters in text that scripts or other clients wrote are escaped.
//
// The files, in reading order:
//
//   - cli.go: Main, the commands, the exit statuses
//   - client.go, reach.go: the client of a server, and the server that receives its requests
//   - server.go: serve, mcp, acp, rebuild; output at the start of a server; its memory limit
//   - flags.go, flags_*.go: the flags of a server, in the groups of embed.Options
//   - owner.go, ownerlog.go: attaches to the background owner of a data directory, or
//     starts it; its log
//   - run.go, source.go: run
//   - repl.go, repllines.go, replnames.go, unfinished.go: repl, its input and its completion
//   - exec.go, execlist.go, execshow.go, execshowoutput.go, exectext.go, calls.go: exec
//   - heap.go, collect.go: heap
//   - session.go, sessionshow.go, replay.go: session
//   - context.go: context
//   - events.go, eventtext.go, export.go: events
//   - volume.go, token.go, nats.go, webhook.go: the commands of these names
//   - status.go, verify.go, version.go: the commands of these names
//   - ids.go, sessionname.go: abbreviated ids, and names of sessions
//   - pages.go: lists
//   - screen.go, visible.go, table.go, when.go, progress.go: output
//   - variables.go, config.go: values from the environment and from a file, and the source
//     of a value in messages
//   - optionflags.go: errors of options as errors of their flags
//   - input.go, flagnames.go, suggest.go: other errors as messages about flags and commands
//   - completion.go, reference.go: the shell completion and the reference, from the commands
package cli
