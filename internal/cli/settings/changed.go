package settings

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Changed returns the flags of a command whose values differ from the defaults, as
// --name=value. It omits the flags that belong to one client.
func Changed(kctx *kong.Context) (list []string) {
	for _, f := range kctx.Selected().Flags {
		if slices.Contains([]string{"data-dir", "session-id", "report-fd"}, f.Name) {
			continue
		}
		for _, text := range TextsOf(f.Target) {
			if text == f.Default || text == "false" && f.Default == "" {
				continue
			}
			if d, ok := f.Target.Interface().(time.Duration); ok {
				if usual, err := time.ParseDuration(f.Default); err == nil && usual == d {
					continue
				}
			}
			if f.Name == "mcp-config" || f.Name == "audit-key" || f.Name == "audit-signed" || f.Name == "witness-policy" {
				if abs, err := filepath.Abs(text); err == nil {
					text = abs
				}
			}
			list = append(list, "--"+f.Name+"="+text)
		}
	}
	return list
}

// ChangedShared returns the settings of a server that "daybook mcp" has too.
func ChangedShared(kctx *kong.Context) []string {
	shared := map[string]bool{}
	for _, command := range kctx.Model.Children {
		if command.Name == "mcp" {
			collectFlags(command, shared)
		}
	}
	return slices.DeleteFunc(Changed(kctx), func(setting string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(setting, "--"), "=")
		return !shared[name]
	})
}

// TextsOf returns the values of a flag as texts, or nil if it is not set.
func TextsOf(v reflect.Value) (list []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return TextsOf(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			list = append(list, TextsOf(v.Index(i))...)
		}
		return list
	case reflect.Map: // one text, as on the command line
		for _, key := range v.MapKeys() {
			list = append(list, fmt.Sprintf("%v=%v", key, v.MapIndex(key)))
		}
		if len(list) == 0 {
			return nil
		}
		slices.Sort(list)
		return []string{strings.Join(list, ",")}
	default:
		if text := fmt.Sprint(v.Interface()); text != "" {
			return []string{text}
		}
		return nil
	}
}
