package cli

import (
	"runtime/debug"
	"testing"
)

// The version is the one that the toolchain recorded in the build.
func TestVersionOf(t *testing.T) {
	t.Parallel()
	build := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	commit, clean, modified := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}, debug.BuildSetting{Key: "vcs.modified", Value: "false"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3":                   build("v1.2.3", commit, modified),
		"devel":                    build("(devel)"),
		"devel-0123456789ab":       build("(devel)", commit, clean),
		"devel-0123456789ab+dirty": build("", commit, modified),
	} {
		if got := versionOf(info); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
