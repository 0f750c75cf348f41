package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"daybook/events"
	"daybook/internal/cli/terminal"
)

type moduleCmd struct {
	Add    moduleAddCmd    `cmd:"" help:"Admit a package, which scripts can then import."`
	List   moduleListCmd   `cmd:"" help:"List the packages that scripts can import."`
	Why    moduleWhyCmd    `cmd:"" help:"Show which packages need a package."`
	Remove moduleRemoveCmd `cmd:"" help:"Remove a package and dependencies that nothing needs."`
}

type moduleAddCmd struct {
	clientFlags
	Package string `arg:"" help:"Package: NAME, NAME@RANGE or jsr:@SCOPE/NAME." placeholder:"PACKAGE"`
}

// Run prints the admitted packages with their licenses and sizes.
func (c *moduleAddCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().AdmitModule(ctx, c.Package)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.PrintJSON(answer.JSON)
	}
	return printModules(std, answer.Body.Modules)
}

type moduleListCmd struct{ clientFlags }

func (c *moduleListCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().Modules(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.PrintJSON(answer.JSON)
	}
	return printModules(std, answer.Body.Modules)
}

func printModules(std *streams, list []events.AdmittedPackage) error {
	w := terminal.Table(std.out, "PACKAGE", "ADMITTED AS", "LICENSE", "FILES", "BYTES", "SHA-512")
	for _, p := range list {
		as := "dependency"
		if p.Direct {
			as = "package"
		}
		license := p.License
		if license == "" {
			license = "none stated"
		}
		w.Row(p.ID(), as, license, p.Files, p.Unpacked, p.SHA512[:min(len(p.SHA512), 16)])
	}
	return w.Flush()
}

type moduleWhyCmd struct {
	clientFlags
	Package string `arg:"" help:"Package, as NAME or NAME@VERSION." placeholder:"PACKAGE"`
}

// Run prints a path of dependencies from each package that was asked for to the package.
func (c *moduleWhyCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().Modules(ctx)
	if err != nil {
		return err
	}
	all := map[string]events.AdmittedPackage{}
	for _, p := range answer.Body.Modules {
		all[p.ID()] = p
	}
	found := false
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if !all[id].Direct {
			continue
		}
		if path := pathTo(all, id, c.Package); path != nil {
			found = true
			fmt.Fprintln(std.out, strings.Join(path, " > "))
		}
	}
	if !found {
		return fmt.Errorf("package %s is not admitted; daybook module list shows those that are", c.Package)
	}
	return nil
}

// pathTo returns a shortest path of dependencies from one package to another, or nil.
func pathTo(all map[string]events.AdmittedPackage, from, to string) []string {
	before := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		p := all[queue[0]]
		if queue[0] == to || p.Name == to {
			var path []string
			for id := queue[0]; id != ""; id = before[id] {
				path = append(path, id)
			}
			slices.Reverse(path)
			return path
		}
		for _, d := range p.Dependencies {
			if _, seen := before[d.Package]; !seen {
				before[d.Package] = queue[0]
				queue = append(queue, d.Package)
			}
		}
	}
	return nil
}

type moduleRemoveCmd struct {
	clientFlags
	Package string `arg:"" help:"Package, as NAME@VERSION." placeholder:"PACKAGE"`
}

func (c *moduleRemoveCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().RemoveModule(ctx, c.Package)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.PrintJSON(answer.JSON)
	}
	for _, id := range answer.Body.Removed {
		fmt.Fprintln(std.out, "removed", id)
	}
	return nil
}
