package projections

import (
	"reflect"
	"testing"
)

// No statement hides another one with its name, which would be prepared and never used.
func TestStatementsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			switch {
			case f.Anonymous:
				walk(f.Type)
			case f.Type == reflect.TypeFor[*statement]() && seen[f.Name]:
				t.Errorf("two statements have the name %s", f.Name)
			default:
				seen[f.Name] = true
			}
		}
	}
	walk(reflect.TypeFor[statements]())
	if len(seen) < 60 {
		t.Errorf("only %d statements were found", len(seen))
	}
}
