package cli

import (
	"reflect"
	"testing"

	"daybook/embed"
)

// withoutFlag are the fields of embed.Options that have no flag, with the reason.
var withoutFlag = map[string]string{
	"Version":               "the version of the program",
	"Logger":                "--log-level",
	"Progress":              "a function",
	"Owner.TakeOver":        "serve and rebuild always take over",
	"Owner.Background":      "the hidden command owner",
	"Owner.Settings":        "all flags",
	"Owner.Notice":          "a function",
	"HTTP.Fallback":         "the default of --http-addr",
	"NATS.Fallback":         "the default of --nats-addr",
	"NATS.Replicas":         "not offered",
	"NATS.NoSync":           "only for tests",
	"Runs.Elsewhere":        "not offered",
	"Resources.LimitMemory": "always set, because the process does nothing else",
	"MCP.Fixtures":          "only for test suites",
	"Proof.Off":             "not offered",
	"Storage.CheckBytes":    "not offered",
	"Content.WithoutKeys":   "--without-keys of rebuild",
}

// Each field of embed.Options has a flag or a reason to have none, and each flag with an
// option names a field.
func TestOptionsHaveFlags(t *testing.T) {
	t.Parallel()
	fields := map[string]bool{}
	collectFields(reflect.TypeFor[embed.Options](), "", fields)
	for field := range fields {
		if (optionFlags[field] == "") == (withoutFlag[field] == "") {
			t.Errorf("%s: flag %q, reason %q: want one of them", field, optionFlags[field], withoutFlag[field])
		}
	}
	for field, flag := range optionFlags {
		if !fields[field] {
			t.Errorf("%s names %s, which is no field", flag, field)
		}
	}
	for field := range withoutFlag {
		if !fields[field] {
			t.Errorf("a reason names %s, which is no field", field)
		}
	}
}

// collectFields adds the paths of the fields of a struct and of the structs of package
// embed in it.
func collectFields(s reflect.Type, prefix string, fields map[string]bool) {
	for f := range s.Fields() {
		if f.Type == reflect.TypeFor[embed.Limits]() || f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == reflect.TypeFor[embed.Options]().PkgPath() {
			collectFields(f.Type, prefix+f.Name+".", fields)
		} else {
			fields[prefix+f.Name] = true
		}
	}
}
