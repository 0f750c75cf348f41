package catalog

import (
	"fmt"
	"strings"
)

// Member describes an entry as a member of a global object that several entries share:
// mcp.github.search is the member search of the property github of mcp. The zero value
// means that the entry has a declaration of its own.
type Member struct {
	// Global is the object and Property its property, both in TypeScript notation.
	Global, Property string
	// Text is the declaration of the member inside of the property, without a final line
	// end.
	Text string
}

// Symbol is the name of an entry in a session.
type Symbol struct{ Name, ID string }

// Table returns the declarations of entries as one text, each with its symbol. Members
// of one global object are in one declaration, grouped by property, so that a compiler
// can read the text. Ids that are not in the snapshot are left out.
func (s *Snapshot) Table(symbols []Symbol) string {
	var b strings.Builder
	globals := map[string][]Symbol{}
	var order []string
	for _, sym := range symbols {
		e, ok := s.byID[sym.ID]
		switch {
		case !ok:
		case e.Member == Member{}:
			fmt.Fprintf(&b, "// %s %s\n%s\n", sym.Name, sym.ID, e.Declaration)
		default:
			if globals[e.Member.Global] == nil {
				order = append(order, e.Member.Global)
			}
			globals[e.Member.Global] = append(globals[e.Member.Global], sym)
		}
	}
	for _, global := range order {
		fmt.Fprintf(&b, "declare const %s: {\n", global)
		s.writeMembers(&b, globals[global])
		b.WriteString("};\n")
	}
	return b.String()
}

// writeMembers writes the members of one global object.
func (s *Snapshot) writeMembers(b *strings.Builder, symbols []Symbol) {
	properties := map[string][]Symbol{}
	var order []string
	for _, sym := range symbols {
		p := s.byID[sym.ID].Member.Property
		if properties[p] == nil {
			order = append(order, p)
		}
		properties[p] = append(properties[p], sym)
	}
	for _, p := range order {
		fmt.Fprintf(b, " readonly %s: {\n", p)
		for _, sym := range properties[p] {
			for line := range strings.Lines(s.byID[sym.ID].Member.Text) {
				b.WriteString("  " + strings.TrimRight(line, "\n"))
				if !strings.HasSuffix(line, "\n") {
					b.WriteString(" // " + sym.Name)
				}
				b.WriteByte('\n')
			}
		}
		b.WriteString(" };\n")
	}
}
