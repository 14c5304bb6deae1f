package core

import "runtime/debug"

// Version is the release of the runtime and of the command, a semantic version.
const Version = "0.9.0"

// revision is set by the linker (-X transportbench/core.revision=...) in builds without version
// control data.
var revision string

// BuildRevision returns the commit that this binary was built from, followed by "+modified" if
// the tree had changes, or "unknown". In a plugin outside this repository it is the commit of
// that repository.
func BuildRevision() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknownRevision
	}
	return revisionOf(info.Settings)
}

const unknownRevision = "unknown"

// OtherRevision returns the revision of another binary if it is known and not that of this one, and
// else nothing.
func OtherRevision(revision string) string {
	if revision == unknownRevision || revision == BuildRevision() {
		return ""
	}
	return revision
}

func revisionOf(settings []debug.BuildSetting) string {
	commit, modified := "", false
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	switch {
	case commit == "":
		return unknownRevision
	case modified:
		return commit + "+modified"
	default:
		return commit
	}
}
