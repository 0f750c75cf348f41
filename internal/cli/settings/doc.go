// Package settings finds the values of flags: on the command line, else in the environment,
// else in the file of --config, else the default. It names the source of a value in messages.
//
// The files, in reading order:
//
//   - config.go: ConfigFlag: reads values from the file of --config
//   - variables.go: names the environment variable of each flag, and adds the source of a
//     value to messages
//   - changed.go: finds the flags whose values differ from the defaults
package settings
