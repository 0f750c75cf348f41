package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/alecthomas/kong"
)

// configFlag loads values from a JSON file before the other flags are resolved.
type configFlag string

// BeforeResolve reads the file. Its values rank below the command line and the
// environment.
func (c configFlag) BeforeResolve(app *kong.Kong, kctx *kong.Context, _ *kong.Path) error {
	path := string(kctx.FlagValue(flagNamed(app.Model.Flags, "config")).(configFlag))
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read --config: %w", err)
	}
	values := map[string]any{}
	if err := json.Unmarshal(raw, &values); err != nil {
		return fmt.Errorf("--config %s: not a JSON object of flag names and values: %w", path, err)
	}
	known := map[string]bool{}
	collectFlags(app.Model.Node, known)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !known[key] {
			return fmt.Errorf("--config %s: unknown key %q; keys are flag names without the dashes, for example \"http-addr\"", path, key)
		}
	}
	kctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		value, ok := values[flag.Name]
		if !ok || setInEnvironment(flag) {
			return nil, nil
		}
		return value, nil
	}))
	return nil
}

func flagNamed(flags []*kong.Flag, name string) *kong.Flag {
	for _, f := range flags {
		if f.Name == name {
			return f
		}
	}
	return nil
}

func collectFlags(n *kong.Node, into map[string]bool) {
	for _, f := range n.Flags {
		if f.Name != "config" && f.Name != "help" {
			into[f.Name] = true
		}
	}
	for _, child := range n.Children {
		collectFlags(child, into)
	}
}

func setInEnvironment(flag *kong.Flag) bool {
	return slices.ContainsFunc(flag.Envs, func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
}
